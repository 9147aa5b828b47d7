import Lookup

/// Names of members of a server's JSON that let their reader do something. Servers write one name in many ways: letters count
/// without their case, and what stands between words does not count, so that `deleteUrl`, `delete_url` and `Delete-URL` are one.
public struct SecretNames: Hashable, Sendable {
  private var names: LookupSet<String> = []

  /// These names, written in any way.
  public init(_ names: [String]) { insert(names) }

  /// Names under which servers hand out the right to delete, change or read something.
  public static let usual: SecretNames = {
    let rights = ["delete", "deletion", "edit", "manage", "admin", "owner", "removal", "remove", "revoke", "update"]
    let carriers = ["token", "key", "url", "uri", "link", "hash", "code", "secret", "password"]
    let alone = [
      "access_key", "access_token", "api_key", "api_token", "auth", "auth_key", "auth_token", "authorization", "bearer",
      "bearer_token", "client_secret", "cookie", "cookies", "credential", "credentials", "csrf_token", "delete",
      "id_token",
      "jwt", "passphrase", "passwd", "password", "private_key", "private_token", "pwd", "refresh_token", "secret",
      "secret_key", "secret_token", "secret_url", "session", "session_id", "session_key", "session_token", "set_cookie",
      "sid", "signed_url", "presigned_url", "token", "upload_key", "upload_token", "upload_url", "write_token",
    ]
    return SecretNames(alone + rights.flatMap { right in carriers.map { right + $0 } })
  }()

  /// Adds names, written in any way.
  public mutating func insert(_ more: [String]) {
    for name in more { names.insert(Self.plain(name)) }
  }

  func contains(_ name: String) -> Bool { names.contains(Self.plain(name)) }

  private static func plain(_ name: String) -> String {
    name.lowercased().filter { !["_", "-", " ", "."].contains($0) }
  }
}

extension SecretNames: ExpressibleByArrayLiteral {
  /// These names, written in any way.
  public init(arrayLiteral names: String...) { self.init(names) }
}

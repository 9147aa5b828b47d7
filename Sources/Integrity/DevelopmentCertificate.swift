import COpenSSL

/// A certificate for trying things out on one machine: an authority made on the spot, whose key is thrown away, and one
/// server certificate (EC P-256) that it signed.
public struct DevelopmentCertificate: Sendable {
  /// The names and addresses by which a machine reaches itself.
  public static let loopbackNames = ["localhost", "127.0.0.1", "::1"]

  /// The authority's certificate, for a client's list of authorities.
  public let authorityPEM: String
  /// The server's certificate.
  public let chainPEM: String
  /// The server's private key. A secret.
  public let keyPEM: String

  /// Makes an authority and a certificate for the host names and literal addresses, valid between the two offsets from
  /// now; both in the past make an expired one.
  public static func make(
    hostNames: [String], notBeforeOffsetSeconds: Int, notAfterOffsetSeconds: Int
  ) throws(IntegrityError) -> DevelopmentCertificate {
    guard !hostNames.isEmpty, hostNames.allSatisfy({ !$0.isEmpty && !$0.utf8.contains(0) }) else {
      throw .library("a certificate needs at least one host name, and none may be empty or hold a NUL")
    }
    var made = uploadfs_certificate()
    var reason = [CChar](repeating: 0, count: 256)
    let isMade = withCStrings(hostNames) { names in
      uploadfs_certificate_make(
        names, names.count, Int64(notBeforeOffsetSeconds), Int64(notAfterOffsetSeconds), &made, &reason, reason.count)
    }
    guard isMade == 1, let authority = made.authority, let chain = made.chain, let key = made.key else {
      let words = String(decoding: reason.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      throw .library("the development certificate could not be made: \(words)")
    }
    defer { uploadfs_certificate_free(&made) }
    return DevelopmentCertificate(
      authorityPEM: String(cString: authority), chainPEM: String(cString: chain), keyPEM: String(cString: key))
  }

  /// The texts as C strings that live for the duration of the call.
  private static func withCStrings<Result>(_ texts: [String], _ body: ([UnsafePointer<CChar>?]) -> Result) -> Result {
    var bytes: [CChar] = []
    var starts: [Int] = []
    for text in texts {
      starts.append(bytes.count)
      bytes += text.utf8.map { CChar(bitPattern: $0) } + [0]
    }
    return bytes.withUnsafeBufferPointer { buffer in
      body(starts.map { start in buffer.baseAddress.map { $0 + start } })
    }
  }
}

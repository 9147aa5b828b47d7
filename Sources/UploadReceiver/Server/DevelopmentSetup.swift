public import ReceiverCore
import Glibc
import Integrity
import NIOSSL

/// What `--development` puts below the root: a certificate for this machine only, and a token.
public struct DevelopmentSetup: Sendable {
  /// The file that a client takes as its authority.
  public var authorityPath: String
  /// The file that a client takes as its token.
  public var tokenPath: String
  /// PEM.
  public var certificateChainPEM: [UInt8]
  /// PEM. A secret.
  public var privateKeyPEM: [UInt8]
  /// A secret.
  public var token: String
  /// What was of no use and is made anew, for the log.
  public var replaced: [String]

  /// Below the root.
  static let folderName = ".development"
  private static let lifetimeSeconds = 397 * 86_400

  /// Uses what lies in ROOT/.development, as long as it is valid for another day, and makes what is missing.
  public static func prepare(root: String) throws(ReceiverStartError) -> DevelopmentSetup {
    let directory = "\(root)/\(folderName)"
    do throws(StoreFailure) {
      for path in [root, directory] {
        if mkdir(path, 0o755) != 0, errno != EEXIST { throw .last("mkdir") }
      }
      let folder = try FileDescriptor.open(directory, O_RDONLY | O_DIRECTORY)
      var replaced: [String] = []
      let token = try token(in: folder, &replaced)
      let (chain, key) = try certificate(in: folder, &replaced)
      return DevelopmentSetup(
        authorityPath: "\(directory)/ca.pem", tokenPath: "\(directory)/token", certificateChainPEM: chain,
        privateKeyPEM: key, token: token, replaced: replaced)
    } catch {
      let advice = if case .damaged = error { "; take it away, and it is made anew" } else { "" }
      throw .root("\(directory): \(error.words)\(advice)")
    }
  }

  /// Those of the token file, and the user of this token behind them: users are numbered by their place in that file.
  public func users(after users: [Credential], publishing root: String) -> [Credential] {
    users + [Credential(token: token, root: root)]
  }

  private static func token(in folder: FileDescriptor, _ replaced: inout [String]) throws(StoreFailure) -> String {
    if let bytes = try read("token", in: folder) {
      let text = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
      if text.utf8.count >= 32, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) { return text }
      replaced.append(
        "token was damaged and is replaced; uploads of the old one wait for it, and clients need the new one")
    }
    let token: String
    do throws(IntegrityError) {
      token = Hex.encode(try SecureRandom.bytes(32))
    } catch {
      throw .io("no token could be made: \(error)")
    }
    try write(Array("\(token)\n".utf8), to: "token", in: folder, mode: 0o600)
    return token
  }

  private static func certificate(
    in folder: FileDescriptor, _ replaced: inout [String]
  ) throws(StoreFailure) -> (chain: [UInt8], key: [UInt8]) {
    let found = (
      chain: try read("chain.pem", in: folder), key: try read("key.pem", in: folder), ca: try read("ca.pem", in: folder)
    )
    if let chain = found.chain, let key = found.key, let authority = found.ca, isUsable(chain, key, authority) {
      return (chain, key)
    }
    if found.chain != nil || found.key != nil || found.ca != nil {
      replaced.append("the certificate was about to expire, or damaged, and is replaced; clients need the new ca.pem")
    }
    let made: DevelopmentCertificate
    do throws(IntegrityError) {
      made = try DevelopmentCertificate.make(
        hostNames: DevelopmentCertificate.loopbackNames, notBeforeOffsetSeconds: -86_400,
        notAfterOffsetSeconds: lifetimeSeconds)
    } catch {
      throw .io("the development certificate could not be made: \(error)")
    }
    // The chain last: it is what a later start looks at first.
    try write(Array(made.authorityPEM.utf8), to: "ca.pem", in: folder, mode: 0o644)
    try write(Array(made.keyPEM.utf8), to: "key.pem", in: folder, mode: 0o600)
    try write(Array(made.chainPEM.utf8), to: "chain.pem", in: folder, mode: 0o644)
    return (Array(made.chainPEM.utf8), Array(made.keyPEM.utf8))
  }

  /// All three are what they were made as, and belong together.
  private static func isUsable(_ chain: [UInt8], _ key: [UInt8], _ authority: [UInt8]) -> Bool {
    guard let certificates = try? NIOSSLCertificate.fromPEMBytes(chain), let first = certificates.first,
      let key = try? NIOSSLPrivateKey(bytes: key, format: .pem),
      let trusted = try? NIOSSLCertificate.fromPEMBytes(authority), !trusted.isEmpty
    else { return false }
    let tls = TLSConfiguration.makeServerConfiguration(
      certificateChain: certificates.map { .certificate($0) }, privateKey: .privateKey(key))
    guard (try? NIOSSLContext(configuration: tls)) != nil else { return false }
    return first.notValidAfter > time(nil) + 86_400
  }

  private static func read(_ name: String, in folder: FileDescriptor) throws(StoreFailure) -> [UInt8]? {
    guard try FileDescriptor.kind(of: name, in: folder) != nil else { return nil }
    return try FileDescriptor.openOwn(name, in: folder, O_RDONLY).readAll(limit: 1 << 20)
  }

  /// Whole or not at all, and with its mode from the first byte on.
  private static func write(
    _ bytes: [UInt8], to name: String, in folder: FileDescriptor, mode: mode_t
  ) throws(StoreFailure) {
    unlinkat(folder.raw, "\(name).new", 0)
    let file = try FileDescriptor.open("\(name).new", in: folder, O_WRONLY | O_CREAT | O_EXCL, mode: mode)
    try bytes.forEachPiece { (piece) throws(StoreFailure) in try file.write(piece, at: 0) }
    try file.sync()
    guard renameat(folder.raw, "\(name).new", folder.raw, name) == 0 else { throw .last("rename") }
  }
}

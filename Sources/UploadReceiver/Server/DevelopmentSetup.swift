import ReceiverCore
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

  private static let lifetimeSeconds = 397 * 86_400

  /// Uses what lies in ROOT/.development, as long as it is valid for another day, and makes what is missing.
  public static func prepare(root: String) throws(ReceiverStartError) -> DevelopmentSetup {
    let directory = "\(root)/.development"
    do throws(StoreFailure) {
      for path in [root, directory] {
        if mkdir(path, 0o755) != 0, errno != EEXIST { throw .last("mkdir") }
      }
      let folder = try FileDescriptor.open(directory, O_RDONLY | O_DIRECTORY)
      let token = try token(in: folder)
      let (chain, key) = try certificate(in: folder)
      return DevelopmentSetup(
        authorityPath: "\(directory)/ca.pem", tokenPath: "\(directory)/token", certificateChainPEM: chain,
        privateKeyPEM: key, token: token)
    } catch {
      throw .root("\(directory): \(error.words)")
    }
  }

  private static func token(in folder: FileDescriptor) throws(StoreFailure) -> String {
    if let bytes = try read("token", in: folder) {
      let text = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
      if text.utf8.count >= 32 { return text }
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
    in folder: FileDescriptor
  ) throws(StoreFailure) -> (chain: [UInt8], key: [UInt8]) {
    if let chain = try read("chain.pem", in: folder), let key = try read("key.pem", in: folder),
      try read("ca.pem", in: folder) != nil, isUsable(chain, key)
    {
      return (chain, key)
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

  private static func isUsable(_ chain: [UInt8], _ key: [UInt8]) -> Bool {
    guard let certificate = try? NIOSSLCertificate.fromPEMBytes(chain).first,
      (try? NIOSSLPrivateKey(bytes: key, format: .pem)) != nil
    else { return false }
    return certificate.notValidAfter > time(nil) + 86_400
  }

  private static func read(_ name: String, in folder: FileDescriptor) throws(StoreFailure) -> [UInt8]? {
    try FileDescriptor.openIfPresent(name, in: folder, O_RDONLY)?.readAll(limit: 1 << 20)
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

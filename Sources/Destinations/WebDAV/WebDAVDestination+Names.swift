import FileModel
import Integrity
import TransferModel

/// Whose a name is (docs/destinations.md, DE163), and under which one a file is sent.
extension WebDAVDestination {
  /// Without a stated right, that of a test of the destination, which may leave names alone.
  private func right(_ stated: NameRight?) -> NameRight {
    stated ?? NameRight(ifExists: options.ifExists == .refuse ? .refuse : .replace)
  }

  /// What a file begins with; kept for its answers.
  func begin(_ sending: WholeFileSending) {
    // Those that have a receipt were published.
    let earlier = right(sending.right).replaces.filter { $0.receiptID == nil }.compactMap(\.nonce)
    memory.begin(
      sending.nonce, in: folders(of: sending).last ?? "", name: publishedName(for: sending.path),
      earlier: earlier.filter { $0 != sending.nonce }
    ) { temporaryName(in: sending.path.parent, $0) }
  }

  /// What came of a file so far, and what comes next.
  func machine(of sending: WholeFileSending, _ responses: [HTTPResponse]) -> WebDAVPublicationMachine {
    let right = right(sending.right)
    let beginning = memory.beginning(of: sending.nonce)
    let claim = WebDAVClaim(
      mark: Hex.encode(sending.nonce), sizeBytes: sending.sizeBytes, replaces: right.replaces,
      sent: { memory.sent($0)?.resource })
    var machine = WebDAVPublicationMachine(
      claim: claim, ifExists: right.ifExists,
      search: NameSearch(
        prefix: "", name: publishedName(for: sending.path), publishedAs: right.publishedAs, first: beginning.number),
      folders: folders(of: sending), temporaryName: temporaryName(of: sending),
      contentSHA256: contentSHA256(of: sending), hasTLS: address.endpoint.isEncrypted, beginning)
    for response in responses { machine.take(response) }
    return machine
  }

  /// The folders that a file lies in below the address's, the outermost first.
  func folders(of sending: WholeFileSending) -> [String] {
    let names = sending.path.parent.components.map { TextName.inAddress.of(RelativePath.root.appending(Array($0))) }
    return names.indices.map { names[...$0].joined(separator: "/") }
  }

  /// In the file's own folder, so that it moves within one filesystem. Nextcloud refuses what ends with `.part`.
  func temporaryName(of sending: WholeFileSending) -> String { temporaryName(in: sending.path.parent, sending.nonce) }

  private func temporaryName(in folder: RelativePath, _ nonce: [UInt8]) -> String {
    let name = WebDAVTemporaryName.of(nonce)
    return folder == .root ? name : "\(TextName.inAddress.of(folder))/\(name)"
  }

  /// Nil before all of it was sent. Of a stream that was sent in another try, as it was then.
  func contentSHA256(of sending: WholeFileSending) -> Digest32? {
    if let stream = sending.stream { return stream.contentSHA256 ?? memory.sent(sending.nonce)?.contentSHA256 }
    return sending.body == nil ? sha256([]) : sending.digest.sha256
  }
}

/// What a file is called before it is published.
enum WebDAVTemporaryName {
  private static let start = ".uploadfs-"

  static func of(_ nonce: [UInt8]) -> String { start + Hex.encode(Array(nonce.prefix(16))) }

  private static let digits = 32

  /// Whether an address ends with one: with all of it, so that no capture and no folder of a user is taken for one.
  static func isOf(_ url: String) -> Bool {
    let name = url.utf8.suffix(start.utf8.count + digits + 1)
    return name.count == start.utf8.count + digits + 1 && name.starts(with: "/\(start)".utf8)
      && name.suffix(digits).allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }
}

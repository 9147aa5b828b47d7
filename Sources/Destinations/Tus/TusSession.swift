import Integrity
import TransferModel

/// What a session's id says. A session that is concatenated exists only here: its partial uploads are what the server has.
enum TusSession: Hashable {
  /// One upload; its place, the length of a chunk, and its own where that was declared when it was begun.
  case one(upload: String, chunkBytes: Int, lengthBytes: UInt64?)
  /// Partial uploads.
  case sequences
  /// A partial upload of a session that was given up.
  case partial(upload: String)

  init?(_ id: String) {
    let parts = id.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
    switch parts.first {
    case "one":
      guard parts.count == 3 else { return nil }
      let numbers = parts[1].split(separator: "/", omittingEmptySubsequences: false)
      guard let chunkBytes = numbers.first.flatMap({ Int($0) }), numbers.count <= 2,
        (1...UploadConstants.chunkBytesMax).contains(chunkBytes)
      else { return nil }
      let lengthBytes = numbers.dropFirst().first.map { UInt64($0) }
      if case .some(nil) = lengthBytes { return nil }
      self = .one(upload: parts[2], chunkBytes: chunkBytes, lengthBytes: lengthBytes ?? nil)
    case "rows": self = .sequences
    default:
      guard let partial = TusPartial(token: id) else { return nil }
      self = .partial(upload: partial.upload)
    }
  }

  static func id(one upload: String, chunkBytes: Int, lengthBytes: UInt64?) -> String {
    "one \(chunkBytes)\(lengthBytes.map { "/\($0)" } ?? "") \(upload)"
  }
  static func id(rowsOf nonce: [UInt8]) -> String { "rows \(Hex.encode(nonce))" }
}

/// A partial upload, as the token of its chunks names it.
struct TusPartial: Hashable {
  var upload: String
  /// What it was created with; a sequence that ends elsewhere by now has to begin anew.
  var lengthBytes: UInt64

  init(upload: String, lengthBytes: UInt64) {
    self.upload = upload
    self.lengthBytes = lengthBytes
  }

  init?(token: String) {
    guard let mark = token.lastIndex(of: "#"), let length = UInt64(token[token.index(after: mark)...]) else {
      return nil
    }
    self.init(upload: String(token[..<mark]), lengthBytes: length)
  }

  var token: String { "\(upload)#\(lengthBytes)" }
}

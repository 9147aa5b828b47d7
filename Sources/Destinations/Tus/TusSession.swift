import Integrity
import UploadEngine

/// What a session's id says. A session that is concatenated exists only here: its partial uploads are what the server has.
enum TusSession: Hashable {
  /// One upload; its place, and the length of a chunk.
  case one(upload: String, chunkBytes: Int)
  /// Partial uploads.
  case rows
  /// A partial upload of a session that was given up.
  case partial(upload: String)

  init?(_ id: String) {
    let parts = id.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
    switch parts.first {
    case "one":
      guard parts.count == 3, let chunkBytes = Int(parts[1]),
        (1...UploadConstants.chunkBytesMax).contains(chunkBytes)
      else { return nil }
      self = .one(upload: parts[2], chunkBytes: chunkBytes)
    case "rows": self = .rows
    default:
      guard let partial = TusPartial(token: id) else { return nil }
      self = .partial(upload: partial.upload)
    }
  }

  static func id(one upload: String, chunkBytes: Int) -> String { "one \(chunkBytes) \(upload)" }
  static func id(rowsOf nonce: [UInt8]) -> String { "rows \(Hex.encode(nonce))" }
}

/// A partial upload, as the token of its chunks names it.
struct TusPartial: Hashable {
  var upload: String
  /// What it was created with; a row that ends elsewhere by now has to begin anew.
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

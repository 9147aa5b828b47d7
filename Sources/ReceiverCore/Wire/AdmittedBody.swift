public import ChunkProtocol
import Integrity

/// What may arrive as the body of a request that the core has let in.
public struct AdmittedBody: Hashable, Sendable {
  /// The plain bytes that are announced; what they may be at most was checked before the body was let in.
  public let plainBytes: Int
  /// How they are sent.
  public let encoding: ChunkEncoding
  private let contentLength: Int?
  private let sentSHA256: Digest32?

  init(_ announced: AnnouncedBytes) {
    plainBytes = Int(announced.facts.sizeBytes)
    encoding = announced.encoding
    contentLength = announced.contentLength.map { Int(clamping: $0) }
    sentSHA256 = announced.sentSHA256
  }

  /// For a bundle that comes as one Zstandard frame of so many plain bytes.
  init(frameOf plainBytes: Int, contentLength: Int) {
    self.plainBytes = plainBytes
    self.contentLength = contentLength
    encoding = .zstd(.none)
    sentSHA256 = nil
  }

  /// The most bytes that may arrive. An encoded body that is longer than what it stands for gains nothing.
  public var sentBytesMax: Int { min(contentLength ?? plainBytes, plainBytes) }

  /// The memory that it takes: the plain bytes, what they are decoded from, and room for undoing a filter.
  public var memoryBytes: Int {
    switch encoding {
    case .identity: plainBytes
    case .lz4, .zstd(.none): plainBytes + sentBytesMax
    case .zstd: plainBytes + sentBytesMax + min(plainBytes, RecordFilter.blockBytes)
    }
  }

  /// Refuses a body of which more has arrived than was announced.
  public func check(arrivedBytes: Int) throws(Refusal) {
    guard arrivedBytes > sentBytesMax else { return }
    switch encoding {
    case .identity:
      throw Refusal(
        .badRequest(field: HeaderName.chunkSize), "the body is longer than the \(plainBytes) bytes announced")
    case .lz4, .zstd: throw .encodedTooLong(plainBytes: plainBytes)
    }
  }

  /// The plain bytes of a body that is in memory as a whole, and their digests. A plain body that ended early has digests,
  /// too, and the core refuses it.
  public func take(_ sent: [UInt8]) throws(Refusal) -> (plain: [UInt8], facts: ChunkChecksums) {
    let plain = try plain(of: sent)
    return (plain, ChunkChecksums(of: plain))
  }

  /// The plain bytes alone.
  func plain(of sent: [UInt8]) throws(Refusal) -> [UInt8] {
    try check(arrivedBytes: sent.count)
    switch encoding {
    case .identity: return sent
    case .lz4: return try decode(sent, "LZ4 block") { LZ4.decompress($0, into: $1) }
    case .zstd(let filter):
      return try decode(sent, "Zstandard frame") { Zstandard.decompress($0, undoing: filter, into: $1) }
    }
  }

  private func decode(
    _ sent: [UInt8], _ form: String,
    _ decompress: (_ sent: UnsafeRawBufferPointer, _ plain: UnsafeMutableRawBufferPointer) -> Bool
  ) throws(Refusal) -> [UInt8] {
    if let sentSHA256, sha256(sent) != sentSHA256 {
      throw Refusal(
        .digestMismatch(field: HeaderName.contentDigest), "the body does not have the SHA-256 of its Content-Digest")
    }
    var isDecoded = false
    let plain = [UInt8](unsafeUninitializedCapacity: plainBytes) { target, count in
      isDecoded = sent.withUnsafeBytes {
        decompress($0, UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(target)[..<plainBytes]))
      }
      count = isDecoded ? plainBytes : 0
    }
    guard isDecoded else {
      throw Refusal(
        .digestMismatch(field: HeaderName.chunkEncoding),
        "the body is no \(form) of exactly the \(plainBytes) plain bytes that X-Chunk-Size announces")
    }
    return plain
  }
}

extension Refusal {
  /// The connection ended in mid-body.
  public static let bodyBrokeOff = Refusal(.badRequest(field: HeaderName.chunkSize), "the body broke off")
  /// The client sent nothing for too long, or took too long in all.
  public static let bodyTooSlow = Refusal(.bodyTimeout, "the body stood still for too long")
  /// There is no memory for the body.
  public static let noBodyMemory = Refusal(.busy, "too many bodies are arriving at once; come back")

  static func encodedTooLong(plainBytes: Int) -> Refusal {
    Refusal(
      .badRequest(field: HeaderName.chunkEncoding),
      "the encoded body is longer than the \(plainBytes) plain bytes; send them as they are")
  }
}

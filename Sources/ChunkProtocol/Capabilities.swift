/// The answer to `GET /v1/capabilities`: what this receiver takes.
public struct Capabilities: Hashable, Sendable, Codable {
  /// ``ProtocolLimits/version``.
  public var protocolVersion: Int
  /// The smallest chunk size that a session may have.
  public var chunkBytesMin: Int
  /// The largest chunk size; a session that asks for more gets this.
  public var chunkBytesMax: Int
  /// The largest file.
  public var fileBytesMax: UInt64
  /// Values of ``HeaderName/chunkEncoding`` that are understood.
  public var encodings: [String]
  /// Digests that are checked: `sha-256` and `crc32c`.
  public var digests: [String]
  /// Chunk requests of one upload that are worth having in flight.
  public var concurrentChunks: Int
  /// The largest file for `PUT /v1/files/…`.
  public var wholeFileBytesMax: Int
  /// The most members of a bundle; nil where bundles are not taken.
  public var bundleFilesMax: Int?
  /// The most plain bytes of a bundle's members together.
  public var bundleBytesMax: Int?
  /// Values of ``HeaderName/chunkEncoding`` that are understood of a bundle as a whole; nil where there is none.
  public var bundleEncodings: [String]?
  /// The most chunks of a run; nil where runs are not taken.
  public var runChunksMax: Int?
  /// The most plain bytes of a run's chunks together.
  public var runBytesMax: Int?
  /// The most ranges of chunks that one request may name as zeros; nil where that is not taken.
  public var zeroRangesMax: Int?
  /// Chunk requests may be sent as TLS early data.
  public var isReplaySafe: Bool
  /// Parity chunks are understood.
  public var hasErasure: Bool

  enum CodingKeys: String, CodingKey {
    case protocolVersion = "protocol_version"
    case chunkBytesMin = "chunk_bytes_min"
    case chunkBytesMax = "chunk_bytes_max"
    case fileBytesMax = "file_bytes_max"
    case encodings
    case digests
    case concurrentChunks = "concurrent_chunks"
    case wholeFileBytesMax = "whole_file_bytes_max"
    case bundleFilesMax = "bundle_files_max"
    case bundleBytesMax = "bundle_bytes_max"
    case bundleEncodings = "bundle_encodings"
    case runChunksMax = "run_chunks_max"
    case runBytesMax = "run_bytes_max"
    case zeroRangesMax = "zero_ranges_max"
    case isReplaySafe = "replay_safe"
    case hasErasure = "erasure"
  }

  /// What a receiver of this version understands.
  public static let encodingsUnderstood = ChunkEncoding.Word.allCases.map(\.rawValue)

  /// The same of a bundle as a whole.
  public static let bundleEncodingsUnderstood = [ChunkEncoding.Word.identity, .zstd].map(\.rawValue)

  /// States what a receiver takes.
  public init(
    protocolVersion: Int = ProtocolLimits.version, chunkBytesMin: Int, chunkBytesMax: Int, fileBytesMax: UInt64,
    encodings: [String] = encodingsUnderstood, digests: [String] = ["sha-256", "crc32c"],
    concurrentChunks: Int, wholeFileBytesMax: Int, bundleFilesMax: Int? = ProtocolLimits.bundleFilesMax,
    bundleBytesMax: Int? = ProtocolLimits.bundleBytesMax, bundleEncodings: [String]? = bundleEncodingsUnderstood,
    runChunksMax: Int? = ProtocolLimits.runChunksMax, runBytesMax: Int? = ProtocolLimits.runBytesMax,
    zeroRangesMax: Int? = ProtocolLimits.zeroRangesMax, isReplaySafe: Bool = false, hasErasure: Bool = false
  ) {
    self.protocolVersion = protocolVersion
    self.chunkBytesMin = chunkBytesMin
    self.chunkBytesMax = chunkBytesMax
    self.fileBytesMax = fileBytesMax
    self.encodings = encodings
    self.digests = digests
    self.concurrentChunks = concurrentChunks
    self.wholeFileBytesMax = wholeFileBytesMax
    self.bundleFilesMax = bundleFilesMax
    self.bundleBytesMax = bundleBytesMax
    self.bundleEncodings = bundleEncodings
    self.runChunksMax = runChunksMax
    self.runBytesMax = runBytesMax
    self.zeroRangesMax = zeroRangesMax
    self.isReplaySafe = isReplaySafe
    self.hasErasure = hasErasure
  }
}

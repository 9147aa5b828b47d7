import FileModel
import Lookup
import TransferModel

/// How a chunk may travel compressed: what its receiver decodes, as far as the setting lets it be used, and how fast the line is.
public struct ChunkCompression: Hashable, Sendable {
  /// LZ4 blocks.
  public var lz4 = false
  /// Zstandard frames, behind any filter.
  public var zstd = false
  /// What the line takes in a second, where the choice follows it; nil where only the length counts.
  public var lineBytesPerSecond: Double?
  /// The chunk's file is still being written: nothing waits for the chunk, and others use what it leaves of the line.
  public var isEarly = false

  /// Not at all.
  public static let none = ChunkCompression()

  /// Some encoding may be used.
  public var isPossible: Bool { lz4 || zstd }

  /// Terms, nothing allowed by default.
  public init(lz4: Bool = false, zstd: Bool = false, lineBytesPerSecond: Double? = nil) {
    self.lz4 = lz4
    self.zstd = zstd
    self.lineBytesPerSecond = lineBytesPerSecond
  }

  /// What a setting makes of a receiver's offer. A line of unknown speed gets LZ4 alone. So does one that is as fast as
  /// a busy processor may be, as long as LZ4 keeps up with it.
  init(_ setting: FileSettings.Compress, offered: LookupSet<OfferedEncoding>, lineBytesPerSecond: Double?) {
    switch setting {
    case .off: self = .none
    case .lz4: self.init(lz4: offered.contains(.lz4))
    case .zstd: self.init(lz4: offered.contains(.lz4), zstd: offered.contains(.zstd))
    case .auto:
      let isForZstandard =
        switch SpeedTier(bytesPerSecond: lineBytesPerSecond) {
        case .slow, .normal, .fast: true
        case .ultrafast, .unknown: false
        }
      self.init(
        lz4: offered.contains(.lz4), zstd: isForZstandard && offered.contains(.zstd),
        lineBytesPerSecond: lineBytesPerSecond)
    }
  }
}

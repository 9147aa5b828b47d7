import Synchronization

/// What the reading side of an engine has done since it was made.
public struct PipelineStatistics: Hashable, Sendable {
  /// Chunk-sized pieces of memory that were ever taken from the system: buffers and compression blocks. In a steady
  /// upload it stands still: nothing of a chunk's size is allocated in the loop.
  public var blocksMapped = 0
  /// Buffers that take up memory now.
  public var buffers = 0
  /// Pieces of captures that were mapped.
  public var windowsMapped = 0
  /// Chunks that were read and hashed.
  public var chunksRead = 0
  /// Bytes of captures that came out of mappings.
  public var bytesFromMappings: UInt64 = 0
  /// Bytes of captures that came through plain reads.
  public var bytesFromReads: UInt64 = 0
  /// Bytes of captures that are holes in the spool, and were not read.
  public var bytesOfHoles: UInt64 = 0
  /// Chunks that travel compressed.
  public var chunksCompressed = 0
  /// Bytes that need not travel because of it.
  public var bytesSaved: UInt64 = 0
  /// Bytes of chunks that travel as LZ4 blocks, before and after.
  public var bytesOfLZ4 = CompressedBytes()
  /// Bytes of chunks that travel as Zstandard frames, before and after.
  public var bytesOfZstandard = CompressedBytes()
  /// What looking at samples for Zstandard, filtering and compressing took of the workers' time.
  public var compressionSeconds = 0.0
  /// Pages of mappings that were not there, and did not kill the process.
  public var faultsContained = 0

  /// Nothing done.
  public init() {}
}

/// Bytes as they lie in files, and as they travel.
public struct CompressedBytes: Hashable, Sendable {
  /// In files.
  public var plain: UInt64 = 0
  /// On their way.
  public var sent: UInt64 = 0

  /// None.
  public init() {}

  /// Both together.
  public static func + (one: Self, other: Self) -> Self {
    var sum = one
    sum.plain += other.plain
    sum.sent += other.sent
    return sum
  }
}

/// Counts for ``PipelineStatistics``, on whatever thread.
final class PipelineCounters: Sendable {
  let blocksMapped = Atomic<Int>(0)
  let windowsMapped = Atomic<Int>(0)
  let chunksRead = Atomic<Int>(0)
  let bytesFromMappings = Atomic<UInt64>(0)
  let bytesFromReads = Atomic<UInt64>(0)
  let bytesOfHoles = Atomic<UInt64>(0)
  let chunksCompressed = Atomic<Int>(0)
  let bytesSaved = Atomic<UInt64>(0)
  let plainBytesOfLZ4 = Atomic<UInt64>(0)
  let sentBytesOfLZ4 = Atomic<UInt64>(0)
  let plainBytesOfZstandard = Atomic<UInt64>(0)
  let sentBytesOfZstandard = Atomic<UInt64>(0)
  let compressionNanoseconds = Atomic<Int64>(0)
  let faultsContained = Atomic<Int>(0)

  /// A chunk travels compressed.
  func compressed(_ plainBytes: Int, to sentBytes: Int, isZstandard: Bool) {
    let (plain, sent) = (UInt64(clamping: plainBytes), UInt64(clamping: sentBytes))
    chunksCompressed.add(1, ordering: .relaxed)
    bytesSaved.add(plain - min(plain, sent), ordering: .relaxed)
    if isZstandard {
      plainBytesOfZstandard.add(plain, ordering: .relaxed)
      sentBytesOfZstandard.add(sent, ordering: .relaxed)
    } else {
      plainBytesOfLZ4.add(plain, ordering: .relaxed)
      sentBytesOfLZ4.add(sent, ordering: .relaxed)
    }
  }

  var snapshot: PipelineStatistics {
    var statistics = PipelineStatistics()
    statistics.blocksMapped = blocksMapped.load(ordering: .relaxed)
    statistics.windowsMapped = windowsMapped.load(ordering: .relaxed)
    statistics.chunksRead = chunksRead.load(ordering: .relaxed)
    statistics.bytesFromMappings = bytesFromMappings.load(ordering: .relaxed)
    statistics.bytesFromReads = bytesFromReads.load(ordering: .relaxed)
    statistics.bytesOfHoles = bytesOfHoles.load(ordering: .relaxed)
    statistics.chunksCompressed = chunksCompressed.load(ordering: .relaxed)
    statistics.bytesSaved = bytesSaved.load(ordering: .relaxed)
    statistics.bytesOfLZ4.plain = plainBytesOfLZ4.load(ordering: .relaxed)
    statistics.bytesOfLZ4.sent = sentBytesOfLZ4.load(ordering: .relaxed)
    statistics.bytesOfZstandard.plain = plainBytesOfZstandard.load(ordering: .relaxed)
    statistics.bytesOfZstandard.sent = sentBytesOfZstandard.load(ordering: .relaxed)
    statistics.compressionSeconds = Double(compressionNanoseconds.load(ordering: .relaxed)) / 1e9
    statistics.faultsContained = faultsContained.load(ordering: .relaxed)
    return statistics
  }
}

import Integrity
import Synchronization

/// Decides by samples whether a chunk is worth compressing, and compresses it (spec C5). Each worker has its own.
struct ChunkCompressor {
  /// What the samples of one chunk came to.
  struct Samples {
    fileprivate var plainBytes = 0
    fileprivate var compressedBytes = 0

    /// The samples shrank by more than the threshold.
    var promiseGain: Bool { plainBytes > 0 && compressedBytes <= ChunkCompressor.worthwhileBytes(of: plainBytes) }
  }

  /// Below this a chunk fits a few packets either way.
  static let chunkBytesMin = 4096

  private let counters: PipelineCounters
  private let sampleRoom: ScratchBlock?
  private var room: ScratchBlock?

  init(counters: PipelineCounters) {
    self.counters = counters
    sampleRoom = ScratchBlock(byteCount: LZ4.compressedBytesMax(UploadConstants.compressionSampleBytes))
  }

  /// The largest size at which compressed bytes are worth sending.
  static func worthwhileBytes(of plainBytes: Int) -> Int {
    plainBytes - Int(Double(plainBytes) * UploadConstants.compressionBenefitThreshold) - 1
  }

  /// Looks at a block that is still in the cache. One sample is taken from the middle of each stride of the chunk, where
  /// no header misleads.
  func sample(_ block: UnsafeRawBufferPointer, at position: Int, of chunkBytes: Int, into samples: inout Samples) {
    let stride = position / UploadConstants.compressionSampleStride * UploadConstants.compressionSampleStride
    let middle = stride + min(UploadConstants.compressionSampleStride, chunkBytes - stride) / 2
    guard position <= middle, middle < position + block.count, let sampleRoom else { return }
    let sample = UnsafeRawBufferPointer(rebasing: block.prefix(UploadConstants.compressionSampleBytes))
    let limit = min(sampleRoom.bytes.count, max(0, Self.worthwhileBytes(of: sample.count)))
    let target = UnsafeMutableRawBufferPointer(rebasing: sampleRoom.bytes[..<limit])
    samples.plainBytes += sample.count
    // What does not fit has gained nothing; how much it would have grown does not matter.
    samples.compressedBytes += LZ4.compress(sample, into: target) ?? sample.count
  }

  /// Replaces the buffer's bytes by their LZ4 block; false, and nothing changed, when that does not save enough.
  mutating func compress(_ buffer: ChunkBuffer) -> Bool {
    let plainBytes = buffer.count
    let limit = Self.worthwhileBytes(of: plainBytes)
    guard limit > 0, let room = room(of: buffer.capacity), limit <= room.bytes.count else { return false }
    let target = UnsafeMutableRawBufferPointer(rebasing: room.bytes[..<limit])
    let compressedBytes = LZ4.compress(buffer.bytes, into: target)
    // A failed attempt leaves bytes behind as well; how many it does not say.
    defer { room.wipe(compressedBytes ?? limit) }
    guard let compressedBytes else { return false }
    buffer.mutableBytes(count: compressedBytes).copyMemory(
      from: UnsafeRawBufferPointer(rebasing: target[..<compressedBytes]))
    buffer.count = compressedBytes
    counters.chunksCompressed.add(1, ordering: .relaxed)
    counters.bytesSaved.add(UInt64(plainBytes - compressedBytes), ordering: .relaxed)
    return true
  }

  /// Taken when the first chunk is compressed: most captures never need it.
  private mutating func room(of byteCount: Int) -> ScratchBlock? {
    if let room, room.bytes.count >= byteCount { return room }
    room = nil
    room = ScratchBlock(byteCount: byteCount)
    if room != nil { counters.blocksMapped.add(1, ordering: .relaxed) }
    return room
  }
}

import FileModel
import Integrity
import Synchronization
import Threads
import TransferModel

/// Decides by samples whether a chunk is worth compressing, and how, and compresses it
/// (docs/design/reading.md#compression). Each worker has its own.
struct ChunkCompressor {
  /// What the samples of one chunk came to.
  struct Samples {
    fileprivate var plainBytes = 0
    fileprivate var compressedBytes = 0
    /// What LZ4 took for those of them that shrank.
    fileprivate var shrunkBytes = 0
    fileprivate var nanoseconds: Int64 = 0

    /// The samples shrank by more than the threshold.
    var promiseGain: Bool { plainBytes > 0 && compressedBytes <= ChunkCompressor.worthwhileBytes(of: plainBytes) }

    /// The part that LZ4 leaves of them.
    fileprivate var share: Double { plainBytes > 0 ? Double(compressedBytes) / Double(plainBytes) : 1 }
  }

  /// Below this a chunk fits a few packets either way.
  static let chunkBytesMin = 4096

  private let counters: PipelineCounters
  private let sampleRoom: ScratchBlock?
  private var room: ScratchBlock?
  private var zstandard: ZstandardCompressor?
  private var filterRoom: ScratchBlock?
  private var costs = CompressionCosts()
  private var memory = CompressionMemory()

  init(counters: PipelineCounters) {
    self.counters = counters
    sampleRoom = ScratchBlock(byteCount: LZ4.compressedBytesMax(UploadConstants.compressionSampleBytes))
  }

  /// The largest size at which compressed bytes are worth sending.
  static func worthwhileBytes(of plainBytes: Int) -> Int {
    plainBytes - Int(Double(plainBytes) * UploadConstants.compressionBenefitThreshold) - 1
  }

  /// Probes a block that is still in the cache. One sample is taken from the middle of each stride of the chunk, where
  /// no header misleads.
  func sample(_ block: UnsafeRawBufferPointer, at position: Int, of chunkBytes: Int, into samples: inout Samples) {
    let stride = position / UploadConstants.compressionSampleStride * UploadConstants.compressionSampleStride
    let middle = stride + min(UploadConstants.compressionSampleStride, chunkBytes - stride) / 2
    guard position <= middle, middle < position + block.count, let sampleRoom else { return }
    let sample = UnsafeRawBufferPointer(rebasing: block.prefix(UploadConstants.compressionSampleBytes))
    let limit = min(sampleRoom.bytes.count, max(0, Self.worthwhileBytes(of: sample.count)))
    let target = UnsafeMutableRawBufferPointer(rebasing: sampleRoom.bytes[..<limit])
    samples.plainBytes += sample.count
    let start = monotonicNanoseconds()
    guard let left = LZ4.compress(sample, into: target) else {
      // What does not fit has gained nothing; how much it would have grown does not matter, nor how soon that was seen.
      samples.compressedBytes += sample.count
      return
    }
    samples.compressedBytes += left
    samples.shrunkBytes += sample.count
    samples.nanoseconds += monotonicNanoseconds() - start
  }

  /// Replaces the buffer's bytes by shorter ones; identity, and nothing changed, when that does not save enough. `fileBytes` are those of
  /// the file from here on.
  mutating func compress(
    _ buffer: ChunkBuffer, of job: ReadJob, _ samples: Samples, fileBytes: UInt64
  ) -> ChunkEncoding {
    let start = monotonicNanoseconds()
    defer { counters.compressionNanoseconds.add(monotonicNanoseconds() - start, ordering: .relaxed) }
    guard buffer.count >= Self.chunkBytesMin else { return .identity }
    costs.measured(.lz4, bytes: samples.shrunkBytes, seconds: Double(samples.nanoseconds) / 1e9)
    guard job.compression.zstd, let known = known(of: buffer.bytes, job, fileBytes) else {
      let isUsed = samples.promiseGain && job.compression.usesLZ4(leaving: samples.share, at: costs)
      return isUsed && replace(buffer, .lz4) ? .lz4 : .identity
    }
    let plainBytes = buffer.count
    let method = job.compression.method(leaving: known.shares, at: costs)
    guard method != .identity else {
      memory.passed(job.file, plainBytes, share: nil)
      return .identity
    }
    guard let encoding = replace(buffer, by: method, known.filter) else {
      memory.disappointed(by: job.file, plainBytes)
      return .identity
    }
    memory.passed(job.file, plainBytes, share: Double(buffer.count) / Double(plainBytes))
    return encoding
  }

  // MARK: Looking

  /// What the file's samples have said; nil where it is not known, and a probe would take too long.
  private mutating func known(
    of plain: UnsafeRawBufferPointer, _ job: ReadJob, _ fileBytes: UInt64
  ) -> CompressionMemory.Known? {
    let before = memory.known(of: job.file)
    if let before, !before.isDue { return before.latest }
    // At a file's end too little is left for another probe.
    guard job.compression.isWorthAProbe(at: max(fileBytes, UInt64(plain.count)), costs: costs) else {
      costs.skippedProbe()
      return before?.latest
    }
    let (isFirst, assumed) = (zstandard == nil, costs)
    guard prepareZstandard() else { return before?.latest }
    let samples = Self.samples(of: plain)
    let start = monotonicNanoseconds()
    let known = probe(at: samples)
    costs.measuredProbe(seconds: Self.seconds(since: start) / Double(samples.count))
    // The first one is there for memory that was never touched as well: ten times what the others take.
    if isFirst { costs = assumed }
    memory.looked(at: job.file, plain.count, known)
    return known
  }

  /// Tries the filters that are likely to suit, and each method behind the best one.
  private mutating func probe(at samples: [UnsafeRawBufferPointer]) -> CompressionMemory.Known {
    var known = CompressionMemory.Known(filter: .none, shares: .nothing)
    for filter in FilterChoice.candidates(for: samples) {
      let share = share(of: samples, .zstdQuick, filter)
      if share < known.shares[.zstdQuick] {
        known.shares[.zstdQuick] = share
        known.filter = filter
      }
    }
    known.shares[.lz4] = share(of: samples, .lz4, .none)
    // What gains nothing at once gains nothing for more.
    if known.shares.isWorthwhile(.zstdQuick) {
      known.shares[.zstdThorough] = share(of: samples, .zstdThorough, known.filter)
    }
    return known
  }

  /// The part that is left of all of them; the last one may be shorter than the others.
  private mutating func share(
    of samples: [UnsafeRawBufferPointer], _ method: CompressionMethod, _ filter: RecordFilter
  ) -> Double {
    let plainBytes = samples.reduce(0) { $0 + $1.count }
    var left = 0.0
    for sample in samples { left += Double(sample.count) * share(of: sample, method, filter) }
    return plainBytes > 0 ? left / Double(plainBytes) : 1
  }

  /// The part of a sample that is left of it.
  private mutating func share(
    of sample: UnsafeRawBufferPointer, _ method: CompressionMethod, _ filter: RecordFilter
  ) -> Double {
    guard let sampleRoom, let filterRoom, !sample.isEmpty else { return 1 }
    // The sample lies in the front of the room, and what the filter needs behind it.
    let copy = UnsafeMutableRawBufferPointer(rebasing: filterRoom.bytes[..<sample.count])
    copy.copyMemory(from: sample)
    defer { filterRoom.wipe(2 * sample.count) }
    let start = monotonicNanoseconds()
    filter.apply(to: copy, scratch: UnsafeMutableRawBufferPointer(rebasing: filterRoom.bytes[sample.count...]))
    let left = shortened(UnsafeRawBufferPointer(copy), method, into: sampleRoom.bytes)
    costs.measured(method, bytes: sample.count, seconds: Self.seconds(since: start))
    sampleRoom.wipe(left ?? sampleRoom.bytes.count)
    return Double(left ?? sample.count) / Double(sample.count)
  }

  /// One from the middle of each stride, where no header misleads, and where words of the chunk begin. At least one.
  private static func samples(of plain: UnsafeRawBufferPointer) -> [UnsafeRawBufferPointer] {
    let longest = RecordFilter.wordLengths.last ?? 1
    guard plain.count > UploadConstants.compressionSampleBytes else { return [plain] }
    return stride(from: 0, to: plain.count, by: UploadConstants.compressionSampleStride).map { start in
      let middle = start + min(UploadConstants.compressionSampleStride, plain.count - start) / 2 / longest * longest
      let end = min(plain.count, middle + UploadConstants.compressionSampleBytes)
      return UnsafeRawBufferPointer(rebasing: plain[middle..<end])
    }
  }

  private mutating func prepareZstandard() -> Bool {
    if zstandard == nil { zstandard = ZstandardCompressor() }
    if filterRoom == nil { filterRoom = ScratchBlock(byteCount: RecordFilter.blockBytes) }
    return zstandard != nil && filterRoom != nil
  }

  private static func seconds(since start: Int64) -> Double { Double(monotonicNanoseconds() - start) / 1e9 }

  // MARK: Compressing

  /// Nil, and nothing changed, where that does not save enough.
  private mutating func replace(
    _ buffer: ChunkBuffer, by method: CompressionMethod, _ filter: RecordFilter
  ) -> ChunkEncoding? {
    guard method.level != nil else { return replace(buffer, method) ? .lz4 : nil }
    guard let filterRoom else { return nil }
    let plain = buffer.mutableBytes(count: buffer.count)
    defer { if filter != .none { filterRoom.wipe(min(plain.count, RecordFilter.blockBytes)) } }
    let start = monotonicNanoseconds()
    filter.apply(to: plain, scratch: filterRoom.bytes)
    let filtering = Self.seconds(since: start)
    if replace(buffer, method, after: filtering) { return .zstd(filter) }
    filter.undo(in: plain, scratch: filterRoom.bytes)
    return nil
  }

  private func shortened(
    _ plain: UnsafeRawBufferPointer, _ method: CompressionMethod, into target: UnsafeMutableRawBufferPointer
  ) -> Int? {
    guard let level = method.level else { return LZ4.compress(plain, into: target) }
    return zstandard?.compress(plain, level: level, into: target)
  }

  private mutating func replace(
    _ buffer: ChunkBuffer, _ method: CompressionMethod, after seconds: Double = 0
  ) -> Bool {
    let plainBytes = buffer.count
    let limit = Self.worthwhileBytes(of: plainBytes)
    guard limit > 0, let room = room(of: buffer.capacity), limit <= room.bytes.count else { return false }
    let target = UnsafeMutableRawBufferPointer(rebasing: room.bytes[..<limit])
    let start = monotonicNanoseconds()
    let compressedBytes = shortened(buffer.bytes, method, into: target)
    // Taking the bytes back belongs to what it costs.
    defer { costs.measured(method, bytes: plainBytes, seconds: seconds + Self.seconds(since: start)) }
    // A failed attempt leaves bytes behind as well; how many it does not say.
    defer { room.wipe(compressedBytes ?? limit) }
    guard let compressedBytes else { return false }
    buffer.mutableBytes(count: compressedBytes).copyMemory(
      from: UnsafeRawBufferPointer(rebasing: target[..<compressedBytes]))
    buffer.count = compressedBytes
    counters.compressed(plainBytes, to: compressedBytes, isZstandard: method.level != nil)
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

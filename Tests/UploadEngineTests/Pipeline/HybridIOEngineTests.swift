import CLinux
import FileModel
import Glibc
import Integrity
import Promises
import Testing
import Threads
import TransferModel

@testable import UploadEngine

/// Reading from real files: windows, faults, locks, identity.
@Suite struct HybridIOEngineTests {
  private static let size = 3 << 20
  private let spool: SpoolFileFake
  private let counters = PipelineCounters()
  private let pool = ChunkBufferPool(capacity: 4, bufferBytes: 1 << 20)

  init() throws {
    spool = try SpoolFileFake([UInt8](count: Self.size) { UInt8(truncatingIfNeeded: $0 &* 131 &+ $0 >> 11) })
  }

  private func engine(_ method: ReadingMethod) -> HybridIOEngine {
    HybridIOEngine(contents: spool, method: method, counters: counters)
  }

  private func job(_ offset: Int, _ count: Int, epoch: UInt64 = 1) -> ReadJob {
    ReadJob(
      id: 1, file: SpoolFileFake.id, epoch: epoch, offset: UInt64(offset), byteCount: count, buffer: pool.acquire())
  }

  private func digest(_ range: Range<Int>) -> ChunkDigest {
    spool.bytes[range].withUnsafeBytes { ChunkDigest(sha256: sha256($0), crc32c: CRC32C.checksum($0)) }
  }

  @Test(arguments: [ReadingMethod.plain, .mapped])
  func chunksAreThoseOfTheFile_oneByOneAndInPairs(method: ReadingMethod) throws {
    let io = engine(method)
    var reader = ChunkReader(contents: spool, io: io, counters: counters)
    for (first, second) in [(0..<1000, 1000..<700_000), (700_000..<1_700_000, 1_700_000..<1_700_001)] {
      let jobs = (job(first.lowerBound, first.count), job(second.lowerBound, second.count))
      let pair = reader.read(jobs.0, jobs.1)
      for (range, result) in [(first, pair.0), (second, pair.1), (second, reader.read(jobs.1))] {
        let chunk = try #require(result.chunk, "\(range): \(result)")
        #expect(chunk.digest == digest(range), "\(range)")
        #expect(try Array(#require(chunk.buffer).bytes) == Array(spool.bytes[range]), "\(range)")
      }
    }
    let read = counters.snapshot
    #expect(read.chunksRead == 6)
    #expect(method == .mapped ? read.bytesFromReads == 0 : read.bytesFromMappings == 0)
    #expect(spool.openings == 1, "the file stays open between its chunks")
  }

  @Test("Holes are not read, and are zeros", .promises("S62e"), arguments: [ReadingMethod.plain, .mapped])
  func holesAreNotRead(method: ReadingMethod) throws {
    let number = open(spool.path, O_WRONLY)
    defer { close(number) }
    let size = 3 * Self.size
    #expect(ftruncate(number, off_t(size)) == 0)
    let io = engine(method)
    var reader = ChunkReader(contents: spool, io: io, counters: counters)
    let chunk = 1 << 20
    let zeros = [UInt8](repeating: 0, count: chunk)
    let zeroDigest = zeros.withUnsafeBytes { ChunkDigest(sha256: sha256($0), crc32c: CRC32C.checksum($0)) }
    for offset in stride(from: 0, to: size, by: chunk) {
      let found = try #require(reader.read(job(offset, chunk)).chunk)
      #expect(found.digest == (offset < Self.size ? digest(offset..<(offset + chunk)) : zeroDigest))
    }
    let read = counters.snapshot
    #expect(read.bytesOfHoles == UInt64(2 * Self.size))
    #expect(read.bytesFromReads + read.bytesFromMappings == UInt64(Self.size))
  }

  @Test(
    "Regression: a file that was removed to make room stayed open, and its place taken, for a second", .promises("S28c")
  )
  func aFileThatIsGone_isClosedAtOnce() throws {
    let io = engine(.plain)
    weak var opened: CaptureReading?
    do {
      let file = try io.begin(SpoolFileFake.id, isKept: true)
      opened = file
      io.acknowledged(CacheTrace(file: SpoolFileFake.id, range: 0..<UInt64(Self.size)))
      io.end(file, isLastChunk: false)
    }
    #expect(io.openCount == 1 && opened != nil)
    io.forget(SpoolFileFake.id)
    #expect(io.openCount == 0 && opened == nil)
  }

  @Test func inAPair_theFailureOfOneIsNotTheOthers() throws {
    var reader = ChunkReader(contents: spool, io: engine(.plain), counters: counters)
    let pair = reader.read(job(0, 500_000, epoch: 9), job(500_000, 400_000))
    #expect(pair.0.isChanged)
    #expect(pair.1.chunk?.digest == digest(500_000..<900_000))
  }

  /// A file that is truncated under its mapping: the process lives, and the chunk is not taken for whole.
  @Test func truncationUnderAMapping_isAChangeAndNotTheEnd() throws {
    let path = spool.path
    spool.afterIdentity(1) { truncate(path, 100_000) }
    var reader = ChunkReader(contents: spool, io: engine(.mapped), counters: counters)
    #expect(reader.read(job(0, 1 << 20)).isChanged)
    #expect(counters.snapshot.faultsContained == 1)
    #expect(counters.snapshot.windowsMapped == 1)
  }

  @Test func afterAFault_theRestIsReadPlainly() throws {
    let file = try engine(.mapped).begin(SpoolFileFake.id, isKept: true)
    var block = [UInt8](repeating: 0, count: 65_536)
    func read(_ offset: Int) throws -> Int {
      try block.withUnsafeMutableBytes { bytes throws in try file.read(at: UInt64(offset), into: bytes) }
    }
    #expect(try read(0) == 65_536)
    #expect(counters.snapshot.bytesFromMappings == 65_536)
    truncate(spool.path, 0)
    #expect(try read(1 << 20) == 0)
    #expect(counters.snapshot.faultsContained == 1)
    spool.write(spool.bytes)
    #expect(try read(1 << 20) == 65_536)
    #expect(block == Array(spool.bytes[(1 << 20)..<((1 << 20) + 65_536)]))
    #expect(counters.snapshot.bytesFromMappings == 65_536)
    #expect(counters.snapshot.bytesFromReads == 65_536)
  }

  @Test func faultsOnSeveralThreads_areEachContained() throws {
    let file = try #require(MappedFile(spool))
    #expect(uploadfs_contain_sigbus() == 0)
    truncate(spool.path, 0)
    let outcomes = Collector<Int32>()
    let threads = (0..<4).map { number in
      WorkerThread("test", .answering) {
        var target = [UInt8](repeating: 0, count: 8192)
        for round in 0..<200 { outcomes.append(file.copy(at: (number * 200 + round) * 3000, into: &target)) }
      }
    }
    for thread in threads { thread.join() }
    #expect(outcomes.all == Array(repeating: 0, count: 800))
    // And the handler is still there for the next one.
    spool.write(spool.bytes)
    var target = [UInt8](repeating: 0, count: 8192)
    #expect(file.copy(at: 4096, into: &target) == 1)
    #expect(target == Array(spool.bytes[4096..<12_288]))
  }

  @Test func aFaultElsewhere_stillEndsTheProcess() async {
    await #expect(processExitsWith: .signal(SIGBUS)) {
      let spool = try SpoolFileFake([UInt8](repeating: 1, count: 8192))
      let file = try #require(MappedFile(spool))
      #expect(uploadfs_contain_sigbus() == 0)
      truncate(spool.path, 0)
      _ = file.firstByte
    }
  }

  /// Only what is read may be gone: writing to where nothing is remains a mistake of this program.
  @Test func aFaultInTheTargetOfACopy_stillEndsTheProcess() async {
    await #expect(processExitsWith: .signal(SIGBUS)) {
      let spool = try SpoolFileFake([UInt8](repeating: 1, count: 8192))
      let descriptor = open(spool.path, O_RDWR | O_CLOEXEC)
      let target = try #require(mmap(nil, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))
      #expect(uploadfs_contain_sigbus() == 0)
      truncate(spool.path, 0)
      _ = [UInt8](repeating: 1, count: 8192).withUnsafeBytes { source in
        source.baseAddress.map { uploadfs_copy_mapped(target, $0, source.count) }
      }
    }
  }

  @Test func aFileThatIsReplacedUnderItsName_isAChange() throws {
    let path = spool.path
    let bytes = spool.bytes
    var reader = ChunkReader(contents: spool, io: engine(.plain), counters: counters)
    #expect(reader.read(job(0, 1000)).chunk != nil)
    spool.afterIdentity(1) {
      rename(path, path + ".old")
      let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
      _ = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      close(descriptor)
    }
    // The open file is read to its end; its name leads to another one from now on.
    _ = reader.read(job(1000, 1000))
    #expect(reader.read(job(2000, 1000)).isChanged)
    unlink(path + ".old")
  }

  @Test func aTouchWhileReading_costsAnotherPassAndNothingElse() throws {
    let path = spool.path
    spool.afterIdentity(1) { utimes(path, nil) }
    var reader = ChunkReader(contents: spool, io: engine(.plain), counters: counters)
    #expect(reader.read(job(0, 1 << 20)).chunk?.digest == digest(0..<(1 << 20)))
    #expect(counters.snapshot.bytesFromReads == 2 << 20)
  }

  @Test func whoHoldsTheFileExclusively_keepsItFromBeingRead() throws {
    let descriptor = open(spool.path, O_RDWR | O_CLOEXEC)
    defer { close(descriptor) }
    #expect(flock(descriptor, LOCK_EX) == 0)
    var reader = ChunkReader(contents: spool, io: engine(.plain), counters: counters)
    guard case .failed(.locked) = reader.read(job(0, 1000)) else {
      Issue.record("it was read")
      return
    }
    #expect(spool.isOpen == 0)
    flock(descriptor, LOCK_UN)
    #expect(reader.read(job(0, 1000)).chunk != nil)
    #expect(flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK, "reading holds a shared lock")
  }

  @Test func afterItsLastChunk_aFileIsClosed() throws {
    let io = engine(.mapped)
    var reader = ChunkReader(contents: spool, io: io, counters: counters)
    _ = reader.read(job(0, 1 << 20))
    #expect(spool.isOpen == 1 && io.openCount == 1)
    _ = reader.read(job(2 << 20, 1 << 20))
    #expect(spool.isOpen == 0 && io.openCount == 0)
  }

  @Test(.enabled(if: SpoolFileFake.canLeaveThePageCache, "/tmp lies in memory, where the pages are the file"))
  func whatIsAcknowledged_leavesThePageCache() throws {
    let io = engine(.mapped)
    var reader = ChunkReader(contents: spool, io: io, counters: counters)
    _ = reader.read(job(0, 1 << 20))
    let file = try #require(MappedFile(spool))
    #expect(file.residentPages(0..<Self.size) == Self.size / 4096)
    // Two chunks whose border lies where the kernel keeps pages together, some seconds apart.
    for chunk in [0..<(3 << 19), (3 << 19)..<UInt64(Self.size)] {
      io.acknowledged(CacheTrace(file: SpoolFileFake.id, range: chunk))
      io.sweep()
      io.sweep()
    }
    #expect(file.residentPages(0..<Self.size) == 0)
  }

  /// Regression: with several destinations nothing was dropped.
  @Test(.enabled(if: SpoolFileFake.canLeaveThePageCache, "/tmp lies in memory, where the pages are the file"))
  func whatIsReadByOtherDestinationsAsWell_leavesThePageCacheLater() throws {
    let io = HybridIOEngine(contents: spool, method: .plain, counters: counters, isAlone: false)
    var reader = ChunkReader(contents: spool, io: io, counters: counters)
    _ = reader.read(job(0, 1 << 20))
    let file = try #require(MappedFile(spool))
    io.acknowledged(CacheTrace(file: SpoolFileFake.id, range: 0..<UInt64(Self.size)))
    for _ in 1..<PageCacheRelease.sharedSeconds { io.sweep() }
    #expect(file.residentPages(0..<Self.size) == Self.size / 4096)
    io.sweep()
    #expect(file.residentPages(0..<Self.size) == 0)
  }

  /// Regression: what was acknowledged of a recording before it was large stayed.
  @Test(
    .enabled(if: SpoolFileFake.canLeaveThePageCache, "/tmp lies in memory, where the pages are the file"),
    arguments: [false, true])
  func whatWasAcknowledgedOfARecording_leavesThePageCacheOnceItIsLarge(becomesLarge: Bool) throws {
    let io = engine(.plain)
    var reader = ChunkReader(contents: spool, io: io, counters: counters)
    _ = reader.read(job(0, 1 << 20))
    let file = try #require(MappedFile(spool))
    let middle = UInt64(2 << 20)
    io.acknowledged(CacheTrace(file: SpoolFileFake.id, range: 0..<middle, isOfLargeFile: false))
    if becomesLarge {
      io.acknowledged(CacheTrace(file: SpoolFileFake.id, range: middle..<UInt64(Self.size)))
    }
    io.sweep()
    io.sweep()
    #expect(file.residentPages(0..<Self.size) == (becomesLarge ? 0 : Self.size / 4096))
  }

  /// Regression: on a disk that had more to do than to write back within two seconds, what was dirty until then stayed.
  @Test(.enabled(if: SpoolFileFake.canLeaveThePageCache, "/tmp lies in memory, where the pages are the file"))
  func whatIsWrittenBackLate_leavesThePageCacheThen() throws {
    let io = engine(.plain)
    var reader = ChunkReader(contents: spool, io: io, counters: counters)
    _ = reader.read(job(0, 1 << 20))
    let file = try #require(MappedFile(spool))
    spool.set { $0.keepsPages = true }
    io.acknowledged(CacheTrace(file: SpoolFileFake.id, range: 0..<UInt64(Self.size)))
    for _ in 0..<5 { io.sweep() }
    #expect(file.residentPages(0..<Self.size) == Self.size / 4096)
    spool.set { $0.keepsPages = false }
    io.sweep()
    #expect(file.residentPages(0..<Self.size) == 0)
  }

  /// Regression: the pages of a file of which the disk had refused some were dropped once a server had its chunk.
  @Test(
    .promises("S41d"),
    .enabled(if: SpoolFileFake.canLeaveThePageCache, "/tmp lies in memory, where the pages are the file"))
  func whatItsDiskHasRefused_staysInThePageCache() throws {
    let io = engine(.mapped)
    var reader = ChunkReader(contents: spool, io: io, counters: counters)
    _ = reader.read(job(0, 1 << 20))
    let file = try #require(MappedFile(spool))
    spool.set { $0.keepsPages = true }
    io.acknowledged(CacheTrace(file: SpoolFileFake.id, range: 0..<UInt64(Self.size)))
    io.sweep()
    io.sweep()
    #expect(file.residentPages(0..<Self.size) == Self.size / 4096)
  }
}

extension ReadResult {
  fileprivate var chunk: ReadChunk? {
    if case .success(let chunk) = self { return chunk }
    return nil
  }
  fileprivate var isChanged: Bool { if case .changed = self { true } else { false } }
}

extension SpoolFileFake {
  /// Whether the disk on which such files lie lets go of their pages.
  fileprivate static let canLeaveThePageCache: Bool = {
    guard let spool = try? SpoolFileFake([UInt8](repeating: 1, count: 1 << 20)) else { return false }
    let descriptor = open(spool.path, O_RDONLY | O_CLOEXEC)
    defer { close(descriptor) }
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
    return MappedFile(spool)?.residentPages(0..<(1 << 20)) == 0
  }()
}

/// A mapping that is touched by hand.
///
/// - Note: `@unchecked Sendable` is sound because address and size never change and the pages are only read.
private final class MappedFile: @unchecked Sendable {
  private let start: UnsafeMutableRawPointer
  private let byteCount: Int

  init?(_ spool: SpoolFileFake) {
    let descriptor = open(spool.path, O_RDONLY | O_CLOEXEC)
    defer { close(descriptor) }
    byteCount = spool.bytes.count
    guard let start = mmap(nil, byteCount, PROT_READ, MAP_SHARED, descriptor, 0), start != MAP_FAILED else {
      return nil
    }
    self.start = start
  }

  deinit { munmap(start, byteCount) }

  func copy(at offset: Int, into target: inout [UInt8]) -> Int32 {
    target.withUnsafeMutableBytes { bytes in
      bytes.baseAddress.map { uploadfs_copy_mapped($0, start + offset, bytes.count) } ?? -1
    }
  }

  var firstByte: UInt8 { start.load(as: UInt8.self) }

  func residentPages(_ range: Range<Int>) -> Int { uploadfs_resident_pages(start + range.lowerBound, range.count) }
}

import FileModel
import Glibc
import Promises
import Testing

@testable import UploadEngine

@Suite struct HoleFinderTests {
  private let mebibyte = 1 << 20
  private let spool: SpoolFileFake
  private let counters = PipelineCounters()

  init() throws { spool = try SpoolFileFake([]) }

  /// A file of so many megabytes with one byte in some of them.
  private func write(_ megabytes: Int, dataIn written: [Int]) {
    let number = open(spool.path, O_WRONLY | O_TRUNC)
    defer { close(number) }
    #expect(ftruncate(number, off_t(megabytes * mebibyte)) == 0)
    for index in written { #expect(pwrite(number, [7], 1, off_t(index * mebibyte + 77)) == 1) }
  }

  private func find(_ change: (inout HoleOrder) -> Void = { _ in }) -> [Range<Int>] {
    var order = HoleOrder(
      file: SpoolFileFake.id, epoch: 1, sizeBytes: spool.snapshot(of: SpoolFileFake.id)?.sizeBytes ?? 0,
      chunkBytes: mebibyte)
    change(&order)
    let io = HybridIOEngine(contents: spool, method: .plain, counters: counters)
    return HoleFinder(contents: spool, io: io).chunks(of: order)
  }

  @Test func wholeChunksInHoles_areFound_andNoOthers() {
    write(1_000_000, dataIn: [0, 5, 6, 999_000])
    #expect(find() == [1..<5, 7..<999_000, 999_001..<1_000_000])
    // The last one is shorter than a chunk.
    #expect(find { $0.chunkBytes = 3 << 20 }.last?.upperBound == 333_333)
    write(3, dataIn: [])
    #expect(find() == [0..<3])
    write(3, dataIn: [0, 1, 2])
    #expect(find().isEmpty)
  }

  @Test func space_thatIsReservedAndNotWritten_isZeros() {
    write(8, dataIn: [3])
    let number = open(spool.path, O_RDWR)
    defer { close(number) }
    guard posix_fallocate(number, 0, off_t(8 * mebibyte)) == 0 else { return }
    #expect(find().joined().allSatisfy { $0 != 3 })
  }

  @Test(.promises("S62d")) func releasedPart_isNoHole() {
    write(10, dataIn: [0])
    let chunk = UInt64(mebibyte)
    spool.set { $0.released = 4 * chunk..<5 * chunk }
    // The whole stretch is read, and reading finds the part that is missing.
    #expect(find().isEmpty)
    spool.set { $0.released = nil }
    #expect(find() == [1..<10])
  }

  @Test(.promises("S62d")) func fileOfWhichPartsAreKnownToBeMissing_hasNoHoles() {
    write(10, dataIn: [0])
    for change in [
      { $0.isPartlyReleased = true }, { $0.missing = MissingBytes([0..<5]) }, { $0.interruption = .notOnDisk },
      { $0.interruption = .spoolFailing(errno: EIO) }, { $0.mutationsInFlight = 1 }, { $0.epoch = 2 },
    ] as [@Sendable (inout FileSnapshot) -> Void] {
      spool.set { $0.changeSnapshot = change }
      #expect(find { $0.epoch = 1 }.isEmpty)
    }
  }

  @Test func fileThatChangesMeanwhile_hasNoHoles() {
    write(10, dataIn: [0])
    spool.afterIdentity(1) { [spool] in spool.set { $0.epoch = 2 } }
    #expect(find().isEmpty)
    spool.set { $0.epoch = 1 }
    // Past the filesystem.
    let path = spool.path
    spool.afterIdentity(1) {
      let number = open(path, O_WRONLY)
      pwrite(number, [1], 1, 100 << 20)
      close(number)
    }
    #expect(find().isEmpty)
    #expect(find { $0.sizeBytes += 1 }.isEmpty)
  }

  @Test func fileThatAnotherProgramHasLocked_hasNoHoles() {
    write(10, dataIn: [0])
    let number = open(spool.path, O_RDONLY)
    #expect(flock(number, LOCK_EX) == 0)
    #expect(find().isEmpty)
    close(number)
    #expect(find() == [1..<10])
  }
}

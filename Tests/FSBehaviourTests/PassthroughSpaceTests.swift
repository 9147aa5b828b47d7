import FileModel
import FilesystemCalls
import FilesystemFixtures
import Glibc
import Promises
import Testing
import UploadFS

/// How much a writer that passes the daemon may write.
@Suite struct PassthroughSpaceTests {
  /// Blocks of 4 GiB.
  private static let enough = 1 << 20
  private static let reserve = 10

  /// A disk on which so many blocks are free above the reserve.
  private static func options(spareBlocks: Int) throws -> MountOptions {
    try PassthroughTests.options(disk: SimulatedDisk(blocks: spareBlocks + reserve)) {
      $0.reserveBytes = UInt64(reserve * SimulatedDisk.blockBytes)
    }
  }

  @Test(.promises("S50d", needs: .passthrough), arguments: [true, false])
  func writersPassAsLongAsThereIsRoom(isRoom: Bool) async throws {
    try await mounted(Self.options(spareBlocks: isRoom ? Self.enough : Self.enough - 1)) { side in
      try PassthroughTests.prepare(side)
      try side(.open("f.raw", [.writeOnly, .create], as: "file"))
      try side.whileTheDaemonStandsStill { () throws in
        if isRoom {
          #expect(try side(.write("file", "passes")) == .number(6))
        } else {
          _ = try side.first.beginAndWait(.write("file", "waits"))
        }
      }
      try side(.close("file"))
    }
  }

  @Test(.promises("S50f", needs: .passthrough)) func roomIsMadeForAWriter_whichCanWriteIntoTheReserve() async throws {
    try await mounted(Self.options(spareBlocks: Self.enough + 100)) { side in
      let sink = side.mount.sink
      try side(.put("delivered", .repeated(1, count: 50 * SimulatedDisk.blockBytes)))
      let delivered = try #require(sink.settled("work/delivered"))
      sink.offer([EvictionCandidate(delivered)])
      try side(.open("f.raw", [.writeOnly, .create], as: "file"))
      try side(.ftruncate("file", Int64(60 * SimulatedDisk.blockBytes)))
      #expect(sink.waits { $0.contains(.event(.evicted(delivered.id))) })
      // Into the reserve, where nothing is left for others.
      #expect(try side(.pwrite("file", "x", at: Int64((Self.enough + 105) * SimulatedDisk.blockBytes))) == .number(1))
      guard case .space(let space) = try side(.statvfs(".")) else {
        Issue.record("no statvfs")
        return
      }
      #expect(space.available == 0)
      #expect(try side(.pwrite("file", "y", at: 0)) == .number(1))
      try side(.ftruncate("file", 0))
      try side(.close("file"))
    }
  }

  @Test(.promises("S41o", "S50f", needs: .passthrough))
  func aFileThatEndsAtItsWritersOwnLimit_isInterrupted() async throws {
    try await mounted(PassthroughTests.options()) { side in
      let limited = try side.another("limited")
      // RLIMIT_FSIZE.
      try limited(.setrlimit(1, 1000))
      try limited(.open("f.raw", [.writeOnly, .create], as: "file"))
      #expect(try limited(.write("file", .repeated(1, count: 2000))) == .number(1000))
      #expect(try limited(.write("file", "x")) == .failed(.tooLarge))
      try limited(.close("file"))
      let settled = try #require(side.mount.sink.settled("work/f.raw"))
      #expect(settled.interruption == .writeFailed(errno: EFBIG) && settled.sizeBytes == 1000)
    }
  }

  @Test(.promises("S50g", needs: .passthrough)) func aFileThatHasBecomeTooLarge_isInterrupted() async throws {
    try await mounted(PassthroughTests.options { $0.fileBytesMax = 1_000_000 }) { side in
      try side(.open("f.raw", [.writeOnly, .create], as: "file"))
      #expect(try side(.write("file", .repeated(1, count: 2_000_000))) == .number(2_000_000))
      try side(.close("file"))
      let settled = try #require(side.mount.sink.settled("work/f.raw"))
      #expect(settled.interruption == .writeRefused(limitBytes: 1_000_000) && settled.sizeBytes == 2_000_000)
    }
  }
}

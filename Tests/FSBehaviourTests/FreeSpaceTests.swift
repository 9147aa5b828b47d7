import FilesystemFixtures
import FileModel
import FilesystemCalls
import Glibc
import Synchronization
import Promises
import Testing
import UploadFS

/// What statvfs(3) says, what becomes of a writer where space is short, and how large a file may be.
@Suite struct FreeSpaceTests {
  /// 90 blocks can be written.
  private static let small = MountOptions(disk: SimulatedDisk(blocks: 100)) { $0.reserveBytes = 10 * 4096 }

  private static func blocks(_ count: Int) -> Payload { .repeated(7, count: count * SimulatedDisk.blockBytes) }

  /// Writes files that the sink then calls delivered, in this order.
  private static func deliver(_ names: [String], blocks count: Int, _ side: Side, afterRequests: Int = 0) throws {
    let candidates = try names.map { name in
      try side(.put(Path(name), blocks(count)))
      let snapshot = try #require(side.mount.sink.settled("work/" + name))
      return EvictionCandidate(snapshot)
    }
    side.mount.sink.offer(candidates, afterRequests: afterRequests)
  }

  @Test(.promises("S27")) func freeSpaceIsThatOfTheSpoolLessTheReserve() async throws {
    try await mounted { side in
      let other = try Actor(in: side.mount.plain)
      defer { other.leave() }
      let call = Call.statvfs(".")
      guard case .space(let space) = try side(call),
        case .space(let plain) = try other.answer(other.begin(call, onThread: false), of: call)
      else {
        Issue.record("no statvfs")
        return
      }
      #expect(space.blocks == plain.blocks && space.blockSize == plain.blockSize && space.free > 0)
      #expect(space.nameMax == 255)
    }
    // What is kept free begins a block.
    try await mounted(
      MountOptions(disk: SimulatedDisk(blocks: 1000, rootBlocks: 50)) { $0.reserveBytes = 10 * 4096 + 1 }
    ) { side in
      try side(.put("f", .repeated(1, count: 100 * 4096)))
      guard case .space(let space) = try side(.statvfs(".")) else {
        Issue.record("no statvfs")
        return
      }
      #expect(space.blockSize == 4096 && space.blocks == 1000)
      #expect(space.free == 900 - 11 && space.available == 900 - 50 - 11)
      #expect(space.nameMax == 255)
    }
    // Nor is anything less than nothing, when more is kept free than a disk has.
    try await mounted(MountOptions { $0.reserveBytes = 1 << 60 }) { side in
      guard case .space(let space) = try side(.statvfs(".")) else {
        Issue.record("no statvfs")
        return
      }
      #expect(space.available == 0 && space.free == 0)
      #expect(try side(.put("f", "x")) == .failed(.noSpace))
    }
  }

  @Test(.promises("S29a"), arguments: [100_000_000_000, 1_000_000])
  func filesBeyondTheLargestSizeAreRefusedAtOnce(largest: Int64) async throws {
    try await mounted(MountOptions { $0.fileBytesMax = UInt64(largest) }) { side in
      try side(.put("f", "x"))
      try side(.open("f", .readWrite, as: "file"))
      for call in [
        Call.truncate("f", largest + 1), .ftruncate("file", largest + 1), .pwrite("file", "x", at: largest),
        .fallocate("file", at: largest, count: 1), .fallocate("file", .keepSize, at: largest, count: 1),
        .fallocate("file", .zero, at: largest, count: 1),
      ] { #expect(try side(call) == .failed(.tooLarge), "\(call)") }
      #expect(try side(.get("f")) == .content("x"))
      #expect(try side(.ftruncate("file", largest)) == .done)
      #expect(try side(.pwrite("file", "x", at: largest - 1)) == .number(1))
      try side(.ftruncate("file", 1))
      try side(.close("file"))
    }
  }

  @Test(.promises("S28b", "S28d")) func whatStillFitsIsWritten() async throws {
    try await mounted(Self.small) { side in
      try side(.open("f", [.create, .readWrite], as: "file"))
      #expect(try side(.write("file", Self.blocks(95))) == .number(90 * 4096))
      #expect(try side(.write("file", "x")) == .failed(.noSpace))
      #expect(try side(.fallocate("file", at: 0, count: 200 * 4096)) == .failed(.noSpace))
      // Space that the file has.
      #expect(try side(.pwrite("file", Self.blocks(50), at: 4096)) == .number(50 * 4096))
      #expect(try side(.pwrite("file", Self.blocks(90), at: 0)) == .number(90 * 4096))
      #expect(try side(.fstat("file")).status?.size == 90 * 4096)
      try side(.close("file"))
    }
  }

  @Test(.promises("S28a")) func deliveredFilesMakeRoom() async throws {
    try await mounted(Self.small) { side in
      try Self.deliver(["b", "a", "c"], blocks: 25, side)
      #expect(try side(.put("d", Self.blocks(40))) == .done)
      #expect(try side(.list(".")) == .names(["a", "c", "d"]))
      #expect(try side(.tryOpen("e", [.create, .writeOnly])) == .done)
      try side(.open("e", .readWrite, as: "file"))
      #expect(try side(.fallocate("file", at: 0, count: 20 * 4096)) == .done)
      try side(.close("file"))
      #expect(try side(.list(".")) == .names(["c", "d", "e"]))
      #expect(try side(.get("c")) == .content(Content(Self.blocks(25))))
    }
  }

  @Test(.promises("S28a", "S1")) func aFileThatMadeRoomIsGoneForPrograms() async throws {
    try await mounted(Self.small) { side in
      try Self.deliver(["a", "b"], blocks: 40, side)
      // The kernel knows it.
      for name: Path in ["a", "b"] { #expect(try side(.stat(name)).status?.size == 40 * 4096) }
      #expect(try side(.put("c", Self.blocks(40))) == .done)
      // It is told after the call that needed the room.
      let deadline = ContinuousClock.now + .seconds(20)
      while try side(.stat("a")) != .failed(.notFound), ContinuousClock.now < deadline { sched_yield() }
      #expect(try side(.stat("a")) == .failed(.notFound))
      #expect(try side(.stat("b")).status?.size == 40 * 4096)
    }
  }

  @Test(.promises("S28a")) func filesThatAreOpenOrHaveChangedSinceStay() async throws {
    try await mounted(Self.small) { side in
      try Self.deliver(["reading", "writing", "changed"], blocks: 25, side)
      try side(.open("reading", .readOnly, as: "reader"))
      try side(.open("writing", .writeOnly, as: "writer"))
      try side(.open("changed", .writeOnly, as: "changer"))
      try side(.pwrite("changer", "x", at: 0))
      try side(.close("changer"))
      try side(.open("d", [.create, .writeOnly], as: "file"))
      #expect(try side(.write("file", Self.blocks(40))) == .number(15 * 4096))
      #expect(try side(.write("file", "x")) == .failed(.noSpace))
      #expect(try side(.list(".")) == .names(["changed", "d", "reading", "writing"]))
      #expect(try side(.pread("reader", 25 * 4096)) == .content(Content(Self.blocks(25))))
      for slot: Slot in ["reader", "writer", "file"] { try side(.close(slot)) }
    }
  }

  /// Regression: no more than 64 files went for a write, however small they were, and the first 64 that could not go kept all others from it.
  @Test(.promises("S28a"), arguments: [0, 66]) func asManyGoAsAreNeeded(changedCount: Int) async throws {
    let disk = SimulatedDisk(blocks: 200)
    try await mounted(MountOptions(disk: disk) { $0.reserveBytes = 50 * 4096 }) { side in
      try Self.deliver((1...100).map { "\($0)" }, blocks: 1, side)
      for number in 0..<changedCount { try side(.put(Path("\(number + 1)"), Self.blocks(1))) }
      // The spool is far below its reserve.
      disk.takenByOthers.blocks.store(changedCount == 0 ? 120 : 60, ordering: .relaxed)
      try side(.open("new", [.create, .writeOnly], as: "file"))
      // What cannot be had at all removes nothing, and has the disk asked anew.
      #expect(try side(.fallocate("file", at: 0, count: 1000 * 4096)) == .failed(.noSpace))
      #expect(try side(.get("100")) == .content(Content(Self.blocks(1))))
      #expect(try side(.write("file", Self.blocks(1))) == .number(4096))
      try side(.close("file"))
      #expect(try side(.list(".")).names.count < 101)
    }
  }

  @Test(.promises("S28c")) func aWriterPausesWhileADeliveryMayFreeSpace() async throws {
    try await mounted(Self.small) { side in
      try Self.deliver(["a"], blocks: 60, side, afterRequests: 3)
      try side(.put("d", Self.blocks(30)))
      try side(.open("d", [.writeOnly, .append], as: "file"))
      // No delivery is under way, and so there is none to wait for.
      #expect(try side(.write("file", Self.blocks(1))) == .failed(.noSpace))
      let asked = side.mount.sink.candidatesAskedFor
      #expect(asked == 1)
      side.mount.sink.isDelivering.store(true, ordering: .relaxed)
      #expect(try side(.write("file", Self.blocks(1))) == .number(4096))
      #expect(side.mount.sink.candidatesAskedFor == 4)
      #expect(try side(.list(".")) == .names(["d"]))
      // However long that takes, only 20 times.
      #expect(try side(.write("file", Self.blocks(59))) == .number(59 * 4096))
      side.mount.sink.offer([])
      #expect(try side(.write("file", Self.blocks(1))) == .failed(.noSpace))
      #expect(side.mount.sink.candidatesAskedFor == 21)
      try side(.close("file"))
    }
  }
}

import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// The reserve, eviction and the largest file.
struct SpaceTests {
  private static let block = CaptureDisk.blockBytes

  private func mounted(blocks: UInt64, reserveBlocks: UInt64 = 10) throws -> Mounted {
    let folder = try TemporaryFolder()
    return try Mounted(folder: folder, source: CaptureDisk(blocks: blocks).source(folder)) {
      $0.reserveBytes = reserveBlocks * Self.block
    }
  }

  private func blocks(_ count: Int) -> [UInt8] { [UInt8](repeating: 7, count: count * Int(Self.block)) }

  private func candidate(_ mounted: Mounted, _ name: String) throws -> EvictionCandidate {
    let file = try #require(mounted.filesystem.file(of: mounted.node(name)))
    let snapshot = try #require(mounted.filesystem.snapshot(of: file.id))
    return EvictionCandidate(snapshot)
  }

  @Test(.promises("S28b", "S28d")) func whatStillFitsIsWrittenAndThenThereIsNoSpace() throws {
    let mounted = try mounted(blocks: 100)
    let handle = try mounted.create("a")
    #expect(try mounted.write(handle, blocks(95)) == 90 * 4096)
    #expect(failure { try mounted.write(handle, at: 90 * 4096, [1]) } == ENOSPC)
    #expect(try mounted.filesystem.statistics().available_blocks == 0)
    #expect(try mounted.write(handle, at: 4096, blocks(50)) == 50 * 4096, "overwriting takes no space")
    #expect(failure { try mounted.filesystem.allocate(handle, mode: 0, offset: 0, length: 200 * 4096) } == ENOSPC)
    // Regression: a write that goes on behind it was refused whole.
    #expect(try mounted.write(handle, at: 89 * 4096, blocks(3)) == 4096)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.sizeBytes == UInt64(90 * 4096))
    #expect(mounted.sink.problems == [])
  }

  /// What a file has before the disk is full, and what is written then.
  enum Reserved: CaseIterable {
    case behindTheEnd, toBeAppendedTo, inAHole, betweenHoles
  }

  @Test(
    "Regression: space that a file had was refused on a full spool", .promises("S28d"),
    arguments: Reserved.allCases)
  func spaceThatAFileHas_isWrittenOnAFullSpool(reserved: Reserved) throws {
    let mounted = try mounted(blocks: 100, reserveBlocks: 0)
    let handle = try mounted.create("a")
    func resize(to size: Int64) throws {
      var changes = AttributeChanges()
      changes.size = size
      _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: handle)
    }
    let keepsSize = uploadfs_falloc_keep_size
    let start: Int64
    switch reserved {
    case .behindTheEnd:
      start = 0
      try mounted.filesystem.allocate(handle, mode: keepsSize, offset: 0, length: 20 * 4096)
    case .toBeAppendedTo:
      start = 5
      #expect(try mounted.write(handle, [1, 2, 3, 4, 5]) == 5)
      try mounted.filesystem.allocate(handle, mode: keepsSize, offset: 0, length: 20 * 4096)
    case .inAHole:
      start = 0
      try resize(to: 60 * 4096)
      try mounted.filesystem.allocate(handle, mode: 0, offset: 0, length: 20 * 4096)
    case .betweenHoles:
      start = 30 * 4096
      try resize(to: 60 * 4096)
      #expect(try mounted.write(handle, at: start, blocks(20)) == 20 * 4096)
    }
    let filler = try mounted.create("fill")
    let filled = try mounted.write(filler, blocks(100))
    #expect(failure { try mounted.write(filler, at: Int64(filled), [1]) } == ENOSPC)
    // What follows is a hole, or nothing.
    let behind = start / 4096 * 4096 + 20 * 4096
    #expect(failure { try mounted.write(handle, at: behind, [1]) } == ENOSPC)
    #expect(try mounted.write(handle, at: start, blocks(10)) == 10 * 4096)
    #expect(try mounted.write(handle, at: behind - 4096, blocks(1)) == 4096)
    // Regression: a write that goes on behind it was refused whole.
    #expect(try mounted.write(handle, at: behind - 4096, blocks(3)) == 4096)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S28a")) func deliveredFilesMakeRoomInTheOrderThatTheSinkGives() throws {
    let mounted = try mounted(blocks: 100)
    for name in ["a", "b", "c"] { try mounted.make(name, blocks(25)) }
    let ids = try ["b", "a", "c"].map { try candidate(mounted, $0) }
    mounted.sink.offer(ids)
    _ = mounted.sink.takeNames()
    let handle = try mounted.create("d")
    #expect(try mounted.write(handle, blocks(40)) == 40 * 4096)
    mounted.filesystem.release(handle)
    #expect(try mounted.listing("").filter { !$0.contains("s") } == ["a", "c", "d"])
    #expect(mounted.sink.takeNames() == ["opened", "evicted", "settled"])
    #expect(mounted.filesystem.snapshot(of: ids[0].id) == nil)
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S28a")) func filesThatAreOpenOrHaveChangedSinceStay() throws {
    let mounted = try mounted(blocks: 100)
    for name in ["reading", "writing", "changed"] { try mounted.make(name, blocks(25)) }
    let candidates = try ["reading", "writing", "changed"].map { try candidate(mounted, $0) }
    mounted.sink.offer(candidates)
    let reader = try mounted.open("reading", flags: O_RDONLY)
    let writer = try mounted.open("writing", flags: O_WRONLY)
    mounted.filesystem.release(try mounted.open("changed", flags: O_WRONLY | O_TRUNC))
    let handle = try mounted.create("d")
    #expect(try mounted.write(handle, blocks(80)) == 40 * 4096)
    #expect(failure { try mounted.write(handle, at: 40 * 4096, blocks(1)) } == ENOSPC)
    mounted.filesystem.release(reader)
    #expect(try mounted.write(handle, at: 40 * 4096, blocks(1)) == 4096)
    mounted.filesystem.release(writer)
    mounted.filesystem.release(handle)
    #expect(try mounted.listing("").contains("reading") == false)
    #expect(try mounted.listing("").contains("changed"))
    #expect(mounted.sink.problems == [])
  }

  @Test("Regression: a writer got ENOSPC although a file had just been removed for it", .promises("S28a", "S28c"))
  func whatTheDaemonHasOpenOfARemovedFile_isWaitedFor() throws {
    let folder = try TemporaryFolder()
    let reader = Mutex<(any ReadableFile)?>(nil)
    let mounted = try Mounted(
      folder: folder,
      source: { () throws(SystemError) in
        var numbers = try CaptureDisk(blocks: 100).source(folder)()
        // The test's disk counts names; an open file takes its 45 blocks without one.
        let isNamed = access(folder.path + "/spool/captures/a", F_OK) == 0
        if !isNamed, reader.withLock({ $0 != nil }) { numbers.available_blocks -= min(45, numbers.available_blocks) }
        return numbers
      },
      { $0.reserveBytes = 10 * Self.block },
      pause: { _ in reader.withLock { $0 = nil } })
    for name in ["a", "b"] { try mounted.make(name, blocks(45)) }
    let candidates = try ["a", "b"].map { try candidate(mounted, $0) }
    mounted.sink.offer(candidates)
    func read() throws {
      let opened = try mounted.filesystem.openForReading(candidates[0].id)
      reader.withLock { $0 = opened }
    }
    try read()
    let handle = try mounted.create("d")
    #expect(try mounted.write(handle, blocks(40)) == 40 * 4096)
    mounted.filesystem.release(handle)
    #expect(try mounted.listing("").contains("b"), "and nothing more than is needed is removed")
    #expect(mounted.sink.problems == [])
  }

  @Test(
    "Regression: below the reserve each pause of a writer brought back one of many removed files that the daemon had open",
    .promises("S28a", "S28c"))
  func belowTheReserve_whatIsLackingIsWaitedForAtOnce() throws {
    let folder = try TemporaryFolder()
    let readers = Mutex<[String: any ReadableFile]>([:])
    let takenByOthers = Atomic<UInt64>(0)
    let pauseCount = Atomic<Int>(0)
    let mounted = try Mounted(
      folder: folder,
      source: { () throws(SystemError) in
        var numbers = try CaptureDisk(blocks: 200).source(folder)()
        let captures = folder.path + "/spool/captures/"
        let nameless = readers.withLock { $0.keys.filter { access(captures + $0, F_OK) != 0 }.count }
        let taken = takenByOthers.load(ordering: .relaxed) + UInt64(nameless)
        numbers.available_blocks -= min(taken, numbers.available_blocks)
        return numbers
      },
      { $0.reserveBytes = 50 * Self.block },
      pause: { _ in
        pauseCount.add(1, ordering: .relaxed)
        readers.withLock { $0 = [:] }
      })
    let names = (1...100).map { "\($0)" }
    for name in names { try mounted.make(name, blocks(1)) }
    let candidates = try names.map { try candidate(mounted, $0) }
    mounted.sink.offer(candidates)
    for (name, candidate) in zip(names, candidates) {
      let opened = try mounted.filesystem.openForReading(candidate.id)
      readers.withLock { $0[name] = opened }
    }
    // 40 blocks are free: 10 lack to the reserve, and the write takes one.
    takenByOthers.store(60, ordering: .relaxed)
    #expect(mounted.filesystem.space.headroom(refreshing: true) == Headroom(lackingBytes: 10 * Self.block))
    let handle = try mounted.create("d")
    #expect(try mounted.write(handle, blocks(1)) == 4096)
    #expect(pauseCount.load(ordering: .relaxed) == 1)
    let left = try mounted.listing("").filter { names.contains($0) }
    #expect(left.count == 89, "and nothing more than is needed is removed")
    mounted.filesystem.release(handle)
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S28c")) func roomThatComesBackInAMomentIsRoom() {
    let room = NeededRoom(bytes: 100)
    func isOnItsWay(_ spareBytes: UInt64, lacking lackingBytes: UInt64 = 0, held heldBytes: UInt64) -> Bool {
      room.isOnItsWay(Headroom(spareBytes: spareBytes, lackingBytes: lackingBytes), heldBytes: heldBytes)
    }
    #expect(isOnItsWay(100, held: 0) && isOnItsWay(40, held: 60))
    #expect(!isOnItsWay(40, held: 59) && isOnItsWay(0, held: .max))
    #expect(isOnItsWay(0, lacking: 30, held: 130) && !isOnItsWay(0, lacking: 30, held: 129))
    #expect(!isOnItsWay(0, lacking: .max, held: .max - 1))
    #expect(
      NeededRoom.mayCome(isDelivering: true, heldBytes: 0) && NeededRoom.mayCome(isDelivering: false, heldBytes: 1))
    #expect(!NeededRoom.mayCome(isDelivering: false, heldBytes: 0))
  }

  @Test(.promises("S3a")) func replacedFilesThatTheKernelStillKnowsGoBeforeADeliveredOne() throws {
    let folder = try TemporaryFolder()
    let filesystem = Mutex<Filesystem?>(nil)
    let replaced = Mutex<NodeID?>(nil)
    let mounted = try Mounted(
      folder: folder,
      source: { () throws(SystemError) in
        var numbers = try CaptureDisk(blocks: 100).source(folder)()
        // The test's disk counts names; a pinned file takes its 40 blocks without one.
        let isPinned = replaced.withLock { $0 }.map { node in
          filesystem.withLock { $0 }?.nodes.withLock { $0.table[node]?.pin != nil } ?? false
        }
        if isPinned ?? false { numbers.available_blocks -= min(40, numbers.available_blocks) }
        return numbers
      })
    filesystem.withLock { $0 = mounted.filesystem }
    defer { filesystem.withLock { $0 = nil } }
    for name in ["a", "b"] { try mounted.make(name, blocks(40)) }
    try mounted.make("delivered", blocks(1))
    mounted.sink.offer([try candidate(mounted, "delivered")])
    let node = try mounted.node("a")
    try mounted.rename("b", "a")
    replaced.withLock { $0 = node }
    let handle = try mounted.create("d")
    #expect(try mounted.write(handle, blocks(50)) == 50 * 4096)
    mounted.filesystem.release(handle)
    #expect(failure { _ = try mounted.filesystem.open(node, flags: O_RDONLY) } == ESTALE)
    #expect(try mounted.listing("").contains("delivered"))
    #expect(mounted.sink.problems == [])
  }

  @Test func nothingIsRemovedForAnAllocationThatCannotBeHadAnyway() throws {
    let mounted = try mounted(blocks: 100)
    try mounted.make("a", blocks(40))
    mounted.sink.offer([try candidate(mounted, "a")])
    let handle = try mounted.create("d")
    #expect(failure { try mounted.filesystem.allocate(handle, mode: 0, offset: 0, length: 91 * 4096) } == ENOSPC)
    #expect(try mounted.listing("").contains("a"))
    try mounted.filesystem.allocate(handle, mode: 0, offset: 0, length: 80 * 4096)
    #expect(try mounted.listing("").contains("a") == false)
    mounted.filesystem.release(handle)
  }

  @Test func anEvictedFileLeavesANoticeForTheKernelAndANameThatIsFree() throws {
    let mounted = try mounted(blocks: 1000)
    try mounted.make("a")
    let evicted = try candidate(mounted, "a")
    let node = try mounted.node("a")
    var later = evicted
    later.epoch += 1
    #expect(!mounted.filesystem.evict(later))
    #expect(mounted.filesystem.evict(evicted))
    #expect(!mounted.filesystem.evict(evicted))
    let batch = try #require(mounted.filesystem.notices.next())
    #expect(batch.removed == [.init(entry: DirectoryEntry(directory: .root, name: EntryName("a")), node: node)])
    #expect(failure { _ = try mounted.filesystem.attributes(of: node, handle: nil) } == ESTALE)
    #expect(failure { _ = try mounted.filesystem.open(node, flags: O_RDONLY) } == ESTALE)
    try mounted.make("a")
    #expect(try mounted.candidate("a") != evicted.id)
    #expect(mounted.sink.problems == [])
  }

  @Test func everyNameOfALinkedFileGoesWithIt() throws {
    let mounted = try mounted(blocks: 1000)
    try mounted.make("a")
    _ = try mounted.filesystem.makeLink(to: mounted.node("a"), at: mounted.entry("b"))
    let evicted = try candidate(mounted, "a")
    #expect(mounted.filesystem.evict(evicted))
    #expect(try mounted.listing("") == [".uploadfs", "status"])
  }

  @Test(.promises("S28a")) func aFileWithANameThatIsNotKnownYetStays() throws {
    let mounted = try mounted(blocks: 1000)
    try mounted.make("a")
    let candidate = try candidate(mounted, "a")
    #expect(link(mounted.captures + "/a", mounted.captures + "/b") == 0)
    #expect(!mounted.filesystem.evict(candidate), "it would free nothing")
    #expect(try mounted.node("b") == mounted.node("a"))
    _ = mounted.sink.takeNames()
    #expect(!mounted.filesystem.evict(candidate), "it is to be delivered as “b” as well")
    #expect(mounted.sink.takeNames() == ["namesChanged"])
    #expect(mounted.filesystem.evict(try self.candidate(mounted, "a")))
    #expect(try mounted.listing("") == [".uploadfs", "status"])
  }

  /// Regression: it was removed although it was still to be delivered under its new name.
  @Test(.promises("S28a"), arguments: ["the file", "its folder", "a further name"])
  func aFileThatIsRenamedWhileItIsToMakeRoomStays(what: String) throws {
    let mounted = try mounted(blocks: 1000)
    try mounted.makeDirectory("d")
    try mounted.make("d/a")
    let candidate = try candidate(mounted, "d/a")
    switch what {
    case "the file": try mounted.rename("d/a", "b")
    case "its folder": try mounted.rename("d", "e")
    default: _ = try mounted.filesystem.makeLink(to: mounted.node("d/a"), at: mounted.entry("b"))
    }
    #expect(!mounted.filesystem.evict(candidate))
    let now = try #require(mounted.filesystem.snapshot(of: candidate.id))
    #expect(mounted.sink.lastSnapshot?.names == now.names && now.names != candidate.names)
    #expect(mounted.filesystem.evict(EvictionCandidate(now)))
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S27")) func statisticsAreNeverNegative() throws {
    let mounted = try mounted(blocks: 5)
    #expect(try mounted.filesystem.statistics().available_blocks == 0)
    #expect(try mounted.filesystem.statistics().free_blocks == 0)
  }

  @Test(.promises("S29a")) func beyondTheLargestSizeNothingIsWritten() throws {
    let mounted = try Mounted(source: nil) { $0.fileBytesMax = 1000 }
    let handle = try mounted.create("a")
    #expect(try mounted.write(handle, [UInt8](repeating: 1, count: 1000)) == 1000)
    #expect(failure { try mounted.write(handle, at: 1000, [1]) } == EFBIG)
    #expect(failure { try mounted.write(handle, at: Int64.max, [1]) } == EFBIG)
    #expect(failure { try mounted.filesystem.allocate(handle, mode: 0, offset: 999, length: 2) } == EFBIG)
    var changes = AttributeChanges()
    changes.size = 1001
    #expect(
      failure { _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: handle) } == EFBIG)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.sizeBytes == 1000)
    // Only of a write is there something missing in the file; it is said once.
    #expect(mounted.sink.lastSnapshot?.interruption == .writeRefused(limitBytes: 1000))
    #expect(mounted.sink.takeNames().filter { $0 == "writeFailed" }.count == 1)
  }
}

extension SpaceTests {
  @Test("Regression: a size that no destination takes was accepted beforehand", .promises("S29c"))
  func aSizeThatNoDestinationTakes_isRefusedBeforehand() throws {
    let mounted = try Mounted(source: nil)
    let handle = try mounted.create("a")
    mounted.sink.limitBytes.withLock { $0 = 1000 }
    func truncate(to size: Int64) -> Int32? {
      var changes = AttributeChanges()
      changes.size = size
      return failure { _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: handle) }
    }
    #expect(truncate(to: 1001) == EFBIG && truncate(to: 1000) == nil)
    #expect(failure { try mounted.filesystem.allocate(handle, mode: 0, offset: 999, length: 2) } == EFBIG)
    // Space is no size.
    let keepsSize = uploadfs_falloc_keep_size
    #expect(failure { try mounted.filesystem.allocate(handle, mode: keepsSize, offset: 999, length: 2) } == nil)
    // A recording goes on; from then on it may be cut, and stay as it is.
    #expect(try mounted.write(handle, at: 1000, [UInt8](repeating: 1, count: 1000)) == 1000)
    #expect(truncate(to: 1500) == nil && truncate(to: 1500) == nil && truncate(to: 1501) == EFBIG)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
  }

  @Test("By rule a writer is told that its file is too large for the destination", .promises("S29d"))
  func byRule_aWriterIsToldThatItsFileIsTooLarge() throws {
    let rule = try FileRule("*.mov too-large=refuse")
    let mounted = try Mounted(source: nil) { $0.rules.rules = [rule] }
    mounted.sink.limitBytes.withLock { $0 = 1000 }
    let handle = try mounted.create("a.mov")
    #expect(try mounted.write(handle, [UInt8](repeating: 1, count: 1000)) == 1000)
    #expect(failure { try mounted.write(handle, at: 1000, [1]) } == EFBIG)
    #expect(try mounted.write(handle, at: 999, [1]) == 1)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == .writeRefused(limitBytes: 1000))
    let other = try mounted.create("a.wav")
    #expect(try mounted.write(other, at: 1000, [1]) == 1)
    mounted.filesystem.release(other)
  }
}

extension Mounted {
  /// The identity of the file at a name.
  func candidate(_ name: String) throws -> FileID? {
    filesystem.file(of: try node(name))?.id
  }
}

import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// What other programs do to files of the spool, past the mount.
@Suite struct ByHandTests {
  private static func write(_ path: String, _ text: String, flags: Int32 = O_WRONLY) {
    let descriptor = open(path, flags | O_CREAT, 0o600)
    _ = Array(text.utf8).withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
    close(descriptor)
    // Later than the kernel's clock for times can have been at the close before.
    let times = [timespec(tv_sec: 0, tv_nsec: Int((1 << 30) - 2)), timespec(tv_sec: 1_000_000, tv_nsec: 0)]
    utimensat(AT_FDCWD, path, times, 0)
  }

  /// A settled file that a program has begun to read.
  private static func settled(_ mounted: Mounted, _ name: String = "a") throws -> FileSnapshot {
    try mounted.make(name)
    let snapshot = try #require(mounted.sink.lastSnapshot)
    #expect(mounted.filesystem.snapshot(of: snapshot.id) == snapshot)
    return snapshot
  }

  private static func endPatience(_ mounted: Mounted, _ id: FileID) {
    mounted.filesystem.file(of: id)?.state.withLock { state in
      guard state.byHand.missedSinceSeconds != nil else { return }
      state.byHand.found()
      state.byHand.missed(atSeconds: 0)
    }
  }

  @Test(.promises("S78a", "S78b", "S78d"), arguments: ["same size", "longer", "cut"])
  func whatIsChangedByHand_isNotReadAsWhatItWas_andIsHeld(_ how: String) throws {
    let mounted = try Mounted()
    let before = try Self.settled(mounted)
    let path = "\(mounted.captures)/a"
    switch how {
    case "same size": Self.write(path, "CONTENT")
    case "longer": Self.write(path, "longer than that")
    default: truncate(path, 3)
    }
    let seen = try #require(mounted.filesystem.snapshot(of: before.id))
    #expect(!seen.isSettled, "a reader waits until it is said")
    #expect(mounted.filesystem.isChangedOutsideMount(before.id))
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    let after = try #require(mounted.sink.lastSnapshot)
    #expect(after.epoch > before.epoch && after.isSettled && after.interruption == .changedInSpool)
    #expect(mounted.filesystem.snapshot(of: before.id) == after, "said once, and read as what it is now")
    #expect(!mounted.filesystem.isChangedOutsideMount(before.id))
    mounted.filesystem.accept(before.id, before.interruption, ifUnchangedSince: after.epoch)
    #expect(mounted.filesystem.snapshot(of: before.id)?.interruption == nil)
    // And once more.
    Self.write(path, "yet another one, and longer")
    #expect(mounted.filesystem.isChangedOutsideMount(before.id))
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(mounted.sink.lastSnapshot?.interruption == .changedInSpool)
    // Its writer is the one to know.
    let handle = try mounted.open("a", flags: O_WRONLY)
    try mounted.write(handle, [1])
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.problems == [])
  }

  @Test(.promises("S78b")) func whatIsChangedByHandJustBeforeItIsWrittenAnew_isItsWriters() throws {
    let mounted = try Mounted()
    let before = try Self.settled(mounted)
    Self.write("\(mounted.captures)/a", "by hand")
    _ = mounted.filesystem.snapshot(of: before.id)
    let handle = try mounted.open("a", flags: O_WRONLY | O_TRUNC)
    try mounted.write(handle, [1])
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    mounted.filesystem.release(handle)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.problems == [])
  }

  @Test(.promises("S78a")) func whatIsChangedByHandWhileItIsWritten_isAnotherContentInEveryChunk() throws {
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    try mounted.write(handle, [UInt8](repeating: 1, count: 8))
    let id = try #require(mounted.sink.lastSnapshot?.id)
    let chunks = try #require(mounted.filesystem.growth(of: id, chunkBytes: 4, anew: true)).changes
    _ = mounted.filesystem.snapshot(of: id)
    Self.write("\(mounted.captures)/a", "by hand!")
    _ = mounted.filesystem.snapshot(of: id)
    #expect(mounted.filesystem.stableEpoch(of: id, at: 0) == nil)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    let later = try #require(mounted.filesystem.growth(of: id, chunkBytes: 4, anew: false)).changes
    #expect(later.count == chunks.count && zip(chunks, later).allSatisfy { $1.epoch > $0.epoch && $1.isQuiet })
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == .changedInSpool && mounted.sink.problems == [])
  }

  @Test(.promises("S78c"), arguments: [true, false])
  func whatIsPutInThePlaceOfAFile_isHeldAsAnotherOne(isLookedUp: Bool) throws {
    let mounted = try Mounted()
    let before = try Self.settled(mounted)
    Self.write("\(mounted.captures)/new", "another one")
    rename("\(mounted.captures)/new", "\(mounted.captures)/a")
    if isLookedUp { _ = try mounted.node("a") } else { _ = mounted.filesystem.snapshot(of: before.id) }
    for _ in 0..<2 { mounted.filesystem.flush(mounted.filesystem.flushes.takeAll()) }
    #expect(mounted.sink.records.contains(.event(.vanished(before.id))))
    let found = try #require(mounted.sink.lastSnapshot)
    #expect(found.id != before.id && found.names == [RelativePath("a")] && found.interruption == .changedInSpool)
    mounted.filesystem.accept(found.id, found.interruption, ifUnchangedSince: found.epoch)
    #expect(mounted.filesystem.snapshot(of: found.id)?.interruption == nil)
    #expect(try mounted.contents(of: found.id) == Array("another one".utf8) && mounted.sink.problems == [])
  }

  @Test(
    .promises("S78c"), arguments: [("a", "b", true), ("a", "b", false), ("d/a", "e/a", true), ("d/a", "e/b", false)]
  )
  func capturesThatAreExchangedByHand_areHeld(_ one: String, _ other: String, isLookedUp: Bool) throws {
    let mounted = try Mounted()
    for folder in ["d", "e"] { try mounted.makeDirectory(folder) }
    let first = try Self.settled(mounted, one)
    let second = try Self.settled(mounted, other)
    let places = [one, other].map { path in "\(mounted.captures)/\(path.prefix { $0 != "/" })" }
    #expect(uploadfs_renameat2(AT_FDCWD, places[0], AT_FDCWD, places[1], uploadfs_rename_exchange) == 0)
    if isLookedUp {
      _ = try mounted.node(String(one.prefix { $0 != "/" }))
      #expect(mounted.filesystem.isChangedOutsideMount(second.id), "nothing of it is published any more")
    } else {
      _ = mounted.filesystem.snapshot(of: first.id)
    }
    #expect(mounted.filesystem.isChangedOutsideMount(first.id))
    for _ in 0..<2 { mounted.filesystem.flush(mounted.filesystem.flushes.takeAll()) }
    for (before, place) in [(first, places[1]), (second, places[0])] {
      let after = try #require(mounted.filesystem.snapshot(of: before.id))
      #expect(after.epoch > before.epoch && after.interruption == .changedInSpool)
      #expect("\(mounted.captures)/\(after.names.first?.displayText ?? "")".hasPrefix(place) && after.names.count == 1)
    }
    #expect(!mounted.sink.records.contains(.event(.vanished(first.id))) && mounted.sink.problems == [])
  }

  @Test(.promises("S78g"), arguments: ["FIFO", "socket", "folder", "link"])
  func whatIsNoFile_isNotOpenedInACapturesPlace(_ kind: String) throws {
    let mounted = try Mounted()
    let before = try Self.settled(mounted)
    let path = "\(mounted.captures)/a"
    unlink(path)
    switch kind {
    case "folder": mkdir(path, 0o700)
    case "link": symlink("/etc/passwd", path)
    default: mknod(path, (kind == "FIFO" ? Glibc.S_IFIFO : Glibc.S_IFSOCK) | 0o600, 0)
    }
    #expect(throws: FileContentsError.gone) { _ = try mounted.filesystem.openForReading(before.id) }
    for flags in [O_RDONLY, O_WRONLY, O_RDWR] {
      let node = try #require(mounted.filesystem.file(of: before.id)).node
      #expect(failure { _ = try mounted.filesystem.open(node, flags: flags) } == ESTALE)
    }
    for _ in 0..<2 {
      Self.endPatience(mounted, before.id)
      mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    }
    #expect(mounted.sink.records.contains(.event(.vanished(before.id))) && mounted.sink.problems == [])
  }

  @Test(.promises("S78e"), arguments: [true, false])
  func whatIsTakenAwayByHand_isGoneAfterAMoment(isLookedUp: Bool) throws {
    let mounted = try Mounted()
    let before = try Self.settled(mounted)
    unlink("\(mounted.captures)/a")
    if isLookedUp {
      #expect(failure { _ = try mounted.node("a") } == ENOENT)
    } else {
      _ = mounted.filesystem.snapshot(of: before.id)
    }
    #expect(mounted.filesystem.isChangedOutsideMount(before.id), "nothing of it is published any more")
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(!mounted.sink.records.contains(.event(.vanished(before.id))), "it may be put back at once")
    Self.endPatience(mounted, before.id)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(mounted.sink.records.last == .event(.vanished(before.id)) && mounted.sink.problems == [])
    #expect(mounted.filesystem.snapshot(of: before.id) == nil)
  }

  @Test(.promises("S78e")) func whatIsBackAMomentLater_isNotGone() throws {
    let mounted = try Mounted()
    let before = try Self.settled(mounted)
    rename("\(mounted.captures)/a", "\(mounted.captures)/b")
    _ = mounted.filesystem.snapshot(of: before.id)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    rename("\(mounted.captures)/b", "\(mounted.captures)/a")
    Self.endPatience(mounted, before.id)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(!mounted.filesystem.isChangedOutsideMount(before.id))
    var after = try #require(mounted.filesystem.snapshot(of: before.id))
    after.isOnDisk = before.isOnDisk
    #expect(after == before && mounted.sink.problems == [])
  }

  /// Regression: its captures had a name in a folder that was nowhere, and another one in the one that was put back.
  @Test(.promises("S78e"), arguments: ["d", "e"]) func capturesOfAFolderThatIsPutBack_areWhatTheyWere(_ place: String)
    throws
  {
    let mounted = try Mounted()
    try mounted.makeDirectory("d")
    let before = try Self.settled(mounted, "d/a")
    rename("\(mounted.captures)/d", "\(mounted.folder.path)/out")
    #expect(failure { _ = try mounted.node("d") } == ENOENT)
    #expect(mounted.filesystem.isChangedOutsideMount(before.id), "nothing of it is published meanwhile")
    rename("\(mounted.folder.path)/out", "\(mounted.captures)/\(place)")
    let node = try mounted.node("\(place)/a")
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(mounted.filesystem.file(of: node)?.id == before.id)
    #expect(mounted.filesystem.nodes.withLock { $0.table[node]?.names.count } == 1)
    #expect(!mounted.filesystem.isChangedOutsideMount(before.id))
    let after = try #require(mounted.filesystem.snapshot(of: before.id))
    #expect(after.names == [RelativePath("\(place)/a")] && after.epoch == before.epoch && after.interruption == nil)
    #expect(try mounted.contents(of: before.id) == Array("content".utf8) && mounted.sink.problems == [])
  }

  @Test(.promises("S78e")) func capturesOfAFolderThatIsTakenAway_areGoneAfterAMoment() throws {
    let mounted = try Mounted()
    try mounted.makeDirectory("d")
    let before = try Self.settled(mounted, "d/a")
    rename("\(mounted.captures)/d", "\(mounted.folder.path)/out")
    #expect(failure { _ = try mounted.node("d") } == ENOENT)
    Self.endPatience(mounted, before.id)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(mounted.sink.records.last == .event(.vanished(before.id)) && mounted.sink.problems == [])
  }

  @Test(.promises("S78f")) func timesThatAreSetInTheMount_areNoChangeByHand() throws {
    let mounted = try Mounted()
    let before = try Self.settled(mounted)
    var changes = AttributeChanges()
    changes.modified = .at(seconds: 5, nanoseconds: 6)
    _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: nil)
    #expect(mounted.filesystem.snapshot(of: before.id)?.isSettled == true)
    #expect(!mounted.filesystem.isChangedOutsideMount(before.id))
    // Those that another program has set before that do not go under.
    Self.write("\(mounted.captures)/a", "CONTENT")
    _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: nil)
    #expect(mounted.filesystem.isChangedOutsideMount(before.id))
  }

  @Test(.promises("S78f")) func aDeliveredFileThatIsChangedByHand_isNotRemovedToMakeRoom() throws {
    let mounted = try Mounted()
    let before = try Self.settled(mounted)
    Self.write("\(mounted.captures)/a", "by hand")
    #expect(!mounted.filesystem.evict(EvictionCandidate(before)))
    #expect(access("\(mounted.captures)/a", F_OK) == 0)
  }
}

import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// Finding again what lay in the spool.
struct ScanTests {
  private func found(_ mounted: Mounted) -> [String: FileSnapshot] {
    var found: [String: FileSnapshot] = [:]
    for case .event(.found(let snapshot)) in mounted.sink.records {
      found[snapshot.names.map(\.displayText).sorted().joined(separator: ",")] = snapshot
    }
    return found
  }

  /// A spool with a few files, and what an earlier run knew of them.
  private func earlierRun(_ folder: TemporaryFolder) throws -> [UInt64: FileID] {
    let mounted = try Mounted(folder: folder)
    try mounted.makeDirectory("d")
    try mounted.makeDirectory("d/e")
    try mounted.make("a")
    try mounted.make("d/e/deep")
    try mounted.make("linked")
    _ = try mounted.filesystem.makeLink(to: mounted.node("linked"), at: mounted.entry("d/also"))
    _ = try "a".withCString { target throws in
      try mounted.filesystem.makeSymbolicLink(mounted.entry("soft"), target: target, caller: mounted.caller)
    }
    var known: [UInt64: FileID] = [:]
    for case .event(.settled(let snapshot)) in mounted.sink.records { known[snapshot.inode] = snapshot.id }
    return known
  }

  @Test(.promises("S35a")) func everyFileIsFoundUnderItsOldIdentity() throws {
    let folder = try TemporaryFolder()
    let known = try earlierRun(folder)
    let mounted = try Mounted(folder: folder, known: known)
    mounted.filesystem.scanSpool()
    let found = found(mounted)
    #expect(Set(found.keys) == ["a", "d/e/deep", "d/also,linked"])
    #expect(Set(found.values.map(\.id)) == Set(known.values))
    #expect(found.values.allSatisfy { $0.epoch == 0 && $0.isSettled })
    #expect(mounted.sink.takeNames() == ["found", "found", "found", "scanEnded"])
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S30b", "S35a")) func filesBelowOtherDirectoriesAreFound_whateverTheyAreCalled() throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      for directory in ["d", "d/status", "d/status/.uploadfs"] { try mounted.makeDirectory(directory) }
      for name in ["d/.uploadfs", "d/status/status", "d/status/.uploadfs/f"] { try mounted.make(name) }
    }
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    #expect(Set(found(mounted).keys) == ["d/.uploadfs", "d/status/status", "d/status/.uploadfs/f"])
  }

  /// Regression: the names were taken before, and a file that was made in between lost its record.
  @Test(.promises("S40i")) func whatIsMadeWhileTheScanEnds_keepsItsRecord() throws {
    let mounted = try Mounted()
    for number in 0..<1000 { try mounted.make("old \(number)", []) }
    let caller = mounted.caller
    let lost = Mutex<Int?>(nil)
    Concurrently(mounted.filesystem).run(threads: 2) { filesystem, thread in
      guard thread == 0 else {
        while lost.withLock({ $0 == nil }) { filesystem.forgetRecordedMarksOfMissing() }
        return
      }
      var lostCount = 0
      for number in 0..<200 where !Self.keepsItsMark(filesystem, "new \(number)", caller) { lostCount += 1 }
      lost.withLock { $0 = lostCount }
    }
    #expect(lost.withLock { $0 } == 0)
  }

  /// Makes a file and records that it is being written; whether the record still says so after the end of a scan or two.
  private static func keepsItsMark(_ filesystem: Filesystem, _ name: String, _ caller: Caller) -> Bool {
    do {
      let entry = DirectoryEntry(directory: .root, name: EntryName(name))
      let made = try filesystem.create(entry, mode: 0o600, flags: O_WRONLY, caller: caller)
      let inode = UInt64(made.found.status.st_ino)
      try filesystem.marks.record.keep(.unfinished, of: inode, durably: false)
      for _ in 0..<20 where filesystem.marks.record.mark(of: inode) == .unfinished { sched_yield() }
      defer { filesystem.release(made.opened.handle) }
      return filesystem.marks.record.mark(of: inode) == .unfinished
    } catch {
      return false
    }
  }

  @Test(.promises("S79a")) func filesThatTheCatalogHasForgotten_sayWhoTheyAre() throws {
    let folder = try TemporaryFolder()
    let known = try earlierRun(folder)
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    #expect(found(mounted).count == 3)
    #expect(Set(found(mounted).values.map(\.id)) == Set(known.values))
  }

  @Test func aNewFileDoesNotInheritTheIdentityOfAnInodeNumber() throws {
    let folder = try TemporaryFolder()
    var known = try earlierRun(folder)
    let mounted = try Mounted(folder: folder)
    let handle = try mounted.create("new")
    let inode = try #require(mounted.sink.lastSnapshot?.inode)
    let id = try #require(mounted.sink.lastSnapshot?.id)
    mounted.filesystem.release(handle)
    known[inode] = FileID(high: 1, low: 1)
    #expect(id != FileID(high: 1, low: 1))
    mounted.filesystem.scanSpool()
    #expect(found(mounted)["new"] == nil, "it did not lie there at the start")
  }

  @Test(.promises("S35b")) func aFileThatIsBeingWrittenIsNotFound() throws {
    let folder = try TemporaryFolder()
    let known = try earlierRun(folder)
    let mounted = try Mounted(folder: folder, known: known)
    let handle = try mounted.open("a", flags: O_WRONLY)
    mounted.filesystem.scanSpool()
    #expect(Set(found(mounted).keys) == ["d/e/deep", "d/also,linked"])
    mounted.filesystem.release(handle)
    #expect(known.values.contains(try #require(mounted.sink.lastSnapshot?.id)))
    #expect(mounted.sink.problems == [])
  }

  @Test func aLinkThatIsRemovedBeforeItsTwinIsKnownDoesNotEndTheFile() throws {
    let folder = try TemporaryFolder()
    let known = try earlierRun(folder)
    let mounted = try Mounted(folder: folder, known: known)
    try mounted.filesystem.unlink(mounted.entry("linked"))
    #expect(!mounted.sink.records.contains { if case .event(.removed) = $0 { true } else { false } })
    mounted.filesystem.scanSpool()
    let again = try #require(found(mounted)["d/also"])
    #expect(known.values.contains(again.id))
  }

  @Test(.promises("S35a", "S35b")) func whatMovesWhileTheScanRunsIsFoundOnceAtLeast() throws {
    let folder = try TemporaryFolder()
    let before = try Mounted(folder: folder)
    for directory in 0..<30 {
      try before.makeDirectory("d\(directory)")
      for file in 0..<10 { try before.make("d\(directory)/f\(file)", []) }
    }
    try before.makeDirectory("z")
    let expected = Set(
      before.sink.records.compactMap { record in
        if case .event(.settled(let snapshot)) = record { snapshot.inode } else { nil }
      })
    let mounted = try restarted(folder, before)
    let work = Concurrently(mounted.filesystem)
    work.run(threads: 2) { filesystem, thread in
      guard thread == 1 else { return filesystem.scanSpool() }
      guard let target = (try? filesystem.lookup(DirectoryEntry(directory: .root, name: EntryName("z")))) ?? nil else {
        return
      }
      for directory in 0..<30 {
        let name = EntryName("d\(directory)")
        try? filesystem.rename(
          DirectoryEntry(directory: .root, name: name), to: DirectoryEntry(directory: target.node, name: name), flags: 0
        )
      }
    }
    let seen = Set(
      mounted.sink.records.compactMap { record in
        if case .event(.found(let snapshot)) = record { snapshot.inode } else { nil }
      })
    #expect(seen == expected)
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S35a")) func bothSidesOfAnExchangeAreLookedAtAgainByAScan() throws {
    let mounted = try Mounted()
    for name in ["one", "other"] { try mounted.makeDirectory(name) }
    let nodes = try ["one", "other"].map { try mounted.node($0) }
    // As while a scan runs.
    mounted.filesystem.movedDuringScan.withLock { $0 = [] }
    try mounted.rename("one", "other", flags: uploadfs_rename_exchange)
    #expect(Set(mounted.filesystem.movedDuringScan.withLock { $0 } ?? []) == Set(nodes))
  }

  /// A second run over the same spool: the first one's lock is released by hand, as its death would.
  private func restarted(_ folder: TemporaryFolder, _ before: Mounted) throws -> Mounted {
    flock(before.filesystem.root.number, LOCK_UN)
    return try Mounted(folder: folder)
  }
}

import CLinux
import FileModel
import Glibc
import Testing

@testable import UploadFS

/// The tables that need no system call.
struct NodeTableTests {
  private static let root = SpoolKey(device: 1, inode: 1)
  private var table = NodeTable(root: root)

  private static func key(_ inode: UInt64) -> SpoolKey { SpoolKey(device: 1, inode: inode) }

  private mutating func adopt(_ inode: UInt64, _ kind: NodeKind, in directory: NodeID = .root, _ name: String) -> NodeID
  {
    table.adopt(Self.key(inode), kind: kind, at: DirectoryEntry(directory: directory, name: EntryName(name))) { node in
      CapturedFile(id: FileID(high: 0, low: inode), node: node, key: Self.key(inode), isNew: false)
    }
  }

  private func entry(_ name: String, in directory: NodeID = .root) -> DirectoryEntry {
    DirectoryEntry(directory: directory, name: EntryName(name))
  }

  @Test mutating func aNameSeenTwiceIsOneNode() {
    let one = adopt(10, .regular, "a")
    #expect(adopt(10, .regular, "a") == one)
    #expect(table.paths(of: one) == [RelativePath("a")])
  }

  @Test mutating func hardLinksShareTheNodeAndKeepTheOrderOfTheirNames() {
    let directory = adopt(5, .directory, "d")
    table.countLookup(directory)
    let file = adopt(10, .regular, "b")
    #expect(adopt(10, .regular, in: directory, "a") == file)
    #expect(table.paths(of: file) == [RelativePath("b"), RelativePath("d/a")])
  }

  @Test mutating func aDirectoryIsForgottenWhenNothingBelowItIsKnown() {
    let directory = adopt(5, .directory, "d")
    table.countLookup(directory)
    let below = adopt(6, .directory, in: directory, "e")
    table.countLookup(below)
    table.forget(directory, count: 1)
    #expect(table[directory] != nil, "its entry is still known")
    table.forget(below, count: 1)
    #expect(table[below] == nil)
    #expect(table[directory] == nil)
    #expect(table.count == 1)
  }

  @Test mutating func aRegularFileStaysAsLongAsItHasAName() {
    let file = adopt(10, .regular, "a")
    table.countLookup(file)
    table.forget(file, count: 1)
    #expect(table[file] != nil)
    #expect(table.node(of: FileID(high: 0, low: 10)) == file)
    table.removeName(entry("a"))
    #expect(table[file] == nil)
    #expect(table.node(of: FileID(high: 0, low: 10)) == nil)
  }

  @Test mutating func anUnlinkedNodeStaysWhileTheKernelKnowsItAndItsInodeNumberIsFree() {
    let file = adopt(10, .regular, "a")
    table.countLookup(file)
    table.countLookup(file)
    table.removeName(entry("a"))
    #expect(table[file] != nil)
    #expect(!table.isNamed(file))
    // The spool gives the number to another file.
    let other = adopt(10, .regular, "b")
    #expect(other != file)
    table.forget(file, count: 1)
    #expect(table[file] != nil)
    table.forget(file, count: 1)
    #expect(table[file] == nil)
    #expect(table.node(of: Self.key(10)) == other)
  }

  private func pin() throws -> FileDescriptor {
    FileDescriptor(
      owning: try check(uploadfs_openat(AT_FDCWD, "/", uploadfs_o_path | O_CLOEXEC, 0)), isReadable: false,
      isWritable: false)
  }

  @Test mutating func aPinGoesWhenTheKernelForgetsOrTheFileHasANameAgain() throws {
    let file = adopt(10, .regular, "a")
    table.countLookup(file)
    table.pin(file, by: try pin())
    table.keepReachable(file)
    table.removeName(entry("a"))
    #expect(table[file]?.pin != nil)
    #expect(adopt(10, .regular, "b") == file)
    #expect(table[file]?.pin == nil)
    #expect(table.takeReleased().count == 1)
    table.pin(file, by: try pin())
    table.keepReachable(file)
    table.removeName(entry("b"))
    table.forget(file, count: 1)
    #expect(table[file] != nil, "a name of it is still to be found")
    #expect(table[file]?.pin == nil)
    #expect(table.takeReleased().count == 1)
  }

  @Test mutating func pinnedFilesAreBoundedAndAllGoAtOnceButDirectoriesStay() throws {
    let directory = adopt(5, .directory, "d")
    table.countLookup(directory)
    table.pin(directory, by: try pin())
    table.removeName(entry("d"))
    let files = try (0...NodeTable.pinnedFilesMax).map { index in
      let file = adopt(100 + UInt64(index), .regular, "\(index)")
      table.countLookup(file)
      table.pin(file, by: try pin())
      table.removeName(entry("\(index)"))
      return file
    }
    #expect(files.map { table[$0]?.pin != nil } == files.map { $0 != files.first })
    #expect(table.takeReleased().count == 1)
    table.unpinFiles()
    #expect(files.allSatisfy { table[$0] != nil && table[$0]?.pin == nil })
    #expect(table.takeReleased().count == NodeTable.pinnedFilesMax)
    #expect(table[directory]?.pin != nil)
    table.unpinFiles()
    for file in files { table.forget(file, count: 1) }
    #expect(table.takeReleased().isEmpty)
  }

  @Test mutating func forgettingMoreThanWasCountedDoesNoHarm() {
    let directory = adopt(5, .directory, "d")
    table.countLookup(directory)
    table.forget(directory, count: .max)
    table.forget(directory, count: 1)
    table.forget(.root, count: 1000)
    #expect(table[directory] == nil)
    #expect(table[.root] != nil)
  }

  @Test mutating func nodeNumbersAreNeverUsedAgain() {
    let first = adopt(5, .directory, "d")
    table.removeName(entry("d"))
    #expect(table[first] == nil)
    #expect(adopt(5, .directory, "d") != first)
  }

  @Test mutating func aMoveTakesEverythingBelowAlong() {
    let from = adopt(5, .directory, "from")
    let to = adopt(6, .directory, "to")
    for node in [from, to] { table.countLookup(node) }
    let file = adopt(10, .regular, in: from, "f")
    #expect(table.move(entry("from"), to: entry("moved", in: to)) == nil)
    #expect(table.paths(of: file) == [RelativePath("to/moved/f")])
    #expect(table.files(below: to).map(\.id) == [FileID(high: 0, low: 10)])
    #expect(table.child(of: .root, named: EntryName("from")) == nil)
  }

  @Test mutating func aMoveReturnsWhatItReplaced() {
    let old = adopt(10, .regular, "old")
    let new = adopt(11, .regular, "new")
    table.countLookup(old)
    #expect(table.move(entry("new"), to: entry("old")) == old)
    #expect(table.paths(of: new) == [RelativePath("old")])
    #expect(!table.isNamed(old))
  }

  @Test mutating func anExchangeSwapsTheNames() {
    let directory = adopt(5, .directory, "d")
    table.countLookup(directory)
    let inside = adopt(10, .regular, in: directory, "f")
    let file = adopt(11, .regular, "g")
    table.exchange(entry("d"), entry("g"))
    #expect(table.paths(of: inside) == [RelativePath("g/f")])
    #expect(table.paths(of: file) == [RelativePath("d")])
  }

  @Test mutating func whatChangedBehindOurBackIsLearntAnew() {
    let file = adopt(10, .regular, "a")
    let other = adopt(11, .regular, "a")
    #expect(other != file)
    #expect(table.paths(of: other) == [RelativePath("a")])
    #expect(table[file] == nil)
    let directory = adopt(12, .directory, "a")
    #expect(table.child(of: .root, named: EntryName("a")) == directory)
  }

  /// Regression: what lies in a folder that was taken away by hand and put back had a name in each of two nodes.
  @Test mutating func aFolderThatLostItsName_isTheSameWhenItTurnsUp_asLongAsAnythingInItIsKnown() {
    let folder = adopt(5, .directory, "d")
    table.countLookup(folder)
    let file = adopt(10, .regular, in: folder, "a")
    table.removeName(entry("d"))
    #expect(table.paths(of: file) == [])
    #expect(adopt(5, .directory, "e") == folder)
    #expect(adopt(10, .regular, in: folder, "a") == file)
    #expect(table.paths(of: file) == [RelativePath("e/a")])
    // Nothing in it is known any more: the spool may give its number to another one.
    table.removeName(entry("e"))
    table.removeName(entry("a", in: folder))
    #expect(adopt(5, .directory, "f") != folder)
  }

  @Test mutating func aFolderThatIsNew_isNoneThatLostItsName() {
    let folder = adopt(5, .directory, "d")
    _ = adopt(10, .regular, in: folder, "a")
    table.removeName(entry("d"))
    table.numberIsGivenAnew(Self.key(5))
    #expect(adopt(5, .directory, "d") != folder)
  }

  @Test mutating func aFileWithUnknownNamesIsRecognisedWhenOneTurnsUp() {
    let file = adopt(10, .regular, "a")
    table.keepReachable(file)
    table.removeName(entry("a"))
    #expect(table.isNamed(file))
    #expect(adopt(10, .regular, "b") == file)
    table.removeName(entry("b"))
    #expect(!table.isNamed(file))
    #expect(table[file] == nil)
  }
}

struct HandleTableTests {
  @Test func numbersFindWhatTheyWereGivenFor() {
    var table = HandleTable<String>()
    let a = table.insert("a")
    let b = table.insert("b")
    #expect(table[a] == "a")
    #expect(table[b] == "b")
    #expect(table.remove(a) == "a")
    #expect(table.count == 1)
  }

  @Test func aStaleNumberFindsNothing() {
    var table = HandleTable<String>()
    let a = table.insert("a")
    _ = table.remove(a)
    let b = table.insert("b")
    #expect(a & 0xffff_ffff == b & 0xffff_ffff, "the slot is used again")
    #expect(table[a] == nil)
    #expect(table.remove(a) == nil)
    #expect(table[b] == "b")
  }

  @Test(arguments: [UInt64.max, 1, 0xffff_ffff, 1 << 32, 1 << 63])
  func anyNumberFromOutsideIsSafe(_ number: UInt64) {
    var table = HandleTable<String>()
    _ = table.insert("a")
    #expect(table[number] == nil)
    #expect(table.remove(number) == nil)
  }
}

struct WriterActivityTests {
  @Test func aNewFileIsOpenedAndSettledOnce() {
    var activity = WriterActivity.created
    #expect(activity.epoch == 1)
    #expect(activity.openedForWriting() == .opened)
    #expect(activity.beginMutation() == nil, "its first revision is open already")
    #expect(activity.endMutation() == nil)
    #expect(activity.closedForWriting() == .settled)
    #expect(activity.epoch == 2)
  }

  @Test func anEmptyNewFileIsSettledTooAndSoIsOneWithoutWriters() {
    var activity = WriterActivity.created
    _ = activity.openedForWriting()
    #expect(activity.closedForWriting() == .settled)
    var made = WriterActivity.created
    #expect(made.madeWithoutWriter() == .settled)
    #expect(made.madeWithoutWriter() == nil)
  }

  @Test func aWriterThatChangesNothingIsAnnouncedAndLeavesTheEpoch() {
    var activity = WriterActivity.found
    #expect(activity.openedForWriting() == .opened)
    #expect(activity.closedForWriting() == .settled)
    #expect(activity.epoch == 0)
    #expect(!activity.hasOpenRevision)
  }

  @Test func eachRevisionIsAnnouncedOnce() {
    var activity = WriterActivity.found
    _ = activity.openedForWriting()
    #expect(activity.needsNewRevision)
    #expect(activity.beginMutation() == .changed)
    #expect(activity.beginMutation() == nil)
    #expect(activity.endMutation() == nil)
    #expect(activity.endMutation() == nil)
    #expect(activity.closedForWriting() == .settled)
    #expect(activity.needsNewRevision)
    #expect(activity.beginMutation() == .changed)
  }

  @Test func aFileIsNotSettledWhileAnotherWriterOrAMutationIsThere() {
    var activity = WriterActivity.created
    #expect(activity.openedForWriting() == .opened)
    #expect(activity.openedForWriting() == nil)
    #expect(activity.beginMutation() == nil)
    #expect(activity.closedForWriting() == nil)
    #expect(activity.closedForWriting() == nil, "a mutation is in flight")
    #expect(!activity.endsMutationsSilently)
    #expect(activity.endMutation() == .settled)
  }

  @Test func truncatingByPathSettlesWithoutAnyHandle() {
    var activity = WriterActivity.found
    #expect(activity.beginMutation() == .changed)
    #expect(activity.endMutation() == .settled)
    #expect(activity.epoch == 1)
  }

  @Test func nothingIsSaidOfAFileThatIsGone() {
    var activity = WriterActivity.created
    _ = activity.openedForWriting()
    activity.lostLastName()
    #expect(activity.beginMutation() == nil)
    #expect(activity.endMutation() == nil)
    #expect(activity.closedForWriting() == nil)
    #expect(!activity.needsNewRevision)
  }
}

struct SpaceLedgerTests {
  @Test func theReserveIsNeverGivenOut() {
    var ledger = SpaceLedger(reserveBytes: 1000)
    #expect(ledger.isStale(at: 0), "nothing is known yet")
    #expect(ledger.admit(1) == false)
    ledger.refresh(availableBytes: 1500, at: 0)
    #expect(ledger.spareBytes == 500)
    #expect(ledger.admit(501) == false)
    #expect(ledger.admit(500) == true)
    #expect(ledger.admit(1) == false)
    ledger.refresh(availableBytes: 999, at: 0)
    #expect(ledger.spareBytes == 0)
    #expect(ledger.headroom == Headroom(lackingBytes: 1))
    #expect(ledger.admit(0) == true)
  }

  @Test func aLookIsTakenAgainAfterSomeBytesOrSomeTime() {
    var ledger = SpaceLedger(reserveBytes: 0)
    ledger.refresh(availableBytes: .max, at: 5)
    #expect(!ledger.isStale(at: 5))
    #expect(ledger.admit(SpaceLedger.refreshAfterBytes) == true)
    #expect(ledger.isStale(at: 5))
    ledger.refresh(availableBytes: .max, at: 5)
    #expect(!ledger.isStale(at: 5 + SpaceLedger.refreshAfterNanoseconds - 1))
    #expect(ledger.isStale(at: 5 + SpaceLedger.refreshAfterNanoseconds))
  }
}

struct VirtualNodeTableTests {
  private let zero = timespec()

  @Test func aPathKeepsItsNumberUntilItIsForgotten() {
    var table = VirtualNodeTable()
    let path = RelativePath("status/a.json")
    let id = table.node(at: path, shape: .file, version: 1, now: zero)
    table.countLookup(id)
    #expect(id.isVirtual)
    #expect(table.node(at: path, shape: .file, version: 1, now: zero) == id)
    #expect(table.node(at: path, shape: .directory, version: 1, now: zero) != id, "another kind is another node")
    table.forget(id, count: 1)
    #expect(table[id] == nil)
    #expect(table.node(at: path, shape: .file, version: 1, now: zero) != id)
  }

  @Test func theChangeTimeMovesWithTheVersion() {
    var table = VirtualNodeTable()
    let path = RelativePath("status/a.json")
    let id = table.node(at: path, shape: .file, version: 1, now: timespec(tv_sec: 10, tv_nsec: 0))
    _ = table.node(at: path, shape: .file, version: 1, now: timespec(tv_sec: 20, tv_nsec: 0))
    #expect(table[id]?.changedAt.tv_sec == 10)
    _ = table.node(at: path, shape: .file, version: 2, now: timespec(tv_sec: 30, tv_nsec: 0))
    #expect(table[id]?.changedAt.tv_sec == 30)
  }
}

/// What a file costs that no program has open: there may be a hundred thousand.
struct RestingFileTests {
  @Test func facts_takeFewBytes() {
    #expect(MemoryLayout<CapturedFile.State>.size <= 480)
    #expect(MemoryLayout<NodeTable.Node>.size <= 80)
  }
}

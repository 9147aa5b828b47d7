import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import SeededRandom
import Synchronization
import Testing

@testable import UploadFS

/// What the sink is told, and when.
struct EventTests {
  @Test(.promises("S33a")) func aCapturedFileIsOpenedAndThenSettledWithItsContent() throws {
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    try mounted.write(handle, Array("hello".utf8))
    #expect(mounted.filesystem.writableOpenCount == 1)
    #expect(mounted.sink.takeNames() == ["opened"])
    mounted.filesystem.release(handle)
    let snapshot = try #require(mounted.sink.lastSnapshot)
    #expect(mounted.sink.takeNames() == ["settled"])
    #expect(mounted.filesystem.writableOpenCount == 0)
    #expect(snapshot.names == [RelativePath("a")])
    #expect(snapshot.sizeBytes == 5)
    #expect(snapshot.epoch == 2)
    #expect(snapshot.mode == 0o600)
    #expect(try mounted.contents(of: snapshot.id) == Array("hello".utf8))
    #expect(mounted.filesystem.snapshot(of: snapshot.id) == snapshot)
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S33a")) func everyDuplicateOfTheWriterHasToGoBeforeAFileIsSettled() throws {
    let mounted = try Mounted()
    let one = try mounted.create("a")
    let other = try mounted.open("a", flags: O_RDWR)
    mounted.filesystem.release(one)
    #expect(mounted.sink.takeNames() == ["opened"])
    mounted.filesystem.release(other)
    #expect(mounted.sink.takeNames() == ["settled"])
  }

  @Test(.promises("S33a")) func readersAreNotMentioned() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    _ = mounted.sink.takeNames()
    let handle = try mounted.open("a", flags: O_RDONLY)
    #expect(try mounted.read(handle) == Array("content".utf8))
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == [])
  }

  @Test(.promises("S33b", "S34a")) func aNewRevisionIsAnnouncedBeforeItsFirstChangeOnly() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    _ = mounted.sink.takeNames()
    let handle = try mounted.open("a", flags: O_WRONLY)
    try mounted.write(handle, [1])
    try mounted.write(handle, at: 1, [2])
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == ["opened", "willChange", "changed", "settled"])
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S34b")) func openingForWritingWithoutAChangeLeavesTheEpoch() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let before = try #require(mounted.sink.lastSnapshot)
    _ = mounted.sink.takeNames()
    mounted.filesystem.release(try mounted.open("a", flags: O_RDWR))
    #expect(mounted.sink.lastSnapshot?.epoch == before.epoch)
    #expect(mounted.sink.takeNames() == ["opened", "settled"])
  }

  @Test(.promises("S33b", "S34a")) func truncationAtOpenAndByPathAreRevisionsToo() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    _ = mounted.sink.takeNames()
    mounted.filesystem.release(try mounted.open("a", flags: O_WRONLY | O_TRUNC))
    #expect(mounted.sink.takeNames() == ["opened", "willChange", "changed", "settled"])
    var changes = AttributeChanges()
    changes.size = 100
    #expect(try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: nil).st_size == 100)
    #expect(mounted.sink.lastSnapshot?.sizeBytes == 100)
    #expect(mounted.sink.takeNames() == ["willChange", "changed", "settled"])
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S5b", "S5c")) func filesMadeWithoutAHandleAreSettledAtOnce() throws {
    let mounted = try Mounted()
    _ = try mounted.filesystem.makeNode(mounted.entry("node"), mode: S_IFREG | 0o600, caller: mounted.caller)
    #expect(mounted.sink.takeNames() == ["settled"])
    mounted.filesystem.release(try mounted.create("read only", flags: O_RDONLY))
    #expect(mounted.sink.takeNames() == ["settled"])
    _ = try mounted.filesystem.makeNode(mounted.entry("fifo"), mode: S_IFIFO | 0o600, caller: mounted.caller)
    #expect(mounted.sink.takeNames() == [])
    #expect(
      failure {
        _ = try mounted.filesystem.makeNode(mounted.entry("device"), mode: S_IFCHR | 0o600, caller: mounted.caller)
      } == EPERM)
  }

  @Test func anInterruptedOpenOrCreateLeavesNoWriterBehind() throws {
    let mounted = try Mounted()
    // What the FUSE side does when the reply says that the opener is gone.
    let created = try mounted.filesystem.create(
      mounted.entry("a"), mode: 0o600, flags: O_WRONLY, caller: mounted.caller)
    mounted.filesystem.release(created.opened.handle)
    mounted.filesystem.forget(created.found.node, count: 1)
    #expect(mounted.filesystem.writableOpenCount == 0)
    #expect(mounted.sink.takeNames() == ["opened", "settled"])
    #expect(mounted.filesystem.handles.withLock { $0.count } == 0)
  }

  @Test func namesAreReportedAsTheyChange() throws {
    let mounted = try Mounted()
    try mounted.make("a.part")
    _ = mounted.sink.takeNames()
    try mounted.rename("a.part", "a")
    #expect(mounted.sink.lastSnapshot?.names == [RelativePath("a")])
    _ = try mounted.filesystem.makeLink(to: mounted.node("a"), at: mounted.entry("b"))
    #expect(mounted.sink.lastSnapshot?.names == [RelativePath("a"), RelativePath("b")])
    try mounted.filesystem.unlink(mounted.entry("a"))
    #expect(mounted.sink.lastSnapshot?.names == [RelativePath("b")])
    #expect(mounted.sink.takeNames() == ["namesChanged", "namesChanged", "namesChanged"])
    try mounted.filesystem.unlink(mounted.entry("b"))
    #expect(mounted.sink.takeNames() == ["removed"])
    #expect(mounted.sink.problems == [])
  }

  @Test func aReplacedFileIsRemovedAndAMovedDirectoryMovesItsFiles() throws {
    let mounted = try Mounted()
    try mounted.makeDirectory("d")
    try mounted.make("d/a")
    try mounted.make("b")
    _ = mounted.sink.takeNames()
    try mounted.rename("d", "e")
    #expect(mounted.sink.lastSnapshot?.names == [RelativePath("e/a")])
    #expect(mounted.sink.takeNames() == ["namesChanged"])
    try mounted.rename("b", "e/a")
    #expect(mounted.sink.lastSnapshot?.names == [RelativePath("e/a")])
    #expect(mounted.sink.takeNames() == ["removed", "namesChanged"])
    #expect(mounted.sink.problems == [])
  }

  @Test func anExchangeRenamesBoth() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    try mounted.make("b")
    _ = mounted.sink.takeNames()
    try mounted.rename("a", "b", flags: uploadfs_rename_exchange)
    #expect(mounted.sink.takeNames() == ["namesChanged", "namesChanged"])
    #expect(failure { try mounted.rename("a", "b", flags: uploadfs_rename_noreplace) } == EEXIST)
    #expect(failure { try mounted.rename("a", "b", flags: 1 << 20) } == EINVAL)
    #expect(mounted.sink.takeNames() == [])
  }

  @Test(.promises("S6a")) func anUnlinkedFileThatIsOpenIsSilentAndStillWorks() throws {
    let mounted = try Mounted()
    let handle = try mounted.create("a", flags: O_RDWR)
    let id = try #require(mounted.sink.lastSnapshot?.id)
    try mounted.filesystem.unlink(mounted.entry("a"))
    #expect(mounted.sink.takeNames() == ["opened", "removed"])
    try mounted.write(handle, [1, 2, 3])
    #expect(try mounted.read(handle) == [1, 2, 3])
    #expect(mounted.filesystem.snapshot(of: id)?.names == [])
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == [])
    #expect(mounted.filesystem.snapshot(of: id) == nil)
    #expect(mounted.sink.problems == [])
  }

  @Test func aFileThatLosesItsNameBeforeItIsAnnouncedIsOnlyRemoved() throws {
    let mounted = try Mounted()
    let created = try mounted.filesystem.createUnannounced(
      mounted.entry("a"), mode: 0o600, flags: O_WRONLY, caller: mounted.caller)
    // Another thread is faster than the one that made the file.
    try mounted.filesystem.unlink(mounted.entry("a"))
    mounted.filesystem.announce(created.file) { _ in nil }
    mounted.filesystem.release(created.opened.handle)
    #expect(mounted.sink.takeNames() == ["removed"])
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S18b")) func attributesAreNoContent() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let epoch = mounted.sink.lastSnapshot?.epoch
    _ = mounted.sink.takeNames()
    var changes = AttributeChanges()
    changes.mode = 0o640
    changes.modified = .at(seconds: 7, nanoseconds: 9)
    _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: nil)
    #expect(mounted.sink.lastSnapshot?.mode == 0o640)
    #expect(mounted.sink.lastSnapshot?.modifiedNanoseconds == 7_000_000_009)
    #expect(mounted.sink.lastSnapshot?.epoch == epoch)
    #expect(mounted.sink.takeNames() == ["attributesChanged"])
  }

  @Test(.promises("S34a")) func fallocateIsAChange() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let epoch = try #require(mounted.sink.lastSnapshot).epoch
    let handle = try mounted.open("a", flags: O_RDWR)
    try mounted.filesystem.allocate(handle, mode: 0, offset: 0, length: 10_000)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.epoch == epoch + 1)
    #expect(mounted.sink.lastSnapshot?.sizeBytes == 10_000)
  }

  @Test(.promises("S36a", "S36b")) func whileDrainingOnlyOpenWritersGoOn() throws {
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    try mounted.make("b")
    let timesToldOfTheLast = Mutex(0)
    mounted.filesystem.stopAcceptingWriters { timesToldOfTheLast.withLock { $0 += 1 } }
    #expect(failure { _ = try mounted.create("c") } == EROFS)
    #expect(failure { _ = try mounted.open("b", flags: O_RDWR) } == EROFS)
    #expect(
      failure {
        var changes = AttributeChanges()
        changes.size = 0
        _ = try mounted.filesystem.setAttributes(of: mounted.node("b"), changes, handle: nil)
      } == EROFS)
    #expect(failure { _ = try mounted.open("b", flags: O_RDONLY | O_TRUNC) } == EROFS)
    #expect(
      failure {
        _ = try mounted.filesystem.makeNode(mounted.entry("c"), mode: S_IFREG | 0o600, caller: mounted.caller)
      } == EROFS)
    mounted.filesystem.release(try mounted.open("b", flags: O_RDONLY))
    try mounted.write(handle, [1])
    try mounted.rename("a", "final")
    #expect(timesToldOfTheLast.withLock { $0 } == 0)
    mounted.filesystem.release(handle)
    #expect(timesToldOfTheLast.withLock { $0 } == 1)
    #expect(mounted.sink.lastSnapshot?.names == [RelativePath("final")])
  }

  @Test func manyThreadsKeepTheOrderOfEachFilesEvents() throws {
    let mounted = try Mounted()
    for index in 0..<4 { try mounted.make("f\(index)") }
    try mounted.makeDirectory("d")
    let work = Concurrently(mounted.filesystem)
    work.run(threads: 6) { filesystem, thread in
      var generator = SplitMix(seed: UInt64(thread) + 1)
      for step in 0..<400 {
        let name = EntryName("f\(generator.next() % 4)")
        let root = DirectoryEntry(directory: .root, name: name)
        guard let found = try? filesystem.lookup(root) else { continue }
        switch generator.next() % 6 {
        case 0:
          guard let opened = try? filesystem.open(found.node, flags: O_RDWR) else { break }
          let bytes = [UInt8(truncatingIfNeeded: step)]
          _ = bytes.withUnsafeBytes { try? filesystem.write(opened.handle, at: Int64(step), $0) }
          filesystem.release(opened.handle)
        case 1:
          guard let opened = try? filesystem.open(found.node, flags: O_WRONLY | O_TRUNC) else { break }
          filesystem.release(opened.handle)
        case 2:
          var changes = AttributeChanges()
          changes.size = Int64(generator.next() % 1000)
          _ = try? filesystem.setAttributes(of: found.node, changes, handle: nil)
        case 3:
          let other = DirectoryEntry(directory: .root, name: EntryName("f\(generator.next() % 4)"))
          try? filesystem.rename(root, to: other, flags: generator.next() % 2 == 0 ? uploadfs_rename_exchange : 0)
        case 4:
          try? filesystem.unlink(root)
        default:
          let caller = Caller(user: geteuid(), group: getegid())
          guard let created = try? filesystem.create(root, mode: 0o600, flags: O_WRONLY, caller: caller) else { break }
          filesystem.release(created.opened.handle)
          filesystem.forget(created.found.node, count: 1)
        }
        filesystem.forget(found.node, count: 1)
      }
    }
    #expect(mounted.sink.problems == [])
    #expect(mounted.filesystem.writableOpenCount == 0)
    #expect(mounted.filesystem.handles.withLock { $0.count } == 0)
    // Whatever is left is settled, and its names are those of the spool.
    for name in try mounted.listing("") where name.hasPrefix("f") {
      let node = try mounted.node(name)
      let file = try #require(mounted.filesystem.file(of: node))
      let snapshot = try #require(mounted.filesystem.snapshot(of: file.id))
      #expect(snapshot.isSettled)
      #expect(snapshot.names == [RelativePath(name)])
    }
  }
}

/// Runs blocking work on threads of its own: the test's pool must not be blocked.
final class Concurrently: Sendable {
  private let filesystem: Filesystem

  init(_ filesystem: Filesystem) {
    self.filesystem = filesystem
  }

  private final class Work: Sendable {
    let filesystem: Filesystem
    let thread: Int
    let body: @Sendable (Filesystem, Int) -> Void

    init(_ filesystem: Filesystem, _ thread: Int, _ body: @escaping @Sendable (Filesystem, Int) -> Void) {
      self.filesystem = filesystem
      self.thread = thread
      self.body = body
    }
  }

  func run(threads: Int, _ body: @escaping @Sendable (Filesystem, Int) -> Void) {
    var running: [pthread_t] = []
    for thread in 0..<threads {
      var id = pthread_t()
      let work = Unmanaged.passRetained(Work(filesystem, thread, body))
      let result = pthread_create(
        &id, nil,
        { context in
          if let context {
            let work = Unmanaged<Work>.fromOpaque(context).takeRetainedValue()
            work.body(work.filesystem, work.thread)
          }
          return nil
        }, work.toOpaque())
      if result == 0 { running.append(id) } else { work.release() }
    }
    for id in running { pthread_join(id, nil) }
  }
}

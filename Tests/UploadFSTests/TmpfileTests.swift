import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Testing

@testable import UploadFS

/// Files that are made with O_TMPFILE.
@Suite struct TmpfileTests {
  private static func make(_ mounted: Mounted, in directory: NodeID = .root) throws -> (
    node: NodeID, handle: UInt64
  ) {
    let made = try mounted.filesystem.createTmpfile(
      in: directory, mode: 0o640, flags: O_RDWR, caller: mounted.caller)
    return (made.found.node, made.opened.handle)
  }

  private static func link(_ mounted: Mounted, _ node: NodeID, _ name: String) throws {
    _ = try mounted.filesystem.makeLink(to: node, at: mounted.entry(name))
  }

  @Test func nothingIsSaidOfIt_andItIsGoneWithItsLastDescriptor() throws {
    let mounted = try Mounted()
    try mounted.makeDirectory("sub")
    let (node, handle) = try Self.make(mounted, in: try mounted.node("sub"))
    try mounted.write(handle, [1, 2, 3])
    #expect(try mounted.read(handle) == [1, 2, 3])
    #expect(try mounted.listing("sub").filter { $0 != "." && $0 != ".." } == [])
    _ = try mounted.filesystem.flush(handle)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == [] && mounted.sink.problems == [])
    mounted.filesystem.forget(node, count: 1)
    #expect(failure { try Self.link(mounted, node, "a") } == ENOENT)
    #expect(mounted.filesystem.file(of: node) == nil)
  }

  @Test func linked_itIsAFileThatIsOpenForWriting() throws {
    let mounted = try Mounted()
    try mounted.makeDirectory("sub")
    let (node, handle) = try Self.make(mounted, in: try mounted.node("sub"))
    try mounted.write(handle, [1, 2, 3])
    try Self.link(mounted, node, "a")
    #expect(mounted.sink.lastSnapshot?.names == [RelativePath("a")])
    #expect(mounted.sink.takeNames() == ["opened"])
    #expect(try mounted.node("a") == node)
    try mounted.write(handle, at: 3, [4])
    try Self.link(mounted, node, "sub/b")
    #expect(mounted.sink.takeNames() == ["namesChanged"])
    mounted.filesystem.release(handle)
    let snapshot = try #require(mounted.sink.lastSnapshot)
    #expect(mounted.sink.takeNames() == ["settled"] && snapshot.sizeBytes == 4 && snapshot.mode == 0o640)
    #expect(try mounted.contents(of: snapshot.id) == [1, 2, 3, 4])
    #expect(mounted.sink.problems == [])
  }

  @Test func linkedAfterItsWriterHasClosedIt_itIsWhole() throws {
    let mounted = try Mounted()
    let (node, handle) = try Self.make(mounted)
    try mounted.write(handle, [1, 2, 3])
    let (reader) = try mounted.filesystem.open(node, flags: O_RDONLY, by: 0).handle
    mounted.filesystem.release(handle)
    try Self.link(mounted, node, "a")
    #expect(mounted.sink.lastSnapshot?.sizeBytes == 3 && mounted.sink.lastSnapshot?.interruption == nil)
    #expect(mounted.sink.takeNames() == ["settled"])
    mounted.filesystem.release(reader)
    #expect(mounted.sink.problems == [])
  }

  @Test func nameThatIsTaken_isRefused_andAnotherOneWorks() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let (node, handle) = try Self.make(mounted)
    _ = mounted.sink.takeNames()
    #expect(failure { try Self.link(mounted, node, "a") } == EEXIST)
    #expect(mounted.sink.takeNames() == [])
    try Self.link(mounted, node, "b")
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == ["opened", "settled"] && mounted.sink.problems == [])
  }

  @Test(.promises("S20a", "S20b"), .enabled(if: geteuid() == 0, "only root can give files away"))
  func itBelongsToItsMaker() throws {
    let mounted = try Mounted()
    try mounted.makeDirectory("shared")
    #expect(chown(mounted.captures + "/shared", 0, 4321) == 0 && chmod(mounted.captures + "/shared", 0o2777) == 0)
    let maker = Caller(user: 1111, group: 2222)
    for (path, group): (String, gid_t) in [("", 2222), ("shared", 4321)] {
      let made = try mounted.filesystem.createTmpfile(
        in: mounted.node(path), mode: 0o4710, flags: O_RDWR, caller: maker)
      let status = try mounted.filesystem.attributes(of: made.found.node, handle: made.opened.handle)
      #expect(status.st_uid == 1111 && status.st_gid == group && status.st_mode & 0o7777 == 0o4710)
      mounted.filesystem.release(made.opened.handle)
    }
  }

  /// Unlinked for good: linkat(2) gives no name back.
  @Test func onceItHasLostItsName_itGetsNoneAgain() throws {
    let mounted = try Mounted()
    let (node, handle) = try Self.make(mounted)
    try Self.link(mounted, node, "a")
    try mounted.filesystem.unlink(mounted.entry("a"))
    #expect(mounted.sink.takeNames() == ["opened", "removed"])
    #expect(failure { try Self.link(mounted, node, "b") } == ENOENT)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.problems == [])
  }

  @Test func whileDraining_noneIsMade_butOneThatIsOpenGetsItsName() throws {
    let mounted = try Mounted()
    let (node, handle) = try Self.make(mounted)
    mounted.filesystem.stopAcceptingWriters()
    #expect(failure { _ = try Self.make(mounted) } == EROFS)
    #expect(mounted.filesystem.writableOpenCount == 1)
    try Self.link(mounted, node, "a")
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == ["opened", "settled"])
    #expect(mounted.filesystem.writableOpenCount == 0)
  }
}

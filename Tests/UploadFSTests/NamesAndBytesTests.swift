import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// Operations that need no mount to be tried.
struct NamesAndBytesTests {
  @Test func theCallsOfOneFileShareWhatTheySee() throws {
    let mounted = try Mounted()
    let writer = try mounted.create("a")
    try mounted.write(writer, Array("0123456789".utf8))
    let reader = try mounted.open("a", flags: O_RDONLY)
    #expect(try mounted.read(reader, at: 5) == Array("56789".utf8))
    #expect(try mounted.read(reader, at: 100) == [])
    #expect(try mounted.read(reader, at: -1) == [])
    #expect(try mounted.filesystem.attributes(of: mounted.node("a"), handle: reader).st_size == 10)
    mounted.filesystem.release(writer)
    mounted.filesystem.release(reader)
    mounted.filesystem.release(reader)
    #expect(failure { _ = try mounted.read(reader) } == EBADF)
  }

  /// Regression: recorders had all descriptors, and the server was called unreachable.
  @Test(.promises("S29e")) func beyondTheirShare_noMoreCapturesAreOpened() throws {
    let mounted = try Mounted({ $0.openCapturesMax = 2 })
    for name in ["a", "b", "c"] { try mounted.make(name) }
    let first = try mounted.open("a", flags: O_RDONLY)
    let second = try mounted.create("d")
    #expect(failure { _ = try mounted.open("b", flags: O_RDONLY) } == ENFILE)
    #expect(failure { _ = try mounted.create("e") } == ENFILE)
    #expect(failure { _ = try mounted.node("e") } == ENOENT, "nothing of it is left")
    let again = try mounted.open("a", flags: O_RDWR)
    mounted.filesystem.release(first)
    #expect(failure { _ = try mounted.open("b", flags: O_RDONLY) } == ENFILE, "a is still open")
    mounted.filesystem.release(again)
    let third = try mounted.open("b", flags: O_WRONLY)
    for handle in [second, third] { mounted.filesystem.release(handle) }
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S29e")) func shareOfOpenCaptures_leavesRoomForDelivering() {
    for (limit, reserve) in [(128, 96), (256, 96), (256, 192), (1024, 96), (4096, 128), (524_288, 96)] {
      let countMax = OpenCaptures.countMax(of: limit, reserve: reserve)
      #expect(countMax + limit / 4 + reserve <= limit || countMax == 16)
      #expect(countMax >= 16)
    }
    #expect(OpenCaptures.countMax(of: 256, reserve: 96) == 96 && OpenCaptures.countMax(of: 1024, reserve: 96) == 672)
  }

  @Test func createOpensWhatIsThereUnlessItMustBeNew() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    #expect(failure { _ = try mounted.create("a", flags: O_WRONLY | O_EXCL) } == EEXIST)
    let handle = try mounted.create("a", flags: O_RDWR)
    #expect(try mounted.read(handle) == Array("content".utf8))
    mounted.filesystem.release(handle)
    mounted.filesystem.release(try mounted.create("a", flags: O_RDWR | O_TRUNC))
    #expect(mounted.sink.lastSnapshot?.sizeBytes == 0)
    #expect(mounted.sink.problems == [])
  }

  @Test func aReplacedFileCanBeOpenedUntilTheKernelForgetsIt() throws {
    let mounted = try Mounted()
    try mounted.make("a", Array("old".utf8))
    try mounted.make("b", Array("new".utf8))
    let replaced = try #require(try mounted.filesystem.lookup(mounted.entry("a"))).node
    let lookups = try #require(mounted.filesystem.nodes.withLock { $0.table[replaced]?.lookups })
    try mounted.rename("b", "a")
    _ = mounted.sink.takeNames()
    #expect(try mounted.filesystem.attributes(of: replaced, handle: nil).st_nlink == 0)
    let handle = try mounted.filesystem.open(replaced, flags: O_RDWR).handle
    #expect(try mounted.read(handle) == Array("old".utf8))
    try mounted.write(handle, Array("lost".utf8))
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == [], "it is gone for every other program")
    mounted.filesystem.release(try mounted.filesystem.open(replaced, flags: O_WRONLY | O_TRUNC).handle)
    #expect(try mounted.filesystem.attributes(of: replaced, handle: nil).st_size == 0)
    #expect(try mounted.read(mounted.open("a", flags: O_RDONLY)) == Array("new".utf8))
    mounted.filesystem.forget(replaced, count: lookups)
    #expect(failure { _ = try mounted.filesystem.open(replaced, flags: O_RDONLY) } == ESTALE)
    #expect(mounted.sink.problems == [])
  }

  /// Regression: a descriptor that only names a file (O_PATH), and an `open` that came after the look-up, got ESTALE.
  @Test(.promises("S3d", "S6c")) func anUnlinkedFileIsThereAsLongAsTheKernelKnowsIt() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let node = try mounted.node("a")
    let lookups = try #require(mounted.filesystem.nodes.withLock { $0.table[node]?.lookups })
    try mounted.filesystem.unlink(mounted.entry("a"))
    try mounted.make("a", Array("new".utf8))
    #expect(try mounted.filesystem.attributes(of: node, handle: nil).st_nlink == 0)
    let handles = [try mounted.filesystem.open(node, flags: O_RDONLY).handle, try mounted.open("a", flags: O_RDONLY)]
    #expect(try handles.map { try mounted.read($0) } == [Array("content".utf8), Array("new".utf8)])
    for handle in handles { mounted.filesystem.release(handle) }
    mounted.filesystem.forget(node, count: lookups)
    #expect(failure { _ = try mounted.filesystem.open(node, flags: O_RDONLY) } == ESTALE)
    let other = try mounted.node("a")
    try mounted.filesystem.unlink(mounted.entry("a"))
    mounted.filesystem.withNodes { $0.table.unpinFiles() }
    #expect(failure { _ = try mounted.filesystem.open(other, flags: O_RDONLY) } == ESTALE, "a write needs the room")
  }

  @Test func aFileWhoseOtherNameIsNotKnownYetStaysOpenable() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let node = try mounted.node("a")
    #expect(link(mounted.captures + "/a", mounted.captures + "/b") == 0)
    try mounted.filesystem.unlink(mounted.entry("a"))
    #expect(try mounted.read(mounted.filesystem.open(node, flags: O_RDONLY).handle) == Array("content".utf8))
    #expect(try mounted.node("b") == node)
    #expect(mounted.filesystem.nodes.withLock { $0.table[node]?.pin } == nil)
  }

  @Test(.promises("S18a")) func theUploaderLeavesTheTimeOfTheLastRead() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let path = mounted.captures + "/a"
    let times = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 2, tv_nsec: 0)]
    try #require(utimensat(AT_FDCWD, path, times, 0) == 0)
    let id = try #require(mounted.sink.lastSnapshot?.id)
    #expect(try mounted.contents(of: id) == Array("content".utf8))
    #expect(try mounted.filesystem.attributes(of: mounted.node("a"), handle: nil).st_atim.tv_sec == 1)
  }

  @Test(.promises("S60b", "S74b")) func eachFollowerHearsOfItsOwnChunks() throws {
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    let id = try #require(mounted.sink.lastSnapshot?.id)
    let subscribers = (1...2).map { mounted.filesystem.contents(for: SubscriberID(number: $0)) }
    let (short, long) = (subscribers[0], subscribers[1])
    _ = short.growth(of: id, chunkBytes: 10, anew: true)
    _ = long.growth(of: id, chunkBytes: 100, anew: true)
    try mounted.write(handle, [UInt8](repeating: 1, count: 20))
    let before = try #require(short.stableEpoch(of: id, at: 0))
    #expect(long.stableEpoch(of: id, at: 0) == before)
    try mounted.write(handle, at: 10, [2])
    #expect(short.stableEpoch(of: id, at: 0) == before && long.stableEpoch(of: id, at: 0) == before + 1)
    #expect(short.growth(of: id, chunkBytes: 10, anew: false)?.changes.map(\.index) == [0, 1])
    #expect(long.growth(of: id, chunkBytes: 100, anew: false)?.changes.map(\.index) == [0])
    #expect(mounted.filesystem.stableEpoch(of: id, at: 0) == nil, "there is no third follower")
    mounted.filesystem.release(handle)
  }

  @Test func unknownNumbersFailAndDoNoHarm() throws {
    let mounted = try Mounted()
    let unknown = NodeID(rawValue: 12345)
    #expect(failure { _ = try mounted.filesystem.open(unknown, flags: O_RDONLY) } == ESTALE)
    #expect(failure { _ = try mounted.filesystem.attributes(of: unknown, handle: nil) } == ESTALE)
    #expect(failure { _ = try mounted.filesystem.openDirectory(unknown) } == ESTALE)
    #expect(
      failure { _ = try mounted.filesystem.lookup(DirectoryEntry(directory: unknown, name: EntryName("a"))) } == ESTALE)
    #expect(failure { _ = try mounted.filesystem.attributes(of: .firstVirtual, handle: 99) } == ESTALE)
    #expect(failure { _ = try mounted.filesystem.read(77, at: 0, into: .init(start: nil, count: 0)) } == EBADF)
    mounted.filesystem.release(77)
    mounted.filesystem.forget(unknown, count: 5)
    mounted.filesystem.forget(.firstVirtual, count: 5)
  }

  @Test(.promises("S30a")) func theVirtualTreeIsShownAndCannotBeChanged() throws {
    let mounted = try Mounted()
    #expect(try mounted.listing("") == [".uploadfs", "status"])
    #expect(try mounted.listing("status") == ["file.json", "link"])
    #expect(failure { try mounted.makeDirectory("status") } == EEXIST)
    #expect(failure { _ = try mounted.create("status/new") } == EROFS)
    #expect(failure { try mounted.filesystem.removeDirectory(mounted.entry("status")) } == EPERM)
    try mounted.make("a")
    #expect(failure { try mounted.rename("a", "status") } == EPERM)
    #expect(failure { try mounted.rename("a", "status/a") } == EROFS)
    #expect(failure { _ = try mounted.open("status/file.json", flags: O_WRONLY) } == EROFS)
    #expect(try mounted.filesystem.readLink(mounted.node("status/link")).dropLast().count == 9)
    try mounted.makeDirectory("d")
    try mounted.make("d/status")
  }

  @Test(.promises("S30d", "SE5a")) func whatIsAboutEveryFile_isForTheUserWhoHasMountedIt() throws {
    let mounted = try Mounted()
    mounted.tree.subjects.withLock { $0 = ["status/file.json": .everyFile, "status": .everyFile] }
    let status = try shown("status/file.json", in: mounted)
    #expect(status.st_mode == S_IFREG | 0o400 && status.st_uid == geteuid())
    // Others cannot even look names up in it.
    let folder = try shown("status", in: mounted)
    #expect(folder.st_mode == S_IFDIR | 0o500 && folder.st_uid == geteuid())
  }

  /// Regression.
  @Test(.promises("S77a", "S77b")) func aWordIsTakenAtTheBeginning_andNothingElse() throws {
    let mounted = try Mounted()
    mounted.filesystem.release(try mounted.create("a", mode: 0o640))
    let id = try #require(try mounted.candidate("a"))
    mounted.tree.subjects.withLock { $0 = ["status/file.json": .file(id, last: nil)] }
    mounted.tree.isWritable.store(true, ordering: .relaxed)
    #expect(try shown("status/file.json", in: mounted).st_mode == S_IFREG | 0o640, "as the capture")
    let node = try mounted.node("status/file.json")
    let handle = try mounted.open("status/file.json", flags: O_WRONLY | O_TRUNC)
    func write(_ text: String, at offset: Int64, flags: Int32 = O_WRONLY) throws -> Int {
      try Array(text.utf8).withUnsafeBytes { try mounted.filesystem.write(handle, at: offset, $0, flags: flags) }
    }
    #expect(try write("retry\n", at: 0) == 6)
    #expect(try write("cancel", at: 3, flags: O_WRONLY | O_APPEND) == 6)
    #expect(failure { _ = try write("retry", at: 1) } == EINVAL)
    #expect(failure { _ = try write(String(repeating: " ", count: 5000), at: 0) } == EINVAL)
    mounted.tree.refusal.withLock { $0 = VirtualWriteRefusal(errno: ENOSPC) }
    #expect(failure { _ = try write("retry", at: 0) } == ENOSPC)
    var changes = AttributeChanges()
    changes.size = 0
    changes.modified = .now
    #expect(try mounted.filesystem.setAttributes(of: node, changes, handle: nil).st_size == 3)
    changes.size = 2
    #expect(failure { _ = try mounted.filesystem.setAttributes(of: node, changes, handle: nil) } == EINVAL)
    changes = AttributeChanges()
    changes.mode = 0o777
    #expect(failure { _ = try mounted.filesystem.setAttributes(of: node, changes, handle: nil) } == EROFS)
    mounted.tree.isWritable.store(false, ordering: .relaxed)
    #expect(failure { _ = try write("retry", at: 0) } == EROFS, "the file is gone by now")
    #expect(mounted.tree.words.withLock { $0 } == ["retry\n", "cancel"])
    #expect(try shown("status/file.json", in: mounted).st_mode == S_IFREG | 0o440)
    mounted.filesystem.release(handle)
  }

  @Test(.promises("S31a", "S31b")) func anOpenVirtualFileIsOneCopyUntilItIsReadFromTheStart() throws {
    let mounted = try Mounted()
    let handle = try mounted.open("status/file.json", flags: O_RDONLY)
    let node = try mounted.node("status/file.json")
    #expect(try mounted.filesystem.readyEvents(handle) == 0)
    #expect(try mounted.read(handle, count: 2) == Array("on".utf8))
    mounted.tree.set("another")
    #expect(try mounted.read(handle, at: 2) == Array("e".utf8))
    #expect(try mounted.filesystem.attributes(of: node, handle: handle).st_size == 3)
    #expect(try mounted.filesystem.attributes(of: node, handle: nil).st_size == 7)
    #expect(try mounted.filesystem.readyEvents(handle) == UInt32(POLLIN | POLLRDNORM))
    #expect(try mounted.read(handle) == Array("another".utf8))
    #expect(try mounted.filesystem.readyEvents(handle) == 0)
    mounted.filesystem.release(handle)
  }

  @Test(.promises("S31b", "S32")) func aVirtualFileThatChangesWhileItIsRead_isNewForPoll() throws {
    let mounted = try Mounted()
    mounted.tree.setOnceRead("another")
    let handle = try mounted.open("status/file.json", flags: O_RDONLY)
    #expect(try mounted.filesystem.readyEvents(handle) == UInt32(POLLIN | POLLRDNORM))
    #expect(try mounted.read(handle) == Array("another".utf8))
    #expect(try mounted.filesystem.readyEvents(handle) == 0)
    mounted.filesystem.release(handle)
  }

  private func shown(_ path: String, in mounted: Mounted) throws -> stat {
    try mounted.filesystem.attributes(of: mounted.node(path), handle: nil)
  }

  /// Regression: with allow_other every user could read the status of every capture.
  @Test(.promises("SE5a", "SE5b")) func theStatusOfACaptureIsForThoseWhoCanReadIt() throws {
    let mounted = try Mounted()
    mounted.filesystem.release(try mounted.create("a", mode: 0o640))
    try mounted.makeDirectory("d")
    let id = try #require(try mounted.candidate("a"))
    let last = FileOwnership(user: 77, group: 78, mode: 0o4040)
    mounted.tree.subjects.withLock {
      $0 = [
        "status/file.json": .file(id, last: last), "status": .folder(RelativePath("d")), ".uploadfs": .folder(.root),
      ]
    }
    let status = try shown("status/file.json", in: mounted)
    let snapshot = try #require(mounted.filesystem.snapshot(of: id))
    #expect(snapshot.user == geteuid() && snapshot.group == getegid() && snapshot.mode == 0o640)
    #expect(status.st_mode == S_IFREG | 0o440 && status.st_uid == geteuid() && status.st_gid == getegid())
    var changes = AttributeChanges()
    changes.mode = 0o004
    _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: nil)
    #expect(try shown("status/file.json", in: mounted).st_mode == S_IFREG | 0o404, "its owner can always read it")
    #expect(try shown("status", in: mounted).st_mode == S_IFDIR | 0o500)
    #expect(try shown(".uploadfs", in: mounted).st_mode == S_IFDIR | 0o500)
    changes.mode = 0o3711
    _ = try mounted.filesystem.setAttributes(of: mounted.node("d"), changes, handle: nil)
    #expect(try shown("status", in: mounted).st_mode == S_IFDIR | 0o511)
    let node = try mounted.node("a")
    let lookups = try #require(mounted.filesystem.nodes.withLock { $0.table[node]?.lookups })
    try mounted.filesystem.unlink(mounted.entry("a"))
    mounted.filesystem.forget(node, count: lookups)
    try mounted.filesystem.removeDirectory(mounted.entry("d"))
    let gone = try shown("status/file.json", in: mounted)
    #expect(gone.st_uid == 77 && gone.st_gid == 78 && gone.st_mode == S_IFREG | 0o440)
    mounted.tree.subjects.withLock { $0["status/file.json"] = .file(id, last: nil) }
    let unknown = try shown("status/file.json", in: mounted)
    #expect(unknown.st_uid == geteuid() && unknown.st_mode == S_IFREG | 0o400)
    #expect(try shown("status", in: mounted).st_mode == S_IFDIR | 0o511)
  }

  @Test(
    "Regression: what is said of captures in a private folder was open to all once the folder was gone",
    .promises("SE5b"),
    arguments: ["removed", "renamed", "replaced"])
  func theStatusOfWhatWasInAPrivateFolder_staysPrivate(how: String) throws {
    let mounted = try Mounted()
    mounted.tree.saysSomething.store(true, ordering: .relaxed)
    try mounted.makeDirectory("d")
    let last = FileOwnership(user: 77, group: 78, mode: 0o644)
    let id = FileID(high: 1, low: 2)
    mounted.tree.subjects.withLock {
      $0 = ["status/file.json": .file(id, last: last), "status": .folder(RelativePath("d"))]
    }
    switch how {
    case "removed": try mounted.filesystem.removeDirectory(mounted.entry("d"))
    case "renamed": try mounted.rename("d", "e")
    default:
      try mounted.makeDirectory("e")
      try mounted.rename("e", "d")
    }
    #expect(try shown("status/file.json", in: mounted).st_mode == S_IFREG | 0o400)
    #expect(try shown("status", in: mounted).st_mode == S_IFDIR | 0o500)
    if how != "replaced" { try mounted.makeDirectory("d") }
    var changes = AttributeChanges()
    changes.mode = 0o755
    _ = try mounted.filesystem.setAttributes(of: mounted.node("d"), changes, handle: nil)
    #expect(try shown("status", in: mounted).st_mode == S_IFDIR | 0o555)
    #expect(
      try shown("status/file.json", in: mounted).st_mode == S_IFREG | 0o400, "also in a folder that was made anew")
    #expect(try mounted.listing("status") == ["link"], "nor are names of what was in the former one")
  }

  @Test("Regression: in a folder that could be entered the status of what is gone stays readable", .promises("SE5b"))
  func theStatusOfWhatWasInAnOpenFolder_staysReadable() {
    var access = FolderAccess()
    let folder = RelativePath("d/e")
    let last = FileOwnership(user: 1, group: 2, mode: 0o444)
    access.left(folder, FileOwnership(user: 1, group: 2, mode: 0o755)) { _ in true }
    #expect(access.restrict(last, in: folder) == last && !access.hidesNames(in: folder))
    access.left(RelativePath("d"), FileOwnership(user: 1, group: 2, mode: 0o750)) { _ in true }
    #expect(access.restrict(last, in: folder).mode == 0o440, "its group could enter it")
    #expect(access.restrict(FileOwnership(user: 1, group: 3, mode: 0o444), in: folder).mode == 0o400)
    #expect(access.hidesNames(in: folder) && access.hidesNames(in: RelativePath("d")))
    #expect(!access.hidesNames(in: RelativePath("other")))
    // Of a folder of which nothing is said any more nothing is kept, and of too many the strictest holds for all.
    var many = FolderAccess()
    let open = FileOwnership(user: 1, group: 2, mode: 0o755)
    for number in 0..<5000 { many.left(RelativePath("\(number)"), open) { $0 != RelativePath("1") } }
    #expect(many.restrict(last, in: RelativePath("never")).mode == 0o400 && many.hidesNames(in: .root))
    var few = FolderAccess()
    for number in 0..<5000 { few.left(RelativePath("\(number)"), open) { $0 == RelativePath("\(number)") } }
    #expect(few.restrict(last, in: RelativePath("never")) == last)
  }

  @Test("Regression: each open of a virtual file was a copy of its own, without a bound", .promises("S31e"))
  func copiesOfVirtualFiles_areSharedAndBounded() {
    let copies = VirtualCopies(bytesMax: 100_000)
    let page = [UInt8](repeating: 1, count: 10_000)
    let shared = (0..<1000).map { _ in copies.add(page, of: [1]) }
    #expect(Set(shared).count == 1 && copies.costBytes < 12_000)
    var different: [VirtualCopies.ID] = []
    for number in 0..<100 {
      different.append(copies.add(page + [UInt8(number)], of: [2]))
      #expect(copies.costBytes <= 100_000)
    }
    #expect(copies.content(different[0]) == nil && copies.content(different[99]) == page + [99])
    for id in shared + different { copies.remove(id) }
    #expect(copies.costBytes == 0)
  }

  @Test("Regression: each open folder kept a listing of its own, without a bound", .promises("S31f"))
  func listingsOfOpenFolders_areSharedAndBounded() throws {
    let mounted = try Mounted()
    for number in 0..<100 { try mounted.make("file \(number)") }
    let filesystem = mounted.filesystem
    func list(_ number: UInt64, from cookie: Int64) throws -> Int {
      try filesystem.withListing(of: filesystem.directoryHandle(number), from: cookie) { listing, _ in listing.count }
    }
    let open = try (0..<100).map { _ in try filesystem.openDirectory(.root) }
    let count = try list(open[0], from: 0)
    let costBytes = filesystem.listingCopies.costBytes
    for number in open { #expect(try list(number, from: 0) == count) }
    #expect(count > 100 && filesystem.listingCopies.costBytes == costBytes)
    // More than is kept, of another folder.
    func fill() {
      var large = DirectoryListing()
      for number in 0..<100_000 {
        large.append(name: EntryName(bytes: Array("\(number)".utf8)), inode: UInt64(number), mode: S_IFREG)
      }
      for number in 0..<30 {
        large.append(name: EntryName(bytes: Array("more \(number)".utf8)), inode: 0, mode: S_IFREG)
        _ = filesystem.listingCopies.add(large, of: NodeID(rawValue: 1 << 40))
        #expect(filesystem.listingCopies.costBytes <= 64 << 20)
      }
    }
    fill()
    #expect(try list(open[0], from: 50) == count, "it is read again")
    try mounted.make("another")
    #expect(try list(open[0], from: 51) == count)
    fill()
    #expect(failure { _ = try list(open[0], from: 52) } == ESTALE)
    #expect(try list(open[0], from: 0) == count + 1)
    for number in open { filesystem.release(number) }
  }

  @Test func aCopyThatWasLetGoOf_isReadAgainFromTheStart() throws {
    let mounted = try Mounted()
    let handle = try mounted.open("status/file.json", flags: O_RDONLY)
    for number in 0..<70 {
      _ = mounted.filesystem.virtual.copies.add([UInt8](repeating: UInt8(number), count: 1 << 20), of: [1])
    }
    #expect(failure { _ = try mounted.read(handle, at: 1) } == ESTALE)
    #expect(try mounted.filesystem.attributes(of: mounted.node("status/file.json"), handle: handle).st_size == 3)
    #expect(try mounted.read(handle) == Array("one".utf8) && mounted.read(handle, at: 2) == Array("e".utf8))
    mounted.filesystem.release(handle)
  }

  @Test func aSpoolEntryWithAReservedNameStaysHidden() throws {
    let mounted = try Mounted()
    #expect(mkdir(mounted.captures + "/status", 0o700) == 0)
    #expect(try mounted.listing("") == [".uploadfs", "status"])
    #expect(try mounted.node("status").isVirtual)
  }

  @Test func whatIsTakenFromTheSpoolByHandIsStaleAndLearntAnew() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let node = try mounted.node("a")
    #expect(unlink(mounted.captures + "/a") == 0)
    #expect(failure { _ = try mounted.filesystem.attributes(of: node, handle: nil) } == ESTALE)
    #expect(try mounted.filesystem.lookup(mounted.entry("a")) == nil)
    try mounted.make("a")
    #expect(try mounted.node("a") != node)
  }

  @Test func theSpoolHoldsPlainFilesUnderTheirOwnNames() throws {
    let mounted = try Mounted()
    try mounted.makeDirectory("d")
    try mounted.make("d/name with space")
    var status = stat()
    #expect(stat(mounted.captures + "/d/name with space", &status) == 0)
    #expect(status.st_size == 7)
    #expect(stat(mounted.folder.path + "/spool", &status) == 0)
    #expect(status.st_mode & 0o777 == 0o700)
  }
}

struct MountErrorTests {
  private func kind(_ body: () throws(MountError) -> Void) -> MountError.Kind? {
    do throws(MountError) {
      try body()
      return nil
    } catch {
      #expect(!error.message.isEmpty && !error.message.contains("\n"))
      return error.kind
    }
  }

  private func filesystem(mountPoint: String, spool: String) throws(MountError) {
    _ = try Filesystem(
      configuration: FilesystemConfiguration(mountPoint: mountPoint, spoolDirectory: spool), sink: RecordingSink(),
      virtualTree: SettableTree())
  }

  @Test(.promises("S18c")) func theRootsModeIsThatOfTheRunBefore() throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      var changes = AttributeChanges()
      changes.mode = 0o2751
      _ = try mounted.filesystem.setAttributes(of: .root, changes, handle: nil)
    }
    let next = try Mounted(folder: folder)
    #expect(try next.filesystem.attributes(of: .root, handle: nil).st_mode & 0o7777 == 0o2751)
  }

  @Test func theSpoolAndTheMountMustLieApart() throws {
    let folder = try TemporaryFolder()
    let path = folder.path
    for (mountPoint, spool) in [
      (path + "/m", path + "/m"), (path + "/m", path + "/m/spool"), (path + "/m/", path + "/m/../m/a/b"),
      (path + "/s/captures/m", path + "/s"), (path + "/s/captures", path + "/s"),
    ] {
      #expect(
        kind { () throws(MountError) in try filesystem(mountPoint: mountPoint, spool: spool) } == .spoolInsideMount)
    }
    #expect(
      kind { () throws(MountError) in try filesystem(mountPoint: path + "/m", spool: path + "/made/for/it") } == nil)
  }

  @Test func anUnusableSpoolIsRefused() throws {
    let folder = try TemporaryFolder()
    let file = folder.path + "/file"
    close(uploadfs_openat(AT_FDCWD, file, O_CREAT | O_WRONLY, 0o600))
    #expect(kind { () throws(MountError) in try filesystem(mountPoint: "/mnt", spool: file) } == .spoolUnusable)
    #expect(
      kind { () throws(MountError) in try filesystem(mountPoint: "/mnt", spool: file + "/below") } == .spoolUnusable)
    #expect(kind { () throws(MountError) in try filesystem(mountPoint: "/mnt", spool: "/proc/none") } == .spoolUnusable)
    #expect(kind { () throws(MountError) in try filesystem(mountPoint: "/mnt", spool: "") } == .spoolUnusable)
  }

  @Test func aSpoolServesOneMountAtATime() throws {
    let mounted = try Mounted()
    let spool = mounted.folder.path + "/spool"
    #expect(kind { () throws(MountError) in try filesystem(mountPoint: "/mnt", spool: spool) } == .spoolUnusable)
  }

  @Test func aMountPointHasToBeAnEmptyDirectory() throws {
    let folder = try TemporaryFolder()
    let path = folder.path
    close(uploadfs_openat(AT_FDCWD, path + "/file", O_CREAT | O_WRONLY, 0o600))
    func check(_ mountPoint: String) -> MountError.Kind? {
      kind { () throws(MountError) in _ = try MountPoint(checking: mountPoint) }
    }
    #expect(check("") == .mountPointMissing)
    #expect(check(path + "/none") == .mountPointMissing)
    #expect(check(path + "/none/none") == .mountPointMissing)
    #expect(check(path + "/file") == .mountPointNotDirectory)
    #expect(check(path + "/file/below") == .mountPointNotDirectory)
    #expect(check(path) == .mountPointNotEmpty)
    #expect(check("/proc") == .mountPointNotEmpty)
    #expect(check("/") == .mountPointNotEmpty)
  }

  /// Regression: with U+FFFD in the place of what is no UTF-8, the mount went to a folder of that name where there was one, and else its
  /// making was advised.
  @Test func aMountPointThatLeadsToNoUTF8_isRefused() throws {
    let folder = try TemporaryFolder()
    let path = folder.path
    let target: [CChar] = Array((path + "/caf").utf8CString.dropLast()) + [CChar(bitPattern: 0xe9), 0]
    #expect(mkdir(target, 0o700) == 0 && symlink(target, path + "/link") == 0)
    for hasDecoy in [false, true] {
      if hasDecoy { #expect(mkdir(path + "/caf\u{fffd}", 0o700) == 0) }
      for mountPoint in [path + "/link", path + "/link/", path + "/link/none"] {
        do throws(MountError) {
          let taken = try MountPoint(checking: mountPoint)
          Issue.record("\(mountPoint) became \(taken.path)")
        } catch {
          #expect(error.kind == .mountPointNotDirectory)
          #expect(error.message.contains("/caf\\xe9") && error.message.contains("no UTF-8"), "\(error.message)")
          #expect(!error.message.contains("mkdir") && !error.message.contains("\u{fffd}"), "\(error.message)")
        }
      }
    }
  }
}

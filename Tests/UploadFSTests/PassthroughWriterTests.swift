import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// The space of writers that pass the daemon. What the kernel does with a file of the spool, the test does.
struct PassthroughWriterTests {
  private static let block = CaptureDisk.blockBytes
  private static let reserveBlocks: UInt64 = 10
  /// 4 GiB.
  private static let wantedBlocks: UInt64 = (4 << 30) / block

  /// A kernel that takes every file of the spool.
  private final class KernelFake: BackingFiles {
    private let files = Mutex<[BackingID: FileDescriptor]>([:])
    private let lentCount = Mutex<Int32>(0)

    func openBacking(_ lent: FileDescriptor) -> BackingID? {
      let number = uploadfs_openat(AT_FDCWD, lent.reopenPath, O_RDWR | O_CLOEXEC, 0)
      guard number >= 0 else { return nil }
      let descriptor = FileDescriptor(owning: number, isReadable: true, isWritable: true)
      let id = lentCount.withLock { count in
        count += 1
        return BackingID(rawValue: count)
      }
      files.withLock { $0[id] = descriptor }
      return id
    }

    func closeBacking(_ id: BackingID) { _ = files.withLock { $0.removeValue(forKey: id) } }

    var isHoldingNone: Bool { files.withLock { $0.isEmpty } }

    /// A write beyond the end, as long as a hole can be: what it takes of the disk is told by the file's size.
    func extend(_ id: BackingID, toBlocks blocks: UInt64) throws {
      let descriptor = try #require(files.withLock { $0[id] })
      #expect(ftruncate(descriptor.number, off_t(blocks * PassthroughWriterTests.block)) == 0)
    }
  }

  private let kernel = KernelFake()

  /// A disk that has so many blocks above the reserve.
  private func mounted(blocks: UInt64) throws -> Mounted {
    let folder = try TemporaryFolder()
    let disk = CaptureDisk(blocks: blocks + Self.reserveBlocks)
    let mounted = try Mounted(folder: folder, source: disk.source(folder)) {
      $0.reserveBytes = Self.reserveBlocks * Self.block
      $0.rules.defaults.upload = .onClose
      $0.passthrough = .on
    }
    mounted.filesystem.passthrough.begin(with: kernel)
    return mounted
  }

  private func create(_ name: String, in mounted: Mounted) throws -> Filesystem.Opened {
    try mounted.filesystem.create(mounted.entry(name), mode: 0o600, flags: O_WRONLY, caller: mounted.caller).opened
  }

  /// Makes a file of which the sink then says that it is delivered.
  private func deliver(_ name: String, blocks: UInt64, in mounted: Mounted) throws -> EvictionCandidate {
    try mounted.make(name, [UInt8](repeating: 7, count: Int(blocks * Self.block)))
    let snapshot = try #require(mounted.sink.lastSnapshot)
    return EvictionCandidate(snapshot)
  }

  private func names(in mounted: Mounted) throws -> [String] {
    try mounted.listing("").filter { $0 != "status" && $0 != ".uploadfs" }
  }

  @Test(.promises("S50d")) func writerPassesTheDaemon_whenFourGibibytesAreFreeAboveTheReserve() throws {
    let mounted = try mounted(blocks: Self.wantedBlocks)
    let opened = try create("a", in: mounted)
    let backing = try #require(opened.backing)
    #expect(opened.changesUnseen)
    try kernel.extend(backing, toBlocks: 1)
    // One block less is left now, and the look that comes each second finds it.
    mounted.filesystem.checkPassthroughWriters()
    let next = try create("b", in: mounted)
    #expect(next.backing == nil && !next.changesUnseen)
    mounted.filesystem.release(next.handle)
    mounted.filesystem.release(opened.handle)
    #expect(kernel.isHoldingNone)
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S50d")) func writerDoesNotPass_whenOneBlockIsMissing() throws {
    let mounted = try mounted(blocks: Self.wantedBlocks - 1)
    let opened = try create("a", in: mounted)
    #expect(opened.backing == nil && !opened.changesUnseen && opened.isDirect)
    mounted.filesystem.release(opened.handle)
  }

  @Test(.promises("S50f")) func roomIsMadeForAWriterThatPasses_asMuchAsItMayNeed() throws {
    let mounted = try mounted(blocks: Self.wantedBlocks + 50)
    mounted.sink.offer([
      try deliver("first", blocks: 25, in: mounted), try deliver("second", blocks: 25, in: mounted),
    ])
    mounted.filesystem.checkPassthroughWriters()
    let opened = try create("a", in: mounted)
    let backing = try #require(opened.backing)
    mounted.filesystem.checkPassthroughWriters()
    #expect(try names(in: mounted) == ["a", "first", "second"])
    try kernel.extend(backing, toBlocks: 25)
    mounted.filesystem.checkPassthroughWriters()
    #expect(try names(in: mounted) == ["a", "second"])
    try kernel.extend(backing, toBlocks: 26)
    mounted.filesystem.checkPassthroughWriters()
    #expect(try names(in: mounted) == ["a"])
    mounted.filesystem.release(opened.handle)
  }

  @Test(.promises("S50f")) func noRoomIsMade_onceTheWriterIsReleased() throws {
    let mounted = try mounted(blocks: Self.wantedBlocks + 25)
    mounted.sink.offer([try deliver("delivered", blocks: 25, in: mounted)])
    let opened = try create("a", in: mounted)
    try kernel.extend(try #require(opened.backing), toBlocks: 100)
    mounted.filesystem.release(opened.handle)
    mounted.filesystem.checkPassthroughWriters()
    #expect(try names(in: mounted) == ["a", "delivered"])
  }

  @Test(.promises("S50f")) func writerThatPasses_mayWriteIntoTheReserve() throws {
    let mounted = try mounted(blocks: Self.wantedBlocks)
    let other = try mounted.create("other")
    let opened = try create("a", in: mounted)
    let blocks = Self.wantedBlocks + Self.reserveBlocks / 2
    try kernel.extend(try #require(opened.backing), toBlocks: blocks)
    mounted.filesystem.checkPassthroughWriters()
    #expect(failure { try mounted.write(other, [1]) } == ENOSPC, "the daemon keeps the reserve")
    mounted.filesystem.release(opened.handle)
    #expect(mounted.sink.lastSnapshot?.names.map(\.displayText) == ["a"])
    #expect(mounted.sink.lastSnapshot?.sizeBytes == blocks * Self.block)
    #expect(mounted.sink.lastSnapshot?.interruption == .writeFailed(errno: ENOSPC), "a write may have been refused")
    mounted.filesystem.release(other)
    #expect(mounted.sink.problems == [])
  }
}

/// Who may change files without the daemon's knowledge.
struct PassthroughWritersTests {
  private static func left() -> PassthroughWriters.Left {
    let key = SpoolKey(device: 1, inode: 2)
    return PassthroughWriters.Left(
      file: CapturedFile(id: .new(), node: .root, key: key, isNew: true),
      descriptor: FileDescriptor(owning: dup(0), isReadable: true, isWritable: false))
  }

  @Test func fileIsOpen_untilItsLastHandleIsReleased() {
    var writers = PassthroughWriters()
    for _ in 0..<2 { writers.opened(.root) }
    writers.released(.root, leaving: nil)
    #expect(writers.open == [.root: 1])
    writers.released(.root, leaving: nil)
    #expect(writers.isEmpty)
  }

  @Test func whatIsLeft_isTakenOnceItIsGone() {
    var writers = PassthroughWriters()
    let (gone, staying) = (Self.left(), Self.left())
    writers.opened(.root)
    writers.released(.root, leaving: gone)
    writers.found(staying)
    let taken = writers.takeLeft { $0.descriptor === gone.descriptor }
    #expect(taken.map { ObjectIdentifier($0.file) } == [ObjectIdentifier(gone.file)])
    #expect(writers.left.count == 1 && !writers.isEmpty)
  }
}

import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// Chunks that are given back to a full disk.
struct ReleaseTests {
  static let chunk = 64 << 10

  static func digest(_ index: Int) -> [UInt8] { [UInt8](repeating: UInt8(index), count: 32) }

  /// A disk that has room for ten chunks each time that it is asked, until it is full.
  private final class Disk: Sendable {
    let isFull = Atomic<Bool>(false)

    var source: SpoolSpace.Source {
      { () throws(SystemError) in
        var numbers = uploadfs_space()
        numbers.block_bytes = 4096
        numbers.preferred_bytes = 4096
        numbers.blocks = 1 << 30
        let free: UInt64 = self.isFull.load(ordering: .relaxed) ? 0 : UInt64(10 * ReleaseTests.chunk / 4096)
        numbers.free_blocks = free
        numbers.available_blocks = free
        return numbers
      }
    }
  }

  private struct Recorded {
    let disk = Disk()
    let mounted: Mounted
    let handle: UInt64
    let id: FileID

    /// A file of ten chunks that is being written, on a disk that is full from now on; its chunks are followed.
    init(folder: TemporaryFolder? = nil, holeMaking: HoleMaking = .system) throws {
      mounted = try Mounted(
        folder: folder, source: disk.source, { $0.rules.defaults.whenFull = .release }, holeMaking: holeMaking)
      handle = try mounted.create("a.mov", flags: O_RDWR)
      id = try #require(mounted.filesystem.file(of: mounted.node("a.mov"))).id
      _ = mounted.filesystem.growth(of: id, chunkBytes: ReleaseTests.chunk, anew: true)
      for index in 0..<10 {
        try mounted.write(
          handle, at: Int64(index * ReleaseTests.chunk), [UInt8](repeating: UInt8(index + 1), count: ReleaseTests.chunk)
        )
      }
      disk.isFull.store(true, ordering: .relaxed)
    }

    var spoolBytes: Int {
      var status = stat()
      return stat(mounted.captures + "/a.mov", &status) == 0 ? Int(status.st_blocks) * 512 : -1
    }

    func candidate(_ indices: [Int]) -> ReleaseCandidate {
      ReleaseCandidate(
        id: id, chunkBytes: ReleaseTests.chunk,
        chunks: indices.map { index in
          .init(
            index: index, epoch: mounted.filesystem.stableEpoch(of: id, at: UInt64(index * ReleaseTests.chunk)) ?? .max,
            digest: ReleaseTests.digest(index))
        }, isGrowing: true)
    }

    /// A write that finds no space has chunks given back.
    func release(_ indices: [Int]) throws {
      mounted.sink.offerChunks([candidate(indices)])
      #expect(failure { try mounted.write(handle, at: Int64(10 * ReleaseTests.chunk), [1]) } == ENOSPC)
    }
  }

  @Test(.promises("S70b")) func onlyWhatIsOfferedAndStillTheSameIsGivenBack() throws {
    let recorded = try Recorded()
    let old = recorded.candidate([1, 2, 3])
    try recorded.mounted.write(recorded.handle, at: Int64(2 * Self.chunk), [9])
    recorded.mounted.sink.offerChunks([old])
    #expect(failure { try recorded.mounted.write(recorded.handle, at: Int64(10 * Self.chunk), [1]) } == ENOSPC)
    #expect(recorded.spoolBytes / Self.chunk == 8)
    #expect(recorded.mounted.filesystem.isReleased(recorded.id, 0..<UInt64(Self.chunk)) == false)
    #expect(recorded.mounted.filesystem.isReleased(recorded.id, UInt64(Self.chunk)..<UInt64(Self.chunk + 1)))
    #expect(try recorded.mounted.read(recorded.handle, at: Int64(2 * Self.chunk), count: 2) == [9, 3])
    #expect(recorded.mounted.sink.problems == [])
  }

  @Test(.promises("S71a", "S71b", "S71c")) func neitherReadsNorChangesArePretended() throws {
    let recorded = try Recorded()
    try recorded.release([1, 2, 3])
    let (mounted, handle) = (recorded.mounted, recorded.handle)
    #expect(failure { _ = try mounted.read(handle, at: Int64(3 * Self.chunk), count: 1) } == EIO)
    #expect(failure { _ = try mounted.read(handle, at: 0, count: Self.chunk + 1) } == EIO)
    #expect(try mounted.read(handle, at: 0, count: 4) == [1, 1, 1, 1])
    #expect(failure { try mounted.write(handle, at: Int64(Self.chunk), [1]) } == EIO)
    #expect(
      failure { try mounted.filesystem.allocate(handle, mode: 0, offset: Int64(Self.chunk), length: 1) } == EIO)
    #expect(try mounted.filesystem.seek(handle, offset: Int64(Self.chunk), whence: 3) == Int64(Self.chunk))
    #expect(try mounted.filesystem.seek(handle, offset: 0, whence: 4) == Int64(10 * Self.chunk))
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == .changeRefused)
    #expect(mounted.sink.lastSnapshot?.isPartlyReleased == true)
  }

  @Test(.promises("S71d")) func cutOffItIsNoLongerMissing() throws {
    let recorded = try Recorded()
    try recorded.release([1, 2, 3])
    recorded.disk.isFull.store(false, ordering: .relaxed)
    let file = try #require(recorded.mounted.filesystem.file(of: recorded.mounted.node("a.mov")))
    let descriptor = try #require(file.state.withLock { $0.handles.descriptor })
    #expect(
      failure { try recorded.mounted.filesystem.truncate(file, to: Int64(2 * Self.chunk + 1), through: descriptor) }
        == EIO)
    try recorded.mounted.filesystem.truncate(file, to: Int64(2 * Self.chunk), through: descriptor)
    #expect(failure { _ = try recorded.mounted.read(recorded.handle, at: Int64(Self.chunk), count: 1) } == EIO)
    try recorded.mounted.write(recorded.handle, at: Int64(2 * Self.chunk), [7])
    #expect(try recorded.mounted.read(recorded.handle, at: Int64(2 * Self.chunk), count: 4) == [7])
    try recorded.mounted.filesystem.truncate(file, to: 0, through: descriptor)
    #expect(!recorded.mounted.filesystem.isReleased(recorded.id, 0..<UInt64(10 * Self.chunk)))
  }

  @Test(.promises("S72a")) func theNextRunKnowsWhatIsMissing_andTheTimeIsTheWriters() throws {
    let folder = try TemporaryFolder()
    do {
      let recorded = try Recorded(folder: folder)
      var before = stat()
      #expect(stat(recorded.mounted.captures + "/a.mov", &before) == 0)
      try recorded.release([4, 5])
      var after = stat()
      #expect(stat(recorded.mounted.captures + "/a.mov", &after) == 0)
      #expect(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec)
      recorded.mounted.filesystem.release(recorded.handle)
    }
    // One of the chunks is put back by hand.
    try Self.fill(folder, 4 * Self.chunk, count: Self.chunk)
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    let snapshot = try #require(mounted.sink.lastSnapshot)
    #expect(snapshot.isPartlyReleased)
    #expect(mounted.filesystem.isReleased(snapshot.id, UInt64(5 * Self.chunk)..<UInt64(6 * Self.chunk)))
    let handle = try mounted.open("a.mov", flags: O_RDONLY)
    #expect(failure { _ = try mounted.read(handle, at: Int64(5 * Self.chunk), count: 1) } == EIO)
    let there = try mounted.read(handle, at: Int64(4 * Self.chunk), count: 4)
    #expect(there == [7, 7, 7, 7])
    mounted.filesystem.release(handle)
  }

  /// With the upload's record lost, older bytes at a restored receiver were taken for what had been given up.
  @Test(.promises("S72i")) func theNextRunKnowsWhatWasGivenUpHeld() throws {
    let folder = try TemporaryFolder()
    do {
      let recorded = try Recorded(folder: folder)
      try recorded.release([4, 5])
      try recorded.release([7])
      recorded.mounted.filesystem.release(recorded.handle)
    }
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    let released = try #require(mounted.sink.lastSnapshot?.released)
    #expect(released.text == "\(Self.chunk) 4-5 7-7")
    #expect(released.held { Self.digest($0) } == true)
    #expect(released.held { Self.digest($0 == 5 ? 6 : $0) } == false)
  }

  /// A disk with a cache, in which labels are until they are synced. A hole that no label on the disk names is a fault.
  private final class CachedDisk: Sendable {
    struct State {
      var named: ReleasedChunks?
      var syncs = 0
      var punched: [Range<UInt64>] = []
      var unnamed: [Range<UInt64>] = []
    }

    let folder: TemporaryFolder
    let state = Mutex(State())
    let failure: SystemError?
    /// Carried out while the disk is waited for.
    let meanwhile = Mutex<@Sendable () -> Void>({})

    init(folder: TemporaryFolder, failure: SystemError? = nil) {
      self.folder = folder
      self.failure = failure
    }

    func label() throws(SystemError) -> FileLabel {
      let captures = try check(Glibc.open(folder.path + "/spool/captures", O_RDONLY | O_DIRECTORY))
      defer { close(captures) }
      return try SpoolLabel.read(at: SpoolLocation(root: captures, components: [EntryName("a.mov")])).label
    }

    var holeMaking: HoleMaking {
      HoleMaking(
        synchronize: { (file) throws(SystemError) in
          let label = try self.label()
          self.meanwhile.withLock { $0 }()
          if let failure = self.failure { throw failure }
          self.state.withLock { ($0.named, $0.syncs) = (label.released, $0.syncs + 1) }
        },
        punch: { (file, bytes) throws(SystemError) in
          self.state.withLock { state in
            state.punched.append(bytes)
            let isNamed = stride(from: bytes.lowerBound, to: bytes.upperBound, by: ReleaseTests.chunk).allSatisfy {
              state.named?.intersects($0..<$0 + 1) == true
            }
            if !isNamed { state.unnamed.append(bytes) }
          }
          try HoleMaking.system.punch(file, bytes)
        })
    }
  }

  /// Regression: which came first to the disk was left to its filesystem.
  @Test(.promises("S72a")) func noHoleIsMadeBeforeTheDiskHasTheLabelThatNamesIt() throws {
    let folder = try TemporaryFolder()
    let disk = CachedDisk(folder: folder)
    let recorded = try Recorded(folder: folder, holeMaking: disk.holeMaking)
    try recorded.release([1, 2, 3, 5])
    let seen = disk.state.withLock { $0 }
    #expect(seen.punched.map { Int($0.lowerBound) / Self.chunk } == [1, 2, 3, 5])
    #expect(seen.unnamed == [] && seen.syncs == 1)
    recorded.mounted.filesystem.release(recorded.handle)
  }

  @Test(.promises("S72a")) func aDiskThatDoesNotTakeTheLabelGetsNothingBack() throws {
    let folder = try TemporaryFolder()
    let disk = CachedDisk(folder: folder, failure: .inputOutput)
    let recorded = try Recorded(folder: folder, holeMaking: disk.holeMaking)
    try recorded.release([1, 2])
    #expect(disk.state.withLock { $0.punched } == [])
    #expect(try disk.label().released == nil)
    #expect(!recorded.mounted.filesystem.isReleased(recorded.id, 0..<UInt64(10 * Self.chunk)))
    #expect(try recorded.mounted.read(recorded.handle, at: Int64(Self.chunk), count: 2) == [2, 2])
    recorded.mounted.filesystem.release(recorded.handle)
  }

  @Test(.promises("S71d")) func whatIsCutOffAndWrittenAnewWhileTheDiskIsWaitedFor_stays() throws {
    let folder = try TemporaryFolder()
    let disk = CachedDisk(folder: folder)
    let recorded = try Recorded(folder: folder, holeMaking: disk.holeMaking)
    let (filesystem, handle) = (recorded.mounted.filesystem, recorded.handle)
    let file = try #require(filesystem.file(of: recorded.mounted.node("a.mov")))
    let descriptor = try #require(file.state.withLock { $0.handles.descriptor })
    let failed = Mutex(false)
    disk.meanwhile.withLock {
      $0 = {
        do {
          try filesystem.truncate(file, to: Int64(2 * Self.chunk), through: descriptor)
          try filesystem.truncate(file, to: Int64(10 * Self.chunk), through: descriptor)
        } catch {
          failed.withLock { $0 = true }
        }
      }
    }
    try recorded.release([1, 2, 3])
    #expect(failed.withLock { $0 } == false)
    #expect(disk.state.withLock { $0.punched.map { Int($0.lowerBound) / Self.chunk } } == [1])
    #expect(!filesystem.isReleased(recorded.id, UInt64(2 * Self.chunk)..<UInt64(10 * Self.chunk)))
    #expect(try recorded.mounted.read(handle, at: Int64(2 * Self.chunk), count: 2) == [0, 0])
    filesystem.release(handle)
  }

  private static func fill(_ folder: TemporaryFolder, _ offset: Int, count: Int) throws {
    let number = try check(Glibc.open(folder.path + "/spool/captures/a.mov", O_WRONLY))
    defer { close(number) }
    #expect(pwrite(number, [UInt8](repeating: 7, count: count), count, off_t(offset)) == count)
  }

  /// Regression: a power cut in the middle of the giving back had left a half, and the zeros of the other were published.
  @Test(.promises("S72a"), arguments: [false, true])
  func aPartOfWhichOnlyAHalfIsThere_isMissing(isFilledWithZeros: Bool) throws {
    let folder = try TemporaryFolder()
    do {
      let recorded = try Recorded(folder: folder)
      try recorded.release([4])
      recorded.mounted.filesystem.release(recorded.handle)
    }
    try Self.fill(folder, 4 * Self.chunk + Self.chunk / 2, count: Self.chunk / 2)
    if isFilledWithZeros {
      // As filesystems do that have no holes.
      let number = try check(Glibc.open(folder.path + "/spool/captures/a.mov", O_WRONLY))
      defer { close(number) }
      let zeros = [UInt8](repeating: 0, count: Self.chunk / 2)
      #expect(pwrite(number, zeros, zeros.count, off_t(4 * Self.chunk)) == zeros.count)
    }
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    let snapshot = try #require(mounted.sink.lastSnapshot)
    #expect(mounted.filesystem.isReleased(snapshot.id, UInt64(4 * Self.chunk)..<UInt64(5 * Self.chunk)))
  }

  /// Regression: the file counted as whole, and its holes were published as zeros.
  @Test(.promises("S40h"), arguments: [true, false])
  func whatIsNotUnderstoodOfWhatIsMissing_isNotNothing(isOfEarlierVersion: Bool) throws {
    let folder = try TemporaryFolder()
    do {
      let recorded = try Recorded(folder: folder)
      try recorded.release([4])
      recorded.mounted.filesystem.release(recorded.handle)
    }
    let number = try check(Glibc.open(folder.path + "/spool/captures/a.mov", O_RDONLY))
    let label = isOfEarlierVersion ? "version 9" : "1AAAAAAAAAAAAAAAAAAAAAA;rversion 9"
    let name = isOfEarlierVersion ? "user.uploadfs.released" : "user.uploadfs"
    if isOfEarlierVersion { #expect(uploadfs_remove_attribute(number, "user.uploadfs") == 0) }
    #expect(uploadfs_set_attribute(number, name, label, label.utf8.count) == 0)
    close(number)
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    #expect(mounted.sink.lastSnapshot?.interruption == .spoolUnreadable(errno: EBADMSG))
  }

  @Test(.promises("S70a")) func withoutARuleTheSinkIsNotAsked() throws {
    let disk = Disk()
    let mounted = try Mounted(source: disk.source)
    let handle = try mounted.create("a.mov")
    try mounted.write(handle, [UInt8](repeating: 1, count: 10 * Self.chunk))
    disk.isFull.store(true, ordering: .relaxed)
    #expect(failure { try mounted.write(handle, at: 1 << 20, [1]) } == ENOSPC)
    #expect(mounted.sink.chunksAskedFor == 0)
    mounted.filesystem.release(handle)
  }
}

import CLinux
import FileModel
import Glibc
import Synchronization
import Testing

@testable import UploadFS

/// What goes for a write, and in which order, over a disk and files that are made up.
struct EvictionTests {
  private static let block: UInt64 = 4096

  /// A disk with blocks that are free, and delivered files of one block each.
  private final class Disk: RoomGiving {
    struct State {
      var freeBlocks: UInt64 = 0
      var candidates: [EvictionCandidate] = []
      var staying: Set<EvictionCandidate> = []
      var isDelivering = false
      var calls: [String] = []
      /// What chunks give that are released.
      var releasedBlocks: UInt64 = 0
    }

    let state: Mutex<State>
    let pauseCount = Atomic<Int>(0)

    init(freeBlocks: UInt64, files: Int) {
      let candidates = (0..<files).map { number in
        EvictionCandidate(
          FileSnapshot(
            id: FileID(high: 1, low: UInt64(number)), epoch: 1, sizeBytes: block, modifiedNanoseconds: 0, mode: 0o644,
            inode: UInt64(number), names: [RelativePath("\(number)")], writableOpens: 0, mutationsInFlight: 0))
      }
      state = Mutex(State(freeBlocks: freeBlocks, candidates: candidates))
    }

    private func called<Result: Sendable>(_ call: String, _ body: (inout State) -> Result) -> Result {
      state.withLock { state in
        state.calls.append(call)
        return body(&state)
      }
    }

    func unpinFiles() { called("unpin") { _ in } }

    func evictionCandidates(countMax: Int) -> [EvictionCandidate] {
      state.withLock { Array($0.candidates.prefix(countMax)) }
    }

    func evict(_ candidate: EvictionCandidate) -> Bool {
      called("evict \(candidate.names[0].displayText)") { state in
        guard !state.staying.contains(candidate) else { return false }
        state.candidates.removeAll { $0 == candidate }
        state.freeBlocks += 1
        return true
      }
    }

    func sizeBytes(of candidate: EvictionCandidate) -> UInt64 { block }

    var unloadedBytes: UInt64 { 0 }

    func loadCandidates() -> Bool { called("load") { _ in false } }

    var mayFreeSpace: Bool { state.withLock { $0.isDelivering } }

    func releaseChunks(for bytes: UInt64) {
      called("release") { state in
        state.freeBlocks += state.releasedBlocks
        state.releasedBlocks = 0
      }
    }

    var calls: [String] { state.withLock { $0.calls } }

    /// A spool on this disk. Its folder is not asked for anything.
    func space() -> SpoolSpace {
      let folder = FileDescriptor(
        owning: uploadfs_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0), isReadable: true,
        isWritable: false)
      return SpoolSpace(
        directory: folder, reserveBytes: 0,
        backoffPermits: BackoffPermits(atOnceMax: 1) { [self] _ in pauseCount.add(1, ordering: .relaxed) },
        source: { [self] () throws(SystemError) in
          var numbers = uploadfs_space()
          numbers.block_bytes = block
          numbers.available_blocks = state.withLock { $0.freeBlocks }
          return numbers
        })
    }
  }

  private static func admit(
    _ blocks: UInt64, isPartEnough: Bool = true, owned: UInt64 = 0, from disk: Disk
  ) -> UInt64 {
    let bytes = disk.space().admit(
      blocks * block, isPartEnough: isPartEnough, from: disk, ownedBytes: { owned * block }, pausesMax: { 2 })
    return bytes / block
  }

  @Test func whereThereIsRoom_nothingIsAskedFor() {
    let disk = Disk(freeBlocks: 10, files: 3)
    #expect(Self.admit(2, from: disk) == 2 && disk.calls == [])
  }

  @Test func deliveredFilesGo_oldestFirst_untilThereIsEnough() {
    let disk = Disk(freeBlocks: 0, files: 3)
    #expect(Self.admit(2, from: disk) == 2 && disk.calls == ["unpin", "evict 0", "evict 1"])
  }

  @Test func fileThatStays_hasItsTurnOnce() {
    let disk = Disk(freeBlocks: 0, files: 2)
    disk.state.withLock { $0.staying = [$0.candidates[0]] }
    #expect(Self.admit(1, from: disk) == 1 && disk.calls == ["unpin", "evict 0", "evict 1"])
  }

  @Test func nothingGoes_whereAPartIsNoUse_andNotAllCanBeHad() {
    let disk = Disk(freeBlocks: 0, files: 1)
    #expect(Self.admit(2, isPartEnough: false, from: disk) == 0 && disk.calls == ["unpin"])
  }

  @Test func chunksAreReleased_whereNoFileCanGo() {
    let disk = Disk(freeBlocks: 0, files: 0)
    disk.state.withLock { $0.releasedBlocks = 5 }
    #expect(Self.admit(2, from: disk) == 2 && disk.calls == ["unpin", "load", "release"])
  }

  @Test func writerPauses_aBoundedNumberOfTimes_whileADeliveryMayFreeSome() {
    let disk = Disk(freeBlocks: 0, files: 0)
    disk.state.withLock { $0.isDelivering = true }
    #expect(Self.admit(2, from: disk) == 0)
    #expect(disk.pauseCount.load(ordering: .relaxed) == 2)
  }

  @Test func spaceThatTheFileHas_isNotWaitedFor() {
    let disk = Disk(freeBlocks: 0, files: 0)
    disk.state.withLock { $0.isDelivering = true }
    #expect(Self.admit(2, owned: 2, from: disk) == 2)
    #expect(disk.pauseCount.load(ordering: .relaxed) == 0)
  }

  @Test(arguments: [0, 2]) func whatIsMade_getsThePlaceOfADeliveredFile(files: Int) {
    let disk = Disk(freeBlocks: 0, files: files)
    var isMade = false
    do throws(SystemError) {
      isMade = try disk.space().withRoomForOne(from: disk) { () throws(SystemError) -> Bool in
        guard disk.state.withLock({ $0.freeBlocks > 0 }) else { throw .noSpace }
        return true
      }
    } catch {
      #expect(error == .noSpace)
    }
    #expect(isMade == (files > 0))
    #expect(disk.calls == (files > 0 ? ["unpin", "evict 0"] : ["unpin", "load"]))
  }
}

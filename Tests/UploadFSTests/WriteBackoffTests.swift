import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// How often and how long a writer pauses that finds no space. Time passes in the account of the pauses only.
struct WriteBackoffTests {
  /// A spool without space until its writers have paused so often.
  private final class FullDisk: Sendable {
    private let pausesUntilFree: Int
    private let paused = Mutex<[UInt32]>([])

    init(pausesUntilFree: Int = .max) { self.pausesUntilFree = pausesUntilFree }

    /// Each pause, in microseconds.
    var backoff: [UInt32] { paused.withLock { $0 } }

    func pause(_ microseconds: UInt32) { paused.withLock { $0.append(microseconds) } }

    var source: SpoolSpace.Source {
      { () throws(SystemError) in
        var numbers = uploadfs_space()
        numbers.block_bytes = 4096
        numbers.available_blocks = self.backoff.count >= self.pausesUntilFree ? 1000 : 0
        return numbers
      }
    }

    func mounted(whenFull: FileSettings.WhenFull) throws -> Mounted {
      try Mounted(source: source) {
        $0.rules.defaults.whenFull = whenFull
      } pause: {
        self.pause($0)
      }
    }
  }

  /// What a rule says, and how often one call may pause then.
  private static let limits: [(FileSettings.WhenFull, Int)] = [(.refuse, 20), (.release, 200)]
  private static let pauseMicroseconds: UInt32 = 50_000

  @Test(.promises("S28c", "S70c"), arguments: limits)
  func writerGoesOn_whenSpaceComesAtTheLastPause(whenFull: FileSettings.WhenFull, pausesMax: Int) throws {
    let disk = FullDisk(pausesUntilFree: pausesMax)
    let mounted = try disk.mounted(whenFull: whenFull)
    mounted.sink.isDelivering.store(true, ordering: .relaxed)
    let handle = try mounted.create("a")
    #expect(try mounted.write(handle, [1, 2, 3]) == 3)
    #expect(disk.backoff == Array(repeating: Self.pauseMicroseconds, count: pausesMax))
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S28c", "S70c"), arguments: limits)
  func eachCallIsRefused_afterItsLastPause(whenFull: FileSettings.WhenFull, pausesMax: Int) throws {
    let disk = FullDisk()
    let mounted = try disk.mounted(whenFull: whenFull)
    mounted.sink.isDelivering.store(true, ordering: .relaxed)
    let handle = try mounted.create("a")
    #expect(failure { try mounted.write(handle, [1]) } == ENOSPC)
    #expect(disk.backoff == Array(repeating: Self.pauseMicroseconds, count: pausesMax))
    #expect(failure { try mounted.filesystem.allocate(handle, mode: 0, offset: 0, length: 1) } == ENOSPC)
    #expect(disk.backoff == Array(repeating: Self.pauseMicroseconds, count: 2 * pausesMax))
    mounted.filesystem.release(handle)
  }

  @Test(.promises("S28c", "S70c"), arguments: limits.map(\.0))
  func writerIsRefusedAtOnce_whenNothingIsUnderWay(whenFull: FileSettings.WhenFull) throws {
    let disk = FullDisk(pausesUntilFree: 1)
    let mounted = try disk.mounted(whenFull: whenFull)
    let handle = try mounted.create("a")
    #expect(failure { try mounted.write(handle, [1]) } == ENOSPC)
    #expect(disk.backoff.isEmpty)
    mounted.filesystem.release(handle)
  }

  @Test func onlyAPartOfTheThreadsPauses() {
    let permits = BackoffPermits(atOnceMax: 1) { _ in }
    var one = WriteBackoff(permits: permits)
    var hasPaused = [one.take()]
    do {
      var other = WriteBackoff(permits: permits)
      hasPaused.append(other.take())
    }
    hasPaused.append(one.take())
    #expect(hasPaused == [true, false, true])
  }
}

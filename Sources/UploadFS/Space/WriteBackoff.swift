import Glibc
import Synchronization

/// How many writers may be made to pause at the same time: each keeps a thread that the kernel's other calls need.
final class BackoffPermits: Sendable {
  /// Keeps the calling thread for so many microseconds.
  typealias Pause = @Sendable (UInt32) -> Void

  private let free: Atomic<Int>
  fileprivate let pause: Pause

  /// `pause` stands in for usleep(3) in tests.
  init(atOnceMax: Int, pause: Pause? = nil) {
    free = Atomic(atOnceMax)
    self.pause = pause ?? { _ = usleep($0) }
  }

  fileprivate func take() -> Bool {
    if free.subtract(1, ordering: .relaxed).newValue >= 0 { return true }
    giveBack()
    return false
  }

  fileprivate func giveBack() { free.add(1, ordering: .relaxed) }
}

/// The short pauses of one call for which there is no space yet. Their sum is bounded.
struct WriteBackoff: ~Copyable {
  static let pauseMicroseconds: UInt32 = 50_000
  static let countMax = 20
  /// Of a writer whose file may give chunks back as soon as the server has them: ten seconds.
  static let countMaxWhileReleasing = 200

  private let permits: BackoffPermits
  private let countMax: Int
  private var count = 0
  private var hasTurn = false

  init(permits: BackoffPermits, countMax: Int = WriteBackoff.countMax) {
    self.permits = permits
    self.countMax = countMax
  }

  deinit {
    if hasTurn { permits.giveBack() }
  }

  /// Pauses once; false when the call has paused enough, or too many others pause.
  mutating func take() -> Bool {
    if !hasTurn { hasTurn = permits.take() }
    guard hasTurn, count < countMax else { return false }
    count += 1
    permits.pause(Self.pauseMicroseconds)
    return true
  }
}

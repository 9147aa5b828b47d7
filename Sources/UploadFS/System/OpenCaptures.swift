import Glibc
import Synchronization

/// How many captures are open at once: as many as leave descriptors for delivering. A mount whose recorders have them all could send nothing,
/// and would call its server unreachable.
public final class OpenCaptures: Sendable {
  private let count = Atomic<Int>(0)
  private let countMax: Int

  /// - Parameter countMax: What the reserve and ``KeptDescriptors`` leave of what the process may have open, unless said otherwise.
  init(countMax: Int? = nil, reserve: Int) {
    var limit = rlimit()
    let isKnown = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
    self.countMax = countMax ?? Self.countMax(of: isKnown ? Int(clamping: limit.rlim_cur) : 1024, reserve: reserve)
  }

  /// Of a process that may have so many files open.
  static func countMax(of limit: Int, reserve: Int) -> Int { max(16, limit - limit / 4 - reserve) }

  /// Throws ENFILE where one more would be one too many. Several at once may get past it; the reserve has room for them.
  func requireRoom() throws(SystemError) {
    guard count.load(ordering: .relaxed) < countMax else { throw .tooManyOpen }
  }

  func opened() { count.add(1, ordering: .relaxed) }

  func closed() { count.subtract(1, ordering: .relaxed) }
}

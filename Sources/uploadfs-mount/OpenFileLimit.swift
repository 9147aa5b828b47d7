import Glibc
import Synchronization

/// How many files the process may have open: each open capture has a descriptor, and so has each connection.
enum OpenFileLimit {
  /// What it was at the start; 0 where it was not raised.
  private static let before = Atomic<UInt64>(0)

  /// Raises it as far as the process may.
  static func raise() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max else {
      return
    }
    let earlier = UInt64(limit.rlim_cur)
    limit.rlim_cur = limit.rlim_max
    if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 { before.store(earlier, ordering: .relaxed) }
  }

  /// Whether the process may have so many open.
  static func allows(_ count: Int) -> Bool {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return true }
    return UInt64(limit.rlim_cur) >= UInt64(clamping: count)
  }

  /// The first line of a shell's script that gives it the earlier limit: programs that use select(2) end when a descriptor has a
  /// higher number.
  static var shellLine: String {
    let earlier = before.load(ordering: .relaxed)
    return earlier == 0 ? "" : "ulimit -S -n \(earlier) 2>/dev/null\n"
  }
}

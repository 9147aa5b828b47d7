import ReceiverCore
import CLinux
import Glibc

/// The time for the core: starts at the wall clock and then runs evenly, so that no deadline is hit by an operator who sets
/// the clock.
struct ReceiverClock: Sendable {
  private let offset: Milliseconds

  init() {
    offset = ReceiverClock.read(CLOCK_REALTIME) - ReceiverClock.read(CLOCK_BOOTTIME)
  }

  /// Milliseconds since 1970.
  var now: Milliseconds { ReceiverClock.read(CLOCK_BOOTTIME) + offset }

  /// The time of the wall clock as HTTP writes it (RFC 9110, section 5.6.7).
  static var httpDate: String {
    var seconds = time(nil)
    var parts = tm()
    gmtime_r(&seconds, &parts)
    let two = { (number: Int32) in number < 10 ? "0\(number)" : "\(number)" }
    let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    let day = "\(days[Int(parts.tm_wday)]), \(two(parts.tm_mday)) \(months[Int(parts.tm_mon)]) \(1900 + parts.tm_year)"
    return "\(day) \(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) GMT"
  }

  private static func read(_ clock: clockid_t) -> Milliseconds {
    var time = timespec()
    clock_gettime(clock, &time)
    return Milliseconds(time.tv_sec) * 1000 + Milliseconds(time.tv_nsec) / 1_000_000
  }
}

import CLinux
import Glibc
import Quantities
import ReceiverCore

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
  static var httpDate: String { HTTPDate.text(secondsSince1970: Int64(time(nil))) }

  private static func read(_ clock: clockid_t) -> Milliseconds {
    var time = timespec()
    clock_gettime(clock, &time)
    return Milliseconds(time.tv_sec) * 1000 + Milliseconds(time.tv_nsec) / 1_000_000
  }
}

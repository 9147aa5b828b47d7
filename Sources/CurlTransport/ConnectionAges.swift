/// Which of the connections that there are may be used again. libcurl has no call that closes those that rest, but a transfer can
/// refuse old ones. Pure.
struct ConnectionAges {
  enum Reuse: Hashable {
    /// Any that libcurl takes for alive.
    case any
    case none
    /// Those that were made so many whole seconds ago, or later.
    case youngerThan(seconds: Int)

    /// What is older may not be used.
    var ageSecondsMax: Int {
      switch self {
      case .any: .max
      // 0 would leave out what is resolved for the request itself.
      case .none: 1
      case .youngerThan(let seconds): seconds
      }
    }
  }

  /// By then libcurl has closed what rested at the renewal (CURLOPT_MAXAGE_CONN, 118 s).
  private static let memory: Duration = .seconds(300)

  /// By the clock by which libcurl counts ages, which stands while the machine sleeps.
  private var renewedAt: SuspendingClock.Instant?

  /// From now on none that there is.
  mutating func renew(at now: SuspendingClock.Instant) { renewedAt = now }

  /// What a transfer that begins now may use. A few that were made right after the renewal are refused as well: libcurl counts whole
  /// seconds, and 0 means any.
  func reuse(at now: SuspendingClock.Instant) -> Reuse {
    guard let renewedAt, now - renewedAt < Self.memory else { return .any }
    let seconds = Int((now - renewedAt).components.seconds)
    return seconds < 2 ? .none : .youngerThan(seconds: seconds - 1)
  }
}

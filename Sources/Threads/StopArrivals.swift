/// Tells the signals apart that ask a program to end.
public struct StopArrivals: Sendable {
  /// What one signal means.
  public enum Arrival: Hashable, Sendable {
    /// The program ends in order.
    case first
    /// It says nothing new.
    case repeated
    /// It ends at once.
    case further
  }

  private var isEnding = false
  private var firstStopAt: ContinuousClock.Instant?

  /// timeout(1), and what ends a whole process group beside its leader, sends the same signal twice; so does a hand that is not calm.
  static let echo: Duration = .seconds(1)

  /// None has come yet.
  public init() {}

  /// One has come. A hang-up (SIGHUP) begins an orderly end and never hurries it: a window that is closed sends two, one from its shell and
  /// one from the kernel, and whatever ends the session a SIGTERM beside them.
  public mutating func arrived(isHangUp: Bool, at now: ContinuousClock.Instant) -> Arrival {
    defer {
      isEnding = true
      if !isHangUp { firstStopAt = firstStopAt ?? now }
    }
    guard isEnding else { return .first }
    guard !isHangUp, let firstStopAt else { return .repeated }
    return now - firstStopAt < Self.echo ? .repeated : .further
  }
}

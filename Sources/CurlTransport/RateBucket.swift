/// What may be sent by now under a bound. Pure: the time comes in.
///
/// Bytes of bodies are counted with what goes around them, since a bound is one of the line. What fills up while no transfer sends is little:
/// a burst is as bad for the others on a line as a rate above the bound.
struct RateBucket {
  /// Of the wire for each byte of a body: records of TLS (22 bytes each) and headers of IP and TCP (52 bytes for each 1,448).
  static let wireShare = 1.038
  /// How much of a second's bytes is there after a pause.
  static let burstSeconds = 0.1
  /// The least and the most that one transfer is given at once. Less makes for small records of TLS; more lets one transfer send for long
  /// while others wait.
  static let turnBytes = 1 << 10...64 << 10
  /// A rate that a timetable changes is looked at again by then.
  static let pauseSecondsMax = 1.0
  /// How much of a second a turn is.
  static let turnSeconds = 0.02

  /// Nil for no bound.
  private(set) var bytesPerSecond: UInt64?
  private var available = 0.0
  private var filledAt: ContinuousClock.Instant

  init(at now: ContinuousClock.Instant) { filledAt = now }

  /// Another bound holds from now on. What is there stays.
  mutating func change(to bytesPerSecond: UInt64?, at now: ContinuousClock.Instant) {
    fill(at: now)
    self.bytesPerSecond = bytesPerSecond
    fill(at: now)
  }

  /// How many bytes of a body of at least `wanted` may be sent now: 0 where the transfer has to wait for its turn.
  mutating func take(upTo wanted: Int, at now: ContinuousClock.Instant) -> Int {
    guard let turn = turnBytes, wanted > 0 else { return wanted }
    fill(at: now)
    guard available >= 0 else { return 0 }
    let taken = min(wanted, turn)
    available -= Double(taken) * Self.wireShare
    return taken
  }

  /// So many bytes went out beside those that transfers have taken, or fewer than were taken, where it is negative.
  mutating func spend(_ bytes: Int) {
    if bytesPerSecond != nil { available -= Double(bytes) * Self.wireShare }
  }

  /// After how long something may be sent again; zero where it may be now.
  mutating func pause(at now: ContinuousClock.Instant) -> Duration {
    guard let bytesPerSecond else { return .zero }
    fill(at: now)
    return available >= 0 ? .zero : .seconds(min(-available / Double(bytesPerSecond), Self.pauseSecondsMax))
  }

  private var turnBytes: Int? {
    bytesPerSecond.map {
      min(max(Int(Double($0) * Self.turnSeconds), Self.turnBytes.lowerBound), Self.turnBytes.upperBound)
    }
  }

  private mutating func fill(at now: ContinuousClock.Instant) {
    defer { filledAt = max(filledAt, now) }
    guard let bytesPerSecond = bytesPerSecond.map({ Double($0) }) else { return available = 0 }
    let seconds = max(.zero, now - filledAt) / .seconds(1)
    available = min(available + seconds * bytesPerSecond, bytesPerSecond * Self.burstSeconds)
  }
}

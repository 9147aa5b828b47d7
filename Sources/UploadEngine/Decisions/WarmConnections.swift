/// Connections that were opened for files that are being written, so that the first bytes after a close find one.
struct WarmConnections: Hashable, Sendable {
  /// Connections begun since the count was reset.
  private(set) var count = 0
  /// Of these, how many have answered.
  private(set) var answers = 0
  /// How often connections were begun since they were last checked.
  private var beginnings = 0

  /// The connections are begun anew; earlier answers still show that others may follow.
  mutating func forgetCount() { count = 0 }

  /// The connections are gone, and nothing has answered since.
  mutating func lose() { (count, answers) = (0, 0) }

  /// The first file is open, or the connections have rested: they may be begun as often as at first.
  mutating func beginKeeping() { (count, beginnings) = (0, 0) }

  /// Nothing is known of the connections.
  mutating func reset() { self = WarmConnections() }

  /// So many would be of use: more than there are. Until one is answered no others follow: they might all fail for the same reason.
  func lacks(_ wanted: Int) -> Bool { (count == 0 || answers > 0) && wanted > count }

  /// So many are begun; false where they were begun too often between two checks. Where some answers are good and some
  /// are not, each good one would be a reason to open many. A probe of the destination has its own pauses.
  mutating func begin(_ wanted: Int, isProbe: Bool) -> Bool {
    if count == 0, !isProbe {
      guard beginnings < Self.beginningsMax else { return false }
      beginnings += 1
    }
    count = wanted
    return true
  }

  /// One connection has answered; true for the first.
  mutating func answered() -> Bool {
    answers += 1
    return answers == 1
  }

  private static let beginningsMax = 4
}

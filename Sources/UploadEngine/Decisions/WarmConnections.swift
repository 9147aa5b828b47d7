/// Connections that were opened for files that are being written, so that the first bytes after a close find one.
struct WarmConnections: Hashable, Sendable {
  /// Begun since they are counted.
  private(set) var count = 0
  /// Of these, how many have answered.
  private(set) var answers = 0
  /// How often they were begun anew since they were looked at last.
  private var beginnings = 0

  /// They are begun anew; what has answered until now still shows that others may follow.
  mutating func forgetCount() { count = 0 }

  /// They are gone, and nothing has answered since.
  mutating func lose() { (count, answers) = (0, 0) }

  /// The first file is open, or they have rested: they may be begun as often as at first.
  mutating func beginKeeping() { (count, beginnings) = (0, 0) }

  /// Nothing is known of them.
  mutating func reset() { self = WarmConnections() }

  /// So many would be of use: more than there are. Until one is answered no others follow: they might all fail for the same reason.
  func lacks(_ wanted: Int) -> Bool { (count == 0 || answers > 0) && wanted > count }

  /// So many are begun; false where they were begun too often between two looks. Where some answers are good and some are not, each good
  /// one would be a reason to open many. A probe of the destination has its own pauses.
  mutating func begin(_ wanted: Int, isProbe: Bool) -> Bool {
    if count == 0, !isProbe {
      guard beginnings < Self.beginningsMax else { return false }
      beginnings += 1
    }
    count = wanted
    return true
  }

  /// One has answered; true for the first.
  mutating func answered() -> Bool {
    answers += 1
    return answers == 1
  }

  private static let beginningsMax = 4
}

/// How long a file that is open for writing has not changed, counted in checks of it: one each second. Pure.
///
/// The kernel brings pages to the disk within half a minute, and what it could not is asked for before anything of the file counts. So a
/// file that nothing was written to for a while need not be asked each second: thousands of open files that rest took 2 % of a core.
struct IdleWatch: Hashable, Sendable {
  static let checksUntilIdle = 10

  private var looks = 0

  var isIdle: Bool { looks >= Self.checksUntilIdle }

  mutating func check() { looks = min(looks + 1, Self.checksUntilIdle) }

  /// Something is written. True when it was idle: it is asked each second again.
  mutating func changed() -> Bool {
    defer { looks = 0 }
    return isIdle
  }
}

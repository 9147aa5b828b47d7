import TransferModel

/// How many bytes a line has room for, which sets the number of its streams: few at first, then twice what has arrived
/// in the last two seconds (docs/design/scheduling.md#the-line).
///
/// On a slow line everything else waits behind them: answers, the next file's first byte, what a broken connection has lost. On a
/// long and fast one they have to fill the line. Twice what arrives lets them grow as fast as TCP's own windows do, and no further
/// than some seconds of the line.
struct FlightWindow: Hashable, Sendable {
  /// The time over which arrived bytes are counted, which bounds what may be in flight.
  private static let memory: Duration = .seconds(2)
  private static let slotNanoseconds: Int64 = 250_000_000
  private static let slotCount = 8

  private let bytesLeast: Int
  /// Bytes that arrived in each quarter of a second, the latest one last.
  private var slots: [Int] = Array(repeating: 0, count: Self.slotCount)
  /// The latest of them, since the clock's beginning.
  private var slot: Int64 = 0
  /// Since when requests have been in flight without a pause.
  private var busySince: MonotonicTime?

  /// So many bytes may always be in flight, and twice as many on a line of unknown speed.
  init(bytesLeast: Int) { self.bytesLeast = bytesLeast }

  /// Bytes have arrived.
  mutating func arrived(_ bytes: Int, at now: MonotonicTime) {
    guard bytes > 0 else { return }
    advance(to: now)
    slots[Self.slotCount - 1] += bytes
  }

  /// A request has gone out.
  mutating func started(at now: MonotonicTime) { busySince = busySince ?? now }

  /// A request has ended; so many are in flight now.
  mutating func ended(inFlight: Int) { if inFlight == 0 { busySince = nil } }

  /// What the line took in the last two seconds. Nil where it was idle for a part of them: then it may take more.
  func shown(at now: MonotonicTime) -> Int? {
    guard let busySince, now - busySince >= Self.memory else { return nil }
    return arrivedLately(at: now)
  }

  /// The same in a second.
  func bytesPerSecond(at now: MonotonicTime) -> Double? {
    shown(at: now).map { Double($0) / Self.memory.seconds }
  }

  /// Bytes that may be in flight now, on a line of this known rate.
  func bytes(bytesPerSecond: Double?, at now: MonotonicTime) -> Int {
    let recent = arrivedLately(at: now)
    guard let bytesPerSecond else { return max(2 * bytesLeast, 2 * recent) }
    return max(bytesLeast, 2 * recent, Int(min(bytesPerSecond * Self.memory.seconds, 1e12)))
  }

  private func arrivedLately(at now: MonotonicTime) -> Int {
    var window = self
    window.advance(to: now)
    return window.slots.reduce(0, +)
  }

  private mutating func advance(to now: MonotonicTime) {
    let current = now.nanoseconds / Self.slotNanoseconds
    let steps = current - slot
    guard steps > 0 else { return }
    slot = current
    let passed = Int(min(steps, Int64(Self.slotCount)))
    slots.removeFirst(passed)
    slots += Array(repeating: 0, count: passed)
  }
}

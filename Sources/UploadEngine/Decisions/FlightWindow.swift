import TransferModel

/// How many bytes a line has room for, which sets the number of its streams: few at first, then twice what has arrived
/// in the last two seconds (docs/design/scheduling.md#the-line).
///
/// On a slow line everything else waits behind them: answers, the next file's first byte, what a broken connection has lost. On a
/// long and fast one they have to fill the line. Twice what arrives lets them grow as fast as TCP's own windows do, and no further
/// than some seconds of the line. At the beginning two seconds have not passed yet: the fastest quarter of a second counts for all of
/// them, or a line would wait for its streams on which each round trip doubles what arrives.
struct FlightWindow: Hashable, Sendable {
  /// The time over which arrived bytes are counted, which bounds what may be in flight.
  private static let memory: Duration = .seconds(2)
  private static let slotNanoseconds: Int64 = 250_000_000
  private static let slotCount = 8

  private let bytesLeast: Int
  /// What arrived in a quarter of a second.
  private struct Slot: Hashable, Sendable {
    /// All of it, in bytes.
    var byteCount = 0
    /// What was seen to arrive. The rest became known by an answer, and may have arrived long before.
    var seenByteCount = 0
  }

  /// The latest quarter of a second is the last one.
  private var slots: [Slot] = Array(repeating: Slot(), count: Self.slotCount)
  /// The latest of them, since the clock's beginning.
  private var slot: Int64 = 0
  /// Since when requests have been in flight without a pause.
  private var busySince: MonotonicTime?

  /// So many bytes may always be in flight, and twice as many on a line of unknown speed.
  init(bytesLeast: Int) { self.bytesLeast = bytesLeast }

  /// Bytes were seen to arrive.
  mutating func arrived(_ bytes: Int, at now: MonotonicTime) {
    guard bytes > 0 else { return }
    answered(bytes, at: now)
    slots[Self.slotCount - 1].seenByteCount += bytes
  }

  /// An answer shows that bytes have arrived.
  mutating func answered(_ bytes: Int, at now: MonotonicTime) {
    guard bytes > 0 else { return }
    advance(to: now)
    slots[Self.slotCount - 1].byteCount += bytes
  }

  /// A request has gone out.
  mutating func started(at now: MonotonicTime) { busySince = busySince ?? now }

  /// A request has ended; so many are in flight now.
  mutating func ended(inFlight: Int) { if inFlight == 0 { busySince = nil } }

  /// What the line took in the last two seconds. Nil where it was idle for a part of them: then it may take more.
  func shown(at now: MonotonicTime) -> Int? {
    guard let busySince, now - busySince >= Self.memory else { return nil }
    return Self.sum(of: slots(at: now))
  }

  /// The same in a second.
  func bytesPerSecond(at now: MonotonicTime) -> Double? {
    shown(at: now).map { Double($0) / Self.memory.seconds }
  }

  /// What has arrived in the last three to four quarters of a second.
  func latest(at now: MonotonicTime) -> Int { Self.sum(of: slots(at: now).suffix(4)) }

  /// Bytes that may be in flight now, on a line of this known rate.
  func bytes(bytesPerSecond: Double?, at now: MonotonicTime) -> Int {
    let slots = slots(at: now)
    var recent = Self.sum(of: slots)
    if let busySince, now - busySince < Self.memory {
      let fastest = slots.reduce(0) { max($0, $1.seenByteCount) }
      recent = max(recent, min(fastest, .max / (4 * Self.slotCount)) * Self.slotCount)
    }
    guard let bytesPerSecond else { return max(2 * bytesLeast, 2 * recent) }
    return max(bytesLeast, 2 * recent, Int(min(bytesPerSecond * Self.memory.seconds, 1e12)))
  }

  private func slots(at now: MonotonicTime) -> [Slot] {
    var window = self
    window.advance(to: now)
    return window.slots
  }

  private static func sum(of slots: some Sequence<Slot>) -> Int { slots.reduce(0) { $0 + $1.byteCount } }

  private mutating func advance(to now: MonotonicTime) {
    let current = now.nanoseconds / Self.slotNanoseconds
    let steps = current - slot
    guard steps > 0 else { return }
    slot = current
    let passed = Int(min(steps, Int64(Self.slotCount)))
    slots.removeFirst(passed)
    slots += Array(repeating: Slot(), count: passed)
  }
}

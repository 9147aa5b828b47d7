/// Points in time at which something is to be looked at, earliest first.
struct DeadlineQueue<Key: Sendable>: Sendable {
  private var heap = MinimumHeap<MonotonicTime, Key>()

  /// The earliest point.
  var first: MonotonicTime? { heap.first?.key }

  mutating func insert(_ key: Key, at time: MonotonicTime) { heap.insert(key, at: time) }

  /// Takes the earliest entry if its time has come.
  mutating func popDue(at now: MonotonicTime) -> Key? {
    guard let first = heap.first, first.key <= now else { return nil }
    heap.removeFirst()
    return first.value
  }
}

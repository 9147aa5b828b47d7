/// Points in time at which something is to be looked at, earliest first. A binary heap; entries are never removed early:
/// whoever takes one checks whether it still matters.
struct DeadlineQueue<Key: Sendable>: Sendable {
  private var heap: [(time: MonotonicTime, key: Key)] = []

  /// The earliest point.
  var first: MonotonicTime? { heap.first?.time }

  mutating func insert(_ key: Key, at time: MonotonicTime) {
    heap.append((time, key))
    var child = heap.count - 1
    while child > 0, heap[child].time < heap[(child - 1) / 2].time {
      heap.swapAt(child, (child - 1) / 2)
      child = (child - 1) / 2
    }
  }

  /// Takes the earliest entry if its time has come.
  mutating func popDue(at now: MonotonicTime) -> Key? {
    guard let first = heap.first, first.time <= now else { return nil }
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var parent = 0
    while true {
      let left = 2 * parent + 1
      guard left < heap.count else { break }
      let right = left + 1
      let least = right < heap.count && heap[right].time < heap[left].time ? right : left
      guard heap[least].time < heap[parent].time else { break }
      heap.swapAt(parent, least)
      parent = least
    }
    return first.key
  }
}

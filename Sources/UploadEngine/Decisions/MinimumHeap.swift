/// A binary heap, lowest key first. Entries are never removed early: the caller that reads the first one checks whether
/// it still matters.
///
/// Not `Heap` of swift-collections: it compares whole elements, and gives those of one key back in another order. Timers and deadlines
/// of one instant, and files of one time, come in this one's, which the traces of the simulation hold.
struct MinimumHeap<Key: Comparable & Sendable, Value: Sendable>: Sendable {
  private var heap: [(key: Key, value: Value)] = []

  /// The number of entries, stale ones included.
  var count: Int { heap.count }

  /// The entry with the lowest key.
  var first: (key: Key, value: Value)? { heap.first }

  mutating func insert(_ value: Value, at key: Key) {
    heap.append((key, value))
    var child = heap.count - 1
    while child > 0, heap[child].key < heap[(child - 1) / 2].key {
      heap.swapAt(child, (child - 1) / 2)
      child = (child - 1) / 2
    }
  }

  /// Drops the entry with the lowest key.
  mutating func removeFirst() {
    guard !heap.isEmpty else { return }
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var parent = 0
    while true {
      let left = 2 * parent + 1
      guard left < heap.count else { return }
      let right = left + 1
      let least = right < heap.count && heap[right].key < heap[left].key ? right : left
      guard heap[least].key < heap[parent].key else { return }
      heap.swapAt(parent, least)
      parent = least
    }
  }
}

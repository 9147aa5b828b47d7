/// The numbers that the kernel holds for open files, and what they stand for.
///
/// A number names a slot and the slot's generation: a stale number finds nothing instead of another file.
struct HandleTable<Element> {
  private struct Slot {
    var generation: UInt32 = 0
    var element: Element?
  }

  private var slots: [Slot] = []
  private var free: [Int] = []

  /// How many are open.
  private(set) var count = 0

  init() {}

  /// Files an element and returns its number.
  mutating func insert(_ element: Element) -> UInt64 {
    let index: Int
    if let reused = free.popLast() {
      index = reused
    } else {
      index = slots.count
      slots.append(Slot())
    }
    slots[index].element = element
    count += 1
    return UInt64(slots[index].generation) << 32 | UInt64(index)
  }

  /// What a number stands for; nil for one that is not open.
  subscript(number: UInt64) -> Element? {
    let index = Int(number & 0xffff_ffff)
    guard index < slots.count, slots[index].generation == UInt32(number >> 32) else { return nil }
    return slots[index].element
  }

  /// Closes a number; nil when it was not open.
  mutating func remove(_ number: UInt64) -> Element? {
    guard let element = self[number] else { return nil }
    let index = Int(number & 0xffff_ffff)
    slots[index].element = nil
    slots[index].generation &+= 1
    free.append(index)
    count -= 1
    return element
  }

  /// Every open element with its number.
  var all: [(number: UInt64, element: Element)] {
    slots.indices.compactMap { index in
      slots[index].element.map { (UInt64(slots[index].generation) << 32 | UInt64(index), $0) }
    }
  }
}

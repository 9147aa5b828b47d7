public import OrderedCollections

// Removals that cost the same however many entries there are: the last entry takes the place of the one that goes. The order
// follows from what was put in and taken out, and is the same in every run.

extension OrderedDictionary {
  /// Takes an entry out, and changes the place of the last one.
  @inlinable
  public mutating func takeOut(_ key: Key) {
    guard let index = index(forKey: key) else { return }
    swapAt(index, count - 1)
    removeLast()
  }
}

extension OrderedSet {
  /// Takes an element out, and changes the place of the last one.
  @inlinable
  public mutating func takeOut(_ element: Element) {
    guard let index = firstIndex(of: element) else { return }
    swapAt(index, count - 1)
    removeLast()
  }
}

/// An array of which most have one element, which then takes no place of its own.
package struct SmallArray<Element> {
  fileprivate enum Storage {
    case one(Element)
    case others([Element])
  }

  private var storage: Storage

  package init() { storage = .others([]) }

  fileprivate init(_ elements: [Element]) {
    storage = elements.count == 1 ? .one(elements[0]) : .others(elements)
  }
}

extension SmallArray: Sendable where Element: Sendable {}
extension SmallArray.Storage: Sendable where Element: Sendable {}

extension SmallArray: ExpressibleByArrayLiteral {
  package init(arrayLiteral elements: Element...) { self.init(elements) }
}

extension SmallArray: RandomAccessCollection, MutableCollection, RangeReplaceableCollection {
  package var startIndex: Int { 0 }
  package var endIndex: Int {
    switch storage {
    case .one: 1
    case .others(let elements): elements.count
    }
  }

  package subscript(position: Int) -> Element {
    get {
      switch storage {
      case .one(let element):
        precondition(position == 0)
        return element
      case .others(let elements): return elements[position]
      }
    }
    set {
      switch storage {
      case .one:
        precondition(position == 0)
        storage = .one(newValue)
      case .others(var elements):
        storage = .others([])
        elements[position] = newValue
        storage = .others(elements)
      }
    }
  }

  package mutating func replaceSubrange<New: Collection>(_ range: Range<Int>, with new: New)
  where New.Element == Element {
    switch storage {
    case .one(let element):
      var elements = [element]
      elements.replaceSubrange(range, with: new)
      self = SmallArray(elements)
    case .others(var elements):
      // Changed where it lies, however many there are.
      storage = .others([])
      elements.replaceSubrange(range, with: new)
      self = SmallArray(elements)
    }
  }
}

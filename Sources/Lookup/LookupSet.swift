/// A set that can be asked and not be walked through, for the reason that ``LookupTable`` gives. With an order: `OrderedSet`.
public struct LookupSet<Element: Hashable> {
  @usableFromInline
  var elements: Set<Element>

  /// An empty set.
  @inlinable
  public init() { elements = [] }

  /// These elements, each once.
  @inlinable
  public init(_ elements: some Sequence<Element>) { self.elements = Set(elements) }

  /// How many elements there are.
  @inlinable
  public var count: Int { elements.count }

  /// There is no element.
  @inlinable
  public var isEmpty: Bool { elements.isEmpty }

  /// The element is there.
  @inlinable
  public func contains(_ element: Element) -> Bool { elements.contains(element) }

  /// Some element is like that.
  @inlinable
  public func contains(where isWanted: (Element) -> Bool) -> Bool { elements.contains(where: isWanted) }

  /// Puts an element in; `inserted` is false when it was there.
  @inlinable
  @discardableResult
  public mutating func insert(_ element: Element) -> (inserted: Bool, memberAfterInsert: Element) {
    elements.insert(element)
  }

  /// Takes an element out and returns it; nil when it was not there.
  @inlinable
  @discardableResult
  public mutating func remove(_ element: Element) -> Element? { elements.remove(element) }

  /// Puts elements in.
  @inlinable
  public mutating func formUnion(_ others: some Sequence<Element>) { elements.formUnion(others) }

  /// Puts the elements of another set in.
  @inlinable
  public mutating func formUnion(_ other: LookupSet) { elements.formUnion(other.elements) }

  /// Takes elements out.
  @inlinable
  public mutating func subtract(_ others: some Sequence<Element>) { elements.subtract(others) }

  /// What another set lacks.
  @inlinable
  public func subtracting(_ other: LookupSet) -> LookupSet { LookupSet(elements.subtracting(other.elements)) }

  /// What is made of the elements, each once.
  @inlinable
  public func map<Other>(_ transform: (Element) -> Other) -> LookupSet<Other> {
    LookupSet<Other>(elements.lazy.map(transform))
  }

  /// The elements that are like that.
  @inlinable
  public func filter(_ isKept: (Element) -> Bool) -> LookupSet { LookupSet(elements.lazy.filter(isKept)) }
}

extension LookupSet where Element: Comparable {
  /// All elements, lowest first.
  @inlinable
  public func sorted() -> [Element] { elements.sorted() }
}

extension LookupSet: ExpressibleByArrayLiteral {
  /// These elements, each once.
  @inlinable
  public init(arrayLiteral elements: Element...) { self.init(elements) }
}

extension LookupSet: Hashable {}
extension LookupSet: Sendable where Element: Sendable {}

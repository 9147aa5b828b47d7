/// A dictionary that can be asked and not be walked through.
///
/// The order of a hashed container differs from process to process. Where it decided which file is sent first or which random
/// number is drawn for whom, no run could be repeated from its seed. So what decides keeps its facts in this type, which has
/// no order to leak; and where a walk is wanted, in `OrderedDictionary`, whose order is that of the insertions. (That one
/// everywhere would do as well, but a removal costs it as much as it has entries.)
///
/// What takes a closure here calls it in no order: it must not change anything.
public struct LookupTable<Key: Hashable, Value> {
  @usableFromInline
  var entries: [Key: Value]

  /// An empty table.
  @inlinable
  public init() { entries = [:] }

  @inlinable
  init(entries: [Key: Value]) { self.entries = entries }

  /// The entries of these pairs; of several with one key the latest.
  @inlinable
  public init(_ pairs: some Sequence<(Key, Value)>) {
    entries = Dictionary(pairs) { _, newer in newer }
  }

  /// How many entries there are.
  @inlinable
  public var count: Int { entries.count }

  /// There is no entry.
  @inlinable
  public var isEmpty: Bool { entries.isEmpty }

  /// The value of a key; nil takes the entry out.
  @inlinable
  public subscript(key: Key) -> Value? {
    get { entries[key] }
    _modify { yield &entries[key] }
  }

  /// The value of a key, or another one where there is none; a change of that puts it in.
  @inlinable
  public subscript(key: Key, default value: @autoclosure () -> Value) -> Value {
    get { entries[key, default: value()] }
    _modify { yield &entries[key, default: value()] }
  }

  /// Puts a value in and returns the earlier one.
  @inlinable
  @discardableResult
  public mutating func updateValue(_ value: Value, forKey key: Key) -> Value? {
    entries.updateValue(value, forKey: key)
  }

  /// Takes an entry out and returns its value.
  @inlinable
  @discardableResult
  public mutating func removeValue(forKey key: Key) -> Value? { entries.removeValue(forKey: key) }

  /// Takes all entries out.
  @inlinable
  public mutating func removeAll() { entries.removeAll() }

  /// Some value is like that.
  @inlinable
  public func containsValue(where isWanted: (Value) -> Bool) -> Bool { entries.values.contains(where: isWanted) }

  /// How many values are like that.
  @inlinable
  public func countValues(where isCounted: (Value) -> Bool) -> Int { entries.values.count(where: isCounted) }

  /// The sum of a number of each entry.
  @inlinable
  public func sum(of number: (Key, Value) -> UInt64) -> UInt64 { entries.reduce(0) { $0 &+ number($1.key, $1.value) } }

  /// The entries that are like that.
  @inlinable
  public func filter(_ isKept: (Key, Value) -> Bool) -> LookupTable {
    LookupTable(entries: entries.filter { isKept($0.key, $0.value) })
  }

  /// The same keys with other values.
  @inlinable
  public func mapValues<Other>(_ transform: (Value) -> Other) -> LookupTable<Key, Other> {
    LookupTable<Key, Other>(entries: entries.mapValues(transform))
  }

  /// What is made of the values, each once.
  @inlinable
  public func values<Element>(_ transform: (Value) -> Element?) -> LookupSet<Element> {
    LookupSet(entries.values.lazy.compactMap(transform))
  }

  /// All keys.
  @inlinable
  public var keys: LookupSet<Key> { LookupSet(entries.keys) }
}

extension LookupTable where Key: Comparable {
  /// All entries, lowest key first.
  @inlinable
  public func sorted() -> [(key: Key, value: Value)] {
    entries.map { (key: $0.key, value: $0.value) }.sorted { $0.key < $1.key }
  }
}

extension LookupTable: ExpressibleByDictionaryLiteral {
  /// The entries of these pairs.
  @inlinable
  public init(dictionaryLiteral elements: (Key, Value)...) { self.init(elements) }
}

extension LookupTable: Decodable where Key == String, Value: Decodable {
  /// The members of an object.
  @inlinable
  public init(from decoder: any Decoder) throws {
    entries = try decoder.singleValueContainer().decode([String: Value].self)
  }
}

extension LookupTable: Encodable where Key == String, Value: Encodable {
  /// The members of an object; their order is the encoder's business.
  @inlinable
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(entries)
  }
}

extension LookupTable: Equatable where Value: Equatable {}
extension LookupTable: Hashable where Value: Hashable {}
extension LookupTable: Sendable where Key: Sendable, Value: Sendable {}

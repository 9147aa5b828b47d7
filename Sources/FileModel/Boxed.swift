/// An optional value that most owners do not have: it takes one word where it is nil, and a place of its own where not.
///
/// A hundred thousand files can wait at the same time, and each of them has room for everything that may ever be said of a
/// file. The array is only the box: it holds one value or none, and keeps the semantics of a value.
@propertyWrapper
public struct Boxed<Value: Sendable>: Sendable {
  @usableFromInline var storage: [Value] = []

  /// In a box unless it is nil.
  @inlinable public init(wrappedValue: Value?) {
    self.wrappedValue = wrappedValue
  }

  /// The value, nil where the box is empty.
  @inlinable public var wrappedValue: Value? {
    get { storage.first }
    set {
      if let newValue, !storage.isEmpty {
        storage[0] = newValue
      } else {
        storage = newValue.map { [$0] } ?? []
      }
    }
  }
}

extension Boxed: Equatable where Value: Equatable {}
extension Boxed: Hashable where Value: Hashable {}

/// A value that begins as one that most of its owners keep.
public protocol DefaultInitializable: Equatable, Sendable {
  /// What most have.
  init()
}

/// Likewise of a value that is never absent: only one that is another than it begins as takes a place of its own.
@propertyWrapper
public struct BoxedUnlessDefault<Value: DefaultInitializable>: Sendable {
  @usableFromInline var storage: Boxed<Value>

  /// In a box unless it is as it begins.
  @inlinable public init(wrappedValue: Value) {
    storage = Boxed(wrappedValue: wrappedValue == Value() ? nil : wrappedValue)
  }

  /// The value.
  @inlinable public var wrappedValue: Value {
    get { storage.wrappedValue ?? Value() }
    set { storage.wrappedValue = newValue == Value() ? nil : newValue }
  }
}

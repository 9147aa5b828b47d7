/// An optional value that most owners do not have: it takes one word where it is nil, and a place of its own where not.
///
/// A hundred thousand files can wait at the same time, and each of them has room for everything that may ever be said of a
/// file. The array is only the box: it holds one value or none, and keeps the semantics of a value.
@propertyWrapper
struct Rare<Value: Sendable>: Sendable {
  private var storage: [Value] = []

  init(wrappedValue: Value?) {
    self.wrappedValue = wrappedValue
  }

  var wrappedValue: Value? {
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

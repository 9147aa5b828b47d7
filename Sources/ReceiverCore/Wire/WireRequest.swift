import ChunkProtocol

/// A request as far as it has to be known to say what is asked: everything but its body and its connection.
public struct WireRequest: Sendable {
  /// As in HTTP, in capitals.
  public var method: String
  /// Path and query.
  public var target: String
  private let lookUp: @Sendable (String) -> String?

  /// A request whose header fields are looked up by name, without regard to case.
  public init(method: String, target: String, field: @escaping @Sendable (String) -> String?) {
    self.method = method
    self.target = target
    lookUp = field
  }

  /// A request with these header fields; several with one name are one, with their values in a list, as HTTP has it.
  public init(method: String, target: String, fields: [(name: String, value: String)]) {
    self.init(method: method, target: target) { name in
      var found: String?
      for field in fields where field.name.isSameFieldName(as: name) {
        found = found.map { "\($0), \(field.value)" } ?? field.value
      }
      return found
    }
  }

  /// The value of a header field.
  public func field(_ name: String) -> String? { lookUp(name) }
}

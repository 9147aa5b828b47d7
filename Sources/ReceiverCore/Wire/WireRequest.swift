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

  /// A request with these header fields; of two with one name the first counts.
  public init(method: String, target: String, fields: [(name: String, value: String)]) {
    let values = Dictionary(fields.map { ($0.name.lowercased(), $0.value) }, uniquingKeysWith: { first, _ in first })
    self.init(method: method, target: target) { values[$0.lowercased()] }
  }

  /// The value of a header field.
  public func field(_ name: String) -> String? { lookUp(name) }
}

import Lookup

enum JSONValue: Hashable, Encodable {
  case null
  case bool(Bool)
  case integer(Int64)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object(LookupTable<String, JSONValue>)

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let value): try container.encode(value)
    case .object(let value): try container.encode(value)
    }
  }

  /// A member of an object.
  subscript(key: String) -> JSONValue? {
    if case .object(let members) = self { members[key] } else { nil }
  }

  /// A member of an object, or of an object in it: names with dots between.
  func member(at path: String) -> JSONValue? {
    path.split(separator: ".").reduce(self as JSONValue?) { $0?[String($1)] }
  }

  /// The same without the members of these names, which are in lower case, at any depth.
  func without(_ names: SecretNames) -> JSONValue {
    switch self {
    case .null, .bool, .integer, .number, .string: return self
    case .array(let list): return .array(list.map { $0.without(names) })
    case .object(let members):
      var kept: LookupTable<String, JSONValue> = [:]
      for name in members.keys.sorted() where !names.contains(name) {
        kept[name] = members[name]?.without(names)
      }
      return .object(kept)
    }
  }
}

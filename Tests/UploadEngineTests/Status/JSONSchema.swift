import Foundation

/// A JSON document of any shape.
enum JSONValue: Decodable, Hashable {
  case null
  case bool(Bool)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object([String: JSONValue])

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let flag = try? container.decode(Bool.self) {
      self = .bool(flag)
    } else if let number = try? container.decode(Double.self) {
      self = .number(number)
    } else if let text = try? container.decode(String.self) {
      self = .string(text)
    } else if let elements = try? container.decode([JSONValue].self) {
      self = .array(elements)
    } else {
      self = .object(try container.decode([String: JSONValue].self))
    }
  }

  static func parse(_ bytes: [UInt8]) throws -> JSONValue {
    try JSONDecoder().decode(JSONValue.self, from: Data(bytes))
  }

  subscript(_ key: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members[key]
  }

  /// A member of a member.
  subscript(_ first: String, _ second: String) -> JSONValue? { self[first]?[second] }

  var text: String? {
    guard case .string(let text) = self else { return nil }
    return text
  }
}

/// Checks documents against the part of JSON Schema that docs/*.schema.json use; a keyword that it does not know is a
/// finding too, so that nothing in a schema goes unchecked.
struct JSONSchema {
  private let root: JSONValue
  private let isClosed: Bool

  /// Reads `docs/<name>` of this repository. A closed one takes no member that it does not name.
  init(named name: String, isClosed: Bool = false, file: String = #filePath) throws {
    self.isClosed = isClosed
    var path = URL(fileURLWithPath: file)
    while path.path != "/", !FileManager.default.fileExists(atPath: path.appendingPathComponent("docs/\(name)").path) {
      path.deleteLastPathComponent()
    }
    root = try .parse([UInt8](Data(contentsOf: path.appendingPathComponent("docs/\(name)"))))
  }

  /// What is wrong with a document; empty when it is valid.
  func findings(in document: JSONValue) -> [String] { check(document, root, "$") }

  private func check(_ value: JSONValue, _ schema: JSONValue, _ place: String) -> [String] {
    guard case .object(let rules) = schema else { return ["\(place): the schema is no object"] }
    return rules.flatMap { keyword, rule in check(value, keyword, rule, rules, place) }
  }

  private func check(
    _ value: JSONValue, _ keyword: String, _ rule: JSONValue, _ rules: [String: JSONValue], _ place: String
  ) -> [String] {
    func unless(_ isValid: Bool) -> [String] { isValid ? [] : ["\(place): \(value) against \(keyword) \(rule)"] }
    switch (keyword, rule, value) {
    case ("$schema", _, _), ("$id", _, _), ("$defs", _, _), ("title", _, _), ("description", _, _): return []
    case ("$ref", .string(let reference), _):
      guard let target = root["$defs", reference.replacingOccurrences(of: "#/$defs/", with: "")] else {
        return ["\(place): no \(reference)"]
      }
      return check(value, target, place)
    case ("anyOf", .array(let choices), _):
      return unless(choices.contains { check(value, $0, place).isEmpty })
    case ("type", .string(let type), _): return unless(isOf(value, type))
    case ("type", .array(let types), _): return unless(types.contains { $0.text.map { isOf(value, $0) } ?? false })
    case ("const", _, _): return unless(value == rule)
    case ("enum", .array(let choices), _): return unless(choices.contains(value))
    case ("minimum", .number(let bound), .number(let number)): return unless(number >= bound)
    case ("maximum", .number(let bound), .number(let number)): return unless(number <= bound)
    case ("pattern", .string(let pattern), .string(let text)):
      return unless(text.range(of: pattern, options: .regularExpression) != nil)
    case ("minItems", .number(let bound), .array(let elements)): return unless(elements.count >= Int(bound))
    case ("maxItems", .number(let bound), .array(let elements)): return unless(elements.count <= Int(bound))
    case ("minimum", .number, _), ("maximum", .number, _), ("pattern", .string, _): return []
    case ("required", .array(let names), .object(let members)):
      return names.compactMap { name in
        name.text.flatMap { members[$0] == nil ? "\(place): \($0) is missing" : nil }
      }
    case ("properties", .object(let properties), .object(let members)):
      return members.flatMap { name, member in
        properties[name].map { check(member, $0, "\(place).\(name)") } ?? []
      }
    case ("additionalProperties", .bool(let isOpen), .object(let members)) where !isOpen || isClosed:
      guard case .object(let properties) = rules["properties"] else { return unless(members.isEmpty) }
      return members.keys.filter { properties[$0] == nil }.map { "\(place): \($0) is not in the schema" }
    case ("items", _, .array(let elements)):
      return elements.enumerated().flatMap { check($1, rule, "\(place)[\($0)]") }
    case ("required", _, _), ("properties", _, _), ("additionalProperties", _, _), ("items", _, _): return []
    default: return ["\(place): keyword \(keyword) is not known to this test"]
    }
  }

  private func isOf(_ value: JSONValue, _ type: String) -> Bool {
    switch (type, value) {
    case ("null", .null), ("boolean", .bool), ("number", .number), ("string", .string), ("array", .array),
      ("object", .object):
      true
    case ("integer", .number(let number)): number == number.rounded()
    default: false
    }
  }
}

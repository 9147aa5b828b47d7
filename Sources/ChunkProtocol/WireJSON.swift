import FoundationEssentials

/// Bytes that are not the JSON that was expected.
public struct WireJSONError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The member that is wrong, as `digests.7`; empty for the document itself.
  public var field: String
  /// What is wrong with it.
  public var reason: String

  /// Member and reason, for people.
  public var description: String { field.isEmpty ? reason : "\(field): \(reason)" }
}

/// The protocol's JSON: one place that encodes and decodes it.
public enum WireJSON {
  /// The value as JSON with its members in a stable order.
  public static func encode(_ value: some Encodable) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    do {
      return Array(try encoder.encode(value))
    } catch {
      // The protocol's bodies hold strings and integers; nothing in them can be refused.
      preconditionFailure("\(type(of: value)) is no JSON: \(error)")
    }
  }

  /// Reads a value. The bytes come from the network: whatever they are, this returns or throws.
  public static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws(WireJSONError) -> Value {
    // The decoder takes that for UTF-16 or UTF-32; in UTF-8 JSON writes a zero as an escape.
    guard !bytes.contains(0) else { throw WireJSONError(field: "", reason: "no JSON") }
    guard !hasLongName(bytes) else {
      let limit = ProtocolLimits.jsonNameBytesMax
      throw WireJSONError(field: "", reason: "has a member whose name is longer than \(limit) bytes")
    }
    guard MarkRuns.areBounded(inJSON: bytes) else {
      throw WireJSONError(field: "", reason: "is not UTF-8, or has more than \(MarkRuns.max) marks on one letter")
    }
    do {
      return try JSONDecoder().decode(type, from: Data(bytes))
    } catch let error as DecodingError {
      if case .dataCorrupted(let context) = error, context.codingPath.isEmpty, let number = impossibleNumber(in: bytes)
      {
        throw number
      }
      throw describe(error)
    } catch {
      throw WireJSONError(field: "", reason: "no JSON")
    }
  }

  /// Some member has a longer name than is accepted. The decoder keeps members by their names, and to find one in a table takes a time that
  /// grows with the square of the marks that stand on one letter of it: a second for 64 KiB.
  static func hasLongName(_ bytes: [UInt8]) -> Bool {
    bytes.withUnsafeBytes { bytes in
      var index = 0
      while index < bytes.count {
        defer { index += 1 }
        guard bytes[index] == UInt8(ascii: "\"") else { continue }
        let start = index + 1
        index = start
        while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
          index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        guard index - start > ProtocolLimits.jsonNameBytesMax else { continue }
        let next = bytes.dropFirst(index + 1).first { ![0x20, 0x09, 0x0a, 0x0d].contains($0) }
        if next == UInt8(ascii: ":") { return true }
      }
      return false
    }
  }

  /// What is JSON, and holds a number that its type has not, is said to be none, and nothing says where. The member that is most likely
  /// meant.
  private static func impossibleNumber(in bytes: [UInt8]) -> WireJSONError? {
    guard let members = try? JSONDecoder().decode([String: Member].self, from: Data(bytes)) else { return nil }
    let numbers = members.compactMapValues(\.number).sorted { $0.key < $1.key }
    let found =
      numbers.first { $0.value != $0.value.rounded() || $0.value.magnitude >= 0x1p64 }
      // Times may lie before 1970.
      ?? numbers.first { $0.value < 0 && !$0.key.hasSuffix("_ns") }
    return WireJSONError(field: found?.key ?? "", reason: "is not a possible number")
  }

  private struct Member: Decodable {
    let number: Double?

    init(from decoder: any Decoder) throws {
      number = try? decoder.singleValueContainer().decode(Double.self)
    }
  }

  private static func describe(_ error: DecodingError) -> WireJSONError {
    switch error {
    case .keyNotFound(let key, let context):
      WireJSONError(field: text(context.codingPath + [key]), reason: "is missing")
    case .valueNotFound(_, let context): WireJSONError(field: text(context.codingPath), reason: "must not be null")
    case .typeMismatch(let type, let context):
      WireJSONError(field: text(context.codingPath), reason: "is not of type \(type)")
    case .dataCorrupted(let context):
      WireJSONError(
        field: text(context.codingPath), reason: context.codingPath.isEmpty ? "no JSON" : "is not acceptable")
    @unknown default: WireJSONError(field: "", reason: "no JSON")
    }
  }

  /// As in `ranges[3][1].length`.
  private static func text(_ path: [any CodingKey]) -> String {
    path.reduce(into: "") { text, key in
      if let index = key.intValue { return text += "[\(index)]" }
      text += text.isEmpty ? key.stringValue : ".\(key.stringValue)"
    }
  }
}

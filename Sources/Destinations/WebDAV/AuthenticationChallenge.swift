import TransferModel

/// What a server wants to see of a client (RFC 9110, 11.6.1): a scheme and its parameters.
struct AuthenticationChallenge: Hashable {
  /// In lower case.
  var scheme: String
  /// By their names in lower case, in the order received.
  var parameters: [(name: String, value: String)] = []

  subscript(name: String) -> String? { parameters.first { $0.name == name }?.value }

  static func == (left: Self, right: Self) -> Bool {
    left.scheme == right.scheme && left.parameters.elementsEqual(right.parameters) { $0 == $1 }
  }

  func hash(into hasher: inout Hasher) { hasher.combine(scheme) }

  /// Those of an answer, in its order. What cannot be read ends the reading.
  static func all(in response: HTTPResponse) -> [AuthenticationChallenge] {
    response.headers.filter { $0.name == "www-authenticate" }.flatMap { all(in: $0.value) }
  }

  static func all(in field: String) -> [AuthenticationChallenge] {
    var reader = Reader(bytes: Array(field.utf8)[...])
    var challenges: [AuthenticationChallenge] = []
    while true {
      reader.skip { $0 == UInt8(ascii: ",") || Reader.isBlank($0) }
      guard let word = reader.takeToken() else { return challenges }
      reader.skip(Reader.isBlank)
      guard !challenges.isEmpty, reader.take(UInt8(ascii: "=")) else {
        challenges.append(AuthenticationChallenge(scheme: word.lowercased()))
        continue
      }
      reader.skip(Reader.isBlank)
      guard let value = reader.takeValue() else { return challenges }
      challenges[challenges.count - 1].parameters.append((word.lowercased(), value))
    }
  }

  private struct Reader {
    var bytes: ArraySlice<UInt8>

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    mutating func skip(_ isSkipped: (UInt8) -> Bool) { bytes = bytes.drop(while: isSkipped) }

    mutating func take(_ byte: UInt8) -> Bool {
      guard bytes.first == byte else { return false }
      bytes = bytes.dropFirst()
      return true
    }

    /// A token's letters, and those of a token68.
    mutating func takeToken() -> String? {
      let token = bytes.prefix { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
        default: "!#$%&'*+-.^_`|~/".utf8.contains(byte)
        }
      }
      guard !token.isEmpty else { return nil }
      bytes = bytes[token.endIndex...]
      return String(decoding: token, as: UTF8.self)
    }

    mutating func takeValue() -> String? {
      guard take(UInt8(ascii: "\"")) else { return takeToken() }
      var value: [UInt8] = []
      while let byte = bytes.popFirst() {
        switch byte {
        case UInt8(ascii: "\""): return String(validating: value, as: UTF8.self)
        case UInt8(ascii: "\\"):
          guard let escaped = bytes.popFirst() else { return nil }
          value.append(escaped)
        default: value.append(byte)
        }
      }
      return nil
    }
  }
}

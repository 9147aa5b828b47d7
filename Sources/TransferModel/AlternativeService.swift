/// A way to the same server that it offers in the header field `Alt-Svc` (RFC 7838): another protocol, host or port.
public struct AlternativeService: Hashable, Sendable {
  /// The protocol, by its name in ALPN: `h3`, `h2`.
  public var protocolID: String
  /// The host; nil for the one that was asked.
  public var host: String?
  /// The port.
  public var port: UInt16
  /// How long the offer holds from the answer on.
  public var maxAge: Duration

  /// An offer; a day is what the field means where it names no age.
  public init(_ protocolID: String, host: String? = nil, port: UInt16, maxAge: Duration = .seconds(86_400)) {
    self.protocolID = protocolID
    self.host = host
    self.port = port
    self.maxAge = maxAge
  }

  /// As the server writes it: `h3=":443"`.
  public var text: String { "\(protocolID)=\"\(host ?? ""):\(port)\"" }
}

extension AlternativeService {
  /// More are not kept.
  public static let countMax = 8
  private static let fieldBytesMax = 2048
  private static let nameBytesMax = 16
  private static let hostBytesMax = 255
  private static let secondsMax: Int64 = 31_536_000

  /// What a response offers: nil where it has no such field, nothing where the field takes back what was offered before. What is
  /// malformed is left out.
  public static func offered(in headers: [HTTPHeader]) -> [AlternativeService]? {
    let fields = headers.filter { $0.name == "alt-svc" }
    guard !fields.isEmpty else { return nil }
    var offers: [AlternativeService] = []
    for field in fields where field.value.utf8.count <= fieldBytesMax {
      // Takes back all offers, those of other fields as well.
      if field.value == "clear" { return [] }
      for member in split(field.value.utf8[...], at: UInt8(ascii: ",")) {
        guard offers.count < countMax else { return offers }
        if let offer = AlternativeService(member: member), !offers.contains(offer) { offers.append(offer) }
      }
    }
    return offers
  }

  private init?(member: Substring.UTF8View) {
    let parts = Self.split(member, at: UInt8(ascii: ";"))
    guard let first = parts.first, let (name, authority) = Self.pair(first), !name.isEmpty,
      name.utf8.count <= Self.nameBytesMax, name.utf8.allSatisfy(Self.isTokenByte),
      let address = Self.address(authority)
    else { return nil }
    var age: Int64 = 86_400
    for part in parts.dropFirst() {
      guard let (key, value) = Self.pair(part), key.lowercased() == "ma" else { continue }
      guard let seconds = Int64(value), seconds >= 0 else { return nil }
      age = min(seconds, Self.secondsMax)
    }
    self.init(name, host: address.host, port: address.port, maxAge: .seconds(age))
  }

  /// `[host]:port`, the host perhaps in brackets or left out.
  private static func address(_ text: String) -> (host: String?, port: UInt16)? {
    guard let colon = text.utf8.lastIndex(of: UInt8(ascii: ":")) else { return nil }
    let (host, digits) = (text[..<colon], text[text.utf8.index(after: colon)...])
    guard host.utf8.count <= hostBytesMax, !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
      let port = UInt16(digits), port > 0
    else { return nil }
    guard !host.isEmpty else { return (nil, port) }
    let isBracketed = host.hasPrefix("[") && host.hasSuffix("]") && host.utf8.count > 2
    guard host.utf8.allSatisfy({ isHostByte($0) || isBracketed && ":[]".utf8.contains($0) }) else { return nil }
    return (String(host), port)
  }

  /// `name=value`, the value perhaps in quotes.
  private static func pair(_ part: Substring.UTF8View) -> (String, String)? {
    guard let sign = part.firstIndex(of: UInt8(ascii: "=")) else { return nil }
    var value = trimmed(part[part.index(after: sign)...])
    if value.first == UInt8(ascii: "\"") {
      guard value.count >= 2, value.last == UInt8(ascii: "\"") else { return nil }
      value = value.dropFirst().dropLast()
    }
    guard let name = String(trimmed(part[..<sign])), let text = String(value) else { return nil }
    return (name, text)
  }

  /// Not within quotes.
  private static func split(_ text: Substring.UTF8View, at separator: UInt8) -> [Substring.UTF8View] {
    var isQuoted = false
    return text.split { byte in
      if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
      return byte == separator && !isQuoted
    }
  }

  private static func trimmed(_ text: Substring.UTF8View) -> Substring.UTF8View {
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    let start = text.drop(while: isSpace)
    return start.lastIndex { !isSpace($0) }.map { start[...$0] } ?? start.prefix(0)
  }

  private static func isHostByte(_ byte: UInt8) -> Bool {
    isAlphanumeric(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
  }

  private static func isTokenByte(_ byte: UInt8) -> Bool {
    isAlphanumeric(byte) || "!#$%&'*+-.^_`|~".utf8.contains(byte)
  }

  private static func isAlphanumeric(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
  }
}

import Lookup
import TransferModel

/// What a server says of a failure in its own words. No standard says where they stand, and frameworks have their habits: the
/// most specific text comes first, and a general one follows where it says something else.
struct ServerErrorText {
  /// At most two.
  private(set) var texts: [String] = []
  /// PHP itself complains of a limit for bodies or files; of how many bytes, where it says so.
  private(set) var limitOfPHP: (isNamed: Bool, bytes: UInt64?) = (false, nil)

  private static let jsonBytesMax = 64 << 10

  init(_ response: HTTPResponse) {
    let json = response.body.count <= Self.jsonBytesMax ? JSONReader.value(of: response.body) : nil
    self.init(response, json: json)
  }

  /// `json` is the body, where it is JSON.
  init(_ response: HTTPResponse, json: JSONValue?) {
    let spoken = json.map { SpokenJSON($0).texts } ?? SpokenPage(response).texts
    let page = json == nil ? String(decoding: response.body.prefix(Self.jsonBytesMax), as: UTF8.self) : ""
    limitOfPHP = Self.limit(in: page + spoken.joined(separator: " "))
    let all = (spoken + [response.reasonPhrase]).filter { !$0.isEmpty }
    var telling = all.filter { !StatusPhrase.isOne($0, of: response.status) }
    // What only repeats the status is better than nothing, where the server has written it into its answer.
    if telling.isEmpty { telling = spoken.prefix(1).filter { !$0.isEmpty } }
    for text in telling where texts.count < 2 {
      let isSaid = texts.contains { $0.lowercased().contains(text.lowercased()) }
      if !isSaid { texts.append(text) }
    }
  }

  /// As they stand in a message, behind what they are about; empty when nothing was said.
  var quoted: String {
    texts.isEmpty ? "" : " (\(texts.map { "“\(PrintableText.beginning(of: $0))”" }.joined(separator: ", ")))"
  }

  private static func limit(in text: String) -> (Bool, UInt64?) {
    if let mark = text.firstRange(of: "exceeds the limit of ") {
      return (true, UInt64(text[mark.upperBound...].prefix { $0.isASCII && $0.isNumber }))
    }
    return (["upload_max_filesize", "post_max_size"].contains { text.contains($0) }, nil)
  }
}

/// The texts of an answer in JSON.
private struct SpokenJSON {
  private(set) var texts: [String] = []

  private static let specific = ["message", "detail", "errors", "error_description", "msg", "reason", "description"]
  private static let general = ["error", "title"]
  /// Of a list no more are named.
  private static let membersMax = 3

  init(_ json: JSONValue) {
    guard case .object(let members) = json else {
      texts = Self.text(of: json).map { [$0] } ?? []
      return
    }
    let specific = Self.specific.lazy.compactMap { members[$0].flatMap(Self.text) }.first
    let general = Self.general.lazy.compactMap { members[$0].flatMap(Self.text) }.first
    texts = [specific, general].compactMap { $0 }
    // Django names each field with what is wrong with it, and nothing else.
    if texts.isEmpty, members.keys.sorted().allSatisfy({ members[$0].map(Self.isListOfTexts) ?? false }) {
      texts = Self.text(of: json).map { [$0] } ?? []
    }
  }

  private static func isListOfTexts(_ value: JSONValue) -> Bool {
    guard case .array(let list) = value, !list.isEmpty else { return false }
    return list.allSatisfy { if case .string = $0 { true } else { false } }
  }

  /// What a value says: a text, several of them, or members that say what is wrong, and with what.
  private static func text(of value: JSONValue) -> String? {
    switch value {
    case .string(let text): return text.isEmpty ? nil : text
    case .array(let list):
      let parts = list.prefix(membersMax).compactMap { text(of: $0) }
      return parts.isEmpty ? nil : parts.joined(separator: "; ")
    case .object(let members): return text(of: members)
    case .null, .bool, .integer, .number: return nil
    }
  }

  private static func text(of members: LookupTable<String, JSONValue>) -> String? {
    for key in specific + general {
      guard case .string(let said)? = members[key], !said.isEmpty else { continue }
      return place(members).map { "\($0): \(said)" } ?? said
    }
    let parts = members.keys.sorted().prefix(membersMax).compactMap { key in
      members[key].flatMap { text(of: $0) }.map { "\(key): \($0)" }
    }
    return parts.isEmpty ? nil : parts.joined(separator: "; ")
  }

  /// What it is about: FastAPI says it by a path, others by a name.
  private static func place(_ members: LookupTable<String, JSONValue>) -> String? {
    if case .array(let path)? = members["loc"] {
      let names = path.compactMap { if case .string(let name) = $0, name != "body" { name } else { nil } }
      return names.isEmpty ? nil : names.joined(separator: ".")
    }
    for key in ["field", "param", "name", "path"] {
      if case .string(let name)? = members[key], !name.isEmpty { return name }
    }
    return nil
  }
}

/// The texts of an answer that is a page, or plain text.
private struct SpokenPage {
  private(set) var texts: [String] = []

  private static let bytesMax = 16 << 10

  init(_ response: HTTPResponse) {
    let page = PrintableText.text(response.body, bytesMax: Self.bytesMax)
    guard page.contains(where: { !$0.isWhitespace }) else { return }
    let plain = Self.withoutTags(page)
    if let complaint = Self.complaint(in: plain) {
      texts = [complaint]
      return
    }
    let type = response.header("content-type") ?? "text/plain"
    let isMarkedUp = page.first { !$0.isWhitespace } == "<"
    if type.hasPrefix("text/plain"), !isMarkedUp {
      texts = [Self.trimmed(plain)]
    } else if isMarkedUp {
      // What Flask's pages say stands in the paragraph, and their title is the status's name.
      texts = ["p", "h1", "title"].compactMap { Self.content(of: $0, in: page) }.filter { !$0.isEmpty }
    }
  }

  /// PHP's own words, which it writes into the page unless it is told not to.
  private static func complaint(in text: String) -> String? {
    for mark in ["Fatal error:", "Parse error:", "Warning:"] {
      guard let start = text.firstRange(of: mark) else { continue }
      let rest = text[start.lowerBound...].prefix { !$0.isNewline }
      let end = rest.firstRange(of: " in ")?.lowerBound ?? rest.endIndex
      return trimmed(String(rest[..<end])).split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
    return nil
  }

  private static func content(of tag: String, in page: String) -> String? {
    guard let open = page.firstRange(of: "<\(tag)>") else { return nil }
    let rest = page[open.upperBound...]
    let end = rest.firstRange(of: "</\(tag)")?.lowerBound ?? rest.endIndex
    return trimmed(withoutTags(String(rest[..<end])))
  }

  private static func withoutTags(_ text: String) -> String {
    var plain = ""
    var isInside = false
    for character in text.unicodeScalars {
      switch character {
      case "<": isInside = true
      case ">" where isInside: isInside = false
      default: if !isInside { plain.unicodeScalars.append(character) }
      }
    }
    return plain
  }

  private static func trimmed(_ text: String) -> String {
    let start = text.drop(while: \.isWhitespace)
    return String(start.reversed().drop(while: \.isWhitespace).reversed())
  }
}

/// The names of statuses, which say no more than their numbers.
enum StatusPhrase {
  private static let names: LookupTable<Int, [String]> = [
    400: ["bad request"], 401: ["unauthorized"], 403: ["forbidden"], 404: ["not found"], 405: ["method not allowed"],
    408: ["request timeout", "request time-out"], 409: ["conflict"], 410: ["gone"], 411: ["length required"],
    412: ["precondition failed"],
    413: ["request entity too large", "payload too large", "content too large"], 415: ["unsupported media type"],
    422: ["unprocessable entity", "unprocessable content"], 423: ["locked"], 425: ["too early"],
    429: ["too many requests"], 500: ["internal server error", "server error"], 501: ["not implemented"],
    502: ["bad gateway"], 503: ["service unavailable", "service temporarily unavailable"],
    504: ["gateway timeout", "gateway time-out"], 507: ["insufficient storage"],
  ]

  /// A text is the status's name, perhaps behind its number.
  static func isOne(_ text: String, of status: Int) -> Bool {
    let words = text.lowercased().drop { $0.isNumber || $0.isWhitespace }
    let end = words.last == "." ? words.dropLast() : words
    return end.isEmpty || names[status]?.contains(String(end)) ?? ["ok", "error"].contains(String(end))
  }
}

/// What captures are called where they are published (docs/configuration.md#names): text with placeholders such as
/// `{date}/{stem}-{seq}.{ext}`.
///
/// Pure, and without a clock: the same facts make the same name, whenever it is asked for.
public struct NameTemplate: Hashable, Sendable {
  /// As it was given.
  public let text: String
  private let parts: [Part]

  private enum Part: Hashable, Sendable {
    case text([UInt8])
    case placeholder(Placeholder)
    case sequence(width: Int)
  }

  /// What can stand between braces, besides `{seq:N}`.
  private enum Placeholder: String, CaseIterable {
    case path, dir, name, stem, ext, date, time, host, seq, id
  }

  /// Digits of `{seq}`.
  private static let widthUsual = 5
  private static let widths = 1...9

  /// Names are made of these facts.
  public struct Values: Hashable, Sendable {
    /// The file's name in the mount.
    public var path: RelativePath
    /// The file's identity.
    public var id: FileID
    /// The day on which the file was made, as `2026-11-22`.
    public var date: String
    /// The time of that day, as `051728`.
    public var time: String
    /// The machine's name.
    public var host: String
    /// The file's number; nil while it has none.
    public var sequence: Int64?

    /// Collects the facts of one file.
    public init(path: RelativePath, id: FileID, date: String, time: String, host: String, sequence: Int64?) {
      self.path = path
      self.id = id
      self.date = date
      self.time = time
      self.host = host
      self.sequence = sequence
    }
  }

  /// Understands a template.
  public init(_ text: String) throws(FileRuleProblem) {
    self.text = text
    parts = try Self.parts(of: text)
    let literal = parts.flatMap { part -> [UInt8] in if case .text(let bytes) = part { bytes } else { [0x78] } }
    guard !literal.contains(where: { $0 < 0x20 || $0 == 0x7f }) else {
      throw FileRuleProblem("the name template holds control characters")
    }
    let folders = literal.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    guard !folders.contains(where: \.isEmpty), !folders.contains(where: { $0.allSatisfy { $0 == UInt8(ascii: ".") } })
    else {
      throw FileRuleProblem(
        "the name template “\(text)” begins or ends with “/”, or has an empty folder, “.” or “..”; a template such as "
          + "{date}/{name} makes names below the destination")
    }
    let telling = [Placeholder.path, .name, .stem, .time, .id].map { Part.placeholder($0) }
    guard usesSequence || parts.contains(where: telling.contains) else {
      throw FileRuleProblem(
        "the name template “\(text)” gives many files the same name; use one of {path}, {name}, {stem}, {seq}, {time}, {id}"
      )
    }
  }

  /// A file has to have a number before it has a name.
  public var usesSequence: Bool {
    parts.contains { if case .sequence = $0 { true } else { false } }
  }

  /// The file's name. Left out are empty folders, what has become `.` or `..`, and the dot in front of an extension that is not
  /// there. A number that is not known yet is shown as `{seq}`.
  public func name(of facts: Values) -> RelativePath {
    var bytes: [UInt8] = []
    for part in parts {
      switch part {
      case .text(let literal): bytes += literal
      case .sequence(let width): bytes += Self.digits(facts.sequence, width).utf8
      case .placeholder(let placeholder):
        let value = Self.value(placeholder, facts)
        if placeholder == .ext, value.isEmpty, bytes.last == UInt8(ascii: ".") { bytes.removeLast() }
        bytes += value
      }
    }
    let folders = bytes.split(separator: UInt8(ascii: "/")).filter {
      !$0.elementsEqual(".".utf8) && !$0.elementsEqual("..".utf8)
    }
    // Nothing is left of a template like {ext} for a file without one.
    return folders.isEmpty ? facts.path : RelativePath(bytes: Array(folders.joined(separator: [UInt8(ascii: "/")])))
  }

  /// A name for another file that the template gives the same one: `-2` and so on, before the extension.
  public static func distinguished(_ name: RelativePath, by number: Int) -> RelativePath {
    let last = name.lastComponent
    let stem = self.stem(of: last)
    return name.parent.appending(Array(stem) + Array("-\(number)".utf8) + Array(last[stem.endIndex...]))
  }

  /// The name that another one may have been made of so, and the number; nil where it has none.
  public static func number(in name: RelativePath) -> (name: RelativePath, number: Int)? {
    let last = name.lastComponent
    let stem = self.stem(of: last)
    guard let dash = stem.lastIndex(of: UInt8(ascii: "-")), dash > stem.startIndex,
      let number = Int(String(decoding: stem[(dash + 1)...], as: UTF8.self)), number > 1
    else { return nil }
    let other = name.parent.appending(Array(stem[..<dash]) + Array(last[stem.endIndex...]))
    return distinguished(other, by: number) == name ? (other, number) : nil
  }

  private static func value(_ placeholder: Placeholder, _ facts: Values) -> [UInt8] {
    let last = facts.path.lastComponent
    return switch placeholder {
    case .path: facts.path.bytes
    case .dir: facts.path.parent.bytes
    case .name: Array(last)
    case .stem: Array(stem(of: last))
    case .ext: Array(last[stem(of: last).endIndex...].dropFirst())
    case .date: Array(facts.date.utf8)
    case .time: Array(facts.time.utf8)
    case .host: Array(facts.host.utf8)
    case .seq: Array(digits(facts.sequence, widthUsual).utf8)
    case .id: Array(facts.id.description.utf8)
    }
  }

  private static func digits(_ number: Int64?, _ width: Int) -> String {
    guard let number else { return "{seq}" }
    let digits = "\(number)"
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }

  /// Everything before the last dot; a dot at the beginning is no extension's.
  private static func stem(of name: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    guard let dot = name.lastIndex(of: UInt8(ascii: ".")), name[..<dot].contains(where: { $0 != UInt8(ascii: ".") })
    else { return name }
    return name[..<dot]
  }
}

// MARK: - Understanding

extension NameTemplate {
  /// What is possible, for messages.
  private static var possible: String {
    Placeholder.allCases.map { "{\($0.rawValue)}" }.joined(separator: ", ")
      + ", {seq:N} with N digits (\(widths.lowerBound) to \(widths.upperBound)), and {{ and }} for braces"
  }

  private static func parts(of text: String) throws(FileRuleProblem) -> [Part] {
    var parts: [Part] = []
    var literal: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "{") || byte == UInt8(ascii: "}") else {
        literal.append(byte)
        continue
      }
      if rest.first == byte {
        rest = rest.dropFirst()
        literal.append(byte)
        continue
      }
      guard byte == UInt8(ascii: "{"), let end = rest.firstIndex(of: UInt8(ascii: "}")) else {
        throw FileRuleProblem("the name template “\(text)” has a brace without its other; possible are \(possible)")
      }
      if !literal.isEmpty { parts.append(.text(literal)) }
      literal = []
      parts.append(try part(String(decoding: rest[..<end], as: UTF8.self), of: text))
      rest = rest[end...].dropFirst()
    }
    if !literal.isEmpty { parts.append(.text(literal)) }
    guard !parts.isEmpty else { throw FileRuleProblem("the name template is empty; possible are \(possible)") }
    return parts
  }

  private static func part(_ word: String, of text: String) throws(FileRuleProblem) -> Part {
    if word == Placeholder.seq.rawValue { return .sequence(width: widthUsual) }
    if let known = Placeholder(rawValue: word) { return .placeholder(known) }
    let sequence = "\(Placeholder.seq.rawValue):"
    if word.hasPrefix(sequence), let width = Int(word.dropFirst(sequence.count)), widths.contains(width) {
      return .sequence(width: width)
    }
    throw FileRuleProblem("the name template “\(text)” has “{\(word)}”; possible are \(possible)")
  }
}

import FileModel

/// A field that a form has beside the file: a name, and a text in which names in braces stand for facts of the file.
public struct FormField: Hashable, Sendable {
  /// A fact of the file.
  enum Fact: String, CaseIterable, Sendable {
    /// The path below the mount.
    case path
    /// Its last part.
    case name
    /// The name without its extension.
    case stem
    /// The extension without its dot.
    case ext
    /// The path of the folder; empty for the mount itself.
    case folder
    /// Bytes.
    case size
    /// The last change in seconds since 1970.
    case mtime
    /// The file's id in `status`.
    case id
  }

  private enum Part: Hashable, Sendable {
    case text(String)
    case fact(Fact)
  }

  /// The field's name.
  public let name: String
  private let glob: Glob?
  private let parts: [Part]

  /// Reads `name=text`, or `glob name=text` for files that the glob describes only.
  public init(_ text: String) throws(DestinationError) {
    guard let equals = text.unicodeScalars.firstIndex(of: "=") else {
      throw DestinationError(.invalidOption, "“\(text)” is no field; write name=value, or GLOB name=value")
    }
    let words = text.unicodeScalars[..<equals].split(separator: " ")
    guard let name = words.last, words.count <= 2,
      name.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7f })
    else {
      throw DestinationError(
        .invalidOption, "“\(text)” has no valid name before its “=”; write name=value, or GLOB name=value")
    }
    do {
      glob = try words.count == 2 ? Glob(checking: String(words[0])) : nil
    } catch {
      throw DestinationError(.invalidOption, error.message)
    }
    self.name = String(name)
    parts = try Self.parts(of: text[text.unicodeScalars.index(after: equals)...])
  }

  /// The field's content for a file; nil when it is for others.
  func value(for path: RelativePath, sizeBytes: UInt64, modifiedNanoseconds: Int64, id: FileID) -> String? {
    if let glob, !glob.matches(path) { return nil }
    return parts.map { part in
      switch part {
      case .text(let text): return text
      case .fact(let fact):
        switch fact {
        case .path: return TextName.quoted.of(path)
        case .name: return TextName.quoted.ofLastComponent(path)
        case .stem: return TextName.quoted.ofLastComponent(path).splitAtExtension.stem
        case .ext: return TextName.quoted.ofLastComponent(path).splitAtExtension.ext
        case .folder: return path.parent == .root ? "" : TextName.quoted.of(path.parent)
        case .size: return "\(sizeBytes)"
        case .mtime: return "\(modifiedNanoseconds / 1_000_000_000)"
        case .id: return id.description
        }
      }
    }.joined()
  }

  private static func parts(of text: Substring) throws(DestinationError) -> [Part] {
    var parts: [Part] = []
    var rest = text
    while let open = rest.unicodeScalars.firstIndex(of: "{") {
      if open > rest.startIndex { parts.append(.text(String(rest[..<open]))) }
      let inner = rest.unicodeScalars[rest.unicodeScalars.index(after: open)...].prefix { $0 != "}" }
      guard inner.endIndex < rest.endIndex, let fact = Fact(rawValue: String(inner)) else {
        let names = Fact.allCases.map { "{\($0.rawValue)}" }.joined(separator: ", ")
        throw DestinationError(.invalidOption, "“{\(String(inner))” is not known in a field; there are \(names)")
      }
      parts.append(.fact(fact))
      rest = rest[rest.unicodeScalars.index(after: inner.endIndex)...]
    }
    if !rest.isEmpty { parts.append(.text(String(rest))) }
    return parts
  }
}

extension String {
  /// A dot at the beginning begins no extension.
  var splitAtExtension: (stem: String, ext: String) {
    guard let dot = unicodeScalars.lastIndex(of: "."), dot > startIndex else { return (self, "") }
    return (String(self[..<dot]), String(self[unicodeScalars.index(after: dot)...]))
  }
}

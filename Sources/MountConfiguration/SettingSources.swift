import Yams

/// Collects the texts of all settings from the places where they can be given. The first that has a value wins:
/// flag, environment, file.
///
/// Over Yams alone: a message names the flag, the variable, or the file and line that it is about, and the name that was probably meant. A
/// library for configuration reads values by keys, and neither tells where one is from nor refuses an unknown one.
public struct SettingSources: Sendable {
  private var texts: [Setting: SettingText] = [:]

  /// Nothing given: every setting has its default.
  public init() {}

  /// The winning text of a setting; nil when it was given nowhere.
  public subscript(setting: Setting) -> SettingText? { texts[setting] }

  /// Adds what the command line gave.
  public mutating func add(flags: [Setting: String]) {
    for (setting, text) in flags { add(text, for: setting, from: .flag) }
  }

  /// Adds the environment's variables. An unknown variable with our prefix is an error.
  public mutating func add(environment: [String: String]) throws(ConfigurationError) {
    let known = Dictionary(uniqueKeysWithValues: Setting.allCases.map { ($0.environmentName, $0) })
    for (name, value) in environment.sorted(by: { $0.key < $1.key })
    where name.hasPrefix(Setting.environmentPrefix) && name != Setting.configurationFileVariable {
      guard let setting = known[name] else {
        throw ConfigurationError(
          "unknown environment variable \(name)"
            + SettingSources.hint(SettingSources.nearestVariable(to: name))
            + "; unset it if it is not meant for uploadfs")
      }
      add(value, for: setting, from: .environment)
    }
  }

  /// Adds a configuration file: one YAML mapping from settings to plain values, or to lists where a setting takes several.
  ///
  /// - Parameter path: the file's path, for messages and as the start of relative paths in it.
  public mutating func add(file text: String, path: String) throws(ConfigurationError) {
    for (key, values, line) in try SettingSources.pairs(in: text, path: path) {
      guard let setting = Setting(rawValue: key) else {
        throw ConfigurationError(
          "unknown setting “\(key)” in \(path), line \(line)"
            + SettingSources.hint(nearestName(to: key, among: Setting.allCases.map(\.rawValue))))
      }
      guard !SettingSources.isEmptyList(values, of: setting) else { continue }
      let value = try SettingSources.text(of: values, for: setting, path: path, line: line)
      // Flags and the environment have none: there it ends the text. So it does in every path that the system is given.
      guard !value.utf8.contains(0) else {
        throw ConfigurationError(
          "\(path), line \(line): “\(setting.rawValue)” holds a NUL character (“\\0”), which ends a path for the system; leave it out"
        )
      }
      add(resolving: value, for: setting, from: .file(path: path))
    }
  }

  /// Adds the credentials that systemd gives to a service (`LoadCredential=`): files in a folder, called like settings.
  /// Nothing wins over less.
  public mutating func add(credentialsIn folder: String, isThere: (String) -> Bool) {
    for setting in Setting.allCases where setting.isSecret {
      let path = (folder.utf8.last == UInt8(ascii: "/") ? folder : folder + "/") + setting.rawValue
      if isThere(path) { add(path, for: setting, from: .file(path: folder)) }
    }
  }

  /// What one of several destinations is set up from: its own settings, and the mount's where it has none. `settings` are texts
  /// `key=value`, as they were found at `origin`.
  func ofDestination(
    settings: some Sequence<String>, from origin: SettingOrigin
  ) throws(ConfigurationError) -> SettingSources {
    var own = SettingSources()
    for text in settings {
      let parts = text.unicodeScalars.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        .map { String($0) }
      guard parts.count == 2 else {
        throw ConfigurationError("“\(text)” is no key=value; a blank in a value is written as “\\ ”")
      }
      let possible = Setting.allCases.filter { $0.scope != .mount }
      guard let setting = possible.first(where: { $0.rawValue == parts[0] }) else {
        throw ConfigurationError(
          "a destination has no “\(parts[0])”"
            + SettingSources.hint(nearestName(to: parts[0], among: possible.map(\.rawValue)))
            + "; use " + possible.map(\.rawValue).joined(separator: ", "))
      }
      // What takes several is cut at `;` once more.
      let value = SettingSources.unescaped(setting.isList ? parts[1] : SettingText.withSemicolons(parts[1]))
      // Of what takes several, each is given by itself: `;` ends a whole destination.
      if setting.isList, let known = own.texts[setting] {
        own.texts[setting] = SettingText("\(known.text)\n\(value)", from: origin)
      } else {
        own.add(resolving: value, for: setting, from: origin)
      }
    }
    for (setting, text) in texts where setting.scope == .inherited || setting.scope == .mount {
      // Files are told apart by the mount's rules.
      guard setting != .destination, setting != .rule, setting != .ignore else { continue }
      if own.texts[setting] == nil { own.texts[setting] = text }
    }
    return own
  }

  /// Without the backslashes before blanks.
  private static func unescaped(_ text: String) -> String {
    String(decoding: Array(text.utf8).replacing(Array("\\ ".utf8), with: Array(" ".utf8)), as: UTF8.self)
  }

  /// A relative path in a configuration file starts at that file's folder.
  private mutating func add(resolving text: String, for setting: Setting, from origin: SettingOrigin) {
    guard case .file(let path) = origin, setting.isPath, text.utf8.first != UInt8(ascii: "/"), !text.isEmpty
    else {
      return add(text, for: setting, from: origin)
    }
    add(SettingSources.folder(of: path) + text, for: setting, from: origin)
  }

  private mutating func add(_ text: String, for setting: Setting, from origin: SettingOrigin) {
    if texts[setting] == nil { texts[setting] = SettingText(text, from: origin) }
  }

  /// By what follows the prefix, which they all have.
  private static func nearestVariable(to name: String) -> String? {
    let variables = Setting.allCases.map(\.environmentName) + [Setting.configurationFileVariable]
    let shorten = { (name: String) in String(name.dropFirst(Setting.environmentPrefix.count)).replacing("_", with: "-")
    }
    let nearest = nearestName(to: shorten(name), among: variables.map(shorten))
    return variables.first { shorten($0) == nearest }
  }

  private static func hint(_ name: String?) -> String {
    name.map { "; did you mean \($0)?" } ?? ""
  }

  /// The folder part of a path with its slash; empty when there is none.
  private static func folder(of path: String) -> String {
    path.unicodeScalars.lastIndex(of: "/").map { String(path.unicodeScalars[...$0]) } ?? ""
  }

  /// Where the parser gave up, and in its words why.
  private static func place(of error: any Error) -> String {
    switch error as? YamlError {
    case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
      .composer(_, let problem, let mark, _):
      " in line \(mark.line), column \(mark.column) (\(problem.trimmed))"
    case .reader(let problem, _, _, _): " (\(problem.trimmed))"
    default: ""
    }
  }

  /// The mapping's pairs in the order in which they stand.
  private static func pairs(in text: String, path: String) throws(ConfigurationError) -> [(String, Node, Int)] {
    let node: Node?
    do {
      node = try Yams.compose(yaml: text)
    } catch YamlError.duplicatedKeysInMapping(let duplicates, let context) {
      let keys = duplicates.map { "“\($0)”" }.joined(separator: ", ")
      throw ConfigurationError(
        "\(path), line \(context.mark.line): \(keys) is set more than once, here for the first time; leave one of them")
    } catch {
      throw ConfigurationError(
        "\(path) is no valid YAML\(place(of: error)). A setting is a line “setting: value”; check quotes, brackets and "
          + "blanks at the beginning of lines there.")
    }
    // An empty file, or one with nothing but comments, sets nothing.
    guard let node, node.null == nil else { return [] }
    guard let mapping = node.mapping else {
      throw ConfigurationError("\(path) must hold lines of the form “setting: value”")
    }
    var pairs: [(String, Node, Int)] = []
    for (key, value) in mapping {
      let line = key.mark?.line ?? 0
      guard let name = key.scalar?.string else {
        throw ConfigurationError("\(path), line \(line): a setting's name must be plain text")
      }
      pairs.append((name, value, line))
    }
    return pairs
  }

  /// A list without values gives none, as a flag that is not there.
  private static func isEmptyList(_ value: Node, of setting: Setting) -> Bool {
    setting.isList && value.sequence?.isEmpty == true || setting == .expert && value.mapping?.isEmpty == true
  }

  /// A value as text; a list as lines.
  private static func text(
    of value: Node, for setting: Setting, path: String, line: Int
  ) throws(ConfigurationError) -> String {
    if let scalar = value.scalar { return scalar.string }
    guard setting.isList else {
      throw ConfigurationError(
        "\(path), line \(line): “\(setting.rawValue)” takes one plain value, not a list or a mapping")
    }
    if setting == .expert, let mapping = value.mapping {
      return try mapping.map { pair throws(ConfigurationError) in
        guard let key = pair.key.scalar?.string, let text = pair.value.scalar?.string else {
          throw ConfigurationError("\(path), line \(line): “\(setting.rawValue)” takes lines of the form “key: value”")
        }
        return "\(key)=\(text)"
      }.joined(separator: "\n")
    }
    let lines = value.sequence?.map { $0.scalar?.string } ?? [nil]
    guard !lines.contains(nil) else {
      throw ConfigurationError(
        "\(path), line \(line): “\(setting.rawValue)” takes a plain value or a list of plain values")
    }
    return lines.compactMap { $0 }.joined(separator: "\n")
  }
}

extension String {
  /// Without blanks and a colon at the end.
  fileprivate var trimmed: String { String(reversed().drop { $0 == ":" || $0.isWhitespace }.reversed()) }
}

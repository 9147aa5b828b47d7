/// How one file is treated.
public struct FileSettings: Hashable, Sendable {
  /// When its bytes are sent.
  public enum Upload: String, CaseIterable, Sendable {
    /// What is written stays mostly as it is, so it is sent while the file grows, where the destination can replace chunks.
    case whileWriting = "while-writing"
    /// Once it is complete.
    case onClose = "on-close"
    /// It stays here.
    case never
  }

  /// What becomes of a file whose writer did not finish it (docs/semantics.md, S39b).
  public enum Interrupted: String, CaseIterable, Sendable {
    /// It is kept, and delivered when a user asks for it.
    case hold
    /// It is delivered like any other.
    case publish
    /// It is removed.
    case discard
  }

  /// What happens when a file that is being written needs more space than the disk has.
  public enum WhenFull: String, CaseIterable, Sendable {
    /// Its writer is told so.
    case refuse
    /// What the server holds of it is given up here.
    case release
  }

  /// When close(2) returns.
  public enum Close: String, CaseIterable, Sendable {
    /// At once.
    case `return`
    /// When the content is delivered.
    case wait
    /// When the spool's disk has the content and the name.
    case synced
  }

  /// When fsync(2) returns.
  public enum Fsync: String, CaseIterable, Sendable {
    /// When the spool's disk has the content.
    case local
    /// When it is delivered.
    case remote
  }

  /// What happens when it outgrows what its destinations take while it is written (docs/semantics.md, S29d).
  public enum TooLarge: String, CaseIterable, Sendable {
    /// It is recorded on, and stays in the spool.
    case record
    /// Its writer is told so.
    case refuse
  }

  /// What becomes of it where another capture has its name at the destination (docs/destinations.md, DE138).
  public enum IfExists: String, CaseIterable, Sendable {
    /// It gets the next number before its extension.
    case number
    /// It fails, and stays in the spool.
    case refuse
    /// It takes the name, and the other one is gone.
    case replace
  }

  /// How its bytes are compressed on their way, where its destination decodes that and it gains a tenth
  /// (docs/design/reading.md#compression).
  public enum Compress: String, CaseIterable, Sendable {
    case off
    /// As the line leaves time for.
    case auto
    /// With LZ4, whatever the line.
    case lz4
    /// With Zstandard, whatever the line.
    case zstd
  }

  /// When its bytes are sent.
  public var upload = Upload.whileWriting
  /// What becomes of it when its writer did not finish it.
  public var interrupted = Interrupted.hold
  /// What happens when the disk is full while it is being written.
  public var whenFull = WhenFull.refuse
  /// When close(2) returns.
  public var close = Close.return
  /// When fsync(2) returns.
  public var fsync = Fsync.local
  /// What happens when its destinations do not take its size.
  public var tooLarge = TooLarge.record
  /// What it is called where it is published; nil for its path.
  public var name: NameTemplate?
  /// What becomes of it where its name is another capture's; nil for what its destination does by default.
  public var ifExists: IfExists?

  /// How its bytes are compressed on their way.
  public var compress = Compress.auto

  /// Where it goes; never empty.
  public var destinations: [DestinationName] = [.main]

  /// A call may have to wait for its delivery.
  public var waits: Bool { close == .wait || fsync == .remote }

  /// Some call returns later than it could, so that it has to be known what was written until then.
  public var holdsCalls: Bool { waits || close == .synced }

  /// What holds for files of which no rule says anything else.
  public init() {}
}

/// Settings for the files that a pattern describes; those that it does not name are as without it.
public struct FileRule: Hashable, Sendable {
  /// The files.
  public var pattern: Glob
  /// When their bytes are sent.
  public var upload: FileSettings.Upload?
  /// What becomes of them when their writer did not finish them.
  public var interrupted: FileSettings.Interrupted?
  /// What happens when the disk is full while they are being written.
  public var whenFull: FileSettings.WhenFull?
  /// When close(2) of them returns.
  public var close: FileSettings.Close?
  /// When fsync(2) of them returns.
  public var fsync: FileSettings.Fsync?
  /// What happens when their destinations do not take their size.
  public var tooLarge: FileSettings.TooLarge?
  /// Where they go.
  public var destinations: [DestinationName]?
  /// What they are called where they are published.
  public var name: NameTemplate?
  /// What becomes of them where their name is another capture's.
  public var ifExists: FileSettings.IfExists?
  /// How their bytes are compressed on their way.
  public var compress: FileSettings.Compress?

  /// A rule that says nothing yet.
  public init(_ pattern: Glob) {
    self.pattern = pattern
  }

  fileprivate func apply(to settings: inout FileSettings) {
    settings.upload = upload ?? settings.upload
    settings.interrupted = interrupted ?? settings.interrupted
    settings.whenFull = whenFull ?? settings.whenFull
    settings.close = close ?? settings.close
    settings.fsync = fsync ?? settings.fsync
    settings.tooLarge = tooLarge ?? settings.tooLarge
    settings.destinations = destinations ?? settings.destinations
    settings.name = name ?? settings.name
    settings.ifExists = ifExists ?? settings.ifExists
    settings.compress = compress ?? settings.compress
  }
}

/// How every file is treated, by its path. A later rule wins over an earlier one, for each setting by itself.
public struct FileRules: Hashable, Sendable {
  /// What holds where no rule says anything else.
  public var defaults: FileSettings
  /// The rules, in order.
  public var rules: [FileRule]
  /// Who asks, where it is the uploader to one destination: for it, files that go elsewhere are not uploaded.
  public var asker: DestinationName?

  /// Rules over defaults.
  public init(defaults: FileSettings = FileSettings(), rules: [FileRule] = []) {
    self.defaults = defaults
    self.rules = rules
  }

  /// Whether anything may be given up here before it is published.
  public var haveReleases: Bool { defaults.whenFull == .release || rules.contains { $0.whenFull == .release } }

  /// Whether a call may have to wait for a delivery at all.
  public var haveWaits: Bool {
    defaults.close == .wait || defaults.fsync == .remote || rules.contains { $0.close == .wait || $0.fsync == .remote }
  }

  /// Whether some call may return later than it could.
  public var haveHeldCalls: Bool {
    haveWaits || defaults.close == .synced || rules.contains { $0.close == .synced }
  }

  /// Whether files are compressed in several ways.
  public var haveCompressions: Bool { rules.contains { $0.compress != nil } }

  /// Whether any writer is told that its file has outgrown what its destinations take.
  public var haveRefusals: Bool { rules.contains { $0.tooLarge == .refuse } }

  /// Whether a file of this name concerns the asking destination, be it that it is not to be uploaded.
  public func isForAsker(_ path: RelativePath) -> Bool {
    guard let asker else { return true }
    var settings = defaults
    for rule in rules where rule.pattern.matches(path) { rule.apply(to: &settings) }
    return settings.destinations.contains(asker)
  }

  /// Whether anything may be published under another name than its path.
  public var haveNames: Bool { defaults.name != nil || rules.contains { $0.name != nil } }

  /// The settings for a path below the mount. Takes time for each rule: ask when a name is new, not for each event.
  public func settings(for path: RelativePath) -> FileSettings {
    var settings = defaults
    for rule in rules where rule.pattern.matches(path) { rule.apply(to: &settings) }
    // What one server holds is given up here only if no other one still needs it.
    if settings.destinations.count > 1 { settings.whenFull = .refuse }
    if let asker, !settings.destinations.contains(asker) { settings.upload = .never }
    return settings
  }
}

/// Why a text is no rule: a sentence without the setting's name.
public struct FileRuleProblem: Error, Hashable, Sendable {
  /// The sentence.
  public let message: String

  package init(_ message: String) {
    self.message = message
  }
}

extension Glob {
  /// A pattern that a user gave.
  public init(checking text: String) throws(FileRuleProblem) {
    do throws(Problem) {
      try self.init(text)
    } catch {
      switch error {
      case .empty: throw FileRuleProblem("the pattern is empty")
      case .unclosedSet:
        throw FileRuleProblem("the pattern “\(text)” has a “[” without “]”; write \\[ for the character")
      case .endsWithBackslash: throw FileRuleProblem("the pattern “\(text)” ends with a backslash")
      case .emptyComponent:
        throw FileRuleProblem(
          "the pattern “\(text)” has an empty folder name; for all that is in a folder use FOLDER/**")
      }
    }
  }
}

extension FileRule {
  private static let properties = [
    "upload", "interrupted", "when-full", "close", "fsync", "too-large", "to", "name", "if-exists", "compress",
  ]

  /// Understands `GLOB key=value …`. A blank in the pattern is written as `\ ` or `?`.
  public init(_ text: String) throws(FileRuleProblem) {
    var words = Self.words(of: text)[...]
    guard let pattern = words.popFirst() else { throw FileRuleProblem("the rule is empty") }
    self.init(try Glob(checking: pattern))
    guard !words.isEmpty else {
      throw FileRuleProblem(
        "the rule for “\(pattern)” says nothing; use PATTERN key=value, such as *.mov upload=on-close")
    }
    for word in words { try set(word) }
  }

  private mutating func set(_ word: String) throws(FileRuleProblem) {
    let parts = word.unicodeScalars.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      .map { String($0) }
    guard parts.count == 2 else {
      throw FileRuleProblem("“\(word)” is no key=value; a blank in a pattern is written as “\\ ”")
    }
    switch parts[0] {
    case "upload": upload = try Self.value(parts[1], of: parts[0])
    case "interrupted": interrupted = try Self.value(parts[1], of: parts[0])
    case "when-full": whenFull = try Self.value(parts[1], of: parts[0])
    case "close": close = try Self.value(parts[1], of: parts[0])
    case "fsync": fsync = try Self.value(parts[1], of: parts[0])
    case "too-large": tooLarge = try Self.value(parts[1], of: parts[0])
    case "to": destinations = try Self.names(parts[1])
    case "compress": compress = try Self.value(parts[1], of: parts[0])
    case "if-exists": ifExists = try Self.value(parts[1], of: parts[0])
    case "name": name = try NameTemplate(Self.unescaped(parts[1]))
    default:
      throw FileRuleProblem("a rule has no “\(parts[0])”; use " + Self.properties.joined(separator: ", "))
    }
  }

  /// Names with commas between them, each once.
  private static func names(_ text: String) throws(FileRuleProblem) -> [DestinationName] {
    var names: [DestinationName] = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      guard let name = DestinationName(String(part)) else {
        throw FileRuleProblem(
          "“to=\(text)” is not possible; use the names of destinations with commas between them, such as to=main,archive"
        )
      }
      if !names.contains(name) { names.append(name) }
    }
    return names
  }

  private static func value<Value: RawRepresentable & CaseIterable>(
    _ text: String, of key: String
  ) throws(FileRuleProblem) -> Value where Value.RawValue == String {
    guard let value = Value(rawValue: text) else {
      let known = Value.allCases.map { "\(key)=\($0.rawValue)" }.joined(separator: ", ")
      throw FileRuleProblem("“\(key)=\(text)” is not possible; use one of \(known)")
    }
    return value
  }

  /// Without the backslashes that take away a character's meaning.
  private static func unescaped(_ text: String) -> String {
    var bytes: [UInt8] = []
    var isEscaped = false
    for byte in text.utf8 {
      isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
      if !isEscaped { bytes.append(byte) }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// The text's parts between blanks; a blank behind a backslash is no end.
  package static func words(of text: String) -> [String] {
    var words: [[UInt8]] = [[]]
    var isEscaped = false
    for byte in text.utf8 {
      if !isEscaped, byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") {
        words.append([])
      } else {
        words[words.count - 1].append(byte)
      }
      isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
    }
    return words.filter { !$0.isEmpty }.map { String(decoding: $0, as: UTF8.self) }
  }
}

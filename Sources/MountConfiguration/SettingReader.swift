import FileModel
import Quantities

/// Turns the text of one setting into its value; each error names the setting as the user wrote it.
struct SettingReader {
  let sources: SettingSources

  init(_ sources: SettingSources) {
    self.sources = sources
  }

  func required(_ setting: Setting, because reason: String) throws(ConfigurationError) -> String {
    guard let given = sources[setting] else {
      throw ConfigurationError(
        "\(setting.flag) is missing: \(reason); give it as a flag, as \(setting.environmentName) "
          + "or as “\(setting.rawValue)” in the configuration file")
    }
    return try nonEmpty(given, setting)
  }

  func path(_ setting: Setting) throws(ConfigurationError) -> String? {
    guard let given = sources[setting] else { return nil }
    return try nonEmpty(given, setting)
  }

  func boolean(_ setting: Setting) throws(ConfigurationError) -> Bool? {
    guard let given = sources[setting] else { return nil }
    switch given.text.lowercased() {
    case "true", "yes", "on", "1": return true
    case "false", "no", "off", "0": return false
    default: throw refusal(given, setting, "use true or false")
    }
  }

  func integer(_ setting: Setting, in range: ClosedRange<Int>) throws(ConfigurationError) -> Int? {
    guard let given = sources[setting] else { return nil }
    guard let number = Int(given.text), range.contains(number) else {
      throw refusal(given, setting, "use a number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  func bytes(_ setting: Setting, atLeast minimum: UInt64 = 0) throws(ConfigurationError) -> UInt64? {
    guard let given = sources[setting] else { return nil }
    guard let bytes = Units.bytes(given.text), bytes >= minimum else {
      throw refusal(given, setting, "use a size such as 500MB, 4MiB or 100GB")
    }
    return bytes
  }

  func choice<Value: RawRepresentable & CaseIterable>(_ setting: Setting) throws(ConfigurationError) -> Value?
  where Value.RawValue == String {
    guard let given = sources[setting] else { return nil }
    guard let value = Value(rawValue: given.text.lowercased()) else {
      let names = Value.allCases.map(\.rawValue)
      let hint = nearestName(to: given.text, among: names).map { "did you mean \($0)? " } ?? ""
      throw refusal(given, setting, hint + "use one of " + names.joined(separator: ", "))
    }
    return value
  }

  /// As it is; it may be empty.
  func text(_ setting: Setting) -> String? { sources[setting]?.text }

  /// Each of several values, with its blanks around it removed.
  func list(
    _ setting: Setting, _ take: (String) throws(FileRuleProblem) -> Void
  ) throws(ConfigurationError) {
    guard let given = sources[setting] else { return }
    for line in given.values {
      do throws(FileRuleProblem) {
        try take(line)
      } catch {
        throw ConfigurationError("\(given.name(of: setting)): \(error.message)")
      }
    }
  }

  func duration(_ setting: Setting) throws(ConfigurationError) -> Duration? {
    guard let given = sources[setting], given.text.lowercased() != "none" else { return nil }
    guard let duration = Units.duration(given.text) else {
      throw refusal(given, setting, "use a duration such as 90s, 10m or 2h, or none")
    }
    return duration
  }

  func nonEmpty(_ given: SettingText, _ setting: Setting) throws(ConfigurationError) -> String {
    guard !given.text.isEmpty else { throw ConfigurationError("\(given.name(of: setting)) is empty") }
    return given.text
  }

  func refusal(_ given: SettingText, _ setting: Setting, _ advice: String) -> ConfigurationError {
    ConfigurationError("\(given.name(of: setting)): “\(given.text)” is not possible; \(advice)")
  }
}

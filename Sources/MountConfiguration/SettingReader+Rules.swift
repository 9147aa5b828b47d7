import Destinations
import FileModel

/// How files are treated by their names.
extension SettingReader {
  /// What is ignored comes first, so that a rule can make an exception of it.
  /// Of the destinations some can tell whose a name is.
  func rules(
    destinations: [DestinationName], tellingOwners: [DestinationName]
  ) throws(ConfigurationError) -> FileRules {
    var rules = FileRules()
    // Only patterns keep files here: a mount that uploads nothing is a mistake.
    if sources[.upload]?.text.lowercased() != FileSettings.Upload.never.rawValue {
      rules.defaults.upload = try choice(.upload) ?? rules.defaults.upload
    } else if let given = sources[.upload] {
      throw refusal(given, .upload, "use while-writing or on-close; what is not to be uploaded is named by --ignore")
    }
    rules.defaults.interrupted = try choice(.interrupted) ?? rules.defaults.interrupted
    rules.defaults.whenFull = try choice(.whenFull) ?? rules.defaults.whenFull
    rules.defaults.compress = try choice(.compress) ?? rules.defaults.compress
    if let given = sources[.nameTemplate] {
      do {
        rules.defaults.name = try NameTemplate(given.text)
      } catch {
        throw ConfigurationError("\(given.name(of: .nameTemplate)): \(error.message)")
      }
    }
    try list(.ignore) { text throws(FileRuleProblem) in
      var rule = FileRule(try Glob(checking: text))
      rule.upload = .never
      rules.rules.append(rule)
    }
    try list(.rule) { text throws(FileRuleProblem) in
      let rule = try FileRule(text)
      if let unknown = rule.destinations?.first(where: { !destinations.contains($0) }) {
        throw FileRuleProblem(
          "no destination is called \(unknown); use one of \(destinations.map(\.text).joined(separator: ", ")), or set one "
            + "up with \(Setting.destination.flag)")
      }
      // Another rule may say where the file goes.
      let mayGoTo = rule.destinations ?? Array(destinations)
      if let policy = rule.ifExists, policy != .replace, !mayGoTo.contains(where: { tellingOwners.contains($0) }),
        let other = mayGoTo.first
      {
        throw FileRuleProblem("if-exists=\(policy.rawValue), at \(other): \(DestinationSettings.cannotTellOwners)")
      }
      rules.rules.append(rule)
    }
    return rules
  }

  func temporaryNames() throws(ConfigurationError) -> [Glob] {
    var names: [Glob] = []
    try list(.temporary) { text throws(FileRuleProblem) in names.append(try Glob(checking: text)) }
    return names
  }
}

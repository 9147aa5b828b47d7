import Destinations

/// The mount's settings as a kind of destination looks at them: by their names.
struct DestinationTexts: DestinationSettingSource {
  private let read: SettingReader
  let allowPlainHTTP: Bool

  init(_ read: SettingReader, allowPlainHTTP: Bool) {
    self.read = read
    self.allowPlainHTTP = allowPlainHTTP
  }

  private func given(_ key: SettingKey) -> (setting: Setting, text: SettingText)? {
    guard let setting = Setting(rawValue: key.name), let text = read.sources[setting] else { return nil }
    return (setting, text)
  }

  func isGiven(_ key: SettingKey) -> Bool { given(key) != nil }

  func name(of key: SettingKey) -> String {
    given(key).map { $0.text.name(of: $0.setting) } ?? key.flag
  }

  func text(of key: SettingKey) throws(SettingRefusal) -> String? {
    guard let given = given(key) else { return nil }
    do {
      return try read.nonEmpty(given.text, given.setting)
    } catch {
      throw SettingRefusal(error.message)
    }
  }

  func values(of key: SettingKey) -> [String] { given(key)?.text.plainValues ?? [] }

  func bytes(of key: SettingKey, atLeast minimum: UInt64) throws(SettingRefusal) -> UInt64? {
    guard let given = given(key) else { return nil }
    do {
      return try read.bytes(given.setting, atLeast: minimum)
    } catch {
      throw SettingRefusal(error.message)
    }
  }

  func choice<Value: RawRepresentable & CaseIterable>(of key: SettingKey) throws(SettingRefusal) -> Value?
  where Value.RawValue == String {
    guard let given = given(key) else { return nil }
    do {
      return try read.choice(given.setting)
    } catch {
      throw SettingRefusal(error.message)
    }
  }

  func refusal(of key: SettingKey, _ advice: String) -> SettingRefusal {
    guard let given = given(key) else { return SettingRefusal("\(key.flag): \(advice)") }
    return SettingRefusal(read.refusal(given.text, given.setting, advice).message)
  }
}

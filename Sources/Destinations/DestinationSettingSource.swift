/// What was set of a destination, wherever it was given.
public protocol DestinationSettingSource {
  /// Plain http is accepted beyond loopback.
  var allowPlainHTTP: Bool { get }
  /// Whether a setting was given.
  func isGiven(_ key: SettingKey) -> Bool
  /// How the user wrote a setting, for messages; its flag where it was not given.
  func name(of key: SettingKey) -> String
  /// A text, which is not empty; nil where none was given.
  func text(of key: SettingKey) throws(SettingRefusal) -> String?
  /// The values of a setting that takes several.
  func values(of key: SettingKey) -> [String]
  /// A number of bytes; nil where none was given.
  func bytes(of key: SettingKey, atLeast minimum: UInt64) throws(SettingRefusal) -> UInt64?
  /// One of several words; nil where none was given.
  func choice<Value: RawRepresentable & CaseIterable>(of key: SettingKey) throws(SettingRefusal) -> Value?
  where Value.RawValue == String
  /// The refusal of the value that was given, with what to do.
  func refusal(of key: SettingKey, _ advice: String) -> SettingRefusal
}

extension DestinationSettingSource {
  /// An address that a setting holds.
  func address<Address>(
    _ text: String, of key: SettingKey = .to, _ make: (String, Bool) throws(DestinationError) -> Address
  ) throws(SettingRefusal) -> Address {
    do throws(DestinationError) {
      return try make(text, allowPlainHTTP)
    } catch {
      let advice = error.code == .plainHTTP ? " (\(SettingKey.allowPlainHTTP.flag))" : ""
      throw SettingRefusal("\(name(of: key)): \(error.message)\(advice)")
    }
  }

  /// What each value of a setting means.
  func values<Value>(
    of key: SettingKey, _ make: (String) throws(DestinationError) -> Value
  ) throws(SettingRefusal) -> [Value] {
    var made: [Value] = []
    for text in values(of: key) {
      do throws(DestinationError) {
        made.append(try make(text))
      } catch {
        throw SettingRefusal("\(name(of: key)): \(error.message)")
      }
    }
    return made
  }
}

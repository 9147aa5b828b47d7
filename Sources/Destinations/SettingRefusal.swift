/// Why a setting of a destination cannot be used.
public struct SettingRefusal: Error, Hashable, Sendable {
  /// One sentence that names the setting.
  public var message: String

  /// A refusal in this sentence.
  public init(_ message: String) {
    self.message = message
  }
}

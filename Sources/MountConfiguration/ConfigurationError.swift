import UploadEngine

/// Why a configuration cannot be used: one sentence that names the setting, where its value came from and what to do.
public struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The sentence, in one line: line breaks and control characters of a value that it shows are escapes.
  public let message: String

  /// An error with this sentence.
  public init(_ message: String) {
    self.message = Readable.line(message)
  }

  /// The sentence.
  public var description: String { message }
}

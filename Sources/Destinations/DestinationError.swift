/// Why a destination cannot be set up from what was configured.
public struct DestinationError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What is wrong.
  public enum Code: Hashable, Sendable {
    /// The address is no URL that this destination understands.
    case invalidURL
    /// Plain HTTP to something else than this machine.
    case plainHTTP
    /// The credential holds characters that cannot be sent.
    case invalidCredential
    /// An option is out of its range.
    case invalidOption
    /// A variable of the environment is no text.
    case invalidEnvironment
  }

  /// What is wrong, for programs.
  public var code: Code
  /// What is wrong and what to do, for people; one sentence, no secret.
  public var message: String

  /// An error of this kind.
  public init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  /// The message.
  public var description: String { message }
}

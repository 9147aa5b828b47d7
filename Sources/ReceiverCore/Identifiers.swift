/// Names one request to the core; never reused within a process.
public struct RequestID: Hashable, Sendable {
  /// The number.
  public let value: UInt64

  /// Names the request with this number.
  public init(_ value: UInt64) { self.value = value }
}

/// Names a credential without revealing its token, and stays the same across restarts.
public struct CredentialID: Hashable, Sendable {
  /// Hexadecimal digits of a digest of the token.
  public let text: String

  /// Names the credential with this text.
  public init(_ text: String) { self.text = text }
}

/// Names an upload session; also the name of its directory.
public struct SessionID: Hashable, Comparable, Sendable {
  /// Hexadecimal digits, chosen at random by the receiver.
  public let text: String

  /// Names the session with this text.
  public init(_ text: String) { self.text = text }

  /// The order of the texts.
  public static func < (left: SessionID, right: SessionID) -> Bool { left.text < right.text }
}

/// Milliseconds since 1970. The core has no clock: every event brings the time along.
public typealias Milliseconds = Int64

/// What to do when everything was sent and no answer came: the server may have the file, or not.
public enum AmbiguousOutcomePolicy: String, CaseIterable, Sendable {
  /// Send it again: the server may get it twice.
  case retry
  /// The file fails, and waits until a user has checked the server.
  case hold
}

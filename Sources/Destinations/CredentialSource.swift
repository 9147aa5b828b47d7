/// Credentials that a kind of destination finds by itself. What they are is between it and its destination.
public protocol CredentialSource: Sendable {
  /// What messages call them.
  var name: String { get }
  /// They may be others one day.
  var renews: Bool { get }
  /// When the present ones end to be valid, seconds since 1970; nil when they do not, or that is not known.
  var expiresAtSeconds: Int64? { get }
  /// Knows those that there were.
  var mask: CredentialMask { get }
  /// Takes those that there are now; the present ones stay where none are found, or where only a command that is not to be run
  /// would tell.
  func renew(runsCommands: Bool) throws(DestinationError)
}

/// Where a machine may hold credentials.
public protocol CredentialPlaces: Sendable {
  /// A variable of the environment.
  func variable(_ name: String) -> String?
  /// Refuses variables of the environment that are no text.
  func check(variables names: [String]) throws(DestinationError)
  /// A file's text; empty when there is none. One whose text is a secret must be private.
  func text(
    ofFile path: String, called what: String, isSecret: (_ text: String) -> Bool
  ) throws(DestinationError) -> String
  /// What a command prints.
  func output(of command: String, called name: String) throws(DestinationError) -> [UInt8]
}

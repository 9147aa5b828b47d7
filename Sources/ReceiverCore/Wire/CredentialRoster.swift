import Lookup

/// Why credentials that were read anew cannot be used before a restart.
public enum CredentialChangeError: Error, Hashable, Sendable, CustomStringConvertible {
  /// One user has tokens of several of before; counted from 1, in the order of the file.
  case joins(user: Int)
  /// Several users have tokens of one of before; the number is that of the later one.
  case divides(user: Int)

  /// What is wrong, for people.
  public var description: String {
    switch self {
    case .joins(let user):
      "user \(user) has tokens of two users of before, whose uploads cannot be joined while the receiver runs; restart it"
    case .divides(let user):
      "user \(user) has a token of a user that another line is of as well, and its uploads cannot be divided while the receiver runs; restart it"
    }
  }
}

/// Who was known as whom since the receiver was started. A user keeps its name while the receiver runs, whatever tokens it gets,
/// as long as one of them is known: what it has begun is found by that name.
public struct CredentialRoster: Sendable {
  /// The names of users by those that their tokens give, also of tokens that were taken out.
  private var names: LookupTable<CredentialID, CredentialID> = [:]

  /// Knows the credentials of the start.
  public init(_ credentials: [Credential]) { note(credentials) }

  /// Takes note of credentials that are in use from now on.
  public mutating func note(_ credentials: [Credential]) {
    for credential in credentials {
      for name in credential.ids where names[name] == nil { names[name] = credential.id }
    }
  }

  /// The credentials as they were read, by the names that their users have here.
  public func renewed(_ credentials: [Credential]) throws(CredentialChangeError) -> [Credential] {
    var renewed = credentials
    var taken: LookupSet<CredentialID> = []
    for (position, credential) in credentials.enumerated() {
      var known: LookupSet<CredentialID> = []
      var name: CredentialID?
      for id in credential.ids {
        guard let former = names[id], known.insert(former).inserted else { continue }
        guard name == nil else { throw .joins(user: position + 1) }
        name = former
      }
      guard let name else { continue }
      guard taken.insert(name).inserted else { throw .divides(user: position + 1) }
      renewed[position].knownAs = name
    }
    return renewed
  }
}

import Lookup
import OrderedCollections

/// What the receiver's operator asks.
extension ReceiverCore {
  /// The uploads that are not published, the oldest first.
  public var listing: [SessionListing] {
    let open = sessions.values.filter { !$0.isPublished }.map { session in
      SessionListing(
        id: session.facts.sessionID, credential: session.facts.credentialID, name: session.facts.opening.name,
        sizeBytes: session.facts.opening.sizeBytes, heldBytes: session.heldBytes &+ session.unverifiedBytes,
        age: max(0, now - session.lastChange), mayHoldOnlyCopy: session.mayHoldOnlyCopy)
    }
    let others = quarantined.sorted().map { SessionListing(id: $0.key, mayHoldOnlyCopy: true, trouble: $0.value.why) }
    return (open + others).sorted { ($1.age, $0.id) < ($0.age, $1.id) }
  }

  /// Ends a session, also one that a client relies upon.
  mutating func endByOperator(_ request: RequestID, _ id: SessionID) {
    let credential = credential(of: id)
    if quarantined[id] != nil {
      quarantined[id] = nil
      effects.append(.clearSession(id))
    } else if let session = sessions[id], !session.isPublished {
      switch session.phase {
      case .creating, .publishing:
        return refuse(request, .underWay, "the session is being opened or published")
      case .recovered, .open, .committing, .published: remove(session, because: .sessionEnded)
      }
    } else {
      return refuse(request, .sessionGone)
    }
    effects.append(.note(.ended(id, of: credential)))
    reply(request, .ended)
  }
}

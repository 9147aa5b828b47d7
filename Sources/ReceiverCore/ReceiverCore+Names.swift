import Lookup
import OrderedCollections

/// Of the publications under one name, the one that was asked for last is the one that stays.
extension ReceiverCore {
  /// A name that something is published under. Compared byte by byte, which `String` does not do.
  struct NameKey: Hashable, Sendable {
    let credential: CredentialID
    private let name: [UInt8]

    init(credential: CredentialID, name: String) {
      self.credential = credential
      self.name = Array(name.utf8)
    }

    func isName(_ other: String) -> Bool { other.utf8.elementsEqual(name) }
  }

  /// A publication that waits until the store is done with its name. It waits with its session or request, so that their
  /// bounds are its own.
  struct WaitingPublication: Sendable {
    var request: RequestID
    var effect: CoreEffect
  }

  private static let overtaken = Refusal(
    .conflict, "a later request has published this name; send it again if it is to replace that")

  /// Has the store publish: at once, or after what it is publishing under the same name. Of two that it published at the same
  /// time, the older content could come last.
  mutating func publish(_ publication: Publication, _ request: RequestID, _ effect: CoreEffect) {
    let key = NameKey(credential: publication.credential, name: publication.receipt.name)
    if publishing[key]?.append(WaitingPublication(request: request, effect: effect)) == nil {
      publishing[key] = []
      effects.append(effect)
    }
  }

  /// The store has published under this name, or could not.
  mutating func endPublishing(_ key: NameKey, _ request: RequestID, isPublished: Bool) {
    if isPublished { overtake(key, before: request) }
    guard var waiting = publishing[key] else { return }
    guard !waiting.isEmpty else {
      publishing[key] = nil
      return
    }
    effects.append(waiting.removeFirst().effect)
    publishing[key] = waiting
  }

  /// Refuses what was to be published under the name by an earlier request: a commit that waited for its chunks longer than
  /// the later one, or a body that took longer to arrive. Its client may have given it up since, and would not know.
  private mutating func overtake(_ key: NameKey, before request: RequestID) {
    for waiting in publishing[key] ?? [] where waiting.request.value < request.value { refuseOvertaken(waiting.effect) }
    publishing[key]?.removeAll { $0.request.value < request.value }
    for id in waitingSessions where sessions[id]?.facts.credentialID == key.credential {
      switch sessions[id]?.phase {
      case .committing(let pending)
      where key.isName(pending.facts.name) && pending.latestRequest.value < request.value:
        giveUp(id, pending, Self.overtaken)
      case .recovered(let parked, let isVerifying):
        let late = parked.filter { $0.request.value < request.value && $0.event.isCommit(as: key) }
        for event in late { refuse(event.request, Self.overtaken) }
        let rest = parked.filter { event in !late.contains { $0.request == event.request } }
        sessions[id]?.phase = .recovered(parked: rest, isVerifying: isVerifying)
      default: break
      }
    }
    for other in arriving[key] ?? [] where other.value < request.value {
      guard case .wholeFile(let head, _) = stages[other], key.isName(head.name) else { continue }
      stages[other] = .overtakenWholeFile(head)
    }
  }

  private mutating func refuseOvertaken(_ effect: CoreEffect) {
    switch effect {
    case .publish(let id, _):
      guard case .publishing(let pending, _) = sessions[id]?.phase else { return }
      giveUp(id, pending, Self.overtaken)
    case .publishWholeFile(let request, _, _):
      guard case .publishingWholeFile(let head, _, _) = stages[request] else { return }
      endWholeFile(request, head, Self.overtaken)
    default: break
    }
  }

  /// Notes that the body of a whole file begins to arrive, or has, or will not come.
  mutating func setArriving(_ isArriving: Bool, _ request: RequestID, _ head: WholeFileHead) {
    let key = NameKey(credential: head.credential, name: head.name)
    if isArriving {
      arriving[key, default: []].append(request)
    } else {
      arriving[key]?.takeOut(request)
      if arriving[key]?.isEmpty == true { arriving[key] = nil }
    }
  }

  /// The body of an overtaken whole file has arrived, or will not come.
  mutating func overtakenWholeFileEnded(_ request: RequestID) {
    guard case .overtakenWholeFile(let head) = stages[request] else { return }
    setArriving(false, request, head)
    endWholeFile(request, head, Self.overtaken)
  }
}

extension UploadSession.PendingCommit {
  /// A client that asks again asks later.
  var latestRequest: RequestID { waiters.max { $0.value < $1.value } ?? resumedBy }
}

extension CoreEvent {
  fileprivate func isCommit(as key: ReceiverCore.NameKey) -> Bool {
    guard case .commit(_, _, _, let facts, _) = self else { return false }
    return key.isName(facts.name)
  }
}

extension Result<PublicationResult, StoreFailure> {
  /// The file has its name, whether that is known to be on the disk or not.
  var isRenamed: Bool {
    switch self {
    case .success, .failure(.unsynced): true
    case .failure: false
    }
  }
}

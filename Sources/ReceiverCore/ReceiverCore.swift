import DequeModule
import Integrity
public import Lookup
import OrderedCollections

/// The receiver's rules: sessions, idempotency keys, chunks, commits, quotas, expiry and receipts. A value without clock
/// and I/O: events go in with the time, effects come out, so that a simulation can run it as it is.
///
/// Promises: nothing is published but bytes whose digests, MACs, Merkle root and chain were checked; a request is
/// answered exactly once per stage; every list is bounded.
public struct ReceiverCore: Sendable {
  /// Names an idempotency key; keys of different credentials never meet.
  struct Key: Hashable, Sendable {
    var credential: CredentialID
    var text: String
  }

  /// What a key was used for.
  enum KeyUse: Sendable {
    case session(SessionID)
    case wholeFile(WholeFileUse)
  }

  /// A request between two of its stages.
  enum Stage: Sendable {
    /// A run of chunks is arriving.
    case run(SessionID)
    case chunk(ChunkHead)
    case chunkToWrite(ChunkHead)
    case zerosToWrite(SessionID, IndexRanges)
    case wholeFile(WholeFileHead, fingerprint: Digest32)
    /// A later request has published the name while the body was arriving.
    case overtakenWholeFile(WholeFileHead)
    case publishingWholeFile(WholeFileHead, fingerprint: Digest32, PublicationReceipt)
  }

  var limits: CoreLimits
  var credentials: LookupTable<CredentialID, CoreCredential>
  /// By the names that they may have in journals.
  public private(set) var owners: LookupTable<CredentialID, CredentialID> = [:]
  var sessions: OrderedDictionary<SessionID, UploadSession> = [:]
  /// The sessions that are not published.
  var openSessions: LookupTable<CredentialID, OrderedSet<SessionID>> = [:]
  var keys: LookupTable<Key, KeyUse> = [:]
  var stages: LookupTable<RequestID, Stage> = [:]
  /// The bytes of the whole files in ``stages``.
  var wholeFileBytes: LookupTable<CredentialID, UInt64> = [:]
  /// Whole files whose body is arriving, by their name.
  var arriving: LookupTable<NameKey, OrderedSet<RequestID>> = [:]
  /// Published sessions and finished whole files, oldest first, with the time of publication.
  var finished: Deque<(key: Key, at: Milliseconds)> = []
  /// Sessions that ended by themselves, and whose they were. A restart forgets them.
  var expired = ExpiredSessions()
  /// What lies under each root, where a quota makes that matter.
  var publishedBytes: LookupTable<CredentialID, UInt64> = [:]
  /// Sessions with something that runs out: waiting commits and parked requests.
  var waitingSessions: OrderedSet<SessionID> = []
  /// What was stored when a request asked for it to be on the disk; as many as may be parked.
  var securing: LookupTable<RequestID, ChunkTable> = [:]
  /// Sessions of which the store cannot say what they hold. Whose they are may not be known: their names are secrets of their
  /// clients.
  var quarantined: LookupTable<SessionID, QuarantinedSession> = [:]
  /// When the store checks them again, and after which pause; whether it is at it.
  var nextRecheck: Milliseconds = 0
  var recheckPause = ReceiverCore.recheckPauseMin
  var isRechecking = false
  /// Sessions that are gone, with the number of things that the store is still doing for them. Their files go after that.
  var leaving: LookupTable<SessionID, Int> = [:]
  /// Names that the store is publishing, each with the publications that wait for it.
  var publishing: LookupTable<NameKey, [WaitingPublication]> = [:]
  /// When an earlier receiver ran last, and how long none did then.
  var earlierRun: (last: Milliseconds, pause: Milliseconds) = (.max, 0)
  var now: Milliseconds = 0
  var nextExpiryScan: Milliseconds = 0
  var nextMeasurement: LookupTable<CredentialID, Milliseconds> = [:]
  /// Roots that are being counted.
  var measurements: LookupTable<CredentialID, Measurement> = [:]
  var effects: [CoreEffect] = []

  /// A core that knows the credentials and nothing else.
  public init(limits: CoreLimits, credentials: [CoreCredential]) {
    self.limits = limits
    self.credentials = [:]
    know(credentials)
  }

  private mutating func know(_ known: [CoreCredential]) {
    // Of several with one token the first counts.
    for credential in known.reversed() { credentials[credential.id] = credential }
    for credential in known {
      for name in credential.formerIDs { owners[name] = credential.id }
    }
  }

  /// Others may use the receiver, or the same with other tokens. What those have begun who are not among them stays, until it
  /// ends by itself: they may come back, and a request of theirs that was let in is answered.
  private mutating func credentialsChanged(_ known: [CoreCredential]) {
    know(known)
    for id in Array(sessions.keys) {
      guard let facts = sessions[id]?.facts, let credential = credentials[facts.credentialID] else { continue }
      let keys = macKeys(credential, facts)
      sessions[id]?.macKeys = keys
    }
    for credential in known where credential.quotaBytes != nil {
      // A count that runs already may be of another folder.
      measurements[credential.id] = Measurement()
      effects.append(.measureUsage(credential.id))
    }
  }

  /// Takes note of what happened and says what to do.
  public mutating func handle(_ event: CoreEvent, now: Milliseconds) -> [CoreEffect] {
    self.now = max(self.now, now)
    dispatch(event)
    let result = effects
    effects.removeAll(keepingCapacity: true)
    return result
  }

  /// The largest body that the credential may send in one request.
  public var bodyBytesMax: Int { limits.chunkBytesMax }

  mutating func dispatch(_ event: CoreEvent) {
    switch event {
    case .openSession(let request, let opening): openSession(request, opening)
    case .sessionCreated(let id, let result, let published): sessionCreated(id, result, published)
    case .beginRun(let request, let credential, let id): beginRun(request, credential, id)
    case .endRun(let request): endRun(request)
    case .beginChunk(let request, let head): beginChunk(request, head)
    case .chunkArrived(let request, let facts): chunkArrived(request, facts)
    case .chunkFailed(let request, let refusal): chunkFailed(request, refusal)
    case .chunkWritten(let request, let failure): chunkWritten(request, failure)
    case .storeZeros(let request, let head): storeZeros(request, head)
    case .zerosWritten(let request, let failure): zerosWritten(request, failure)
    case .querySession(let request, let credential, let id): querySession(request, credential, id)
    case .secureSession(let request, let credential, let id): secureSession(request, credential, id)
    case .sessionSecured(let request, let id, let failure): sessionSecured(request, id, failure)
    case .commit(let request, let credential, let id, let facts, let receiptID):
      commit(request, credential, id, facts, receiptID: receiptID)
    case .commitChecked(let id, let generation, let verdict): commitChecked(id, generation, verdict)
    case .published(let id, let result): published(id, result)
    case .abort(let request, let credential, let id): abort(request, credential, id)
    case .sessionVerified(let id, let result): sessionVerified(id, result)
    case .beginWholeFile(let request, let head): beginWholeFile(request, head)
    case .wholeFileArrived(let request, let facts): wholeFileArrived(request, facts)
    case .wholeFileFailed(let request, let refusal): wholeFileFailed(request, refusal)
    case .wholeFilePublished(let request, let result): wholeFilePublished(request, result)
    case .usageMeasured(let credential, let bytes): usageMeasured(credential, bytes: bytes)
    case .rechecked(let ids, let result): rechecked(ids, result)
    case .endByOperator(let request, let id): endByOperator(request, id)
    case .credentialsChanged(let known): credentialsChanged(known)
    case .tick: tick()
    }
  }

  mutating func reply(_ request: RequestID, _ answer: Reply) {
    effects.append(.reply(request, answer))
  }

  mutating func refuse(_ request: RequestID, _ refusal: Refusal) {
    effects.append(.reply(request, .refused(refusal)))
  }

  mutating func refuse(_ request: RequestID, _ kind: Refusal.Kind, _ detail: String) {
    refuse(request, Refusal(kind, detail))
  }

  /// The session, if it is this credential's; another's does not exist as far as the client can tell. One whose time is
  /// over ends here, if the next scan has not come to it.
  mutating func session(_ id: SessionID, of credential: CredentialID) -> UploadSession? {
    guard let session = sessions[id], session.facts.credentialID == credential else { return nil }
    guard isOver(session) else { return session }
    expire(session)
    return sessions[id]
  }

  /// Whose a session is; nil of one that is not there, or cannot be read.
  public func credential(of id: SessionID) -> CredentialID? { sessions[id]?.facts.credentialID }

  /// What is said of a session that is not there.
  func gone(_ id: SessionID, of credential: CredentialID) -> Refusal {
    if let session = quarantined[id] { return session.isDamaged ? .sessionDamaged : .sessionQuarantined }
    return expired.owner(of: id) == credential ? .sessionExpired : .sessionGone
  }

  /// When the session ends by itself, as far as its client is told: one that is relied upon does not.
  func expiry(of session: UploadSession) -> Milliseconds {
    (session.mayHoldOnlyCopy ? now : session.lastChange) &+ limits.sessionMaxAge
  }

  func isOver(_ session: UploadSession) -> Bool { expiry(of: session) <= now }
}

import CLinux
import ChunkProtocol
import ReceiverCore
import Logging
import Lookup
import NIOPosix
import Synchronization

/// Runs the core: locks, asks, unlocks, acts. Replies resume the requests that wait for them; the store's calls block,
/// so they run on threads of their own, and what comes of them goes back to the core.
///
/// Bounds: requests wait here as long as the HTTP side lets them in, and each holds its body's share of the byte budget,
/// so the pools' queues are bounded by that.
final class ReceiverDriver: Sendable {
  /// Who is told of a reply.
  private enum Waiter {
    case request(CheckedContinuation<Reply, Never>)
    /// One that was submitted; called without the lock.
    case call(@Sendable (Reply) -> Void)
    /// One of several requests that are answered together, which are known by the first of them.
    case member(of: RequestID, Int)
  }

  /// Requests that are answered together.
  private struct Group {
    let continuation: CheckedContinuation<[Reply], Never>
    var replies: [Reply?]
    var missing: Int
  }

  private struct State {
    var core: ReceiverCore
    var waiting: [RequestID: Waiter] = [:]
    var groups: [RequestID: Group] = [:]
    var bodies: [RequestID: any BodyBytes] = [:]
    /// What to tell the core once it has let a body in that is here already.
    var next: [RequestID: CoreEvent] = [:]
  }

  /// What is to be done when the lock is let go.
  private struct Outcome {
    var replies: [(CheckedContinuation<Reply, Never>, Reply)] = []
    var calls: [(@Sendable (Reply) -> Void, Reply)] = []
    var groups: [(CheckedContinuation<[Reply], Never>, [Reply])] = []
    var files: [PublicationQueue.Item] = []
    var work: [(CoreEffect, (any BodyBytes)?)] = []
  }

  /// A request whose body is complete before the core is asked.
  struct CompleteRequest: Sendable {
    var request: RequestID
    var begin: CoreEvent
    /// What follows when the core lets the body in.
    var next: CoreEvent
    var body: any BodyBytes
  }

  private let state: Mutex<State>
  private let spools: Mutex<SpoolMemory>
  private let store: any UploadStore
  private let clock: ReceiverClock
  private let logger: Logger
  private let users: UserNumbers
  private let nextRequest = Atomic<UInt64>(1)
  private let isSyncing = Atomic(false)
  private let isLooking = Atomic(false)
  private let isSaving = Atomic(false)
  /// That it could not be saved is said once.
  private let isUnsaved = Atomic(false)
  /// Page-cache writes: few threads, or they only wait for each other.
  private let writers: NIOThreadPool
  /// Publications wait for the disk; they must not hold up the writers.
  private let publishers: NIOThreadPool
  private let publications: PublicationQueue

  init(
    core: ReceiverCore, spools: SpoolMemory = SpoolMemory(), store: any UploadStore, clock: ReceiverClock,
    logger: Logger, users: UserNumbers = UserNumbers()
  ) {
    self.store = store
    self.clock = clock
    self.logger = logger
    self.users = users
    state = Mutex(State(core: core))
    self.spools = Mutex(spools)
    writers = NIOThreadPool(numberOfThreads: 4)
    publishers = NIOThreadPool(numberOfThreads: 8)
    publications = PublicationQueue(publishers, store, logger, users)
    writers.start()
    publishers.start()
  }

  /// A number for a new request.
  func makeRequestID() -> RequestID {
    RequestID(nextRequest.wrappingAdd(1, ordering: .relaxed).oldValue)
  }

  /// What is free on the disk; nil where it does not say, which the log does.
  var freeBytes: UInt64? {
    do throws(StoreFailure) {
      return try store.freeBytes()
    } catch {
      logger.error("the disk does not say how much is free", metadata: ["reason": "\(error.words)"])
      return nil
    }
  }

  /// Hands a request's event to the core and waits for the answer. The body, if there is one, is kept until then.
  func ask(
    _ request: RequestID, _ event: (RequestID) -> CoreEvent, body: (any BodyBytes)? = nil
  ) async -> Reply {
    let event = event(request)
    return await withCheckedContinuation { continuation in
      handle(event) { state in
        state.waiting[request] = .request(continuation)
        state.bodies[request] = body
      }
    }
  }

  /// Hands a request with its body to the core; `then` is called with the answer, once and from any thread.
  func submit(_ request: CompleteRequest, then: @escaping @Sendable (Reply) -> Void) {
    handle(request.begin) { state in
      state.waiting[request.request] = .call(then)
      state.bodies[request.request] = request.body
      state.next[request.request] = request.next
    }
  }

  /// Hands requests with their bodies to the core, in this order and without another between them, and waits until all of
  /// them are answered. What the store is to do about them it does together.
  func askTogether(_ requests: [CompleteRequest]) async -> [Reply] {
    guard let first = requests.first?.request else { return [] }
    return await withCheckedContinuation { continuation in
      let outcome = state.withLock { state in
        state.groups[first] = Group(
          continuation: continuation, replies: Array(repeating: nil, count: requests.count), missing: requests.count)
        var outcome = Outcome()
        for (index, request) in requests.enumerated() {
          state.waiting[request.request] = .member(of: first, index)
          state.bodies[request.request] = request.body
          state.next[request.request] = request.next
          handleLocked(request.begin, &state, &outcome)
        }
        return outcome
      }
      run(outcome)
    }
  }

  /// Runs what takes the processor for long, away from the event loops, which other connections need meanwhile.
  func compute<Success: Sendable>(
    _ work: @escaping @Sendable () throws(Refusal) -> Success
  ) async throws(Refusal) -> Success {
    let result = await withCheckedContinuation { continuation in
      writers.submit { state in
        guard case .active = state else {
          return continuation.resume(returning: Result<Success, Refusal>.failure(.shuttingDown))
        }
        continuation.resume(returning: Result { () throws(Refusal) in try work() })
      }
    }
    return try result.get()
  }

  /// Has the store bring to the disk what it has written. One at a time: a slow disk is not asked twice.
  func syncWritten() {
    guard !isSyncing.exchange(true, ordering: .acquiring) else { return }
    perform(on: publishers) { [self] in
      defer { isSyncing.store(false, ordering: .releasing) }
      do throws(StoreFailure) {
        try store.syncWritten()
      } catch {
        logger.error("chunks could not be brought to the disk: \(error.words)")
      }
    }
  }

  /// These may use the receiver from now on, by the names that they have here.
  func renew(_ credentials: [Credential]) {
    users.renew(credentials)
    let core = credentials.map(\.core)
    spools.withLock { $0.recordedIDs = LookupTable(core.map { ($0.id, $0.recordedID) }) }
    handle(.credentialsChanged(core))
  }

  /// Takes note of a spool's start; what it is to be told.
  func hear(_ start: SpoolStart, of credential: CredentialID) -> SpoolMemory.Notice? {
    spools.withLock { $0.hear(start, of: credential, at: clock.now) }
  }

  /// Has the store put on the disk what has changed of what is known of spools. One at a time.
  func saveSpools() {
    guard spools.withLock({ $0.isChanged }), !isSaving.exchange(true, ordering: .acquiring) else { return }
    perform(on: publishers) { [self] in
      defer { isSaving.store(false, ordering: .releasing) }
      saveSpoolsNow()
    }
  }

  private func saveSpoolsNow() {
    guard let records = spools.withLock({ $0.takeChanges() }) else { return }
    do throws(StoreFailure) {
      try store.save(records)
      isUnsaved.store(false, ordering: .relaxed)
    } catch {
      spools.withLock { $0.saveFailed() }
      guard !isUnsaved.exchange(true, ordering: .relaxed), !error.isSaidOnce else { return }
      logger.error("what is known of spools is not on the disk: \(error.words). It is tried again")
    }
  }

  /// Checks whether the store's folders are in their place, and says what has changed. One check at a time: a disk that hangs is not
  /// asked twice.
  func checkFolders() {
    guard !isLooking.exchange(true, ordering: .acquiring) else { return }
    perform(on: publishers) { [self] in
      defer { isLooking.store(false, ordering: .releasing) }
      store.signOfLife()
      for notice in store.checkFolders() {
        logger.log(level: notice.isTrouble ? .error : .notice, "\(notice.words)")
      }
    }
  }

  /// Folders of the store that were not in their place at the last look.
  var foldersAway: Int { store.foldersAway }

  /// Files that were published under a number since the start.
  var numberedCount: Int { publications.numbered.count }

  /// Sessions that cannot be continued.
  var quarantinedCount: Int { state.withLock { $0.core.quarantinedCount } }

  /// The uploads that are not published.
  var listing: [SessionListing] { state.withLock { $0.core.listing } }

  /// Has the allocator give back to the system what it keeps for later.
  func returnMemory() {
    perform(on: publishers) { uploadfs_return_memory() }
  }

  /// Tells the core what needs no answer.
  func tell(_ event: CoreEvent) { handle(event) }

  /// Tells the core that time has passed.
  func tick() { handle(.tick) }

  /// Waits for what runs on the pools; nothing new is taken afterwards.
  func shutDown() async {
    try? await writers.shutdownGracefully()
    try? await publishers.shutdownGracefully()
    // The pools do not take it any more.
    saveSpoolsNow()
  }

  private func handle(_ event: CoreEvent, preparing: (inout State) -> Void = { _ in }) {
    let outcome = state.withLock { state in
      preparing(&state)
      var outcome = Outcome()
      handleLocked(event, &state, &outcome)
      return outcome
    }
    run(outcome)
  }

  private func handle(_ events: [CoreEvent]) {
    let outcome = state.withLock { state in
      var outcome = Outcome()
      for event in events { handleLocked(event, &state, &outcome) }
      return outcome
    }
    run(outcome)
  }

  private func handleLocked(_ event: CoreEvent, _ state: inout State, _ outcome: inout Outcome) {
    for effect in state.core.handle(event, now: clock.now) {
      switch effect {
      case .reply(let request, .bodyAdmitted) where state.next[request] != nil:
        if let next = state.next.removeValue(forKey: request) { handleLocked(next, &state, &outcome) }
      case .reply(let request, let reply): answerLocked(request, reply, &state, &outcome)
      case .publishWholeFile(let request, let record, let publication):
        guard let body = state.bodies[request] else {
          handleLocked(.wholeFilePublished(request, .failure(.io("the body is gone"))), &state, &outcome)
          continue
        }
        outcome.files.append(
          PublicationQueue.Item(
            request: request, file: WholeFilePublication(body: body, record: record, publication: publication)))
      case .writeChunk(let request, _, _, _, _): outcome.work.append((effect, state.bodies[request]))
      default: outcome.work.append((effect, nil))
      }
    }
  }

  private func answerLocked(_ request: RequestID, _ reply: Reply, _ state: inout State, _ outcome: inout Outcome) {
    state.bodies[request] = nil
    state.next[request] = nil
    // No client waits for a request that was already answered as too late.
    switch state.waiting.removeValue(forKey: request) {
    case nil: break
    case .request(let continuation)?: outcome.replies.append((continuation, reply))
    case .call(let then)?: outcome.calls.append((then, reply))
    case .member(let first, let index)?:
      guard var group = state.groups[first] else { return }
      group.replies[index] = reply
      group.missing -= 1
      state.groups[first] = group.missing > 0 ? group : nil
      if group.missing == 0 { outcome.groups.append((group.continuation, group.replies.compactMap(\.self))) }
    }
  }

  private func run(_ outcome: Outcome) {
    for (continuation, reply) in outcome.replies { continuation.resume(returning: reply) }
    for (then, reply) in outcome.calls { then(reply) }
    for (continuation, replies) in outcome.groups { continuation.resume(returning: replies) }
    if !outcome.files.isEmpty { publications.add(outcome.files) { [self] in handle($0) } }
    for (effect, body) in outcome.work { run(effect, body) }
  }

  private func run(_ effect: CoreEffect, _ body: (any BodyBytes)?) {
    let (store, numbered) = (store, publications.numbered)
    switch effect {
    // Both are done together with those of other requests.
    case .reply, .publishWholeFile: break
    case .createSession(let facts):
      perform(on: publishers, "open the upload session \(facts.id)", of: facts.sessionID) { () throws(StoreFailure) in
        (reservation: try store.create(facts), published: store.published(before: facts))
      } then: { result in
        switch result {
        case .success(let made): .sessionCreated(facts.sessionID, .success(made.reservation), published: made.published)
        case .failure(let failure): .sessionCreated(facts.sessionID, .failure(failure))
        }
      }
    case .writeChunk(let request, let session, let index, let offset, let facts):
      perform(on: writers, "write chunk \(index) of the upload session \(session.text)", of: session) {
        () throws(StoreFailure) in
        guard let body else { throw .io("the body is gone") }
        try store.write(body, to: session, index: index, offset: offset, facts: facts)
      } then: {
        .chunkWritten(request, $0.failure)
      }
    case .writeZeros(let request, let session, let chunks, let chunkBytes):
      perform(on: writers, "write zeros to the upload session \(session.text)", of: session) {
        () throws(StoreFailure) in
        try store.writeZeros(to: session, chunks, chunkBytes: chunkBytes)
      } then: {
        .zerosWritten(request, $0.failure)
      }
    case .secureSession(let request, let session):
      perform(on: publishers, "bring the upload session \(session.text) to the disk", of: session) {
        () throws(StoreFailure) in
        try store.secure(session)
      } then: {
        .sessionSecured(request, session, $0.failure)
      }
    case .verifySession(let session, let takesBase):
      perform(on: publishers, "read the upload session \(session.text)", of: session) { () throws(StoreFailure) in
        try store.verify(session, takesBase: takesBase)
      } then: {
        .sessionVerified(session, $0)
      }
    case .checkCommit(let check):
      perform(on: publishers, "check a commit of the upload session \(check.session.text)", of: check.session) {
        () throws(StoreFailure) in
        check.verdict
      } then: {
        .commitChecked(check.session, generation: check.generation, (try? $0.get()) ?? .otherRoot)
      }
    case .publish(let session, let publication):
      let what = "publish \(publication.receipt.name.debugDescription) out of the upload session \(session.text)"
      perform(on: publishers, what, of: session) { () throws(StoreFailure) in
        let result = try store.publish(session, publication)
        numbered.note(result, of: publication)
        return result
      } then: {
        .published(session, $0)
      }
    case .recheck(let ids):
      perform(on: publishers) { [self] in
        handle(.rechecked(ids, Result { () throws(StoreFailure) in try store.recover(ids) }))
      }
    case .note(let note): logger.log(level: note.level, "\(note.words)", metadata: users.metadata(of: note.credential))
    case .clearSession(let session):
      perform(on: publishers) { [self] in
        do throws(StoreFailure) {
          try store.clear(session)
        } catch {
          logger.error("cannot remove all of the upload session \(session.text): \(error.words). Take its folder away")
        }
      }
    case .removeSession(let session): perform(on: publishers) { store.remove(session) }
    case .forgetReceipts(let before): perform(on: publishers) { store.forgetReceipts(before: before) }
    case .measureUsage(let credential):
      perform(on: publishers) { [self] in
        if let bytes = try? store.usedBytes(of: credential) { handle(.usageMeasured(credential, bytes: bytes)) }
      }
    }
  }

  private func perform(on pool: NIOThreadPool, _ work: @escaping @Sendable () -> Void) {
    pool.submit { state in
      if case .active = state { work() }
    }
  }

  private func perform<Success: Sendable>(
    on pool: NIOThreadPool, _ what: @autoclosure @escaping @Sendable () -> String, of session: SessionID,
    _ work: @escaping @Sendable () throws(StoreFailure) -> Success,
    then event: @escaping @Sendable (Result<Success, StoreFailure>) -> CoreEvent
  ) {
    pool.submit { [self] activity in
      guard case .active = activity else {
        return handle(event(.failure(.shuttingDown)))
      }
      let result = Result { () throws(StoreFailure) in try work() }
      if case .failure(let failure) = result, !failure.isSaidOnce, !failure.isNoted {
        var metadata = users.metadata(of: state.withLock { $0.core.credential(of: session) }) ?? [:]
        metadata["reason"] = "\(failure.words)"
        logger.error("cannot \(what())", metadata: metadata)
      }
      handle(event(result))
    }
  }
}

extension StoreFailure {
  /// The look that comes each second says it, and not each request.
  var isSaidOnce: Bool {
    if case .misplaced = self { true } else { false }
  }

  /// The core has it said once.
  fileprivate var isNoted: Bool {
    switch self {
    case .damaged, .sessionGone: true
    case .full, .nameExists, .nameTaken, .nameUnreachable, .folderGone, .misplaced, .unsynced, .tooManyOpen, .io: false
    }
  }

  static let shuttingDown = StoreFailure.io("the receiver is shutting down")
}

extension CoreNote {
  /// For the log.
  var words: String {
    switch self {
    case .quarantined(let session, _):
      "the upload session \(session.id.text) is \(session.isDamaged ? "damaged" : "not to be read") and set aside as it is: \(session.why). It is looked at again; uploadfs-receiver end removes it"
    case .goesOn(let id, _): "the upload session \(id.text) can be read again, and goes on"
    case .gone(let id, _): "the folder of the upload session \(id.text) is gone; its file is sent anew"
    case .expired(let facts):
      "the upload session \(facts.id) of \(facts.opening.name.debugDescription) was not touched for too long and is removed"
    case .displaced(let facts):
      "the upload session \(facts.id) of \(facts.opening.name.debugDescription) is removed for a new one"
    case .ended(let id, _): "the upload session \(id.text) is ended by the operator"
    }
  }

  /// Whose it is; nil where that cannot be read.
  var credential: CredentialID? {
    switch self {
    case .quarantined(_, let credential), .gone(_, let credential), .goesOn(_, let credential),
      .ended(_, let credential):
      credential
    case .expired(let facts), .displaced(let facts): facts.credentialID
    }
  }

  var level: Logger.Level {
    switch self {
    case .quarantined, .gone: .error
    case .goesOn, .ended: .notice
    case .expired, .displaced: .warning
    }
  }
}

extension Refusal {
  fileprivate static let shuttingDown = Refusal(.busy, "the receiver is shutting down")
}

extension Result where Failure == StoreFailure {
  fileprivate var failure: StoreFailure? {
    if case .failure(let failure) = self { failure } else { nil }
  }
}

import ReceiverCore
import Logging
import NIOPosix
import Synchronization

/// Runs the core: locks, asks, unlocks, acts. Replies resume the requests that wait for them; the store's calls block,
/// so they run on threads of their own, and what comes of them goes back to the core.
///
/// Bounds: requests wait here as long as the HTTP side lets them in, and each holds its body's share of the byte budget,
/// so the pools' queues are bounded by that.
final class ReceiverDriver: Sendable {
  private struct State {
    var core: ReceiverCore
    var waiting: [RequestID: CheckedContinuation<Reply, Never>] = [:]
    var bodies: [RequestID: any BodyBytes] = [:]
  }

  private let state: Mutex<State>
  private let store: any UploadStore
  private let clock: ReceiverClock
  private let logger: Logger
  private let nextRequest = Atomic<UInt64>(1)
  private let isSyncing = Atomic(false)
  /// Page-cache writes: few threads, or they only wait for each other.
  private let writers: NIOThreadPool
  /// Publications wait for the disk; they must not hold up the writers.
  private let publishers: NIOThreadPool

  init(core: ReceiverCore, store: any UploadStore, clock: ReceiverClock, logger: Logger) {
    self.store = store
    self.clock = clock
    self.logger = logger
    state = Mutex(State(core: core))
    writers = NIOThreadPool(numberOfThreads: 4)
    publishers = NIOThreadPool(numberOfThreads: 8)
    writers.start()
    publishers.start()
  }

  /// A number for a new request.
  func makeRequestID() -> RequestID {
    RequestID(nextRequest.wrappingAdd(1, ordering: .relaxed).oldValue)
  }

  /// What is free on the disk.
  var freeBytes: UInt64 { store.freeBytes }

  /// Hands a request's event to the core and waits for the answer. The body, if there is one, is kept until then.
  func ask(
    _ request: RequestID, _ event: (RequestID) -> CoreEvent, body: (any BodyBytes)? = nil
  ) async -> Reply {
    let event = event(request)
    return await withCheckedContinuation { continuation in
      handle(event) { state in
        state.waiting[request] = continuation
        state.bodies[request] = body
      }
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

  /// Tells the core that time has passed.
  func tick() { handle(.tick) }

  /// Waits for what runs on the pools; nothing new is taken afterwards.
  func shutDown() async {
    try? await writers.shutdownGracefully()
    try? await publishers.shutdownGracefully()
  }

  private func handle(_ event: CoreEvent, preparing: (inout State) -> Void = { _ in }) {
    var answers: [(CheckedContinuation<Reply, Never>, Reply)] = []
    var work: [(CoreEffect, (any BodyBytes)?)] = []
    state.withLock { state in
      preparing(&state)
      for effect in state.core.handle(event, now: clock.now) {
        switch effect {
        case .reply(let request, let reply):
          state.bodies[request] = nil
          // Nobody waits for a request whose client has been told already that it was too late.
          if let continuation = state.waiting.removeValue(forKey: request) { answers.append((continuation, reply)) }
        case .writeChunk(let request, _, _, _, _), .publishWholeFile(let request, _, _):
          work.append((effect, state.bodies[request]))
        default: work.append((effect, nil))
        }
      }
    }
    for (continuation, reply) in answers { continuation.resume(returning: reply) }
    for (effect, body) in work { run(effect, body) }
  }

  private func run(_ effect: CoreEffect, _ body: (any BodyBytes)?) {
    let store = store
    switch effect {
    case .reply: break
    case .createSession(let facts):
      perform(on: publishers) { () throws(StoreFailure) in
        try store.create(facts)
      } then: {
        .sessionCreated(facts.sessionID, $0)
      }
    case .writeChunk(let request, let session, let index, let offset, let facts):
      perform(on: writers) { () throws(StoreFailure) in
        guard let body else { throw .io("the body is gone") }
        try store.write(body, to: session, index: index, offset: offset, facts: facts)
      } then: {
        .chunkWritten(request, $0.failure)
      }
    case .verifySession(let session):
      perform(on: publishers) { () throws(StoreFailure) in
        try store.verify(session)
      } then: {
        .sessionVerified(session, $0)
      }
    case .checkCommit(let check):
      perform(on: publishers) { () throws(StoreFailure) in
        check.verdict
      } then: {
        .commitChecked(check.session, generation: check.generation, (try? $0.get()) ?? .otherRoot)
      }
    case .publish(let session, let publication):
      perform(on: publishers) { () throws(StoreFailure) in
        try store.publish(session, publication)
      } then: {
        .published(session, $0)
      }
    case .publishWholeFile(let request, let record, let publication):
      perform(on: publishers) { () throws(StoreFailure) in
        guard let body else { throw .io("the body is gone") }
        return try store.publish(body, record, publication)
      } then: {
        .wholeFilePublished(request, $0)
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
    on pool: NIOThreadPool, _ work: @escaping @Sendable () throws(StoreFailure) -> Success,
    then event: @escaping @Sendable (Result<Success, StoreFailure>) -> CoreEvent
  ) {
    pool.submit { [self] state in
      guard case .active = state else {
        return handle(event(.failure(.io("the receiver is shutting down"))))
      }
      let result = Result { () throws(StoreFailure) in try work() }
      if case .failure(let failure) = result {
        logger.error("\(failure.words)")
      }
      handle(event(result))
    }
  }
}

extension Refusal {
  fileprivate static let shuttingDown = Refusal(.busy, "the receiver is shutting down")
}

extension Result where Failure == StoreFailure {
  /// The failure, if it is one.
  fileprivate var failure: StoreFailure? {
    if case .failure(let failure) = self { failure } else { nil }
  }
}

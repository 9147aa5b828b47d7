import ChunkProtocol
import Integrity
import Lookup
import OrderedCollections
import ReceiverCore

/// The receiver: the real core and the real translation of requests, around a simulated store. It answers, takes its time,
/// crashes and comes back.
final class SimulatedReceiver {
  /// One request as the receiver sees it.
  final class Exchange {
    fileprivate let request: WireRequest
    fileprivate var answer: ((Answer?) -> Void)?
    fileprivate var body: [UInt8]?
    /// The decoded body of a bundle's member, which is here before the core is asked.
    fileprivate var taken: Result<ChunkChecksums, Refusal>?
    fileprivate var isBroken = false
    fileprivate var wantsJSON = false
    fileprivate var bundle: BundleIntake?
    fileprivate var run: RunIntake?
    /// The core admits the run.
    fileprivate var takesRun = false
    fileprivate var coreRequest: CoreRequest?
    fileprivate var id: RequestID?
    fileprivate var admitted: AdmittedBody?
    fileprivate weak var receiver: SimulatedReceiver?

    fileprivate init(_ request: WireRequest, _ receiver: SimulatedReceiver, _ answer: @escaping (Answer?) -> Void) {
      self.request = request
      self.receiver = receiver
      self.answer = answer
    }

    /// The whole body is there.
    func arrive(_ bytes: [UInt8]) {
      body = bytes
      receiver?.bodyArrived(self)
    }

    /// The client's connection is lost mid-body, after these bytes.
    func breakOff(after arrived: [UInt8]) {
      if run != nil { body = arrived }
      isBroken = true
      receiver?.bodyArrived(self)
    }
  }

  static let token = "token-of-the-simulation"

  private unowned let world: World
  let store: SimulatedStore
  private var credential: Credential
  private let limits: CoreLimits
  private let translation: RequestTranslation
  /// The receiver is of a version that does not know files that are compressed together.
  let isFrameless: Bool
  private var core: ReceiverCore?
  private var waiting: OrderedDictionary<RequestID, Exchange> = [:]
  private var nextRequest: UInt64 = 1
  private var life = 0
  private(set) var jobCount = 0
  /// Sessions that the last start could not read.
  private var quarantinedCount = 0

  init(_ world: World) {
    self.world = world
    store = SimulatedStore(world)
    credential = Credential(token: Self.token, root: "published", quotaBytes: world.scenario.quotaBytes)
    var limits = CoreLimits()
    limits.chunkBytesMin = 1
    limits.chunkBytesMax = world.scenario.chunkBytes * 2
    limits.headroomBytes = 1000
    self.limits = limits
    translation = RequestTranslation(credentials: [credential], limits: limits)
    isFrameless = world.random.happens(world.scenario.framelessReceivers)
    store.disk.admit = { [unowned self] (kind) throws(DiskFailure) in try admit(kind) }
  }

  var isUp: Bool { core != nil }
  var isQuiet: Bool { waiting.isEmpty && jobCount == 0 }

  /// An error of the disk ends the process before the first request, and it is started anew.
  func start() {
    life += 1
    let before = store.openSessions
    let found: RecoveredState
    do throws(DiskFailure) {
      found = try store.recover()
    } catch {
      world.trace("receiver: cannot start")
      return startLater()
    }
    quarantinedCount = found.quarantined.count
    let after = LookupSet(store.openSessions)
    if let lost = before.first(where: { !after.contains($0) }) {
      world.fail(.retention, "session \(lost.text) was there, and is deleted at the start")
    }
    var core = ReceiverCore(limits: limits, credentials: [credential.core])
    switch world.bug {
    case .expireReliedUpon: core.recover(found.reliedUponByNoClient)
    case .forgetReceipts: core.recover(found.withoutReceipts)
    default: core.recover(found)
    }
    self.core = core
    if world.bug != .forgetUsage { measureUsage() }
    world.trace("receiver: starts")
    tick()
    syncWritten()
  }

  /// Everything in memory is gone; with the power, also what was not synced.
  func crash() {
    guard isUp else { return }
    let takesPower = world.random.happens(world.scenario.powerCuts)
    world.trace("receiver: crashes\(takesPower ? " and loses power" : "")")
    core = nil
    life += 1
    jobCount = 0
    store.forgetMemory()
    if takesPower {
      store.disk.losePower(using: &world.random)
      store.checkPublished()
    }
    let lost = Array(waiting.values)
    waiting = [:]
    // The caller may be in the middle of a request.
    world.time.after(.microseconds(10)) { for exchange in lost { exchange.finish(nil) } }
    startLater()
  }

  private func startLater() {
    world.time.after(world.random.duration(.milliseconds(50)...(.seconds(20)))) { [self] in
      if !isUp { start() }
    }
  }

  /// What could not be read at the last start is read at the next one.
  func retryQuarantined() {
    guard isUp, quarantinedCount > 0 else { return }
    world.trace("receiver: is started anew for what it could not read")
    crash()
  }

  /// The operator gives the credential all the room there is, and starts the receiver anew.
  func liftQuota() {
    guard credential.quotaBytes != nil else { return }
    credential.quotaBytes = nil
    world.trace("receiver: no quota any more")
    crash()
  }

  private func measureUsage() { handle(.usageMeasured(credential.id, bytes: store.publishedBytes)) }

  private func syncWritten() {
    guard world.scenario.syncsWhatIsWritten else { return }
    let life = life
    world.time.after(world.scenario.syncPause) { [self] in
      guard self.life == life else { return }
      for steps in store.syncWritten() { perform(steps) { _ in } }
      syncWritten()
    }
  }

  private func tick() {
    let life = life
    world.time.after(.milliseconds(250)) { [self] in
      guard self.life == life else { return }
      handle(.tick)
      if self.life == life { tick() }
    }
  }

  private func admit(_ kind: EffectKind) throws(DiskFailure) {
    if kind == .write, world.fullDisks.contains(.receiver) { throw .full }
    switch world.verdict(on: kind, of: .receiver) {
    case .done: return
    case .failed: throw .broken
    case .crash:
      crash()
      throw .crashed
    }
  }

  // MARK: Requests

  /// A request's header has arrived; nil when no server listens. The answer is nil when the connection is lost.
  func begin(_ request: WireRequest, answer: @escaping (Answer?) -> Void) -> Exchange? {
    guard isUp else { return nil }
    let exchange = Exchange(request, self, answer)
    follow(translation.plan(request), exchange)
    return exchange
  }

  private func follow(_ plan: RequestPlan, _ exchange: Exchange) {
    switch plan {
    case .answer(let answer): exchange.finish(answer)
    case .counts, .metrics: exchange.finish(Answer(status: 200))
    case .readJSON:
      exchange.wantsJSON = true
      bodyArrived(exchange)
    case .readBundle(let bundle):
      exchange.bundle = bundle
      bodyArrived(exchange)
    case .readRun(let run):
      exchange.run = run
      let id = wait(for: exchange)
      handle(run.begin(id))
    case .ask(let coreRequest): ask(coreRequest, exchange)
    }
  }

  private func wait(for exchange: Exchange) -> RequestID {
    let id = RequestID(nextRequest)
    nextRequest += 1
    exchange.id = id
    waiting[id] = exchange
    return id
  }

  private func ask(_ coreRequest: CoreRequest, _ exchange: Exchange) {
    exchange.coreRequest = coreRequest
    let id = wait(for: exchange)
    let freeBytes: UInt64 = world.fullDisks.contains(.receiver) ? 0 : 1 << 40
    handle(coreRequest.event(id, freshID: Hex.encode(world.random.bytes(16)), freeBytes: freeBytes))
  }

  /// Requests of their own for the members of one, whose bodies are here already; `done` gets their answers with the
  /// last, or nil where one got none.
  private func parts(_ count: Int, of exchange: Exchange, _ done: @escaping ([Answer]?) -> Void) -> [Exchange] {
    var answers = [Answer?](repeating: nil, count: count)
    var missing = count
    return (0..<count).map { index in
      Exchange(exchange.request, self) { answer in
        answers[index] = answer
        missing -= 1
        guard missing == 0 else { return }
        let known = answers.compactMap(\.self)
        done(known.count == answers.count ? known : nil)
      }
    }
  }

  /// Each member of a bundle is a request of its own; the bundle is answered with the last.
  private func follow(_ members: [BundleIntake.Member], _ exchange: Exchange) {
    let parts = parts(members.count, of: exchange) { exchange.finish($0.map { .bundle($0) }) }
    for (member, part) in zip(members, parts) {
      switch member.body {
      case .plain(let bytes, let facts):
        part.body = bytes
        part.taken = .success(facts)
      case .refused(let refusal): part.taken = .failure(refusal)
      case .none, .encoded: part.isBroken = true
      }
      switch member.plan {
      case .answer(let answer): part.finish(answer)
      case .ask(let coreRequest): ask(coreRequest, part)
      }
    }
  }

  /// As much of a run as has arrived. What is complete is stored, whatever becomes of the rest.
  private func take(_ body: [UInt8], _ run: RunIntake, _ exchange: Exchange, _ id: RequestID) {
    var run = run
    var (complete, refusal) = run.takeAll(body)
    if exchange.isBroken, refusal == nil { refusal = .bodyBrokeOff }
    let finish = { [self] (answers: [Answer]?) in
      waiting[id] = nil
      exchange.finish(answers.map { answers in refusal.map { .refused($0) } ?? .bundle(answers) })
    }
    let parts = parts(complete.count, of: exchange, finish)
    for ((member, sent), part) in zip(complete, parts) where isUp {
      part.body = sent
      if member.body == nil { part.isBroken = true }
      switch member.plan {
      case .answer(let answer): part.finish(answer)
      case .ask(let coreRequest): ask(coreRequest, part)
      }
    }
    handle(run.end(id))
    if complete.isEmpty { finish([]) }
  }

  fileprivate func bodyArrived(_ exchange: Exchange) {
    guard isUp, exchange.answer != nil else { return }
    if let run = exchange.run, let id = exchange.id {
      guard exchange.takesRun, let body = exchange.body else { return }
      exchange.run = nil
      return take(body, run, exchange, id)
    }
    if exchange.isBroken, exchange.admitted == nil, exchange.coreRequest == nil {
      exchange.finish(nil)
    } else if exchange.wantsJSON, let body = exchange.body {
      exchange.wantsJSON = false
      follow(translation.plan(exchange.request, json: body), exchange)
    } else if var bundle = exchange.bundle, let body = exchange.body {
      exchange.bundle = nil
      do throws(Refusal) {
        try bundle.take(body)
        follow(bundle.members, exchange)
      } catch {
        exchange.finish(.refused(error))
      }
    } else if let admitted = exchange.admitted, let coreRequest = exchange.coreRequest, let id = exchange.id {
      if let taken = exchange.taken {
        exchange.admitted = nil
        switch taken {
        case .success(let facts): handle(coreRequest.bodyArrived(id, facts))
        case .failure(let refusal): handle(coreRequest.bodyFailed(id, refusal))
        }
      } else if exchange.isBroken {
        exchange.admitted = nil
        handle(coreRequest.bodyFailed(id, .bodyBrokeOff))
      } else if let body = exchange.body {
        exchange.admitted = nil
        take(body, admitted, exchange, coreRequest, id)
      }
    }
  }

  private func take(
    _ body: [UInt8], _ admitted: AdmittedBody, _ exchange: Exchange, _ coreRequest: CoreRequest, _ id: RequestID
  ) {
    do throws(Refusal) {
      var (plain, facts) = try admitted.take(body)
      exchange.body = world.bug == .storeEncoded ? body : plain
      if world.bug == .publishUnverified, let announced = coreRequest.announced { facts = announced.facts }
      handle(coreRequest.bodyArrived(id, facts))
    } catch {
      handle(coreRequest.bodyFailed(id, error))
    }
  }

  private func handle(_ event: CoreEvent) {
    guard let effects = core?.handle(event, now: world.time.receiverMilliseconds) else { return }
    for effect in effects where isUp { run(effect) }
  }

  private func reply(_ id: RequestID, _ reply: Reply) {
    if let exchange = waiting[id], exchange.run != nil {
      if let answer = exchange.run?.answer(to: reply) {
        waiting[id] = nil
        world.trace("receiver: \(exchange.request.method) \(exchange.request.target) → \(answer.status)")
        return exchange.finish(answer)
      }
      exchange.takesRun = true
      return bodyArrived(exchange)
    }
    guard let exchange = waiting[id], let coreRequest = exchange.coreRequest else { return }
    switch coreRequest.outcome(of: reply) {
    case .readBody(let admitted):
      exchange.admitted = admitted
      bodyArrived(exchange)
    case .answer(let answer):
      if case .chunkStored = reply { checkReadable(coreRequest) }
      if case .receipt(let receipt) = reply { store.checkReceipt(receipt.id) }
      waiting[id] = nil
      world.trace("receiver: \(exchange.request.method) \(exchange.request.target) → \(answer.status)")
      exchange.finish(answer)
    }
  }

  /// Acknowledged bytes can be read.
  private func checkReadable(_ coreRequest: CoreRequest) {
    if case .zeros(_, let session, let ranges, _) = coreRequest {
      for range in ranges {
        for index in range.first...range.last where !store.holdsZeros(at: index, of: session) {
          world.fail(.acknowledgement, "chunk \(index) of \(session.text) is acknowledged and is not zeros")
        }
      }
    }
    guard case .chunk(_, let session, let index, let announced) = coreRequest else { return }
    if !store.holds(announced.facts, at: index, of: session) {
      world.fail(.acknowledgement, "chunk \(index) of \(session.text) is acknowledged and cannot be read")
    }
  }
}

// MARK: Effects

extension SimulatedReceiver {
  private func run(_ effect: CoreEffect) {
    switch effect {
    case .reply(let id, let reply): self.reply(id, reply)
    case .createSession(let facts):
      perform(store.create(facts)) { [self] in
        handle(
          .sessionCreated(
            facts.sessionID, $0.map { failure in .failure(failure) } ?? .success(.reserved),
            published: store.published(before: facts)))
      }
    case .writeChunk(let id, let session, let index, let offset, let facts):
      let body = waiting[id]?.body ?? []
      if world.bug == .acknowledgeBeforeWrite {
        handle(.chunkWritten(id, nil))
        return perform(store.write(body, session, index, Int(offset), facts)) { _ in }
      }
      perform(store.write(body, session, index, Int(offset), facts)) { [self] in handle(.chunkWritten(id, $0)) }
    case .writeZeros(let id, let session, let chunks, let chunkBytes):
      perform(store.writeZeros(session, chunks, Int(chunkBytes))) { [self] in handle(.zerosWritten(id, $0)) }
    case .secureSession(let id, let session):
      let chunks = store.presentChunks(of: session)
      perform(store.secure(session)) { [self] in
        if $0 == nil { store.checkSecured(chunks, of: session) }
        handle(.sessionSecured(id, session, $0))
      }
    case .verifySession(let session, let takesBase):
      perform([]) { [self] _ in
        let result = Result { () throws(DiskFailure) in try store.verify(session, takesBase: takesBase) }
        if case .failure(.crashed) = result { return }
        handle(.sessionVerified(session, result.mapError { _ in .io("the simulated disk fails") }))
      }
    case .checkCommit(let check):
      perform([]) { [self] _ in
        handle(.commitChecked(check.session, generation: check.generation, check.verdict))
      }
    case .publish(let session, let publication):
      perform(store.publish(session, publication)) { [self] in
        let isRenamed = $0 != nil && store.isRenamed(session, publication.receipt)
        let failure = isRenamed ? StoreFailure.unsynced("the simulated disk failed after the rename") : $0
        if failure == nil { world.wasPublished(session.text) }
        handle(.published(session, failure.map { failure in .failure(failure) } ?? .success(PublicationResult())))
      }
    case .publishWholeFile(let id, let record, let publication):
      perform(store.publish(waiting[id]?.body ?? [], record, publication)) { [self] in
        handle(.wholeFilePublished(id, $0.map { failure in .failure(failure) } ?? .success(PublicationResult())))
      }
    case .removeSession(let session), .clearSession(let session):
      if store.isKept(session), world.hasPartsAlone(session.text) {
        world.fail(.onlyCopy, "the receiver deletes session \(session.text.prefix(6)), which alone has parts of a file")
      }
      if world.bug != .keepExpired { perform([]) { [self] _ in store.remove(session) } }
    case .measureUsage: perform([]) { [self] _ in measureUsage() }
    case .recheck(let ids): perform([]) { [self] _ in handle(.rechecked(ids, .success(store.recover(ids)))) }
    case .forgetReceipts, .note: break
    }
  }

  /// Performs the steps one after the other, each after a while; a crash ends it between any two.
  private func perform(_ steps: [SimulatedStore.Step], then done: @escaping (StoreFailure?) -> Void) {
    jobCount += 1
    perform(steps[...], life, done)
  }

  private func perform(_ steps: ArraySlice<SimulatedStore.Step>, _ life: Int, _ done: @escaping (StoreFailure?) -> Void)
  {
    let time = world.isGood ? .microseconds(5)...(.milliseconds(1)) : world.scenario.diskTime
    world.time.after(world.random.duration(time)) { [self] in
      guard self.life == life else { return }
      var failure: StoreFailure?
      if let step = steps.first {
        do {
          try step()
        } catch {
          if error is SimulatedStore.Waits { return perform(steps, life, done) }
          switch error as? DiskFailure {
          case .crashed: return
          case .full: failure = .full
          case .broken, nil: failure = .io("the simulated disk fails")
          }
        }
      }
      guard failure == nil, steps.count > 1 else {
        jobCount -= 1
        return done(failure)
      }
      perform(steps.dropFirst(), life, done)
    }
  }
}

extension SimulatedReceiver.Exchange {
  fileprivate func finish(_ result: Answer?) {
    let answer = answer
    self.answer = nil
    answer?(result)
  }
}

extension RecoveredState {
  /// The planted mistake of `forgetReceipts`.
  fileprivate var withoutReceipts: RecoveredState {
    var state = self
    state.published = []
    state.wholeFiles = []
    return state
  }

  /// The planted mistake of `expireReliedUpon`.
  fileprivate var reliedUponByNoClient: RecoveredState {
    var state = self
    for index in state.open.indices { state.open[index].mayHoldOnlyCopy = false }
    return state
  }
}

extension CoreRequest {
  fileprivate var announced: AnnouncedBytes? {
    switch self {
    case .chunk(_, _, _, let announced), .wholeFile(_, _, _, let announced): announced
    case .openSession, .query, .commit, .abort, .zeros: nil
    }
  }
}

import FileModel
import Lookup
import Synchronization
import Threads
package import TransferModel

/// From an order to a request and back to its outcome.
extension UploadEngine {
  /// What publishes a content is sent once the spool has been asked whether that is still the one that was read: its bytes may
  /// have been in memory for long.
  func send(_ orders: [RequestOrder]) {
    let publishing = orders.filter { !$0.order.contents.isEmpty || asksWhoseNameItIs($0.order) }
    name(orders.filter { $0.order.contents.isEmpty && !asksWhoseNameItIs($0.order) })
    guard !publishing.isEmpty else { return }
    notStarted.withLock { waiting in
      for order in publishing { waiting[order.id] = false }
    }
    unpublished.withLock { $0 += publishing }
    names.onThread { [self] in
      let orders = unpublished.withLock { unpublished in
        defer { unpublished = [] }
        return unpublished
      }
      if !orders.isEmpty { publish(orders) }
    }
  }

  /// A name is bound when the session begins: the disk is asked what was published under it.
  private func asksWhoseNameItIs(_ order: SendOrder) -> Bool {
    guard case .openSession = order else { return false }
    return publications != nil && destination.abilities.bindsNameAtOpening
  }

  private func publish(_ orders: [RequestOrder]) {
    let contents = parts.withLock { $0.contents }
    var sound: [RequestOrder] = []
    for order in orders {
      if notStarted.withLock({ $0[order.id] }) == true {
        completed(order.id, .refused(StepFailure(.transport(.cancelled), "It was not wanted any more.")))
      } else if order.order.contents.contains(where: { contents?.isChangedOutsideMount($0) == true }) {
        let failure = StepFailure(.transport(.bodyUnavailable), "The spool's copy is not what was read of it.")
        completed(order.id, .refused(failure))
      } else {
        sound.append(order)
      }
    }
    name(sound)
    // Ended while it was started: the transport knows it by now.
    let ended = notStarted.withLock { waiting in
      orders.map(\.id).filter { waiting.removeValue(forKey: $0) == true }
    }
    for id in ended { transport.cancel(id) }
  }

  /// Ends a request that is not started yet, which is then not sent; false when there is none such.
  func endUnstarted(_ request: HTTPRequestID) -> Bool {
    notStarted.withLock { waiting in
      guard waiting[request] != nil else { return false }
      waiting[request] = true
      return true
    }
  }

  /// Those whose names are known go together; the others follow once their names are on the disk.
  private func name(_ orders: [RequestOrder]) {
    guard names.areMade || orders.contains(where: \.isAtMostOnce) else { return start(orders) }
    let isReady = { (order: RequestOrder) in
      !order.isAtMostOnce
        && order.order.publications.allSatisfy { self.names.name(of: $0.file, at: $0.path) != nil }
    }
    start(orders.filter(isReady))
    let others = orders.filter { !isReady($0) }
    guard !others.isEmpty else { return }
    names.onThread { [self] in
      do throws(StorageError) {
        try names.decide(others.flatMap(\.order.publications))
        try recordBeginning(of: others.filter(\.isAtMostOnce))
      } catch {
        let failure = StepFailure(.transport(.other), "The file cannot be sent yet: \(error.message)")
        for order in others { completed(order.id, .refused(failure)) }
        return
      }
      start(others)
    }
  }

  /// After a crash from here on it is unknown whether these files were published.
  private func recordBeginning(of orders: [RequestOrder]) throws(StorageError) {
    let files = orders.flatMap { $0.order.publications.map(\.file) }
    guard !files.isEmpty else { return }
    try journal.recordNow {
      self.state.withLock { state in files.compactMap { state.schedule.catalogEntry(of: $0) } }
    }
  }

  private func start(_ orders: [RequestOrder]) {
    let steps = orders.compactMap { order in takeStep(of: order).map { (order, $0) } }
    // A daemon that is killed between a publication and its record would count it as another one's.
    publications?.recordBegun(steps.map(\.0.id))
    transport.start(steps.map { order, step in pending(order, step, traces: traces(of: order.order)) })
  }

  private func takeStep(of order: RequestOrder) -> DestinationStep? {
    do throws(StorageError) {
      guard let step = try step(for: order.order) else {
        completed(order.id, .refused(StepFailure(.transport(.cancelled), "What was to be sent is no longer there.")))
        return nil
      }
      publications?.begins(
        order.id,
        PublicationIndex.Sent.all(
          of: step, from: order.order.publications.map(\.path), keepsNonces: destination.abilities.comparesObjects
        ) { destination.publishedName(for: $0) })
      return step
    } catch {
      completed(order.id, .refused(StepFailure(.transport(.other), "The file cannot be sent yet: \(error.message)")))
      return nil
    }
  }

  private func pending(
    _ order: RequestOrder, _ step: DestinationStep, traces: [CacheTrace?]
  ) -> PendingHTTPRequest {
    let id = order.id
    var request = request(for: step, at: order.endpoint)
    // The destination may have a reason of its own.
    if order.opensConnection { request.opensConnection = true }
    let sharedFrame = request.sharedFrame
    return pending(request, order, step) { [self] responses, hasSentBytes in
      guard let response = responses.first else { return }
      let outcome = destination.outcome(of: step, responses: responses)
      let offers = destination.offers(in: response)
      postEnd(of: id) { [self] in
        noteSession(of: step, outcome)
        for (position, trace) in traces.enumerated() {
          guard let trace, outcome.ofMember(position, of: traces.count).isChunkStored else { continue }
          parts.withLock { $0.workers }?.release(trace)
        }
        completed(id, outcome, response.connection, offers, sharedFrame, hasSentBytes: hasSentBytes)
      }
    }
  }

  /// Files are compressed together by a lowered thread (docs/design/threads.md#the-writer-comes-first).
  private func request(for step: DestinationStep, at endpoint: EndpointID) -> HTTPRequest {
    let plain = destination.request(for: step, at: endpoint)
    guard case .bundle(let sendings) = step, sendings.allSatisfy(\.sharesFrame),
      let thread = framing.withLock({ $0.take() }) ?? ComputingThread("frames", .behind(configuration.priority))
    else { return plain }
    defer { framing.withLock { $0 = thread } }
    let start = monotonicNanoseconds()
    let request = thread.run { destination.compressedTogether(plain) }
    counters.compressionNanoseconds.add(monotonicNanoseconds() - start, ordering: .relaxed)
    if let frame = request.sharedFrame, frame.isShorter {
      counters.compressed(frame.plainBytes, to: frame.sentBytes, isZstandard: true)
    }
    return request
  }

  /// Leaves to the engine's thread what follows from a request's end. The transport's thread is a lowered one.
  private func postEnd(of request: HTTPRequestID, _ event: @escaping @Sendable () -> Void) {
    post { [self] in
      sentCounters.withLock { _ = $0.removeValue(forKey: request) }
      event()
    }
  }

  /// Where a session stays until a client ends it, it is recorded from its beginning to its end.
  private func noteSession(of step: DestinationStep, _ outcome: StepOutcome) {
    guard destination.abilities.sessionsStay else { return }
    switch (step, outcome) {
    case (.openSession, .sessionOpened(let id, _, _, _, _, _)):
      journal.note(session: id, begunAtSeconds: configuration.clock.now().wallMilliseconds / 1000)
    case (.commit(let commit), .published): journal.note(session: commit.session.id, begunAtSeconds: nil)
    case (.abort(let session), .ended): journal.note(session: session.id, begunAtSeconds: nil)
    default: break
    }
  }

  /// A request whose step may need others after it; they go by its name, so that the end of the step ends them.
  private func pending(
    _ request: HTTPRequest, _ order: RequestOrder, _ step: DestinationStep, after earlier: [HTTPResponse] = [],
    sentBefore: UInt64 = 0, hasSentBefore: Bool = false,
    whenAnswered: @escaping @Sendable (_ responses: [HTTPResponse], _ hasSentBytes: Bool) -> Void
  ) -> PendingHTTPRequest {
    let id = order.id
    // One that follows another begins anew, also without a body: its step has moved.
    if let counter = request.sentBytes ?? (earlier.isEmpty ? nil : SentByteCounter()) {
      let body = InFlightBody(
        sent: counter, byteCount: UInt64(clamping: request.body.byteCount), answered: earlier.count,
        sentBefore: sentBefore, stepBytes: UInt64(clamping: step.bodyBytes))
      sentCounters.withLock { $0[id] = body }
    }
    return PendingHTTPRequest(id: id, request: request) { [weak self] result in
      guard let self else { return }
      let hasSentBytes = hasSentBefore || request.hasSentBody
      switch result {
      case .success(var response):
        response.receivedAtSeconds = configuration.clock.now().wallMilliseconds / 1000
        let responses = earlier + [response]
        guard responses.count <= Self.followUpsMax,
          let next = destination.followUp(of: step, after: responses, at: order.endpoint)
        else { return whenAnswered(responses, hasSentBytes) }
        // Of a body that goes in pieces this one is there.
        let taken = (200..<300).contains(response.status) ? UInt64(clamping: request.body.byteCount) : 0
        postEnd(of: id) { [self] in
          guard !isEnding.load(ordering: .acquiring) else { return }
          if unwanted.withLock({ $0.contains(id) }) {
            let error = TransportError(.cancelled, "It is no longer wanted.")
            let outcome = destination.outcome(of: step, lost: error, after: responses)
            return completed(id, outcome, hasSentBytes: hasSentBytes)
          }
          transport.start([
            pending(
              next, order, step, after: responses, sentBefore: sentBefore + taken, hasSentBefore: hasSentBytes,
              whenAnswered: whenAnswered)
          ])
        }
      case .failure(let error):
        let outcome =
          earlier.isEmpty
          ? destination.outcome(of: step, lost: error)
          : destination.outcome(of: step, lost: error, after: earlier)
        postEnd(of: id) { [self] in completed(id, outcome, hasSentBytes: hasSentBytes) }
      }
    }
  }

  /// A probe of each part of the largest upload (``AppendSequences/growing``), and some.
  private static let followUpsMax = 256

  /// Asks the destination what it takes, where it can be asked. Without an answer nothing is known, and nothing else follows.
  func askForLimits(_ id: HTTPRequestID) {
    guard let request = destination.limitsRequest(at: .first) else { return }
    transport.start(request, id: id) { [self] result in
      guard case .success(let response) = result, let limits = destination.limits(in: response) else { return }
      let offers = destination.offers(in: response)
      post { [self] in apply { $0.learn(limits, offers, at: $1) } }
    }
  }

  /// Has the names of all servers of the destination asked for.
  func askForNames() {
    for index in 0..<max(1, destination.endpointCount) {
      transport.warmName(ofURL: destination.request(for: .prewarm, at: EndpointID(index)).url)
    }
  }

  func checkProgress() {
    let sent = sentCounters.withLock {
      $0.mapValues { $0.progress }
    }
    apply { $0.progressed(sent, at: $1) }
  }

  /// What the chunks of a request leave in the page cache, in their order.
  private func traces(of order: SendOrder) -> [CacheTrace?] {
    guard let (_, chunks) = order.chunks else { return [] }
    return held.withLock { held in chunks.map { held[$0.read]?.trace } }
  }

  private func completed(
    _ request: HTTPRequestID, _ outcome: StepOutcome, _ connection: HTTPConnectionMetrics = HTTPConnectionMetrics(),
    _ offers: DestinationOffers = DestinationOffers(), _ sharedFrame: SharedFrame? = nil, hasSentBytes: Bool = true
  ) {
    let outcome = configuration.hide.map { outcome.hidden(by: $0) } ?? outcome
    unwanted.withLock { _ = $0.remove(request) }
    publications?.ended(request, outcome)
    apply {
      $0.requestCompleted(
        request, outcome: outcome, connection: connection, offers: offers, sharedFrame: sharedFrame,
        hasSentBytes: hasSentBytes, at: $1)
    }
  }

  /// Puts the names and the bytes to an order; nil where a file has no name any more, or a buffer no bytes.
  private func step(for order: SendOrder) throws(StorageError) -> DestinationStep? {
    try order.mapped(
      opening: { opening throws(StorageError) in try named(opening) },
      commit: { commit throws(StorageError) in try named(commit) },
      chunk: { chunk throws(StorageError) in sending(chunk) },
      wholeFile: { whole throws(StorageError) in try sending(whole) })
  }

  private func named(_ opening: SessionOpening) throws(StorageError) -> SessionOpening? {
    guard let name = names.name(of: opening.fileID, at: opening.path) else { return nil }
    var named = opening
    if destination.abilities.bindsNameAtOpening {
      named.right = try right(of: opening.fileID, at: opening.path, to: name)
    }
    named.path = name
    return named
  }

  private func named(_ commit: SessionCommit) throws(StorageError) -> SessionCommit? {
    guard let file = commit.fileID, let name = names.name(of: file, at: commit.path) else { return nil }
    var named = commit
    named.right = try right(of: file, at: commit.path, to: name)
    named.path = name
    return named
  }

  private func sending(_ order: SessionChunk) -> ChunkSending? {
    guard let bytes = held.withLock({ $0[order.chunk.read] }) else { return nil }
    var sending = order.sending(bytes.plainBytes, bytes.encoding, bytes.buffer)
    sending.copied = destination.source(of: sending)
    return sending
  }

  /// What a file that lies under a path here may do with its published name.
  private func right(
    of file: FileID, at path: RelativePath, to name: RelativePath
  ) throws(StorageError) -> NameRight? {
    guard let publications, let usual = destination.abilities.ifExists else { return nil }
    let ifExists = configuration.limits.rules.settings(for: path).ifExists ?? usual
    let claimant = PublicationIndex.Claimant(file, at: path, called: name, names)
    return try publications.right(to: destination.publishedName(for: name), for: claimant, ifExists)
  }

  private func sending(_ whole: WholeFileOrder) throws(StorageError) -> WholeFileSending? {
    // Without a name when the file is gone meanwhile.
    guard let name = names.name(of: whole.file, at: whole.path) else { return nil }
    var chunk: HeldChunk?
    if let read = whole.read {
      guard let found = held.withLock({ $0[read] }) else { return nil }
      chunk = found
    }
    var sending = WholeFileSending(
      fileID: whole.file, revision: whole.epoch, nonce: whole.nonce, path: name, digest: whole.digest,
      plainBytes: chunk?.plainBytes, encoding: chunk?.encoding ?? .identity, body: chunk?.buffer,
      modifiedNanoseconds: whole.modifiedNanoseconds, mode: whole.mode, sentBytes: SentByteCounter())
    sending.sharesFrame = whole.sharesFrame
    sending.right = try right(of: whole.file, at: whole.path, to: name)
    if let sizeBytes = whole.streamedBytes { sending.stream = stream(of: whole, sizeBytes: sizeBytes) }
    return sending
  }

  private func stream(of whole: WholeFileOrder, sizeBytes: UInt64) -> FileStream {
    let (pool, file, workers) = (streamPool, whole.file, parts.withLock { $0.workers })
    return FileStream(
      file: whole.file, epoch: whole.epoch, sizeBytes: sizeBytes, nonce: whole.nonce,
      source: FileStream.Source(
        acquire: { pool.tryAcquire() }, submit: { workers?.submit($0) ?? false },
        letGo: { workers?.release(CacheTrace(file: file, range: $0)) }))
  }
}

extension SessionChunk {
  /// The chunk with its bytes.
  package func sending(_ plainBytes: Int, _ encoding: ChunkEncoding, _ body: any PinnedBytes) -> ChunkSending {
    ChunkSending(
      session: session, index: chunk.index, digest: chunk.digest, plainBytes: plainBytes, encoding: encoding,
      body: body,
      position: position, sentBytes: SentByteCounter())
  }
}

extension HTTPRequest {
  /// Some of its body may have left this process; where the transport does not say, it has.
  fileprivate var hasSentBody: Bool { body.byteCount > 0 && (sentBytes?.handedOverMax.map { $0 > 0 } ?? true) }
}

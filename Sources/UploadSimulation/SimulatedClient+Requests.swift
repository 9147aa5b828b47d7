import Destinations
import FileModel
import Integrity
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

// MARK: Reading

extension SimulatedClient {
  func read(_ order: ReadOrder) {
    reads.insert(order.id)
    if order.isSmall { smallReads.insert(order.id) } else { bufferBytes[order.id] = order.bufferBytes }
    checks.bufferIsTaken(
      isSmall: order.isSmall, inUse: order.isSmall ? smallReads.count : bufferBytes.count,
      bytes: bufferBytes.values.reduce(0, +))
    guard admits(.read) else {
      if isUp { readEnded(order, .failed(.system(errno: 5)), after: .microseconds(100)) }
      return
    }
    guard let file = capture.file(order.file) else {
      return readEnded(order, .failed(.gone), after: .microseconds(10))
    }
    // As `ChunkReader`: the disk is queried before and after.
    if case .spoolFailing(let errno)? = capture.look(at: file).interruption {
      return readEnded(order, .failed(.system(errno: errno)), after: .microseconds(10))
    }
    let isTrusting = world.bug == .skipEpochCheck
    let isCurrent = order.isCurrent(file)
    guard isCurrent || isTrusting else { return readEnded(order, .changed, after: .microseconds(10)) }
    // A read is not one moment: its second half is read later.
    let middle = Int(order.offset) + order.byteCount / 2
    let first = file.piece(Int(order.offset)..<middle)
    let life = life
    world.time.after(world.random.duration(.microseconds(5)...(.milliseconds(20)))) { [self] in
      guard self.life == life else { return }
      let bytes = first + file.piece(middle..<Int(order.offset) + order.byteCount)
      if case .spoolFailing(let errno)? = capture.look(at: file).interruption {
        return readEnded(order, .failed(.system(errno: errno)))
      }
      let isStill = order.isCurrent(file)
      let range = order.offset..<order.offset + UInt64(order.byteCount)
      if file.released?.intersects(range) == true {
        guard world.bug == .readHoles else { return readEnded(order, .failed(.released)) }
        let zeros = [UInt8](repeating: 0, count: order.byteCount)
        buffers[order.id] = SimulatedBuffer(zeros, of: order, as: .none)
        return readEnded(order, .success(digest(zeros, order)))
      }
      guard isStill || isTrusting, bytes.count == order.byteCount else { return readEnded(order, .changed) }
      if !file.isAsMeant(in: Int(order.offset)..<Int(order.offset) + order.byteCount) {
        world.fail(.writeBack, "what the disk has in place of what was written to \(file.snapshot.brief) is read")
      }
      file.readPieces[Int(order.offset)] = bytes
      let compression = world.bug == .compressUnasked ? ChunkCompression(lz4: true) : order.compression
      buffers[order.id] = SimulatedBuffer(bytes, of: order, as: compression)
      readEnded(order, .success(digest(bytes, order)))
    }
  }

  private func digest(_ bytes: [UInt8], _ order: ReadOrder) -> ChunkDigest {
    if world.bug == .believeRecordedDigests, order.byteCount <= world.scenario.chunkBytes,
      let known = recordedDigests[order.file]?[Int(order.offset) / world.scenario.chunkBytes]
    {
      return known
    }
    return ChunkDigest(sha256: sha256(bytes), crc32c: bytes.withUnsafeBytes { CRC32C.checksum($0) })
  }

  private func readEnded(_ order: ReadOrder, _ outcome: ReadOutcome, after delay: Duration) {
    let life = life
    world.time.after(delay) { [self] in
      if self.life == life { readEnded(order, outcome) }
    }
  }

  private func readEnded(_ order: ReadOrder, _ outcome: ReadOutcome) {
    reads.remove(order.id)
    world.trace("read \(order.id.value) \(outcome.brief)")
    waits?.noteReading(of: order.file, outcome)
    apply { $0.chunkRead(order.id, result: outcome, at: $1) }
  }
}

// MARK: Holes

extension SimulatedClient {
  /// As `HoleFinder`. Zeros on a simulated disk are holes, also those of parts that were given up or lost.
  func findHoles(_ order: HoleOrder) {
    let life = life
    let digest = ChunkDigest(ofZeros: order.chunkBytes)
    let file = capture.file(order.file)
    let isTrusted = file.map { order.isTrusted(capture.look(at: $0)) } ?? false
    world.time.after(world.random.duration(.microseconds(5)...(.milliseconds(20)))) { [self] in
      guard self.life == life else { return }
      var chunks: [Range<Int>] = []
      if let file, isTrusted {
        let shown = file.shown
        chunks = (0..<(min(shown.count, Int(order.sizeBytes)) / order.chunkBytes)).filter { index in
          let bytes = index * order.chunkBytes..<(index + 1) * order.chunkBytes
          return file.released?.intersects(UInt64(bytes.lowerBound)..<UInt64(bytes.upperBound)) != true
            && shown[bytes].allSatisfy { $0 == 0 }
        }.map { $0..<($0 + 1) }
        if !order.isTrusted(capture.look(at: file)) { chunks = [] }
        // Holes count as read: what is given up of the file is what was sent of it.
        for start in chunks.map({ $0.lowerBound * order.chunkBytes }) {
          file.readPieces[start] = Array(shown[start..<start + order.chunkBytes])
        }
      }
      world.trace("holes of \(order.file): \(list: chunks.lazy.map(\.lowerBound))")
      apply { $0.holesFound(order, chunks, digest, at: $1) }
    }
  }
}

// MARK: Sending

extension SimulatedClient {
  /// The addresses are checked now: while a name is written to the disk another request may find that the address is
  /// gone.
  func decided(_ orders: [RequestOrder]) {
    var orders = orders
    if world.bug == .stayAtFirstAddress {
      for index in orders.indices { orders[index].endpoint = .first }
    }
    for order in orders { checks.decided(order) }
    sendNamed(orders)
  }

  /// As `UploadEngine` does: requests with a recorded name go at once, the rest once their names are on the disk.
  private func sendNamed(_ orders: [RequestOrder]) {
    if world.bug == .holdUpOthers, daemon?.clients.contains(where: { $0 !== self && $0.network.isAway }) == true {
      let life = life
      return world.time.after(.seconds(1)) { [self] in if self.life == life { sendNamed(orders) } }
    }
    let others = orders.filter { !names.haveNames($0.order) }
    for order in orders where isUp && names.haveNames(order.order) { send(order) }
    guard isUp, !others.isEmpty else { return }
    names.decide(others.flatMap(\.order.publications), admits: { [self] in isUp && admits(.catalog) }) { [self] in
      for order in others where isUp {
        if $0 {
          send(order)
        } else {
          completed(order, .refused(StepFailure(.transport(.other), "the names cannot be recorded")))
        }
      }
    }
  }

  func send(_ order: RequestOrder) {
    var order = order
    if world.bug == .keepConnections { order.opensConnection = false }
    guard let step = step(for: order.order) else {
      checks.couldNotBeSent(order.order)
      return completed(order, .refused(StepFailure(.transport(.cancelled), "the chunk is no longer there")))
    }
    names.used(by: order.order)
    publications.begin(order.id, step, from: order.order.publications.map(\.path))
    checkRetention(order.order)
    checks.sent(order, carrying: carried(by: order.order), attempts: { [self] in attempts(of: $0) })
    if world.bug == .dawdle, case .commit = order.order {
      let life = life
      return world.time.after(.seconds(2)) { [self] in if self.life == life { start(order, step) } }
    }
    start(order, step)
    guard isUp else { return }
    if case .querySession(let session) = order.order, unreadSessions.contains(session.id) { end(session, after: order) }
    guard isUp else { return }
    if world.bug == .doubleCommit, case .commit = order.order { start(extra(order), step) }
    if world.bug == .overbook, case .querySession = order.order {
      for _ in 0..<world.scenario.limits.controlRequests { start(extra(order), step) }
    }
    if world.bug == .doubleChunk, order.order.chunks != nil { start(extra(order), step) }
    if world.bug == .releaseBufferEarly, let read = order.order.chunks?.chunks.last?.read { buffers[read]?.wipe() }
  }

  /// A part whose only copy is in a session is not given up for the request.
  private func checkRetention(_ order: SendOrder) {
    switch order {
    case .openSession(let opening):
      guard let file = capture.file(opening.fileID), file.holdsPartsElsewhere, storage.hasRecord(of: file.id) else {
        return
      }
      world.fail(.retention, "\(opening.path.displayText) is sent anew, and the record of its parts is on the disk")
    case .abort(let session):
      for id in capture.ids where capture.file(id)?.holdsPartsElsewhere == true && storage.session(of: id) == session.id
      {
        world.fail(.retention, "session \(session.id.prefix(6)) is ended, which alone has parts of \(id)")
      }
      checkOnlyCopy(session.id)
    case .prewarm, .querySession, .secureSession, .chunk, .run, .zeros, .commit, .wholeFile, .bundle: break
    }
  }

  private func checkOnlyCopy(_ session: String) {
    if let file = capture.file(withPartsIn: session) {
      world.fail(.onlyCopy, "the client ends session \(session.prefix(6)), which alone has parts of \(file.id)")
    }
  }

  private func end(_ session: SessionIdentity, after order: RequestOrder) {
    var ending = extra(order)
    ending.order = .abort(session)
    checkRetention(ending.order)
    if let step = step(for: ending.order) { start(ending, step) }
  }

  private func extra(_ order: RequestOrder) -> RequestOrder {
    extraRequest += 1
    var extra = order
    extra.id = HTTPRequestID(extraRequest)
    checks.sent(extra, carrying: carried(by: order.order), attempts: { _ in 0 })
    return extra
  }

  /// The bytes that each member of a request carries.
  private func carried(by order: SendOrder) -> [CarriedBytes?] {
    switch order {
    case .chunk, .run: (order.chunks?.chunks ?? []).map { carried($0.read, as: nil) }
    case .wholeFile, .bundle: order.wholeFiles.map { carried($0.read, as: $0) }
    case .prewarm, .openSession, .querySession, .secureSession, .zeros, .commit, .abort: []
    }
  }

  private func carried(_ read: ReadID?, as whole: WholeFileOrder?) -> CarriedBytes? {
    guard let read, let buffer = buffers[read] else { return nil }
    let (file, start) = (buffer.order.file, Int(buffer.order.offset))
    return CarriedBytes(
      file: file, range: start..<(start + buffer.plainBytes), fileBytes: capture.file(file)?.bytes.count ?? 0,
      publication: whole.map { CarriedBytes.Publication(path: $0.path, digest: $0.digest.sha256) })
  }

  private func start(_ order: RequestOrder, _ step: DestinationStep) {
    world.trace(order.brief)
    if !step.encodings.isEmpty { checks.compressed(order.id, step.encodings) }
    let plain = destination.request(for: step, at: order.endpoint)
    guard step.sharesFrame(world.bug) else { return start(order, step, plain) }
    let request = destination.compressedTogether(plain)
    if request.sharedFrame?.isShorter == true { checks.framed(order.id) }
    start(order, step, request)
  }

  /// As `UploadEngine` does: some steps take several requests.
  private func start(
    _ order: RequestOrder, _ step: DestinationStep, _ request: HTTPRequest, after earlier: [HTTPResponse] = []
  ) {
    let isAdmitted = admits(.send)
    guard isUp else { return }
    let life = life
    if let counter = request.sentBytes ?? (earlier.isEmpty ? nil : SentByteCounter()) {
      sentCounters[order.id] = (counter, request.body.byteCount, earlier.count)
    }
    network.start(order.id, request, isBroken: !isAdmitted) { [self] result in
      guard self.life == life else { return }
      sentCounters[order.id] = nil
      if world.bug == .loseCompletion, world.random.happens(0.02) { return }
      switch result {
      case .success(let response):
        let responses = earlier + [response]
        if responses.count <= Self.followUpsMax,
          let next = destination.followUp(of: step, after: responses, at: order.endpoint)
        {
          return start(order, step, next, after: responses)
        }
        completed(
          order, destination.outcome(of: step, responses: responses), destination.offers(in: response),
          request.sharedFrame)
      case .failure(let error):
        let outcome =
          earlier.isEmpty
          ? destination.outcome(of: step, lost: error)
          : destination.outcome(of: step, lost: error, after: earlier)
        completed(order, outcome)
      }
    }
  }

  /// As `UploadEngine` has it.
  private static let followUpsMax = 256

  private func completed(
    _ order: RequestOrder, _ outcome: StepOutcome, _ offers: DestinationOffers = DestinationOffers(),
    _ sharedFrame: SharedFrame? = nil
  ) {
    var outcome = outcome
    if world.bug == .releaseUnsecured, case .secureSession = order.order,
      case .held(let digests, _, _, _, _, _) = outcome
    {
      outcome = .held(digests: digests, isDurable: true)
    }
    if let lie, !world.isHealed, !outcome.isOfTransport {
      let isInTheMiddle = { [world] in world.random.happens(0.25) }
      outcome = lie.outcome(of: order.order, isInTheMiddle: isInTheMiddle) ?? outcome
    }
    world.trace("request \(order.id.value): \(outcome.brief)")
    checks.ended(order, outcome)
    publications.ended(order.id, outcome)
    if case .commit(let commit) = order.order {
      committed[commit.session.id] = commit.fileID
      // Also of a content that is no longer the file's.
      if case .published = outcome, let id = commit.fileID { capture.delivered(id) }
    }
    if case .querySession(let session) = order.order, case .published = outcome, let id = committed[session.id] {
      capture.delivered(id)
    }
    if case .published = outcome { for (file, _) in order.order.publications { waits?.published(file, self) } }
    checks.offered(offers)
    if world.bug == .ignoreEpochAtCommit, case .published(let receipt) = outcome { believe(receipt) }
    let isChunk = if case .chunk = order.order { outcome == .chunkStored } else { false }
    let again = isChunk && world.bug == .resendAcknowledged && world.random.happens(0.1) ? step(for: order.order) : nil
    if world.bug == .resendPublished, case .published = outcome {
      return forgetPublication(order)
    }
    if order.id.value < 1 << 60 {
      apply {
        $0.requestCompleted(
          order.id, outcome: outcome, connection: HTTPConnectionMetrics(), offers: offers, sharedFrame: sharedFrame,
          at: $1)
      }
    }
    if let again, isUp { start(extra(order), again) }
  }

  /// The planted mistake `resendPublished`.
  private func forgetPublication(_ order: RequestOrder) {
    let life = life
    let gone = StepOutcome.refused(StepFailure(.sessionGone, "the session is unknown"))
    world.time.after(.seconds(3)) { [self] in
      guard self.life == life else { return }
      apply { $0.requestCompleted(order.id, outcome: gone, connection: HTTPConnectionMetrics(), at: $1) }
    }
  }

  /// The planted mistake `ignoreEpochAtCommit`.
  private func believe(_ receipt: Receipt) {
    guard let file = capture.file(named: RelativePath(receipt.name)) else { return }
    var entry = CatalogEntry(
      id: file.id, path: RelativePath(receipt.name), inode: file.inode, sizeBytes: UInt64(file.bytes.count),
      modifiedNanoseconds: file.modifiedNanoseconds, revision: 1, state: .complete)
    entry.receipt = receipt
    storage.catalog[entry.id] = entry
    checkCatalog([entry])
  }

  private func step(for order: SendOrder) -> DestinationStep? {
    if world.bug == .chooseAgain, order.chunks?.chunks.contains(where: { $0.index == 0 }) == true { return nil }
    if world.bug == .releaseUnsecured, case .secureSession(let session) = order { return .querySession(session) }
    return order.mapped(opening: named, commit: named, chunk: sending, wholeFile: sending)
  }

  private func named(_ opening: SessionOpening) -> SessionOpening? {
    guard let name = names.name(of: opening.fileID, at: opening.path) else { return nil }
    firstPaths[opening.nonce] = firstPaths[opening.nonce] ?? opening.path
    var named = opening
    if destination.abilities.bindsNameAtOpening { named.right = right(of: opening.fileID, at: opening.path, to: name) }
    named.path = name
    return named
  }

  private func named(_ commit: SessionCommit) -> SessionCommit? {
    var named = commit
    if world.bug == .wrongChain { named.chainTip = Digest32(named.chainTip.bytes.reversed()) ?? named.chainTip }
    if world.bug == .publishUnderOldName { named.path = firstPaths[commit.session.nonce] ?? commit.path }
    guard let file = named.fileID else { return named }
    guard let name = names.name(of: file, at: named.path) else { return nil }
    named.right = right(of: file, at: named.path, to: name)
    named.path = name
    return named
  }

  private func sending(_ order: SessionChunk) -> ChunkSending? {
    guard let buffer = buffers[order.chunk.read] else { return nil }
    var sending = order.sending(buffer.plainBytes, buffer.encoding, buffer)
    sending.copied = destination.source(of: sending)
    return sending
  }

  private func sending(_ whole: WholeFileOrder) -> WholeFileSending? {
    guard let name = names.name(of: whole.file, at: whole.path) else { return nil }
    var buffer: SimulatedBuffer?
    if let read = whole.read {
      guard let found = buffers[read] else { return nil }
      buffer = found
    }
    var sending = WholeFileSending(
      fileID: whole.file, revision: whole.epoch, nonce: whole.nonce, path: name, digest: whole.digest,
      plainBytes: buffer?.plainBytes, encoding: buffer?.encoding ?? .identity, body: buffer,
      modifiedNanoseconds: whole.modifiedNanoseconds, mode: whole.mode, sentBytes: SentByteCounter())
    sending.right = right(of: whole.file, at: whole.path, to: name)
    sending.sharesFrame = whole.sharesFrame
    return sending
  }

  private func right(of file: FileID, at path: RelativePath, to name: RelativePath) -> NameRight? {
    publications.right(to: name, of: file, at: path, names.known)
  }

  private func attempts(of id: FileID) -> Int {
    schedule?.status(of: id, publishedName: { _ in "" }, at: world.time.clockReading)?.attempts ?? 0
  }

  func cancel(_ request: HTTPRequestID) {
    checks.cancelled(
      request,
      isWanted: { [self] in
        let state = explanation(of: $0).state
        return capture.file($0) != nil && state != .cancelled && state != .ignored
      })
    if world.bug != .dropCancels { network.cancel(request) }
  }

  func checkProgress() {
    network.countProgress()
    var sent = LookupTable(sentCounters.map { ($0.key, $0.value.counter.value) })
    switch world.bug {
    case .hideProgress: sent = [:]
    case .pretendAdvance:
      sent = LookupTable(sentCounters.map { ($0.key, ($0.key.value << 32) + $0.value.counter.value) })
    case .pretendProgress: sent = sent.mapValues { _ in UInt64(world.time.nanoseconds) }
    default: break
    }
    let bodies = LookupTable(
      sentCounters.compactMap { request, body in
        sent[request].map {
          (request, SentBody(bytes: $0, of: UInt64(clamping: body.byteCount), answered: body.answered))
        }
      })
    apply { $0.progressed(bodies, at: $1) }
  }
}

extension StepOutcome {
  /// No answer came that could be a lie.
  fileprivate var isOfTransport: Bool {
    if case .refused(let failure) = self, case .transport = failure.kind { true } else { false }
  }
}

extension DestinationStep {
  /// The encodings that a receiver has to decode, but for a frame around all of them.
  fileprivate var encodings: LookupSet<OfferedEncoding> {
    let encodings =
      switch self {
      case .chunk(let sending): [sending.encoding]
      case .wholeFile(let sending): [sending.encoding]
      case .bundle(let sendings): sendings.map(\.encoding)
      case .run(let sendings): sendings.map(\.encoding)
      default: [ChunkEncoding]()
      }
    return LookupSet(encodings.compactMap(\.offered))
  }

  /// As `UploadEngine` has it.
  fileprivate func sharesFrame(_ bug: PlantedBug?) -> Bool {
    guard case .bundle(let sendings) = self else { return false }
    return bug == .frameUnasked || sendings.allSatisfy(\.sharesFrame)
  }
}

extension ChunkEncoding {
  /// The encoding that a receiver has to offer for it; nil for plain bytes, which each takes.
  fileprivate var offered: OfferedEncoding? {
    switch self {
    case .identity: nil
    case .lz4: .lz4
    case .zstd: .zstd
    }
  }
}

extension SimulatedCapture.File {
  /// The bytes in this range, as far as there are any.
  fileprivate func piece(_ range: Range<Int>) -> [UInt8] {
    let end = min(range.upperBound, bytes.count)
    guard range.lowerBound < end else { return [] }
    pages.read(range.lowerBound..<end)
    return Array(shown[range.lowerBound..<end])
  }
}

extension ReadOrder {
  /// As `ChunkReader` checks it.
  fileprivate func isCurrent(_ capture: SimulatedCapture.File) -> Bool {
    guard !isOfGrowingFile else { return capture.stableEpoch(at: offset) == epoch }
    return capture.activity.epoch == epoch && capture.activity.mutationsInFlight == 0
  }
}

import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// The choice of the next file and request.
extension UploadSchedule {
  /// A settled file with a final name is to be delivered, from the beginning or again.
  mutating func makeReady(_ id: FileID, at now: ClockReading) {
    guard var file = files[id], file.isLocal, !file.phase.isRemoved else { return }
    if isBoundElsewhere(file) {
      leaveTransfer(&file)
      abortSession(&file, at: now)
    }
    // A content that is to be proven can be proven in its session alone.
    guard file.wantedSeal == nil || mayProve(file) else { return endProof(id, at: now) }
    if file.progress.delivered != nil {
      files[id] = file
      return beginComparing(id)
    }
    if catalog.claims.isSuperseded(id), catalog.claims.unconfirmedEntry(of: id) == nil {
      files[id] = file
      return awaitSuperseding(id)
    }
    // A file for which a session was opened may be empty at its end, and cannot be published from there.
    if file.snapshot.sizeBytes == 0, destination.abilities.needsChunks, !file.isWholeFile { leaveTransfer(&file) }
    if let transfer = file.transfer, !file.isWholeFile, needsLongerChunks(file, than: transfer.plan.chunkBytes) {
      leaveTransfer(&file)
    }
    let isResuming = file.transfer != nil
    file.becomeReady()
    if file.failures.rounds == 0 { probeSooner(at: now) }
    if mayHaveUnreadRecord(file) {
      files[id] = file
      return failForGood(id, recordUnreadable(of: file, at: now), at: now)
    }
    if let failure = tooLarge(file, at: now) {
      files[id] = file
      return failForGood(id, failure, at: now)
    }
    if !isResuming { prepareTransfer(&file, at: now) }
    file.turn.join(at: queues.virtualTime)
    // A file whose content is in memory alone goes first.
    let goesFirst = file.snapshot.diskErrno != nil
    if goesFirst { file.turn.joinFirst() }
    files[id] = file
    if isSmall(file) {
      queues.small.join(id, goesFirst: goesFirst)
    } else if file.isWholeFile, !file.isStreamed {
      queues.medium.join(id, goesFirst: goesFirst)
    } else {
      queues.large.join(id, goesFirst: goesFirst)
    }
    actions.append(.showStatus(id))
  }

  /// Decides how the present content travels and plans its chunks.
  private mutating func prepareTransfer(_ file: inout FileUpload, at now: ClockReading) {
    let size = file.snapshot.sizeBytes
    let fitsOneBuffer = wholeFileBytesMax > 0 && size <= UInt64(wholeFileBytesMax)
    let fitsOneRequest = fitsOneBuffer || destination.abilities.streamsWholeFiles
    // Only what was proven is published.
    let isToBeProven = file.wantedSeal != nil
    let hasSentChunks = file.session.map { !$0.held.isEmpty || $0.state == .unconfirmed } ?? false
    file.progress.planned()
    let isWhole =
      fitsOneRequest && !isToBeProven && !file.mustKeepSession
      && (!hasSentChunks || size == 0 && destination.abilities.needsChunks)
    file.content.plan(asWhole: isWhole, isStreamed: !fitsOneBuffer && destination.abilities.streamsWholeFiles)
    if isWhole {
      abortSession(&file, at: now)
      // A small file gets its transfer with its buffer: a hundred thousand may wait.
      if !isSmall(file) { file.content.begin(FileUpload.wholeTransfer(of: size)) }
      return
    }
    if let session = file.session, session.state == .wanted {
      // A session that was only wanted lent its nonce to a whole-file request, which another content must not share.
      file.session = nil
    }
    if let session = file.session, needsLongerChunks(file, than: session.chunkBytes) { abortSession(&file, at: now) }
    if file.session == nil { file.session = makeSession(for: file, at: now) }
    let chunkBytes = file.session?.chunkBytes ?? limits.chunkBytes
    file.content.begin(ChunkTransfer(plan: ChunkPlan(sizeBytes: size, chunkBytes: chunkBytes)))
  }

  /// The upload was opened for a shorter content, and for this one the server would have to take more chunks than it
  /// does. Not where parts are at the server alone, nor where longer ones cannot be sent.
  func needsLongerChunks(_ file: FileUpload, than chunkBytes: Int) -> Bool {
    guard file.publishing == nil, !file.mustKeepSession,
      !destination.abilities.takes(chunksOf: chunkBytes, forFileOf: file.snapshot.sizeBytes)
    else { return false }
    return newChunkBytes(for: file) > chunkBytes
  }

  /// Gives up the present content's transfer: what was read is released, requests in flight continue (their
  /// acknowledgements still show what the server holds).
  mutating func leaveTransfer(_ file: inout FileUpload) {
    file.content.endGrowth()
    guard let transfer = file.transfer else { return }
    for index in transfer.readIndices {
      if case .read(let read, _) = transfer.states[index] { release(read) }
    }
    file.content.end()
  }

  /// Sends whatever may be sent and reads whatever may be read.
  mutating func pump(at now: ClockReading) {
    admit()
    askForHoles()
    probeWithUntried(at: now)
    for id in queues.large.working {
      sendControl(id, at: now)
      sendZeros(id, at: now)
    }
    askForEarlyFiles(at: now)
    askForDurability(at: now)
    sendSmallFiles(at: now)
    sendChunks(at: now)
    readSmallFiles(at: now)
    while let id = nextFileToRead(), mayRead(from: id) { readChunk(of: id, isSmall: false, at: now) }
    while let id = nextFileToCompare(), mayRead(from: id) { readChunk(of: id, isSmall: false, at: now) }
    // A complete file comes first: a user may wait for it.
    while mayReadAny, let id = nextEarlyFileToRead(at: now), mayRead(from: id) {
      readChunk(of: id, isSmall: false, at: now)
    }
    // An empty file is ready without a read, and the last chunk that has just gone out is followed by its commit.
    sendSmallFiles(at: now)
    for id in queues.large.working { sendControl(id, at: now) }
    admit()
    // A file whose upload was restarted waits for this alone.
    askForHoles()
    abortDiscarded(at: now)
    planMemoryCheck(at: now)
    if !files.contradictions.isEmpty { sayContradictions() }
  }

  private var mayReadAny: Bool { pipeline.mayRead(1, inUse: memory.buffers.chunkBytesInUse) }

  /// There is memory for another chunk of the file.
  private func mayRead(from id: FileID) -> Bool {
    guard let plan = files.entry(id)?.file.transfer?.plan else { return false }
    return pipeline.mayRead(bufferBytes(for: plan), inUse: memory.buffers.chunkBytesInUse)
  }

  /// How many chunks may be in flight, and how many read ahead of them, as things are now.
  var pipeline: PrefetchPipeline {
    PrefetchPipeline(
      limits: limits, destinationParallelism: destination.abilities.parallelChunks, memory: memory.budget)
  }

  /// Sends chunks while allowed. The tier bounds the chunks of large files; the others are bound by the round trip,
  /// whatever the link carries.
  mutating func sendChunks(at now: ClockReading) {
    queues.passedOver.beginPass()
    while maySend(at: now), hasRoomOnLine(at: now),
      let (id, index) = nextChunkToSend(at: now) ?? nextEarlyChunkToSend(at: now),
      startsNow(isWholeFile: files.entry(id)?.file.isWholeFile ?? false, at: now)
    {
      guard !sendChunk(id, index, at: now) else { continue }
      queues.passedOver.insert(id)
      noteNotSent(id)
    }
  }

  private mutating func noteNotSent(_ id: FileID) {
    guard let path = files.entry(id)?.file.path, queues.passedOver.isToBeSaid(of: id) else { return }
    actions.append(.report(.notSent(id, path)))
  }

  /// True when one more request with bytes may go out now. When the ramp allows it only later, the timer is started.
  mutating func startsNow(isWholeFile: Bool, at now: ClockReading) -> Bool {
    let limit = requestsMax(forWholeFile: isWholeFile, at: now)
    guard let start = link.nextStart(limit: limit, at: now.monotonic) else { return false }
    if start <= now.monotonic { return true }
    timers.start(.ramp, at: start)
    return false
  }

  /// Fills the slots of files that are done, or wait.
  private mutating func admit() {
    let hasChanged = queues.hasChanged(since: files.readyChanges)
    if hasChanged || queues.medium.hasWaiting { admit(\.medium, asWholeFiles: true, hasChanged: hasChanged) }
    if hasChanged || queues.large.hasWaiting { admit(\.large, asWholeFiles: false, hasChanged: hasChanged) }
  }

  private mutating func admit(
    _ places: WritableKeyPath<TurnQueues, WorkSlots>, asWholeFiles: Bool, hasChanged: Bool
  ) {
    if hasChanged {
      for id in queues[keyPath: places].working where !isAtWork(id, asWholeFile: asWholeFiles) {
        queues[keyPath: places].leave(id, at: files.entry(id)?.file.turn.virtualTime ?? 0)
      }
    }
    while let id = queues[keyPath: places].popForFreePlace() {
      guard isAtWork(id, asWholeFile: asWholeFiles) else { continue }
      let time = queues[keyPath: places].handedOnTime
      files.update(id) { $0.takePosition(from: time) }
      queues[keyPath: places].take(id)
    }
  }

  private func isAtWork(_ id: FileID, asWholeFile: Bool) -> Bool {
    guard let file = files.entry(id)?.file else { return false }
    return file.phase == .ready && (file.isWholeFile && !file.isStreamed) == asWholeFile && !isSmall(file)
  }

  // MARK: - The gate

  /// True when a request may go out now; while the destination or its path is suspect, only one.
  func maySend(at now: ClockReading) -> Bool {
    destination.gate.maySend(at: now.monotonic) && !(destination.gate.isOpen && isTryingPath(at: now))
  }

  /// Sends a request, for one file, or for several that it names.
  @discardableResult
  mutating func send(
    _ order: SendOrder, for file: FileID? = nil, ending: SessionToEnd? = nil, byteCount: Int = 0,
    opensConnection: Bool = false, at now: ClockReading
  ) -> HTTPRequestID {
    let request = makeRequestID()
    let endpoint = destination.endpoints.choose(at: now.monotonic)
    let wholeFiles = order.wholeFiles
    var sent = InFlightRequest(order, for: file, sentAt: now.monotonic, endpoint: endpoint)
    sent.ending = ending
    sent.publishes = publications(of: order, file)
    sent.byteCount = byteCount
    sent.savedBytes = order.reads.reduce(0) { $0 + memory.buffers.saving(of: $1).bytes }
    if !wholeFiles.isEmpty {
      sent.carriesSmallFiles = wholeFiles.allSatisfy { files.entry($0.file).map { isSmall($0.file) } ?? false }
      if wholeFiles.contains(where: { $0.streamedBytes != nil }) {
        // Hours of one request say nothing about the speed between two answers.
        sent.byteCount = 0
        sent.streams = file
      }
    }
    requests.begin(sent, as: request)
    destination.gate.sent(request)
    tryPath(with: request, order, at: now)
    watch(request, sent, byteCount, at: now)
    actions.append(
      .send([
        RequestOrder(
          id: request, order: order, opensConnection: opensConnection, endpoint: endpoint,
          isAtMostOnce: order.isAtMostOnce(destination.abilities.atMostOnceScope))
      ]))
    return request
  }

  private mutating func watch(
    _ request: HTTPRequestID, _ sent: InFlightRequest, _ byteCount: Int, at now: ClockReading
  ) {
    switch sent.order {
    case .chunk, .run:
      guard let id = sent.file else { return }
      let retries = files[id]?.transfer?.retries
      let attempts = sent.chunkIndices.map { retries?[$0]?.attempts ?? 0 }.max() ?? 0
      watch(request, of: id, byteCount, attempts: attempts, at: now)
    case .wholeFile, .bundle:
      guard sent.streams == nil else { return watchStream(request, of: sent.file, byteCount, at: now) }
      let attempts = sent.order.wholeFiles.map { files.entry($0.file)?.file.failures.rounds ?? 0 }.max() ?? 0
      // The transport sees a body that stalls, and an answer that does not come.
      let isOnce = sent.order.isAtMostOnce(destination.abilities.repeatsLeaveCopies)
      watch(
        request, of: sent.file, byteCount, attempts: attempts,
        answerTime: isOnce ? HTTPRequestLimits.answerTime(forBodyOf: byteCount) + limits.timing.fileWatchdog : .zero,
        at: now)
    case .prewarm, .openSession, .querySession, .secureSession, .zeros, .commit, .abort: break
    }
  }
}

extension FileUpload {
  /// A slot is free, with the virtual time of the file that has left it. A file whose content is in memory alone goes
  /// before all others.
  fileprivate mutating func takePosition(from time: UInt64) {
    if snapshot.diskErrno == nil { turn.join(at: time) }
  }
}

import FileModel
import Integrity
import Lookup
package import TransferModel

/// Small files: read as soon as there is a buffer for them, and sent several in one request where the receiver takes that.
///
/// With no such request in flight a file goes at once, alone. While one is, others gather behind it, until it ends, or
/// there are many, or the first of them has waited for a moment: how many files travel together follows from how fast
/// they come.
extension UploadSchedule {
  /// A file that goes in one request.
  struct WholeFileTurn: Hashable, Sendable {
    var id: FileID
    var path: RelativePath
    var digest: ChunkDigest
    /// Nil when the file is empty.
    var read: ReadID?
  }

  /// Whether the file is small: many of them fit into the memory of one chunk.
  func isSmall(_ file: FileUpload) -> Bool {
    file.isWholeFile && file.snapshot.sizeBytes <= UInt64(limits.smallFileBytes)
  }

  /// Small buffers that may be in use now: when memory is short, reduced like the large ones.
  var smallBuffers: Int {
    max(2, limits.smallBuffers * memory.budget.chunksInFlight / MemoryBudget.full.chunksInFlight)
  }

  /// Reads waiting files, as far as there are buffers. A file that was opened again is passed over: it returns when it
  /// has settled.
  mutating func readSmallFiles(at now: ClockReading) {
    while memory.buffers.smallInUse < smallBuffers, let id = queues.small.popFirst() {
      guard let file = files.entry(id)?.file, file.phase == .ready, isSmall(file), !file.isOpen else { continue }
      let transfer = file.transfer ?? FileUpload.wholeTransfer(of: file.snapshot.sizeBytes)
      guard transfer.states.isEmpty || transfer.nextPending() != nil else { continue }
      files.update(id) {
        $0.turn.beginSmallWork()
        $0.content.begin(transfer)
      }
      if transfer.states.isEmpty { queues.small.becameReady(id) } else { readChunk(of: id, isSmall: true, at: now) }
    }
  }

  /// Sends the files whose bytes are read.
  mutating func sendSmallFiles(at now: ClockReading) {
    queues.small.beginGathering(at: now.monotonic)
    if !destination.gate.isOpen, maySend(at: now) { orderForATrial() }
    while !queues.small.ready.isEmpty, maySend(at: now), haveGathered(at: now), startsNow(isWholeFile: true, at: now) {
      let taken = takeSmallFiles(countMax: destination.gate.isOpen ? destination.sizes.filesPerRequest : 1, at: now)
      // Files that are passed over for now have their turn right after that.
      if !taken.isEmpty || !destination.isProbingWithUntried { queues.small.gatherAnew(at: now.monotonic) }
      let sharesFrame = shareFrame(taken, at: now)
      let ready = sharesFrame ? taken : withoutThoseReadForThemselves(taken, at: now)
      guard !ready.isEmpty else { return }
      sendWholeFiles(ready, sharesFrame: sharesFrame, at: now)
    }
  }

  /// Files that a trial prefers come first. The keys are computed beforehand: a closure would copy the schedule.
  private mutating func orderForATrial() {
    var keyed: [(order: UInt64, id: FileID)] = []
    keyed.reserveCapacity(queues.small.ready.count)
    for id in queues.small.ready { keyed.append((trialOrder(of: id), id)) }
    keyed.sort { $0.order < $1.order }
    queues.small.keepReady(keyed.map(\.id))
  }

  /// Small files have waited long enough for others; while they have not, the timer is started. However many there are,
  /// they leave most requests to larger files.
  private mutating func haveGathered(at now: ClockReading) -> Bool {
    let hasLargerOnes = !queues.medium.working.isEmpty || !queues.large.working.isEmpty
    guard destination.sizes.filesPerRequest > 1 else {
      return !hasLargerOnes || requests.smallCount < limits.parallelSmallRequests
    }
    if requests.smallCount == 0 { return true }
    guard requests.smallCount < limits.parallelSmallRequests, let since = queues.small.readySince else { return false }
    if queues.small.ready.count >= min(destination.sizes.filesPerRequest, UploadConstants.bundleFilesWanted) {
      return true
    }
    let due = since + UploadConstants.bundlePatience
    if due <= now.monotonic { return true }
    timers.start(.gathering, at: due)
    return false
  }

  /// The files of the next request. Some wait for a later one: their name is being published by another request, or an
  /// earlier content of theirs is.
  private mutating func takeSmallFiles(countMax: Int, at now: ClockReading) -> [WholeFileTurn] {
    var taken: [WholeFileTurn] = []
    var names: LookupSet<RelativePath> = []
    var rest: [FileID] = []
    var byteCount: UInt64 = 0
    let bytesMax = UInt64(
      min(UploadConstants.bundleBytesMax, link.tier.chunkBytes, destination.sizes.requestBytesMax, bundleBytes(at: now))
    )
    var isFull = false
    for id in queues.small.ready {
      guard let file = files.entry(id)?.file, file.phase == .ready, isSmall(file), let transfer = file.transfer else {
        continue
      }
      guard !file.isOpen else {
        // The file's buffer is not kept from others for as long as a program has the file open.
        putBack(id, transfer)
        continue
      }
      guard transfer.states.isEmpty || !transfer.readIndices.isEmpty else { continue }
      guard let turn = turn(of: file, transfer) else {
        rest.append(id)
        continue
      }
      byteCount += isFull ? 0 : file.snapshot.sizeBytes
      isFull = isFull || taken.count == countMax || !taken.isEmpty && (byteCount > bytesMax || file.turn.goesAlone)
      guard !isFull, file.publishing == nil, mayProbe(with: file), mayPublish(turn.path, of: file),
        names.insert(turn.path).inserted
      else {
        rest.append(id)
        continue
      }
      taken.append(turn)
      isFull = file.turn.goesAlone
    }
    queues.small.keepReady(rest)
    return taken
  }

  /// Nil when the file has no name to be published under.
  private func turn(of file: FileUpload, _ transfer: ChunkTransfer) -> WholeFileTurn? {
    guard let path = file.nextPath(limits) else { return nil }
    switch transfer.states.first {
    case nil: return WholeFileTurn(id: file.id, path: path, digest: CommitProof.emptyDigest, read: nil)
    case .read(let read, let digest): return WholeFileTurn(id: file.id, path: path, digest: digest, read: read)
    default: return nil
    }
  }

  private mutating func putBack(_ id: FileID, _ transfer: ChunkTransfer) {
    files.update(id) { $0.turn.endSmallWork() }
    guard case .read(let read, _)? = transfer.states.first else { return }
    transfer.set(.pending, at: 0)
    release(read)
  }

  /// Sends one request for one file or several.
  mutating func sendWholeFiles(_ turns: [WholeFileTurn], sharesFrame: Bool = false, at now: ClockReading) {
    var orders: [WholeFileOrder] = []
    var byteCount: UInt64 = 0
    var opensConnection = false
    for turn in turns {
      if files.entry(turn.id)?.file.session?.lostPaths.contains(turn.path) ?? true, let file = files[turn.id] {
        // The session is never opened: only its nonce is used, so that every attempt carries the same idempotency key.
        // Where another file may have been published after an earlier attempt, the answer to that is of no use.
        let session = makeSession(for: file, at: now)
        files.update(turn.id) { $0.session = session }
      }
      files.update(turn.id) { file in
        let epoch = file.snapshot.epoch
        file.session?.tries(turn.path, epoch: epoch)
      }
      guard let file = files.entry(turn.id)?.file else { continue }
      orders.append(
        WholeFileOrder(
          file: turn.id, epoch: file.snapshot.epoch, nonce: file.session?.nonce ?? [], path: turn.path,
          digest: turn.digest, read: turn.read, streamedBytes: file.isStreamed ? file.snapshot.sizeBytes : nil,
          modifiedNanoseconds: file.snapshot.modifiedNanoseconds, mode: file.snapshot.mode,
          sharesFrame: sharesFrame))
      byteCount += file.snapshot.sizeBytes
      opensConnection = opensConnection || file.turn.needsNewConnection
    }
    guard let first = orders.first else { return }
    let request = send(
      orders.count == 1 ? .wholeFile(first) : .bundle(orders), for: orders.count == 1 ? first.file : nil,
      byteCount: Int(clamping: byteCount), opensConnection: opensConnection, at: now)
    let isOnce = destination.abilities.atMostOnceScope != .nothing
    for order in orders {
      files.update(order.file) { file in
        file.publication.begin(
          FileUpload.Publishing(
            request: request, path: order.path, epoch: order.epoch, nonce: order.nonce, isOnce: isOnce))
        if let read = order.read { file.transfer?.set(.sending(request, read, order.digest), at: 0) }
        if order.streamedBytes != nil { file.transfer?.set(.streaming(request), at: 0) }
        file.progress.begin(at: now)
      }
      actions.append(.showStatus(order.file))
    }
  }

  /// A request with whole files has ended: each file gets its outcome.
  mutating func wholeFilesEnded(
    _ orders: [WholeFileOrder], _ request: HTTPRequestID, _ outcome: StepOutcome, _ connection: HTTPConnectionMetrics,
    _ frame: SharedFrame? = nil, at now: ClockReading
  ) {
    if orders.count > 1, case .refused(let failure) = outcome, failure.kind == .requestTooLarge {
      let byteCount = orders.reduce(0) { $0 + (files.entry($1.file)?.file.snapshot.sizeBytes ?? 0) }
      learnRequestLength(
        from: FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now),
        byteCount: Int(clamping: byteCount))
    }
    for (index, order) in orders.enumerated() {
      if let read = order.read {
        noteSaving(of: order.file, read, in: frame)
        release(read)
      }
      noteWarmth(order.file, connection)
      if orders.count > 1, outcome.refusesBundle {
        // The refusal does not name the file that caused it.
        files.update(order.file) { $0.turn.goAlone() }
        publicationEnded(
          order.file, request, .refused(StepFailure(.transport(.cancelled), "sent again alone")), at: now)
      } else {
        publicationEnded(order.file, request, outcome.ofMember(index, of: orders.count), at: now)
      }
      sendAgain(order.file)
    }
  }

  /// The encoding in which a file has travelled, should it turn out to be delivered.
  private mutating func noteSaving(of id: FileID, _ read: ReadID, in frame: SharedFrame?) {
    guard let file = files.entry(id)?.file else { return }
    let saving = memory.buffers.saving(of: read).joined(by: frame, ofBytes: Int(clamping: file.snapshot.sizeBytes))
    // An earlier attempt may have used another encoding.
    guard saving.bytes > 0 || file.progress.encoding != nil else { return }
    files.update(id) {
      $0.progress.travelled(in: saving.bytes > 0 ? saving.encoding : nil)
      $0.progress.saved(UInt64(saving.bytes))
    }
  }

  /// A file that is still to be sent returns to the queue.
  private mutating func sendAgain(_ id: FileID) {
    guard let file = files.entry(id)?.file, file.phase == .ready, isSmall(file), file.publishing == nil,
      let transfer = file.transfer, transfer.states.isEmpty || transfer.nextPending() != nil
    else { return }
    files.update(id) { $0.turn.endSmallWork() }
    queues.small.join(id)
  }
}

extension StepOutcome {
  /// A refusal of a request with several files that says nothing about each of them.
  fileprivate var refusesBundle: Bool {
    if case .refused(let failure) = self { failure.kind.refusesBundle } else { false }
  }

  /// The outcome of one file, or chunk, of a request with so many.
  package func ofMember(_ index: Int, of count: Int) -> StepOutcome {
    guard case .each(let outcomes) = self else { return self }
    guard outcomes.count == count else {
      return .refused(StepFailure(.unexpectedAnswer, "The receiver did not answer for all that a request carried."))
    }
    return outcomes[index]
  }
}

import FileModel
import Integrity
import Lookup
import OrderedCollections
import TransferModel

/// Answers to commits and whole files.
extension UploadSchedule {
  /// The commit waits for a chunk that will not be sent any more. A small content's one request has all that it needs.
  mutating func cancelCommit(of file: FileUpload) {
    guard let request = file.publishing?.request, let underway = requests[request],
      case .commit = underway.order
    else { return }
    requests.commit(request, lacksChunks: !(file.transfer?.isOnItsWay ?? false))
    endEarly(request, underway)
  }

  mutating func publicationEnded(
    _ id: FileID, _ request: HTTPRequestID, _ outcome: StepOutcome, at now: ClockReading
  ) {
    guard var file = files[id], let publishing = file.publishing, publishing.request == request else { return }
    file.publication.end()
    // The entry on the disk records that the result is unknown.
    if publishing.isOnce { actions.append(.record(id)) }
    switch outcome {
    case .published(let receipt):
      watchdog.acknowledged(id, at: now.monotonic)
      accept(receipt, publishing, of: &file, at: now)
      files[id] = file
      if file.phase == .ready, file.transfer == nil { makeReady(id, at: now) }
    case _ where file.isOutdated(publishing):
      // The file has continued with another content or in another session: the failure of that commit does not concern
      // it.
      files[id] = file
    case .incomplete(let missing) where !file.isWholeFile:
      commitFoundMissing(missing, of: &file, at: now)
    default:
      if case .refused(let failure) = outcome, failure.kind == .conflict, file.session?.isOpen == true {
        // The two sides see the session differently: ask before the next try, and read every chunk again.
        file.session?.doubt()
        leaveTransfer(&file)
      }
      if file.isWholeFile, let transfer = file.transfer, !transfer.states.isEmpty { transfer.set(.pending, at: 0) }
      files[id] = file
      if case .refused(let failure) = outcome, failure.kind == .requestTooLarge, file.isWholeFile {
        let byteCount = Int(clamping: file.snapshot.sizeBytes)
        return shortenRequests(of: id, after: failure, byteCount: byteCount, at: now)
      }
      if case .refused(let failure) = outcome, sendInSession(id, after: failure, at: now) { return }
      guard !file.isWholeFile else { return failed(id, outcome, at: now) }
      commitFailed(id, outcome, at: now)
    }
  }

  /// Chunks that were still in flight are no failure: the next commit follows them. Chunks that the server had
  /// acknowledged and denies are sent again, at once the first time; a server that continues to deny them is not asked
  /// for ever.
  private mutating func commitFoundMissing(_ missing: [Int], of file: inout FileUpload, at now: ClockReading) {
    guard let transfer = file.transfer else {
      files[file.id] = file
      return
    }
    transfer.commitsOnlyWhenDone = true
    var denied = 0
    for index in missing where transfer.deny(index) {
      file.session?.held.lose(index)
      denied += 1
    }
    files[file.id] = file
    guard denied > 0 || transfer.isDone else { return }
    let message = "The receiver lacks \(denied) chunks that it had acknowledged; they are sent again."
    setBack(
      file.id, by: FileStatus.Failure(code: "incomplete", message: message, at: now), isAtOnce: true, isLoss: true,
      wasSent: true, at: now)
  }

  /// A publication of the present content counts; one of an earlier content is a consistent older revision at the
  /// server, and the next one follows.
  private mutating func accept(
    _ receipt: Receipt, _ publishing: FileUpload.Publishing, of file: inout FileUpload, at now: ClockReading
  ) {
    if file.isWholeFile || file.session?.id == nil {
      totals.acknowledgedBytes += receipt.sizeBytes
      // Bytes that were counted while they were sent are not counted again.
      totals.rate.add(
        Int(clamping: receipt.sizeBytes - min(receipt.sizeBytes, file.progress.countedBytes)), at: now.monotonic)
    }
    let isSessionOver = file.session?.nonce == publishing.nonce
    // The record is removed after the catalog's entry is written: without either, a crash in between would have the
    // whole file sent again.
    let outdatedRecord = isSessionOver && file.session?.id != nil ? file.id : nil
    defer { if let outdatedRecord { actions.append(.removeResume(outdatedRecord)) } }
    if isSessionOver { file.session = nil }
    file.notePublication(publishing, at: now)
    guard file.phase == .ready || file.isWaiting, publishing.epoch == file.snapshot.epoch,
      !catalog.claims.isChanging(file.id)
    else {
      // The next content was settled before the answer came; what it had found in the session ends with it.
      if isSessionOver, !file.isWholeFile { leaveTransfer(&file) }
      return
    }
    if let transfer = file.transfer, !file.isWholeFile {
      // The tail's own acknowledgements may still be in flight; the receipt proves more than they can.
      totals.acknowledgedBytes += transfer.plan.sizeBytes - min(transfer.doneBytes, transfer.plan.sizeBytes)
    }
    let chunkBytes = chunkBytes(of: file)
    if !file.isWholeFile { file.progress.saved(savedBytes(ofPublished: file)) }
    leaveTransfer(&file)
    watchdog.uploadEnded(file.id)
    var receipt = receipt
    receipt.chunkBytes = chunkBytes
    let beganAt = file.progress.beganAt
    receipt.durationMilliseconds = beganAt.map { (now.monotonic - $0).wholeNanoseconds / 1_000_000 }
    let isNamed = file.snapshot.names.contains(publishing.path)
    file.publication.succeed(receipt, under: isNamed ? publishing.path : nil)
    file.progress.published()
    file.failures.published()
    file.copy.becameReadable()
    file.turn.connectionMoved()
    // The time is recorded with the receipt.
    if file.publication.completedAt == nil {
      file.publication.complete(at: now.wallMilliseconds, keptSince: steadyClock.milliseconds(at: now))
    }
    file.beginFinishing()
    actions.append(.record(file.id))
    actions.append(.showStatus(file.id))
  }

  /// The chunk length that a receipt's root is based on; nil of a stream, whose parts are the destination's.
  private func chunkBytes(of file: FileUpload) -> Int? {
    guard file.isWholeFile else { return file.transfer?.plan.chunkBytes }
    return file.isStreamed ? nil : max(1, Int(clamping: file.snapshot.sizeBytes))
  }

  /// The server had published the session before an earlier run could record it. If that was the present content under
  /// a name that the file has, it is delivered; false otherwise.
  mutating func acceptEarlierPublication(_ receipt: Receipt, of file: inout FileUpload, at now: ClockReading) -> Bool {
    guard receipt.sizeBytes == file.snapshot.sizeBytes, receipt.merkleRoot == file.progress.merkleRoot.map(Hex.encode),
      receipt.chainTip == file.progress.chainTip.map(Hex.encode), let path = path(of: file, publishedAs: receipt.name),
      let session = file.session, session.belongs(toEpoch: file.snapshot.epoch), !session.lostPaths.contains(path)
    else { return false }
    let publishing = FileUpload.Publishing(
      request: HTTPRequestID(0), path: path, epoch: file.snapshot.epoch, nonce: session.nonce)
    accept(receipt, publishing, of: &file, at: now)
    return true
  }

  /// What a session published is not the file's content. Where parts of that exist nowhere else, nothing more can be
  /// done; otherwise all of it is sent again.
  mutating func publishedOtherwise(_ id: FileID, as receipt: Receipt, at now: ClockReading) {
    guard var file = files[id] else { return }
    guard file.mustKeepSession else {
      let message = "The server has published the upload, perhaps with another content; the file is sent again."
      return restartSession(
        id, by: FileStatus.Failure(code: "published-otherwise", message: message, at: now), at: now)
    }
    // What was published has the parts, and nothing else does.
    leaveTransfer(&file)
    files[id] = file
    let message =
      "The disk was full and parts of the file were given up here. The server has published them as \(receipt.name), and "
      + "nothing shows that what is left here is the same: it was changed or renamed since, the power was cut, or the record "
      + "of the upload is lost. What was published stays; what is left here is kept in the spool."
    failForGood(id, FileStatus.Failure(code: "released-part-lost", message: message, at: now), at: now)
  }

  /// The file's name that was published; nil when the file has had another one since. Names are compared byte by byte.
  private func path(of file: FileUpload, publishedAs name: String) -> RelativePath? {
    file.snapshot.names.first { publishedName(file.id, $0)?.utf8.elementsEqual(name.utf8) == true }
  }
}

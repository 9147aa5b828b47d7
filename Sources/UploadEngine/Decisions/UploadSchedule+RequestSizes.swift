import FileModel
import TransferModel

/// How long requests may be: as long as the server, and any proxy before it, take them.
///
/// A proxy with a limit of its own refuses a request by its length and knows nothing of files. Its limit cannot be
/// queried. Each refusal halves the request length, for all files and until the end of the run, and the file continues
/// in shorter chunks.
extension UploadSchedule {
  /// A larger file goes in chunks.
  var wholeFileBytesMax: Int {
    min(
      destination.abilities.wholeFileBytesMax, destination.sizes.requestBytesMax, destination.sizes.wholeFileBytesMax,
      lineBytes)
  }

  /// A length of chunks, bounded by what is known to be taken and by what a file of this size needs.
  func chunkBytes(_ wanted: Int, forFileOf sizeBytes: UInt64?) -> Int {
    let taken = min(wanted, destination.sizes.requestBytesMax)
    let least = destination.abilities.chunkBytesLeast(forFileOf: sizeBytes)
    // A file that is too long for shorter chunks has chunks that are longer than a request otherwise is. A file that is
    // still being written may become so, and has them too, unless a setting gives their length.
    if destination.abilities.takesRuns {
      let hasLeast = sizeBytes != nil || limits.adaptsChunkBytes
      return max(min(limits.bufferBytes, taken), hasLeast ? least : 1)
    }
    return min(limits.bufferBytes, max(taken, least))
  }

  /// A request of so many bytes was refused for its length: the file is sent in shorter ones, or fails where no shorter
  /// ones are of use.
  mutating func shortenRequests(of id: FileID, after failure: StepFailure, byteCount: Int, at now: ClockReading) {
    guard var file = files[id] else { return }
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    let isShorter = learnRequestLength(from: shown, byteCount: byteCount)
    let size = file.isOpen ? nil : file.snapshot.sizeBytes
    let next = chunkBytes(limits.bufferBytes, forFileOf: size)
    guard isShorter, next < byteCount, !file.mustKeepSession else {
      // A later attempt may find that longer requests are taken.
      if file.session?.held.isEmpty ?? false, file.phase == .ready {
        leaveTransfer(&file)
        abortSession(&file, at: now)
        files[id] = file
      }
      return failForGood(id, shown.afterShortest(byteCount), at: now)
    }
    let isSetBack = file.session.map { !$0.held.isEmpty } ?? false
    leaveTransfer(&file)
    abortSession(&file, at: now)
    file.session = nil
    file.note(shown)
    files[id] = file
    switch file.phase {
    case .ready: makeReady(id, at: now)
    case .writing: planSession(id, at: now)
    default: break
    }
    // Chunks of this length were taken before: the present refusal may be withdrawn again.
    if isSetBack { setBack(id, by: shown, isAtOnce: true, wasSent: true, retryAfter: failure.retryAfter, at: now) }
    actions.append(.showStatus(id))
  }

  /// The destination itself reports a file as too large, and may mean its limit for one request. The file goes in a
  /// session, whose opening is refused where it does not. False where that is not tried.
  mutating func sendInSession(_ id: FileID, after failure: StepFailure, at now: ClockReading) -> Bool {
    guard case .tooLarge(let limit) = failure.kind, !destination.abilities.streamsWholeFiles, var file = files[id],
      file.isWholeFile,
      file.snapshot.sizeBytes > 0, limit.map({ $0 < file.snapshot.sizeBytes }) ?? true
    else { return false }
    destination.sizes.refuseWholeFiles(longerThan: Int(clamping: limit ?? file.snapshot.sizeBytes - 1))
    leaveTransfer(&file)
    abortSession(&file, at: now)
    file.session = nil
    files[id] = file
    if file.phase == .ready { makeReady(id, at: now) }
    return true
  }

  /// A request of so many bytes was refused for its length. False where shorter ones are not tried.
  @discardableResult
  mutating func learnRequestLength(from failure: FileStatus.Failure, byteCount: Int) -> Bool {
    switch destination.sizes.refuseRequest(of: byteCount, least: limits.requestBytesLeast) {
    case .known: break
    case .useless: return false
    case .to(let bytes): actions.append(.report(.requestsShortened(bytes: bytes, failure)))
    }
    return true
  }
}

extension FileStatus.Failure {
  /// The same failure, where no shorter request is of use.
  fileprivate func afterShortest(_ byteCount: Int) -> FileStatus.Failure {
    FileStatus.Failure(
      code: code, message: "\(message) A request of \(byteCount) bytes is the shortest that can be used for this file.",
      atMilliseconds: atMilliseconds)
  }
}

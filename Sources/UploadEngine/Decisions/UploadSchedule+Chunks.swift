import FileModel
import Integrity
import Lookup
import TransferModel

/// Chunks that were sent: acknowledged, or to be sent again.
extension UploadSchedule {
  mutating func chunkEnded(
    _ id: FileID, _ request: HTTPRequestID, _ chunk: ChunkOrder, _ session: String, _ outcome: StepOutcome,
    sentAt: MonotonicTime, at now: ClockReading
  ) {
    guard var file = files[id], file.session?.id == session else { return }
    let (index, digest) = (chunk.index, chunk.digest)
    file.session?.chunkEnded(index)
    // Of content that has changed since, the acknowledgement still shows what the server holds.
    let isCurrent = file.transfer?.isSending(request, at: index) ?? false
    files[id] = file
    guard outcome.isChunkStored else {
      if isCurrent {
        chunkFailed(id, index, StepFailure(outcome), sentAt: sentAt, at: now)
      } else if file.isPublishingOlderContent {
        cancelCommit(of: file)
      }
      return
    }
    if !isCurrent, isInFirstWriting(file), file.growth != nil, file.transfer?.digest(of: index) != digest {
      file.session?.held.report(digest, at: index)
    } else {
      file.session?.held.acknowledge(digest, at: index, token: outcome.chunkToken)
    }
    if case .querying = file.session?.state { file.session?.acknowledgedWhileAsked(chunk) }
    file.session?.acknowledgedUnrecorded()
    if let expiresAtSeconds = outcome.chunkExpiresAtSeconds { file.session?.expires(atSeconds: expiresAtSeconds) }
    if isCurrent {
      file.transfer?.set(.done(digest), at: index)
      if outcome.isChunkCopied {
        file.progress.chunkReused()
        totals.reusedChunks += 1
      } else {
        totals.acknowledgedBytes += UInt64(file.transfer?.plan.byteCount(of: index) ?? 0)
      }
    } else if let transfer = file.transfer, transfer.states.indices.contains(index),
      case .read(let read, digest) = transfer.states[index]
    {
      // The present content has the same bytes here, and only waited for this request to end.
      transfer.set(.done(digest), at: index)
      file.progress.chunkReused()
      totals.reusedChunks += 1
      release(read)
    }
    checkpointInTime(&file, at: now)
    files[id] = file
    progressed(id)
    if outcome.isChunkCopied { countFound(of: id) }
    allowMoreChunks(of: id)
    actions.append(.showStatus(id))
  }

  /// One chunk did not arrive. It has its own attempts and its own rests, and the others continue
  /// (docs/design/scheduling.md#failures). When requests that were sent after a failure fail as well, and nothing
  /// arrives in between, the whole file pauses.
  private mutating func chunkFailed(
    _ id: FileID, _ index: Int, _ failure: StepFailure, sentAt: MonotonicTime, at now: ClockReading
  ) {
    guard let file = files[id], let transfer = file.transfer else { return }
    files[id]?.progress.chunksRetried()
    totals.retriedChunks += 1
    if failure.kind == .requestTooLarge {
      transfer.set(.pending, at: index)
      return shortenRequests(of: id, after: failure, byteCount: transfer.plan.byteCount(of: index), at: now)
    }
    if failure.kind == .sequenceLost {
      forgetSequence(of: index, in: file, transfer)
      transfer.set(.pending, at: index)
      let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
      return setBack(id, by: shown, isAtOnce: true, isLoss: true, retryAfter: failure.retryAfter, at: now)
    }
    var retry = transfer.retries[index] ?? ChunkTransfer.Retry()
    guard case .retryStep = policy.verdict(on: failure.kind, attempts: retry.attempts + 1) else {
      transfer.set(.pending, at: index)
      failed(id, .refused(failure), at: now)
      return
    }
    retry.attempts += 1
    let isNewRound = file.failures.isAnotherRound(sentAt: sentAt)
    let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
    guard retry.attempts < policy.attemptsMax else {
      transfer.retries[index] = nil
      transfer.set(.pending, at: index)
      if file.session?.isOpen == true { files[id]?.session?.doubt() }
      setBack(
        id, by: shown, tries: policy.attemptsMax, canEnd: failure.kind.canEndFile, retryAfter: failure.retryAfter,
        sentAt: sentAt, at: now)
      return
    }
    rest(index, of: transfer, id, &retry, failure, isAwaited: file.publishing != nil, at: now)
    files[id]?.note(shown)
    actions.append(.showStatus(id))
    // Reported once for a file: on a lossy line chunk after chunk may go twice.
    if file.progress.retriedChunks == 0 { actions.append(.report(.chunkSentAgain(id, file.path, shown))) }
    guard isNewRound else { return }
    if file.failures.latestAt == nil {
      files[id]?.failures.roundFailed(at: now.monotonic)
    } else {
      pauseFile(id, failure: shown, retryAfter: failure.retryAfter, at: now)
    }
  }

  private mutating func rest(
    _ index: Int, of transfer: ChunkTransfer, _ id: FileID, _ retry: inout ChunkTransfer.Retry,
    _ failure: StepFailure, isAwaited: Bool, at now: ClockReading
  ) {
    let delay = policy.delay(
      before: retry.attempts, of: failure, after: retry.previousDelay, isAwaited: isAwaited, using: &random)
    if delay > .zero { retry.previousDelay = delay }
    transfer.retries[index] = retry
    let until = now.monotonic + delay
    transfer.set(delay > .zero ? .resting(until: until) : .pending, at: index)
    if delay > .zero { timers.insert(.chunk(id, index: index), at: until) }
  }

  /// A chunk's rest is over.
  mutating func endRest(of id: FileID, _ index: Int, at now: ClockReading) {
    guard let transfer = files[id]?.transfer, transfer.states.indices.contains(index),
      case .resting(let until) = transfer.states[index], until <= now.monotonic
    else { return }
    transfer.set(.pending, at: index)
  }
}

import FileModel
import OrderedCollections

/// The last chunks of a file whose connection is slow, while others have nothing left to send: they go again over a better one.
///
/// A watchdog gives up what does not move for ten seconds and more, because what was sent is lost with it. At a file's end the other
/// connections are free and known to be good, and a user waits for nothing else.
extension UploadSchedule {
  /// A request is not judged before it has had so long, and so long without a byte is long beside requests that were answered.
  private static let stragglerPatience: Duration = .seconds(2)
  /// Of a file the part that may be sent again for this.
  private static let stragglingPart: UInt64 = 50
  /// A stream that has less than this part of what one of as many equal ones would have is slow.
  private static let slowPart = 0.25

  /// Ends the requests that hang, after a look at how far all are.
  mutating func endStragglers(at now: Moment) {
    guard gate == .open, let bytesPerSecond = estimate.bytesPerSecond, bytesPerSecond > 0,
      chunkRequests < min(streamPlan.streams, pipeline.parallelism)
    else { return }
    for (request, underway) in requests {
      guard case .chunks(let id, let chunks, _) = underway.purpose, !underway.isGivenUp, !underway.isStraggler,
        hangs(request, underway, bytesPerSecond, at: now), let file = files.entry(id)?.file, isAtItsEnd(file),
        chunks.allSatisfy({ file.transfer?.isSending(request, at: $0.index) ?? false })
      else { continue }
      let bytes = file.progress.stragglingBytes + underway.byteCount
      guard UInt64(bytes) <= file.snapshot.sizeBytes / Self.stragglingPart else { continue }
      files.update(id) { $0.progress.stragglingBytes = bytes }
      requests[request]?.isStraggler = true
      actions.append(.report(.straggling(id, file.path)))
      actions.append(.cancel(request))
    }
  }

  /// Everything of it is at the server or on its way there. Chunks that follow each other have one connection.
  private func isAtItsEnd(_ file: FileUpload) -> Bool {
    guard file.phase == .ready, abilities.rows == .none else { return false }
    return file.transfer?.isOnItsWay ?? false
  }

  private func hangs(
    _ request: HTTPRequestID, _ underway: Underway, _ bytesPerSecond: Double, at now: Moment
  ) -> Bool {
    let age = now.monotonic - underway.sentAt
    // Another one has been answered meanwhile: the line is good.
    guard age >= Self.stragglerPatience, underway.sentBytes < UInt64(underway.byteCount),
      let answeredAt = chunkAnsweredAt, answeredAt > underway.sentAt
    else { return false }
    if let movedAt = watchdog.movedAt(request), answeredAt > movedAt,
      now.monotonic - movedAt >= Self.stragglerPatience
    {
      return true
    }
    let pace = Double(underway.sentBytes) / age.seconds
    let share = bytesPerSecond / Double(max(1, streamPlan.streams))
    let left = Double(underway.byteCount) - Double(underway.sentBytes)
    let again = 2 * Double(underway.byteCount) / bytesPerSecond + Self.stragglerPatience.seconds
    return pace < Self.slowPart * share && left > pace * again
  }

  /// A request that was ended so has ended. False for one that was faster, or has failed before.
  mutating func stragglerEnded(
    _ id: FileID, _ request: HTTPRequestID, _ underway: Underway, _ outcome: StepOutcome
  ) -> Bool {
    guard underway.isStraggler, case .refused(let failure) = outcome, failure.kind == .transport(.cancelled),
      case .chunks(_, let chunks, let session) = underway.purpose
    else { return false }
    files.update(id) { $0.progress.retriedChunks += chunks.count }
    retriedChunks += UInt64(chunks.count)
    giveBack(chunks, of: id, request, session)
    actions.append(.showStatus(id))
    return true
  }
}

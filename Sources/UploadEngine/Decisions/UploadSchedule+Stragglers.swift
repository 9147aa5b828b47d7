import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// The last chunks of a file whose connection is slow, while others have nothing left to send: they are sent again over
/// a better one.
///
/// A watchdog gives up a request that is stalled for ten seconds and more, because its bytes are lost with it. At a
/// file's end the other connections are free and known to be good, and a user waits for nothing else.
extension UploadSchedule {
  /// A request is judged only after this time, and a silence of this time is long beside answered requests. Twice as
  /// long with each time that a chunk of it was ended so: what waits behind a full buffer of the line waits there
  /// again.
  private static let stragglerPatience: Duration = .seconds(2)
  private static let doublingsMax = 6
  /// The part of a file that may be sent again for this; of a short file so many shortest chunks, or the requests of three streams that
  /// crawl at its end would have to be waited for.
  private static let stragglingPart: UInt64 = 20
  private static let stragglingChunksLeast = 16
  /// A stream with less than this part of its fair share for so long is slow.
  private static let slowPart = 0.5
  private static let crawlingTime: Duration = .seconds(1)

  /// Ends the requests that hang, after a progress check of all.
  mutating func endStragglers(at now: ClockReading) {
    guard destination.gate.isOpen, let bytesPerSecond = link.expectedBytesPerSecond(at: now.monotonic),
      bytesPerSecond > 0,
      link.inFlight < min(link.streams, pipeline.parallelism)
    else { return }
    for (request, underway) in requests {
      guard let id = underway.file, let chunks = underway.order.chunks?.chunks, !underway.isGivenUp,
        !underway.isStraggler,
        let file = files.entry(id)?.file, let transfer = file.transfer, isAtItsEnd(file),
        chunks.allSatisfy({ transfer.isSending(request, at: $0.index) }),
        hangs(request, underway, patience(with: chunks, of: transfer), bytesPerSecond, at: now)
      else { continue }
      let bytes = file.progress.stragglingBytes + underway.byteCount
      let bytesLeast = UInt64(Self.stragglingChunksLeast * limits.streamBytesLeast)
      guard UInt64(bytes) <= max(file.snapshot.sizeBytes / Self.stragglingPart, bytesLeast) else { continue }
      files.update(id) { $0.progress.straggled(bytes) }
      for chunk in chunks { transfer.timesHung[chunk.index, default: 0] += 1 }
      requests.endStraggler(request)
      actions.append(.report(.straggling(id, file.path)))
      actions.append(.cancel(request))
    }
  }

  /// Everything of the file is at the server or in flight. Chunks that follow each other have one connection.
  private func isAtItsEnd(_ file: FileUpload) -> Bool {
    guard file.phase == .ready, destination.abilities.appendSequences == .none else { return false }
    return file.transfer?.isOnItsWay ?? false
  }

  private func patience(with chunks: [ChunkOrder], of transfer: ChunkTransfer) -> Duration {
    let times = chunks.map { transfer.timesHung[$0.index] ?? 0 }.max() ?? 0
    return Self.stragglerPatience * (1 << min(times, Self.doublingsMax))
  }

  /// Another request has been answered meanwhile, so the line is good, and this one has not moved, or crawls.
  private mutating func hangs(
    _ request: HTTPRequestID, _ underway: InFlightRequest, _ patience: Duration, _ bytesPerSecond: Double,
    at now: ClockReading
  ) -> Bool {
    guard now.monotonic - underway.sentAt >= patience, underway.sentBytes < UInt64(underway.byteCount),
      let answeredAt = link.carriedAt, answeredAt > underway.sentAt
    else { return false }
    if let movedAt = watchdog.movedAt(request), answeredAt > movedAt,
      now.monotonic - movedAt >= patience
    {
      return true
    }
    return crawls(request, underway, patience, bytesPerSecond, at: now.monotonic)
  }

  /// On a line that has room the request has had little of it for a second, and takes longer so than anew. On a full line the others
  /// leave their shares to it when they end, and what it is sent again would wait behind it.
  private mutating func crawls(
    _ request: HTTPRequestID, _ underway: InFlightRequest, _ patience: Duration, _ bytesPerSecond: Double,
    at now: MonotonicTime
  ) -> Bool {
    guard link.isUnderused(at: now) else {
      requests.judge(request, from: nil)
      return false
    }
    guard let from = underway.judgedFrom else {
      requests.judge(request, from: now)
      return false
    }
    let time = now - from.time
    guard time >= Self.crawlingTime else { return false }
    let pace = Double(underway.sentBytes - from.sentBytes) / time.seconds
    let share = bytesPerSecond / Double(max(1, link.streams))
    let left = Double(underway.byteCount) - Double(underway.sentBytes)
    let again = 2 * Double(underway.byteCount) / bytesPerSecond + patience.seconds
    if pace < Self.slowPart * share, left > pace * again { return true }
    requests.judge(request, from: now)
    return false
  }

  /// A straggler that was ended has ended. False for a request that was faster, or has failed before.
  mutating func stragglerEnded(
    _ id: FileID, _ request: HTTPRequestID, _ underway: InFlightRequest, _ outcome: StepOutcome
  ) -> Bool {
    guard underway.isStraggler, case .refused(let failure) = outcome, failure.kind == .transport(.cancelled),
      let (session, chunks) = underway.order.chunks
    else { return false }
    sendAgain(chunks, of: id, request, session.id)
    return true
  }

  /// Chunks whose way went with a change of the network. They go out again at once, and no try of theirs has failed: that
  /// happens no more often than the network changes. False for other outcomes, and where only the server knows how much it has.
  mutating func pathWasLost(
    _ id: FileID, _ request: HTTPRequestID, _ underway: InFlightRequest, _ outcome: StepOutcome
  ) -> Bool {
    guard case .refused(let failure) = outcome, failure.kind == .transport(.pathLost), !underway.isGivenUp,
      destination.abilities.appendSequences == .none, let (session, chunks) = underway.order.chunks
    else { return false }
    sendAgain(chunks, of: id, request, session.id)
    return true
  }

  private mutating func sendAgain(
    _ chunks: [ChunkOrder], of id: FileID, _ request: HTTPRequestID, _ session: String
  ) {
    files.update(id) { $0.progress.chunksRetried(chunks.count) }
    totals.retriedChunks += UInt64(chunks.count)
    giveBack(chunks, of: id, request, session)
    actions.append(.showStatus(id))
  }
}

import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Several chunks of one session in one request (docs/protocol.md#a-run-of-chunks). Chunks are short, so that a broken
/// connection loses little, and requests are as long as the line needs.
extension UploadSchedule {
  /// The most chunks of one request; a server accepts that many (docs/protocol.md).
  private static let runChunksMax = 128
  /// For a longer file the list of what the server holds costs more than what a broken run may have delivered.
  private static let askedChunksMax = 20_000

  // MARK: - The line

  /// One more request with bytes of a larger file may go out.
  func hasRoomOnLine(at now: ClockReading) -> Bool {
    !limits.followsLine || link.hasRoom(beside: requestsAwaited(at: now), at: now.monotonic)
  }

  /// How many requests in flight have nothing to send and wait for their answers: others go out beside them.
  func requestsAwaited(at now: ClockReading) -> Int {
    limits.followsLine && destination.abilities.takesRuns ? link.requestsAwaited(at: now.monotonic) : 0
  }

  /// The most requests with bytes in flight when one with a whole file follows, or with chunks. A short file waits longer for its
  /// answer on a long line than it travels: with all of the streams that a program may have, as many more go out as wait. A setting
  /// that asks for fewer is kept. Chunks gain nothing there: a further connection is slow when the file ends.
  func requestsMax(forWholeFile isWholeFile: Bool, at now: ClockReading) -> Int {
    let most = pipeline.parallelism
    guard isWholeFile, most >= UploadConstants.maxParallelChunkUploads, limits.followsLine,
      destination.abilities.takesRuns
    else { return most }
    return most + min(link.filesAwaited(at: now.monotonic), UploadLimits.awaitedFilesMax)
  }

  /// What the line carries in two seconds: a file of so many bytes goes in one request, which a break loses as a whole.
  var lineBytes: Int {
    guard limits.followsLine, destination.abilities.takesRuns, destination.forms.runs != .none else { return .max }
    return link.twoSecondsBytes ?? UploadConstants.runChunkBytesMax
  }

  /// The most that one request carries of several small files.
  func bundleBytes(at now: ClockReading) -> Int {
    guard limits.followsLine else { return .max }
    return max(limits.smallFileBytes, link.bundleBytes(ofEachOf: limits.parallelSmallRequests, at: now.monotonic))
  }

  // MARK: - Chunks

  /// The chunk length of a new session whose requests carry several chunks. On a fast line chunks are long: each costs
  /// a digest, a MAC and a record. Nil is a size that is not known yet.
  func runChunkBytes(forFileOf sizeBytes: UInt64?) -> Int {
    let (least, most) = (UploadConstants.chunkBytesMin, UploadConstants.runChunkBytesMax)
    switch link.tier {
    case .fast, .ultrafast: return most
    case .slow where sizeBytes == nil, .unknown where sizeBytes == nil: return least
    case .slow, .normal, .unknown:
      guard let sizeBytes else { return most }
      return sizeBytes <= UploadConstants.shortChunkFileBytes ? least : most
    }
  }

  /// The chunks that go out together with this one of the same file.
  func run(from first: Int, of file: FileUpload, at now: ClockReading) -> [Int] {
    guard destination.abilities.takesRuns, case .upTo(let most) = destination.forms.runs, destination.gate.isOpen,
      !file.progress.setbacks.areRepeated,
      destination.forms.mayFormRuns(at: now.monotonic),
      let transfer = file.transfer, transfer.retries[first] == nil
    else { return [first] }
    let bytesMax = min(most, runBytes(of: file, transfer, at: now))
    let busy = file.session?.chunksInFlight ?? []
    let allowed = file.progress.chunksAllowed
    let countMax = min(Self.runChunksMax, allowed == 0 ? .max : max(1, allowed - busy.count))
    var run = [first]
    var bytes = transfer.plan.byteCount(of: first)
    // A chunk that has failed before goes alone: it may make a run fail.
    for index in transfer.readIndices
    where index != first && !busy.contains(index) && transfer.retries[index] == nil {
      bytes += transfer.plan.byteCount(of: index)
      guard bytes <= bytesMax, run.count < countMax else { break }
      run.append(index)
    }
    return run
  }

  /// How long a request is: what its stream carries in about two seconds. At the file's end half of its share of what
  /// is left: streams are not equally fast, and none should have much left when the others have nothing.
  private func runBytes(of file: FileUpload, _ transfer: ChunkTransfer, at now: ClockReading) -> Int {
    let streams = max(1, min(link.streams, pipeline.parallelism))
    let chunkBytes = transfer.plan.chunkBytes
    var bytes = min(limits.bufferBytes, link.tier.chunkBytes, destination.sizes.requestBytesMax)
    if limits.followsLine {
      bytes = min(bytes, link.requestBytes(ofEachOf: streams, chunkBytes: chunkBytes, at: now.monotonic))
    }
    guard file.phase == .ready else { return bytes }
    let left = transfer.states.count - transfer.doneCount - transfer.sendingCount
    return min(bytes, (left / (2 * streams) + 1).multipliedReportingOverflow(by: chunkBytes).partialValue)
  }

  // MARK: - Answers

  /// A request with chunks of a session has ended: each chunk gets its outcome.
  mutating func chunksEnded(
    _ id: FileID, _ request: HTTPRequestID, _ chunks: [ChunkOrder], _ session: String, _ outcome: StepOutcome,
    sentAt: MonotonicTime, at now: ClockReading
  ) {
    if chunks.count > 1, case .refused(let failure) = outcome {
      return runRefused(id, request, chunks, session, failure, sentAt: sentAt, at: now)
    }
    if chunks.count > 1, case .each(let outcomes) = outcome, outcomes.contains(where: \.isChunkStored) {
      destination.forms.runSucceeded()
    }
    for (position, chunk) in chunks.enumerated() {
      chunkEnded(
        id, request, chunk, session, outcome.ofMember(position, of: chunks.count), sentAt: sentAt, at: now)
    }
    // Once for all of them: after the first one the others would be neither in flight nor acknowledged, and count twice.
    if chunks.indices.contains(where: { outcome.ofMember($0, of: chunks.count).isChunkStored }) {
      countSent(of: id, at: now)
    }
  }

  /// A request with several chunks was refused as a whole, or has broken off: the server may have kept the chunks that
  /// arrived whole.
  private mutating func runRefused(
    _ id: FileID, _ request: HTTPRequestID, _ chunks: [ChunkOrder], _ session: String, _ failure: StepFailure,
    sentAt: MonotonicTime, at now: ClockReading
  ) {
    if failure.kind == .requestTooLarge {
      let shown = FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now)
      let plan = files[id]?.transfer?.plan
      learnRequestLength(from: shown, byteCount: chunks.reduce(0) { $0 + (plan?.byteCount(of: $1.index) ?? 0) })
      return giveBack(chunks, of: id, request, session)
    }
    destination.forms.runFailed(failure.kind, sentAt: sentAt, at: now.monotonic)
    // The refusal may concern the request and not the chunks, which a single chunk shows. An older receiver does not
    // know such a request, and answers as for a session that is gone.
    if failure.kind.refusesBundle, failure.kind != .conflict, failure.kind != .sessionDamaged {
      return giveBack(chunks, of: id, request, session)
    }
    if case .retryStep = policy.verdict(on: failure.kind, attempts: 1) {
      for chunk in chunks {
        chunkEnded(id, request, chunk, session, .refused(failure), sentAt: sentAt, at: now)
      }
    } else {
      giveBack(Array(chunks.dropFirst()), of: id, request, session)
      chunkEnded(id, request, chunks[0], session, .refused(failure), sentAt: sentAt, at: now)
    }
    guard failure.kind.leavesOpenWhatBecameOfIt || failure.kind == .busy, let file = files[id],
      file.session?.id == session, file.session?.isOpen == true,
      file.transfer.map({ $0.plan.count <= Self.askedChunksMax }) ?? false
    else { return }
    files[id]?.session?.doubt()
  }

  /// The chunks are sent again as if they had not been.
  mutating func giveBack(
    _ chunks: [ChunkOrder], of id: FileID, _ request: HTTPRequestID, _ session: String
  ) {
    guard var file = files[id], file.session?.id == session else { return }
    for chunk in chunks {
      file.session?.chunkEnded(chunk.index)
      if let transfer = file.transfer, transfer.isSending(request, at: chunk.index) {
        transfer.set(.pending, at: chunk.index)
      }
    }
    files[id] = file
    if file.isPublishingOlderContent { cancelCommit(of: file) }
  }
}

extension ChunkTransfer {
  /// The request carries the present bytes of this chunk.
  func isSending(_ request: HTTPRequestID, at index: Int) -> Bool {
    guard states.indices.contains(index), case .sending(request, _, _) = states[index] else { return false }
    return true
  }
}

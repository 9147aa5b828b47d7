import FileModel
import Lookup
import TransferModel

/// The order in which contents are published under one name. A receiver keeps the order in which requests reach it. At
/// another server what was sent first may be published last, and the name would show an outdated content. So a request
/// whose bytes may have been sent is waited for, whatever became of its file. One that has ended without an answer gets
/// the time that a server may still need for it; at a receiver the time that it may still be in transit.
extension UploadSchedule {
  /// No other publication that is, or may be, in flight can take effect under the name after this file's content.
  func mayPublish(_ path: RelativePath, of file: FileUpload) -> Bool {
    guard isFree(path, for: file) else { return false }
    return file.progress.formerPaths.allSatisfy { isFree($0, for: file) || !haveSamePublishedName($0, path, file.id) }
  }

  private func isFree(_ path: RelativePath, for file: FileUpload) -> Bool {
    guard !requests.isPublishing(path) else { return false }
    return requests.ambiguous.mayComeAlone(under: path, file.id, epoch: file.snapshot.epoch)
  }

  /// A template may give a file a new name that equals the former one. Where that is still undecided, it may.
  private func haveSamePublishedName(_ former: RelativePath, _ path: RelativePath, _ id: FileID) -> Bool {
    guard let formerName = publishedName(id, former) else { return false }
    return publishedName(id, path).map { $0 == formerName } ?? true
  }

  /// A file has lost all of its names but these. What was sent under the others may still be published.
  func loseNames(of file: inout FileUpload, keeping names: [RelativePath]) {
    file.session?.keeps(names)
    let lost = file.snapshot.names.filter { !names.contains($0) }
    let former = (file.progress.formerPaths + lost).filter {
      requests.isPublishing($0) || requests.ambiguous.mayCome(under: $0)
    }
    file.progress.loseNames(former)
  }

  /// The publications of a request that is sent for this file.
  func publications(of order: SendOrder, _ file: FileID?) -> [InFlightRequest.Publication] {
    // Loops and no closures: those would copy the schedule with each request.
    switch order {
    case .commit(let commit):
      guard let file = file.flatMap({ files.entry($0)?.file }) else { return [] }
      return [InFlightRequest.Publication(path: commit.path, file: file.id, epoch: file.snapshot.epoch, bodyBytes: 0)]
    case .wholeFile(let whole): return [publication(of: whole)]
    case .bundle(let members):
      var publications: [InFlightRequest.Publication] = []
      for member in members { publications.append(publication(of: member)) }
      return publications
    case .chunk(let one):
      guard let file = file.flatMap({ files.entry($0)?.file }),
        let publication = publication(ofChunk: one.chunk.index, of: file)
      else { return [] }
      return [publication]
    case .prewarm, .openSession, .querySession, .secureSession, .run, .zeros, .abort: return []
    }
  }

  /// Where chunks are appended to one upload of a declared length, its last byte publishes it.
  private func publication(ofChunk index: Int, of file: FileUpload) -> InFlightRequest.Publication? {
    guard destination.abilities.appendSequences == .one, file.phase == .ready, let transfer = file.transfer,
      index == transfer.plan.count - 1, let path = file.session?.boundPath ?? file.nextPath(limits)
    else { return nil }
    let bodyBytes = UInt64(transfer.plan.byteCount(of: index))
    return InFlightRequest.Publication(path: path, file: file.id, epoch: file.snapshot.epoch, bodyBytes: bodyBytes)
  }

  /// The chunk publishes nothing, or nothing else can be published under the name after it.
  func mayPublish(withChunk index: Int, of file: FileUpload) -> Bool {
    publication(ofChunk: index, of: file).map { mayPublish($0.path, of: file) } ?? true
  }

  private func publication(of whole: WholeFileOrder) -> InFlightRequest.Publication {
    let sizeBytes = files.entry(whole.file)?.file.snapshot.sizeBytes ?? 0
    return InFlightRequest.Publication(path: whole.path, file: whole.file, epoch: whole.epoch, bodyBytes: sizeBytes)
  }

  /// The request is no longer wanted.
  mutating func endEarly(_ request: HTTPRequestID, _ underway: InFlightRequest) {
    guard !underway.publishes.isEmpty else { return actions.append(.cancel(request)) }
    if case .commit = underway.order {
      // The request is little more than its head: it has been sent. A receiver lets it wait for chunks that may not
      // come any more.
      if destination.abilities.ordersPublications { actions.append(.cancel(request)) }
      return
    }
    let bodyBytes = underway.publishes.reduce(0) { $0 + $1.bodyBytes }
    actions.append(.cancelUnsent(request, bodyBytes: bodyBytes))
  }

  /// A request that publishes has ended.
  mutating func noteOrder(of underway: InFlightRequest, _ outcome: StepOutcome, at now: ClockReading) {
    guard !underway.publishes.isEmpty else { return }
    guard case .refused(let failure) = outcome, let patience = patience(after: failure.kind, underway) else { return }
    // A later attempt of the same content does not change this one.
    let until = now.monotonic + patience
    for publication in underway.publishes {
      doubt(publication.path, of: publication.file, epoch: publication.epoch, until: until)
    }
  }

  /// How long a request that has ended so may still be published; nil when it cannot.
  private func patience(after kind: StepFailure.Kind, _ underway: InFlightRequest) -> Duration? {
    guard destination.abilities.ordersPublications else {
      return kind.leavesOpenWhatBecameOfIt ? Self.publicationPatience : nil
    }
    switch kind {
    // The local kernel may continue to send the request for that long.
    case .transport(.timedOut), .transport(.stalled): return Self.publicationPatience
    case .transport(.cancelled):
      guard case .commit = underway.order, !underway.lacksChunks else { return nil }
      return Self.arrivalPatience
    default: return kind.leavesOpenWhatBecameOfIt ? Self.arrivalPatience : nil
    }
  }

  /// How long a server may take over a request that it has.
  private static let publicationPatience = UploadConstants.requestIdleTimeout
  /// How long a request may be in transit whose connection is gone.
  private static let arrivalPatience: Duration = .seconds(2)

  private mutating func doubt(_ path: RelativePath, of file: FileID, epoch: UInt64, until time: MonotonicTime) {
    requests.ambiguous.expect(file, epoch: epoch, under: path, until: time)
    timers.insert(.doubt, at: time)
  }

  /// A file was found that an earlier run may have been sending when it ended. Until that is over only its own content
  /// is published.
  mutating func noteEarlierRun(_ id: FileID, at now: ClockReading) {
    let patience = destination.abilities.ordersPublications ? Self.arrivalPatience : Self.publicationPatience
    let until = requests.ambiguous.noteEarlierRun(patience: patience, at: now.monotonic)
    guard until > now.monotonic, files.entry(id)?.file.receipt == nil else { return }
    files[id]?.origin.mayHaveBeenSent()
  }

  /// These names are no longer to show a content that an earlier run may have sent.
  mutating func doubtEarlierRun(_ file: FileUpload, of paths: [RelativePath], at now: ClockReading) {
    guard file.origin.isOfEarlierRun, let until = requests.ambiguous.earlierRunUntil, until > now.monotonic else {
      return
    }
    for path in paths where limits.publishes(path) { doubt(path, of: file.id, epoch: .max, until: until) }
  }

  /// Such a file is gone before it was found.
  mutating func doubtEarlierRun(_ entry: CatalogEntry, at now: ClockReading) {
    guard entry.state == .pending, limits.publishes(entry.path) else { return }
    let patience = destination.abilities.ordersPublications ? Self.arrivalPatience : Self.publicationPatience
    doubt(entry.path, of: entry.id, epoch: .max, until: now.monotonic + patience)
  }
}

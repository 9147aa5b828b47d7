import FileModel
import Lookup

/// The order in which contents are published under one name. A receiver keeps it by itself. Elsewhere what was sent first may be
/// published last, and the name would show what it no longer is: so a request whose bytes may be out is waited for, whatever
/// became of its file, and one that has ended without an answer is given the time that a server may still take over it.
extension UploadSchedule {
  /// What a request publishes.
  struct Publication: Hashable, Sendable {
    var path: RelativePath
    var file: FileID
    var epoch: UInt64
    /// The request carries them.
    var bodyBytes: UInt64
  }

  /// What may still come to be published, until then.
  struct Doubt: Hashable, Sendable {
    var file: FileID
    var epoch: UInt64
    var until: MonotonicTime
  }

  /// Nothing else that is under way, or may be, comes to be published under the name after this file's content.
  func mayPublish(_ path: RelativePath, of file: FileUpload) -> Bool {
    guard isFree(path, for: file) else { return false }
    return file.progress.formerPaths.allSatisfy { isFree($0, for: file) || !areCalledAlike($0, path, file.id) }
  }

  private func isFree(_ path: RelativePath, for file: FileUpload) -> Bool {
    guard !namesUnderWay.contains(path) else { return false }
    return doubts[path]?.allSatisfy { $0.file == file.id && $0.epoch == file.snapshot.epoch } ?? true
  }

  /// A template may call a file by a new name what it was called by the former one. Where that is still to be decided, it may.
  private func areCalledAlike(_ former: RelativePath, _ path: RelativePath, _ id: FileID) -> Bool {
    guard let formerName = publishedName(id, former) else { return false }
    return publishedName(id, path).map { $0 == formerName } ?? true
  }

  /// A file has lost all of its names but these. What was sent under the others may still come to be published.
  func loseNames(of file: inout FileUpload, keeping names: [RelativePath]) {
    file.session?.keeps(names)
    let lost = file.snapshot.names.filter { !names.contains($0) }
    let former = (file.progress.formerPaths + lost).filter { namesUnderWay.contains($0) || doubts[$0] != nil }
    if former != file.progress.formerPaths { file.progress.formerPaths = former }
  }

  func publications(of order: SendOrder, _ purpose: Purpose) -> [Publication] {
    switch order {
    case .commit(let commit):
      guard let file = purpose.file.flatMap({ files.entry($0)?.file }) else { return [] }
      return [Publication(path: commit.path, file: file.id, epoch: file.snapshot.epoch, bodyBytes: 0)]
    case .wholeFile(let whole): return [publication(of: whole)]
    case .bundle(let members): return members.map(publication)
    case .prewarm, .openSession, .querySession, .secureSession, .chunk, .abort: return []
    }
  }

  private func publication(of whole: WholeFileOrder) -> Publication {
    let sizeBytes = files.entry(whole.file)?.file.snapshot.sizeBytes ?? 0
    return Publication(path: whole.path, file: whole.file, epoch: whole.epoch, bodyBytes: sizeBytes)
  }

  /// What a request is for is no longer wanted.
  mutating func endEarly(_ request: HTTPRequestID, _ underway: Underway) {
    guard !abilities.ordersPublications, !underway.publishes.isEmpty else { return actions.append(.cancel(request)) }
    // A commit is little more than its head: it is out.
    guard case .wholeFiles = underway.purpose else { return }
    let bodyBytes = underway.publishes.reduce(0) { $0 + $1.bodyBytes }
    actions.append(.cancelUnsent(request, bodyBytes: bodyBytes))
  }

  /// A request that publishes has ended.
  mutating func noteOrder(of underway: Underway, _ outcome: StepOutcome, at now: Moment) {
    guard !underway.publishes.isEmpty else { return }
    namesUnderWay.subtract(underway.publishes.map(\.path))
    guard !abilities.ordersPublications, case .refused(let failure) = outcome, failure.kind.leavesOpenWhatBecameOfIt
    else { return }
    // A later try of the same content says nothing of this one.
    let until = now.monotonic + UploadConstants.requestIdleTimeout
    for publication in underway.publishes {
      var others = doubts[publication.path] ?? []
      others.removeAll { $0.file == publication.file && $0.epoch == publication.epoch }
      doubts[publication.path] = others + [Doubt(file: publication.file, epoch: publication.epoch, until: until)]
    }
    deadlines.insert(.doubt, at: until)
  }

  /// What has not been published by now will not be.
  mutating func endDoubts(at now: Moment) {
    doubts = doubts.mapValues { $0.filter { $0.until > now.monotonic } }.filter { !$1.isEmpty }
  }
}

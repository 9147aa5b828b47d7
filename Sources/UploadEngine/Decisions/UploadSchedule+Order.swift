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
    guard !namesUnderWay.contains(path) else { return false }
    return doubts[path]?.allSatisfy { $0.file == file.id && $0.epoch == file.snapshot.epoch } ?? true
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

extension StepFailure.Kind {
  /// The server may have all of the request, and may be at it still.
  fileprivate var leavesOpenWhatBecameOfIt: Bool {
    switch self {
    case .serverError, .misdirected, .unexpectedAnswer, .unclearEnd: true
    case .transport(let kind):
      switch kind {
      case .timedOut, .stalled, .connectionLost, .protocolViolation, .other: true
      case .unknownHost, .connectFailed, .proxyFailed, .tlsFailed, .certificateRefused, .answeredEarly, .cancelled,
        .bodyUnavailable, .overloaded, .stopped:
        false
      }
    case .unauthorized, .forbidden, .sessionGone, .sessionDamaged, .rowLost, .notReplaceable, .conflict, .tooLarge,
      .requestTooLarge,
      .digestMismatch,
      .tagMismatch, .nameRefused, .badRequest, .addressRefused, .tooEarly, .busy, .insufficientStorage:
      false
    }
  }
}

import FileModel
import TransferModel

/// Contents of one file in quick succession, as when a logger opens, appends and closes. Each of them would be sent as
/// a whole, and most would be outdated when they arrive (docs/semantics.md, S33c).
extension UploadSchedule {
  /// Until when a settled content waits for those that may follow it; nil where it is sent at once. Publications of a
  /// file take at most one part in so many of the time, and none waits longer than
  /// ``UploadConstants/successionPauseMax``.
  func pauseInSuccession(of file: FileUpload, at now: ClockReading) -> MonotonicTime? {
    guard let latest = file.progress.latest, !isDraining, file.failures.rounds == 0, file.receipt == nil,
      // What is in memory alone goes first, and so does what a call waits for.
      file.snapshot.diskErrno == nil, !waitsForDelivery(of: file)
    else { return nil }
    let pause = min(UploadConstants.successionPauseMax, latest.took * UploadConstants.successionPauseFactor)
    let until = latest.endedAt + pause
    return until > now.monotonic ? until : nil
  }

  /// A settled content waits for others. Should one follow, its turn comes at the same time.
  mutating func waitInSuccession(_ file: inout FileUpload, until: MonotonicTime) {
    file.wait(until: until)
    file.turn.endSmallWork()
    timers.insert(.file(file.id), at: until)
    actions.append(.showStatus(file.id))
  }

  /// No other content will follow.
  mutating func endSuccessions(at now: ClockReading) {
    let waiting = files.values.filter(\.isInSuccession).map(\.id)
    for id in waiting { makeReady(id, at: now) }
  }

  private func waitsForDelivery(of file: FileUpload) -> Bool {
    file.snapshot.names.contains { limits.rules.settings(for: $0).waits }
  }
}

extension FileUpload {
  /// What the next publication of the same file has to know of the latest one.
  struct LatestPublication: Hashable, Sendable {
    var endedAt: MonotonicTime
    /// The duration from the first byte that was sent.
    var took: Duration
  }

  /// The duration is only known of the first publication of the present content, where nothing failed and none of it
  /// was sent in an earlier run.
  mutating func notePublication(_ publishing: Publishing, at now: ClockReading) {
    var took = progress.latest?.took ?? .zero
    if publishing.epoch == snapshot.epoch, publishedPaths.isEmpty, failures.rounds == 0, let beganAt = progress.beganAt
    {
      took = now.monotonic - beganAt
    }
    progress.publicationEnded(LatestPublication(endedAt: now.monotonic, took: took))
  }

  /// It waits for what may follow it, and not for a failure to pass.
  var isInSuccession: Bool { isWaiting && failures.rounds == 0 && lastFailure == nil }
}

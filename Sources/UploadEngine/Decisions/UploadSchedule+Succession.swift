import FileModel

/// Contents of one file that follow each other in quick succession, as where a logger opens, appends and closes: each of them would
/// be sent as a whole, and most would be out of date before they are there (spec H2).
extension UploadSchedule {
  /// Until when a settled content waits for those that may follow it; nil where it goes out at once. Publications of a file take no
  /// more than one part in so many of the time, and none waits for longer than ``UploadConstants/successionPauseMax``.
  func pauseInSuccession(of file: FileUpload, at now: ClockReading) -> MonotonicTime? {
    guard let latest = file.progress.latest, !isDraining, file.failures.rounds == 0, file.receipt == nil,
      // What is in memory alone goes first, and so does what a call waits for.
      file.snapshot.diskErrno == nil, !waitsForDelivery(of: file)
    else { return nil }
    let pause = min(UploadConstants.successionPauseMax, latest.took * UploadConstants.successionPauseFactor)
    let until = latest.endedAt + pause
    return until > now.monotonic ? until : nil
  }

  /// A settled content waits for others. Should one follow, that one's turn comes at the same time.
  mutating func waitInSuccession(_ file: inout FileUpload, until: MonotonicTime) {
    file.wait(until: until)
    file.isSmallAtWork = false
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
  /// A publication, as far as the next one of the same file has to know it.
  struct LatestPublication: Hashable, Sendable {
    var endedAt: MonotonicTime
    /// From the first byte that went out.
    var took: Duration
  }

  /// How long it took is only known of the first publication of the present content, where nothing failed and none of it went out
  /// in an earlier run.
  mutating func notePublication(_ publishing: Publishing, at now: ClockReading) {
    var took = progress.latest?.took ?? .zero
    if publishing.epoch == snapshot.epoch, publishedPaths.isEmpty, failures.rounds == 0, let beganAt = progress.beganAt {
      took = now.monotonic - beganAt
    }
    progress.latest = LatestPublication(endedAt: now.monotonic, took: took)
  }

  /// It waits for what may follow it, and not for a failure to pass.
  var isInSuccession: Bool { isWaiting && failures.rounds == 0 && lastFailure == nil }
}

public import FileModel
public import TransferModel

/// Files that the destination does not take for their size (docs/semantics.md, S29). A recording cannot be repeated, so one that
/// outgrows the limit continues: that is reported at once, and nothing more of it is sent.
extension UploadSchedule {
  private static let tooLargeCode = StepFailure.Kind.tooLarge(limitBytes: nil).code

  /// The largest file that the destination takes; nil when it does not report that.
  var fileBytesMax: UInt64? {
    [destination.abilities.fileBytesMax, destination.sizes.fileBytesMax].compactMap { $0 }.min()
  }

  /// The destination's limits; the latest answer counts. A file that was too large and no longer is gets delivered.
  public mutating func learn(
    _ stated: DestinationLimits, _ offers: DestinationOffers = DestinationOffers(), at now: ClockReading
  ) {
    destination.sizes.learn(stated)
    learn(offers, at: now)
    for id in openFiles.open { noteSize(of: id, at: now) }
    for id in Array(files.failed) {
      guard let file = files[id], file.lastFailure?.code == Self.tooLargeCode, !isTooLarge(file) else { continue }
      retry(id, at: now)
    }
    pump(at: now)
  }

  /// A user reports that there is more room now: the destination is asked, and decides until it has answered.
  mutating func forgetLimits(for file: FileUpload, at now: ClockReading) {
    guard file.lastFailure?.code == Self.tooLargeCode else { return }
    destination.sizes.forgetFileBytesMax()
    askForLimits(at: now)
  }

  /// The largest size at which the file can be delivered from here.
  public func sizeLimit(of id: FileID) -> SizeLimit {
    guard let limit = fileBytesMax else { return .none }
    switch files.entry(id)?.file.phase {
    case .ignored, .routedElsewhere, .removed: return .notDelivered
    case .writing, .held, .interrupted, .ready, .waiting, .finishing, .complete, .failed, .cancelled:
      return .bytes(limit)
    case nil: return limits.rules.asker == nil ? .bytes(limit) : .notDelivered
    }
  }

  /// The size of an incomplete file may have changed.
  mutating func noteSize(of id: FileID, at now: ClockReading) {
    guard let file = files.entry(id)?.file, file.phase == .writing || file.phase == .held else { return }
    let isOver = isTooLarge(file)
    guard isOver != (file.lastFailure?.code == Self.tooLargeCode) else { return }
    isOver ? outgrew(id, at: now) : fitsAgain(id, at: now)
  }

  /// A file of this size is not taken.
  func isTooLarge(_ file: FileUpload) -> Bool {
    fileBytesMax.map { file.snapshot.sizeBytes > $0 } ?? false
  }

  private mutating func outgrew(_ id: FileID, at now: ClockReading) {
    guard var file = files[id], let limit = fileBytesMax else { return }
    let failure = FileStatus.Failure(
      code: Self.tooLargeCode,
      message: "The file has outgrown what the destination takes (\(limit) bytes): it is recorded on, and stays in the "
        + "spool. Raise the limit there and here, and then use `uploadfs-mount retry`.", at: now)
    if file.growth != nil || file.phase == .held {
      leaveTransfer(&file)
      file.progress.leaveForTheEnd()
    }
    file.note(failure)
    files[id] = file
    totals.outgrownFiles += 1
    actions.append(.showStatus(id))
    actions.append(.report(.outgrown(id, file.path, failure)))
  }

  private mutating func fitsAgain(_ id: FileID, at now: ClockReading) {
    files[id]?.forgetFailure()
    actions.append(.showStatus(id))
  }

  /// The destination is known to refuse a file of this size; an attempt would cost all of its bytes.
  func tooLarge(_ file: FileUpload, at now: ClockReading) -> FileStatus.Failure? {
    guard let limit = fileBytesMax, isTooLarge(file) else { return nil }
    let hasSent = file.session.map { !$0.held.isEmpty } ?? false
    return FileStatus.Failure(
      code: Self.tooLargeCode,
      message: "The file has \(file.snapshot.sizeBytes) bytes, and the destination takes no more than \(limit); "
        + (hasSent ? "nothing more is sent of it." : "nothing was sent.")
        + " Raise the limit there and here, and then use `uploadfs-mount retry`.", at: now)
  }

  /// Asks for the destination's limits: at the start, and when a file is opened, but not at each of a burst.
  public mutating func askForLimits(at now: ClockReading) {
    let rest: Duration = totals.outgrownFiles > 0 ? .seconds(1) : UploadConstants.keepAliveInterval
    guard limits.asksForLimits, destination.sizes.ask(after: rest, at: now.monotonic) else { return }
    actions.append(.askForLimits(makeRequestID()))
  }
}

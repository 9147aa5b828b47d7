public import FileModel
import Lookup

/// One file at a time (spec E6): what its user wants of it.
extension UploadSchedule {
  /// Obeys a word, or says why not. What is refused changes nothing.
  @discardableResult
  public mutating func execute(_ command: FileCommand, _ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    switch command {
    case .retry: retry(id, at: now)
    case .resend: resend(id, at: now)
    case .cancel: cancel(id, at: now)
    case .publish: publish(id, at: now)
    }
  }

  /// Nobody wants the file delivered: it stays in the spool, and is delivered after all when it changes or when somebody asks
  /// for it. What has been delivered already stays delivered.
  @discardableResult
  public mutating func cancel(_ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    defer { pump(at: now) }
    guard var file = files[id], file.isLocal else { return .unknownFile }
    switch file.phase {
    case .failed where file.isUnrecorded: return .doesNotApply
    // Nothing of it is sent, and it has to be known for what it is.
    case _ where catalog.claims.unconfirmedEntry(of: id)?.mayBeLeft(in: file.snapshot) == true: return .doesNotApply
    case .interrupted where deliveryOfRemains(file) != nil: return .doesNotApply
    case .ready where file.progress.delivered != nil: return .doesNotApply
    case .writing, .held, .interrupted, .ready, .waiting, .failed: break
    case .cancelled: return .obeyed
    case .routedElsewhere: return .goesElsewhere
    case .ignored, .finishing, .complete: return .doesNotApply
    case .removed: return .unknownFile
    }
    giveUp(&file, keepsParts: true, at: now)
    catalog.claims.forgetUnconfirmed(id)
    let message =
      "The upload was cancelled. The file is kept in the spool; `uploadfs-mount retry` delivers it after all."
    file.cancel(FileStatus.Failure(code: FileUpload.cancelledCode, message: message, at: now))
    file.failures.ended()
    file.progress.userRequest = nil
    settleLostPlaces(of: &file)
    files[id] = file
    if !file.lacksParts { actions.append(.removeResume(id)) }
    actions.append(.record(id))
    actions.append(.showStatus(id))
    return .obeyed
  }

  /// Tries one file again that has failed, waits or was cancelled, at once. What is on its way, or delivered, needs no help.
  @discardableResult
  public mutating func retry(_ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    defer { pump(at: now) }
    guard let file = files[id], file.isLocal else { return .unknownFile }
    switch file.phase {
    // No try brings back what this copy lacks.
    case .failed where catalog.claims.unconfirmedEntry(of: id)?.mayBeLeft(in: file.snapshot) == true:
      return .doesNotApply
    case .failed where file.isUnrecorded:
      // The destination has it.
      files.update(id) { file in
        file.beginFinishing()
        file.lastFailure = nil
      }
      actions.append(.record(id))
      actions.append(.showStatus(id))
      return .obeyed
    case .failed, .waiting, .cancelled: break
    case .ready:
      files.update(id) { file in
        file.transfer?.endRests()
        file.progress.setbacks = Setbacks()
      }
      tryDestinationNow(at: now)
      return .obeyed
    case .writing, .finishing, .complete: return .obeyed
    case .routedElsewhere: return .goesElsewhere
    case .held, .ignored, .interrupted: return .doesNotApply
    case .removed: return .unknownFile
    }
    files[id]?.progress.setbacks = Setbacks()
    forgetLimits(for: file, at: now)
    tryDestinationNow(at: now)
    if file.isOpen {
      files[id]?.beginWriting()
      actions.append(.record(id))
      actions.append(.showStatus(id))
    } else {
      // It waits for no other content of its file.
      files[id]?.progress.latest = nil
      settleName(id, at: now)
    }
    return .obeyed
  }

  /// The server has lost what it had acknowledged: what lies in the spool is delivered again, under the same name. What is not delivered
  /// is tried again now.
  @discardableResult
  public mutating func resend(_ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    guard let file = files[id], file.isLocal else { return .unknownFile }
    guard file.phase == .complete else { return retry(id, at: now) }
    defer { pump(at: now) }
    guard deliverAgain(id, at: now) else { return .doesNotApply }
    tryDestinationNow(at: now)
    return .obeyed
  }

  /// What may be no more than a disk has left of it is compared with its receipt before: a server that has lost the whole is to get
  /// nothing less. False where it has by now only names under which nothing is published: it stays delivered.
  mutating func deliverAgain(_ id: FileID, at now: ClockReading) -> Bool {
    guard var file = files[id] else { return false }
    let published = file.publishedPaths
    let entry = file.snapshot.mayBeRemains && file.snapshot.sizeBytes > 0 ? catalogEntry(of: id) : nil
    file.receipt = nil
    file.publishedPaths = []
    file.completedAt = nil
    file.keptSince = nil
    file.failures.progressed()
    file.progress = FileUpload.Progress()
    if file.nextPath(limits) == nil {
      // A user has had it published under a temporary name.
      guard let name = file.snapshot.names.first(where: { published.contains($0) }) else { return false }
      file.progress.userRequest = .named(name)
    }
    catalog.claims.forgetUnconfirmed(id)
    if let entry { findUnproven(&file, of: entry, isToResend: true) }
    files[id] = file
    settleName(id, at: now)
    return true
  }

  /// Publishes as it is what is held back: a file that its writer did not finish, or one under a temporary name.
  @discardableResult
  public mutating func publish(_ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    defer { pump(at: now) }
    guard var file = files[id], file.isLocal else { return .unknownFile }
    switch file.phase {
    // What it is like is not known, and what is not known is not published.
    case .interrupted where file.snapshot.interruption?.isOfSpool == true: return .doesNotApply
    // A whole was delivered, and this may be zeros.
    case .interrupted where deliveryOfRemains(file) != nil: return .doesNotApply
    case .held, .interrupted: break
    case .routedElsewhere: return .goesElsewhere
    case .writing, .ignored, .ready, .waiting, .finishing, .complete, .failed, .cancelled: return .doesNotApply
    case .removed: return .unknownFile
    }
    file.progress.userRequest = .asIs
    if file.nextPath(limits) == nil, let name = file.snapshot.names.first {
      file.progress.userRequest = .named(name)
    }
    files[id] = file
    if file.phase == .interrupted { accept(id, at: now) } else { settleName(id, at: now) }
    return .obeyed
  }

  /// A destination that is away is asked again without waiting for its turn, and what bounded its requests may have gone.
  private mutating func tryDestinationNow(at now: ClockReading) {
    destination.sizes.forgetRequestBytesMax()
    destination.gate.endPause(at: now.monotonic)
  }
}

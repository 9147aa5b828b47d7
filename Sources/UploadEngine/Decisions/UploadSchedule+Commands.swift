public import FileModel
import Lookup
public import TransferModel

/// A user's commands for one file at a time (docs/semantics.md, S77).
extension UploadSchedule {
  /// Carries out a command, or returns why not. A refused command changes nothing.
  @discardableResult
  public mutating func execute(_ command: FileCommand, _ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    switch command {
    case .retry: retry(id, at: now)
    case .resend: resend(id, at: now)
    case .cancel: cancel(id, at: now)
    case .publish: publish(id, at: now)
    }
  }

  /// A user cancels the delivery: the file stays in the spool, and is delivered after all when it changes or when a
  /// user asks for it. What was delivered already stays delivered.
  @discardableResult
  public mutating func cancel(_ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    defer { pump(at: now) }
    guard var file = files[id], file.isLocal else { return .unknownFile }
    switch file.phase {
    case .failed where file.isUnrecorded: return .doesNotApply
    // Nothing of the file is sent, and its content has to be known first.
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
    file.progress.dropRequest()
    settleLostPlaces(of: &file)
    files[id] = file
    if !file.lacksParts { actions.append(.removeResume(id)) }
    actions.append(.record(id))
    actions.append(.showStatus(id))
    return .obeyed
  }

  /// Tries one file again that has failed, waits or was cancelled, at once. A file that is in progress or delivered
  /// needs no command.
  @discardableResult
  public mutating func retry(_ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    defer { pump(at: now) }
    guard let file = files[id], file.isLocal else { return .unknownFile }
    switch file.phase {
    // No retry restores what this copy lacks.
    case .failed where catalog.claims.unconfirmedEntry(of: id)?.mayBeLeft(in: file.snapshot) == true:
      return .doesNotApply
    case .failed where file.isUnrecorded:
      // The destination has the file.
      files.update(id) { file in
        file.beginFinishing()
        file.forgetFailure()
      }
      actions.append(.record(id))
      actions.append(.showStatus(id))
      return .obeyed
    case .failed, .waiting, .cancelled: break
    case .ready:
      files.update(id) { file in
        file.transfer?.endRests()
        file.progress.setbacks.ended()
      }
      tryDestinationNow(at: now)
      return .obeyed
    case .writing, .finishing, .complete: return .obeyed
    case .routedElsewhere: return .goesElsewhere
    case .held, .ignored, .interrupted: return .doesNotApply
    case .removed: return .unknownFile
    }
    files[id]?.progress.setbacks.ended()
    forgetLimits(for: file, at: now)
    tryDestinationNow(at: now)
    if file.isOpen {
      files[id]?.beginWriting()
      actions.append(.record(id))
      actions.append(.showStatus(id))
    } else {
      // The file waits for no other content of its own.
      files[id]?.progress.forgetLatest()
      settleName(id, at: now)
    }
    return .obeyed
  }

  /// The server has lost what it had acknowledged: the spool's content is delivered again, under the same name. An
  /// undelivered file is tried again now.
  @discardableResult
  public mutating func resend(_ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    guard let file = files[id], file.isLocal else { return .unknownFile }
    guard file.phase == .complete else { return retry(id, at: now) }
    defer { pump(at: now) }
    guard deliverAgain(id, at: now) else { return .doesNotApply }
    tryDestinationNow(at: now)
    return .obeyed
  }

  /// A file that may be no more than its disk's remains is compared with its receipt first: a server that has lost the
  /// whole must not get less. False where the file now has only names under which nothing is published: it stays
  /// delivered.
  mutating func deliverAgain(_ id: FileID, at now: ClockReading) -> Bool {
    guard var file = files[id] else { return false }
    let published = file.publishedPaths
    let entry = file.snapshot.mayBeRemains && file.snapshot.sizeBytes > 0 ? catalogEntry(of: id) : nil
    file.restart()
    if file.nextPath(limits) == nil {
      // A user has published the file under a temporary name.
      guard let name = file.snapshot.names.first(where: { published.contains($0) }) else { return false }
      file.progress.request(.named(name))
    }
    catalog.claims.forgetUnconfirmed(id)
    if let entry { findUnproven(&file, of: entry, isToResend: true) }
    files[id] = file
    settleName(id, at: now)
    return true
  }

  /// Publishes a held file as it is: one that its writer did not finish, or one with a temporary name.
  @discardableResult
  public mutating func publish(_ id: FileID, at now: ClockReading) -> FileCommandOutcome {
    defer { pump(at: now) }
    guard var file = files[id], file.isLocal else { return .unknownFile }
    switch file.phase {
    // The content is not known, and an unknown content is not published.
    case .interrupted where file.snapshot.interruption?.isOfSpool == true: return .doesNotApply
    // The whole was delivered, and this file may be zeros.
    case .interrupted where deliveryOfRemains(file) != nil: return .doesNotApply
    case .held, .interrupted: break
    case .routedElsewhere: return .goesElsewhere
    case .writing, .ignored, .ready, .waiting, .finishing, .complete, .failed, .cancelled: return .doesNotApply
    case .removed: return .unknownFile
    }
    file.progress.request(.asIs)
    if file.nextPath(limits) == nil, let name = file.snapshot.names.first {
      file.progress.request(.named(name))
    }
    files[id] = file
    if file.phase == .interrupted { accept(id, at: now) } else { settleName(id, at: now) }
    return .obeyed
  }

  /// An unavailable destination is tried again without waiting for its turn, and what bounded its requests may have gone.
  private mutating func tryDestinationNow(at now: ClockReading) {
    destination.sizes.forgetRequestBytesMax()
    destination.gate.endPause(at: now.monotonic)
  }
}

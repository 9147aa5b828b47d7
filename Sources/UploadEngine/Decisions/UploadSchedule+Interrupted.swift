public import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// An action on a file in the spool, carried out beside the events, because the filesystem must not be called while it
/// reports one.
public enum SpoolOrder: Hashable, Sendable {
  /// Remove the file, unless it was opened or has changed: an unfinished one by rule, a delivered one because parts of
  /// it are no longer there.
  case discard(EvictionCandidate)
  /// The content counts as whole from now on, unless it has changed, or the disk has lost some of it for another reason than this one.
  case accept(EvictionCandidate, Interruption?)
}

/// Files that were not finished (docs/semantics.md, S39 to S41): their writer was killed, a write failed, or the mount died.
extension UploadSchedule {
  /// Takes the pending orders. At most two for each file between two calls.
  public mutating func takeSpoolOrders() -> [SpoolOrder] {
    guard !spool.orders.isEmpty else { return [] }
    return spool.orders.takeAll().filter { order in
      // The file may have another name meanwhile, which is to be delivered, too.
      guard case .discard(let candidate) = order else { return true }
      return isToBeDiscarded(candidate)
    }
  }

  private func isToBeDiscarded(_ candidate: EvictionCandidate) -> Bool {
    guard let file = files.entry(candidate.id)?.file, file.snapshot.epoch == candidate.epoch else { return false }
    return (file.phase == .interrupted && interruptedPolicy(for: file) == .discard)
      || (file.phase == .complete && file.isLocal && file.lacksParts)
  }

  /// The file could not be removed: a program reads it, or has changed or renamed it. The removal is tried again, if it
  /// still applies, under the present names.
  public mutating func notDiscarded(_ candidate: EvictionCandidate) {
    guard isToBeDiscarded(candidate), let file = files.entry(candidate.id)?.file else { return }
    spool.orders.append(.discard(EvictionCandidate(file.snapshot)))
  }

  /// Interrupted files that are about to be removed by rule: no user has to act, and nothing of them is kept.
  mutating func filesBeingDiscarded() -> OrderedSet<FileID> {
    for id in spool.orders.leaving {
      let file = files.entry(id)?.file
      let isLeaving = file.map { $0.phase == .interrupted && interruptedPolicy(for: $0) == .discard } ?? false
      if !isLeaving { spool.orders.endLeaving(id) }
    }
    return spool.orders.leaving
  }

  func interruptedPolicy(for file: FileUpload) -> FileSettings.Interrupted {
    // No rule removes a file whose state is unknown, or that others than its writers have changed, or of which its disk
    // may have lost bytes after its close had returned.
    switch file.snapshot.interruption {
    case .changedInSpool, .olderThanDelivered, .unproven, .notOnDisk, .lostInWriteBack: return .hold
    case let interruption? where interruption.isOfSpool: return .hold
    default: break
    }
    return limits.rules.settings(for: file.snapshot.names.first ?? file.path).interrupted
  }

  /// A settled file is not whole, and is not to be published like that.
  mutating func interrupted(_ id: FileID, _ interruption: Interruption, at now: ClockReading) {
    guard var file = files[id] else { return }
    leaveTransfer(&file)
    checkpoint(&file)
    file.copy.becameReadable()
    if interruption == .changedInSpool, file.phase != .interrupted { totals.filesChangedInSpool += 1 }
    if file.phase != .interrupted, interruption.isOfSpool {
      file.copy.awaitDisk(until: now.monotonic + Self.diskPatience)
      timers.insert(.disk(id), at: now.monotonic + Self.diskPatience)
    } else if !interruption.isOfSpool {
      file.copy.awaitDiskNoLonger()
    }
    let failure =
      deliveryOfRemains(file).map { FileStatus.Failure(interruption, ofDelivered: $0, at: now) }
      ?? FileStatus.Failure(interruption, at: now)
    file.interrupt(by: failure)
    files[id] = file
    actions.append(.record(id))
    actions.append(.showStatus(id))
    if interruptedPolicy(for: file) == .discard {
      spool.orders.noteLeaving(id)
      spool.orders.append(.discard(EvictionCandidate(file.snapshot)))
    } else if interruption != .unproven || spool.isScanned {
      // Files that the scan finds are counted, and reported at its end.
      actions.append(.report(.interrupted(id, file.path, failure)))
    }
  }

  /// The longest that calls wait for a disk that does not report, or does not take, what a file holds.
  static let diskPatience: Duration = .seconds(10)

  /// The disk's time is over. It is still asked, and the file is delivered when it answers.
  mutating func endDiskPatience(of id: FileID, at now: ClockReading) {
    guard let file = files.entry(id)?.file else { return }
    if file.isAwaitingDisk, let end = file.copy.diskPatience, end <= now.monotonic {
      files[id]?.copy.awaitDiskNoLonger()
    } else if file.copy.unreadable?.beginsToLast(after: Self.diskPatience, at: now.monotonic) == true {
      files[id]?.copy.staysUnreadable()
    } else {
      return
    }
    actions.append(.showStatus(id))
    actions.append(.showSummary)
  }

  /// The copy in the spool cannot be read to be sent. The read is repeated.
  mutating func noteUnreadable(_ id: FileID, at now: ClockReading) {
    guard let file = files.entry(id)?.file, file.phase == .ready || file.isWaiting else { return }
    guard file.copy.unreadable == nil else {
      // Requests that fail together are one attempt.
      if !file.isWaiting { files[id]?.copy.readFailedAgain() }
      return endDiskPatience(of: id, at: now)
    }
    files[id]?.copy.becameUnreadable(at: now.monotonic)
    timers.insert(.disk(id), at: now.monotonic + Self.diskPatience)
  }

  /// The file can be read, or something else keeps it.
  mutating func noteReadable(_ id: FileID) {
    guard files.entry(id)?.file.copy.unreadable != nil else { return }
    files[id]?.copy.becameReadable()
    actions.append(.showStatus(id))
    actions.append(.showSummary)
  }

  /// A write has failed; its writer may still repair it.
  mutating func writeFailed(_ id: FileID, _ cause: Interruption, at now: ClockReading) {
    files[id]?.writeFailed(FileStatus.Failure(cause, at: now))
    actions.append(.showStatus(id))
  }

  /// A user wants the file as it is.
  mutating func accept(_ id: FileID, at now: ClockReading) {
    guard var file = files[id] else { return }
    catalog.claims.forgetUnconfirmed(id)
    acceptInterruption(of: &file, file.snapshot.interruption)
    if file.progress.userRequest == nil { file.progress.request(.asIs) }
    file.forgetFailure()
    files[id] = file
    if file.isOpen {
      files[id]?.beginWriting()
      actions.append(.record(id))
      actions.append(.showStatus(id))
    } else {
      settleName(id, at: now)
    }
  }

  /// The file counts as whole from now on. Where the server has what the disk has lost of it, the spool gets the order
  /// once it is known which of the two was delivered.
  mutating func acceptInterruption(of file: inout FileUpload, _ interruption: Interruption?) {
    file.progress.accept(interruption, lost: lostPlaces(of: file))
    file.judge(nil)
    if file.progress.lost == nil, interruption != nil {
      spool.orders.append(.accept(EvictionCandidate(file.snapshot), interruption))
    }
  }

  /// By rule the file is gone from the spool.
  mutating func discarded(_ id: FileID, at now: ClockReading) {
    guard let file = files[id], let failure = file.lastFailure else { return }
    actions.append(.report(.discarded(id, file.path, failure)))
    handle(.removed(id), at: now)
    if case .removed(.undelivered)? = files[id]?.phase { files[id]?.leaveSpool(as: .byRule) }
  }
}

extension FileStatus.Failure {
  /// The failure that users see for an interruption.
  init(_ interruption: Interruption, at now: ClockReading) {
    self.init(code: interruption.code, message: Self.message(of: interruption), at: now)
  }

  /// The failure that users see for a file that may be what its disk has left of a delivery.
  init(_ interruption: Interruption, ofDelivered entry: CatalogEntry, at now: ClockReading) {
    let name = entry.receipt?.name ?? String(describing: entry.path)
    let reason =
      interruption == .unproven
      ? "The spool was copied without what it says of its files, or has lost it, and this one is not what was delivered, or cannot be "
        + "compared with it: after a power cut it may be zeros or a part of that."
      : "The machine stopped, or the spool's disk went, before the disk was known to have the whole file, and what it has is not what was "
        + "delivered: parts of it may be missing or zeros."
    self.init(
      code: interruption.code,
      message:
        "\(reason) What was delivered as \(name) stays there, and nothing of this takes its place. Look at it, and remove it. "
        + "If it is another recording, copy it in the mount to another name, or write it anew from its beginning.",
      at: now)
  }

  /// The failure that users see for a folder of the spool that the scan cannot read.
  init(unreadableFolder path: RelativePath, errno: Int32, at now: ClockReading) {
    let folder = path == .root ? "the spool" : "“\(path.displayText)” in the spool"
    self.init(
      code: Interruption.spoolUnreadable(errno: errno).code,
      message:
        "Not all of \(folder) could be read\(Self.name(ofErrno: errno)). It is read again; until then captures there may "
        + "be missing here, and nothing of them is forgotten. Look after the spool's disk; what cannot be read for good may be "
        + "moved out of captures/.", at: now)
  }

  /// The failure that users see for a catalog that cannot be read.
  init(unreadableCatalog reason: String, at now: ClockReading) {
    self.init(
      code: Interruption.spoolUnreadable(errno: 0).code,
      message:
        "What earlier runs have delivered, or were not to deliver, cannot be read: \(reason). It is tried again; until then nothing "
        + "that lay in the spool at the start is delivered, and what is captured now is. Look after the spool's disk.",
      at: now)
  }

  private static func message(of interruption: Interruption) -> String {
    let advice =
      "It is kept in the spool: write it anew from its beginning, or publish it as it is with `uploadfs-mount publish`."
    switch interruption {
    case .writeRefused(let limitBytes):
      let limit = limitBytes > 0 ? " (\(limitBytes) bytes)" : ""
      return "A write beyond the largest size that is taken\(limit) was refused, so the file is incomplete and is not "
        + "delivered. It is kept in the spool: raise --max-file-size and write it again, or publish it as it is with "
        + "`uploadfs-mount publish`."
    case .writeFailed(let errno):
      return "A write failed\(name(ofErrno: errno)) and was not made good, so the file is incomplete. \(advice)"
    case .changeRefused:
      return
        "A change was refused because it needed bytes that are only at the server (when-full=release), so the file is "
        + "not what its writer meant. \(advice)"
    case .writerKilled(let signal):
      let by = signal > 0 ? " by signal \(signal)" : ""
      return "The program that wrote the file was killed\(by), so the file may be incomplete. \(advice)"
    case .mountDied: return "The mount ended while the file was being written, so it may be incomplete. \(advice)"
    case .notOnDisk:
      return
        "The machine stopped, or the spool's disk went, before the disk was known to have the whole file, so parts of it may be "
        + "missing or zeros. \(advice)"
    case .changedInSpool:
      return
        "Another program changed the file in the spool, past the mount, after its writer had closed it or while it was "
        + "written. \(advice)"
    case .olderThanDelivered:
      return
        "A content was delivered from here that is not this one, and this one is not known to be later: it may come from a backup. "
        + "What was delivered stays as it is. Look at it. \(advice)"
    case .unproven:
      return
        "The spool was copied without what it says of its files, or has lost it, and nothing proves that this one was finished "
        + "and is whole. Look at it. \(advice)"
    case .spoolUnreadable(let errno):
      return "The spool could not say how long the file is, or whether it is whole\(name(ofErrno: errno)). It is asked "
        + "again every second, and nothing is delivered meanwhile. Look after the spool's disk."
    case .spoolFailing(let errno):
      return
        "The spool's disk did not take what was written\(name(ofErrno: errno)). It is given to the disk again, and "
        + "delivered before all others as long as all of it is in memory. Do not restart the machine; look after the disk."
    case .lostInWriteBack(let errno, let bytes):
      return "The spool's disk did not take what was written\(name(ofErrno: errno)), and between the bytes "
        + "\(bytes.lowerBound) and \(bytes.upperBound) not all of it was in memory any more. \(advice)"
    }
  }

  /// Linux's names of the most frequent write errors.
  private static func name(ofErrno errno: Int32) -> String {
    switch errno {
    case 0: ""
    case 5: " (EIO: the disk reports an error)"
    case 27: " (EFBIG: its program may make no longer files, see ulimit -f)"
    case 28: " (ENOSPC: no space was left)"
    case 122: " (EDQUOT: the disk quota was used up)"
    default: " (errno \(errno))"
    }
  }
}

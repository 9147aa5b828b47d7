public import FileModel
import Integrity
import Lookup
public import TransferModel

/// Chunks that are given up in the spool because the disk is full (docs/semantics.md, S70): of files that are not
/// delivered yet, by rule.
///
/// What is given up exists at the server alone. So the server has to confirm first that it is on its disk. Then the
/// resume record, which alone knows what was sent, has to be on the local disk. From then on the server's digest stands
/// for the bytes. A read that finds them gone counts as done as long as the session is the one that holds them. No
/// session is ended while it holds the only copy.
extension UploadSchedule {
  /// How long after a writer found no space chunks are secured to be given up.
  private static let shortageTime: Duration = .seconds(10)
  /// The server is asked again when fewer chunks than this could be given up.
  private static let securedMin = 8
  private static let securingRest: Duration = .seconds(1)
  /// The pause after a refusal doubles each time, up to this.
  private static let securingRestMax: Duration = .seconds(60)

  /// No space is left for a writer. Returns what may be given up; from now on more is secured.
  public mutating func releaseCandidates(bytesMax: UInt64, at now: ClockReading) -> [ReleaseCandidate] {
    guard destination.abilities.durableChunks, limits.rules.haveReleases else { return [] }
    defer { pump(at: now) }
    spool.health.spaceIsShort(until: now.monotonic + Self.shortageTime)
    var candidates: [ReleaseCandidate] = []
    var leftBytes = bytesMax
    for id in openFiles.early + queues.large.working where leftBytes > 0 {
      // A session that is being published may end in a moment, with what a continuing writer would need of it.
      guard let file = files.entry(id)?.file, releases(file), file.publishing == nil, let transfer = file.transfer,
        let session = file.session, session.isOpen, let known = session.recordedChange,
        known >= transfer.releasable.securedAt
      else { continue }
      let chunks = transfer.takeSecured(bytesMax: leftBytes, isGrowing: file.growth != nil).compactMap { index in
        (file.growth.map { $0.epoch(of: index) } ?? file.snapshot.epoch).map {
          ReleaseCandidate.Chunk(index: index, epoch: $0, digest: session.held.acknowledged[index]?.sha256.bytes)
        }
      }
      guard !chunks.isEmpty else { continue }
      let bytes = UInt64(chunks.count) * UInt64(transfer.plan.chunkBytes)
      leftBytes -= min(leftBytes, bytes)
      candidates.append(
        ReleaseCandidate(
          id: id, chunkBytes: transfer.plan.chunkBytes, chunks: chunks, isGrowing: file.growth != nil,
          pointer: file.pointer))
      noteReleased(id)
    }
    return candidates
  }

  /// A resume record is on the disk, as it was at this mark.
  public mutating func resumeSaved(_ id: FileID, _ mark: ResumeSnapshot.Mark) {
    guard let session = files[id]?.session, session.id == mark.sessionID else { return }
    files[id]?.session?.recorded(upTo: mark.changeCount)
    // Chunks acknowledged while the record was being written are not in it.
    guard let later = session.held.changes(since: mark.changeCount) else { return }
    files[id]?.session?.recorded(chunks: session.held.acknowledged.count - later.count { $0.digest != nil })
    actions.append(.showStatus(id))
  }

  /// The rule decides; the probable final name of a temporary one counts as well. A delivered file is published under a
  /// further name as a whole, and so is a file with two names. A session of such a file has no pointer, and a start
  /// would take the receipt for all that there is to know. Where the server's report stands for what the disk may have
  /// lost, the copy here is all that can contradict it.
  func releases(_ file: FileUpload) -> Bool {
    guard file.receipt == nil, file.wantedSeal == nil, file.progress.lost == nil, file.snapshot.names.count <= 1
    else { return false }
    let path = file.snapshot.names.first ?? file.path
    let final = limits.temporaryNames.finalName(of: path.lastComponent).map { path.parent.appending($0) }
    return limits.rules.settings(for: final ?? path).whenFull == .release
  }

  /// A file that is being sent may get room for its writer within a moment. This also holds for a file of which nothing
  /// is acknowledged yet, because the disk was full before its session was open, and while the destination cannot be
  /// reached. The pauses of writers have an end of their own.
  var mayRelease: Bool {
    guard destination.abilities.durableChunks, limits.rules.haveReleases else { return false }
    return openFiles.early.contains { id in files.entry(id).map { releases($0.file) } ?? false }
      || openFiles.open.contains { id in files.entry(id).map { releases($0.file) && mayGrow($0.file) } ?? false }
  }

  private mutating func noteReleased(_ id: FileID) {
    guard files[id]?.copy.mayLackParts == false else { return }
    files[id]?.copy.partsMayGo()
    actions.append(.report(.releasing(id, files[id]?.path ?? .root)))
    // The file may have come under this rule by a rename.
    actions.append(.record(id))
    actions.append(.showStatus(id))
  }

  // MARK: - At the server

  /// While space is short the server is asked to sync what it has to its disk.
  mutating func askForDurability(at now: ClockReading) {
    guard spool.health.isSpaceShort(at: now.monotonic) else { return }
    for id in openFiles.early + queues.large.working
    where requests.controlCount < limits.controlRequests && maySend(at: now) {
      guard let file = files.entry(id)?.file, let transfer = file.transfer, let session = file.session, session.isOpen,
        !session.isSecuring, let identity = session.identity, session.securingRest.map({ $0 <= now.monotonic }) ?? true,
        transfer.releasable.secured.count < Self.securedMin, transfer.hasUnsecured, releases(file)
      else { continue }
      files[id]?.session?.secure()
      send(.secureSession(identity), for: id, at: now)
    }
  }

  mutating func secureEnded(_ id: FileID, _ sessionID: String, _ outcome: StepOutcome, at now: ClockReading) {
    guard let session = files[id]?.session, session.id == sessionID else { return }
    files[id]?.session?.securingEnded()
    switch outcome {
    case .held(let digests, _, _, _, _, isDurable: true):
      if let failure = session.securingFailure {
        files[id]?.session?.secured()
        if files[id]?.lastFailure == failure { files[id]?.forgetFailure() }
        actions.append(.showStatus(id))
      }
      guard let transfer = files[id]?.transfer else { return }
      transfer.secure(digests, knownAt: session.held.changeCount)
      // Chunks that the record lacks count as not sent.
      if session.recordedChange.map({ $0 < session.held.changeCount }) ?? true {
        files[id]?.session?.recordBegan()
        actions.append(.saveResume(id))
      }
    case .refused(let failure) where failure.kind == .sessionGone || failure.kind == .sessionDamaged:
      restartSession(
        id, by: FileStatus.Failure(code: failure.kind.code, message: failure.message, at: now), at: now)
    case .refused(let failure): securingRefused(id, session, failure, at: now)
    default:
      files[id]?.session?.restSecuring(until: now.monotonic + Self.securingRest)
    }
  }

  /// Nothing more of the file is given up meanwhile, which its writer will notice. The reason is reported.
  private mutating func securingRefused(
    _ id: FileID, _ session: UploadSession, _ failure: StepFailure, at now: ClockReading
  ) {
    let pause = max(
      session.securingPause.map { min($0 * 2, Self.securingRestMax) } ?? Self.securingRest, failure.retryAfter ?? .zero)
    files[id]?.session?.refuseSecuring(for: pause, until: now.monotonic + pause)
    let shown = FileStatus.Failure(
      code: failure.kind.code,
      message:
        "The server does not keep more of this file on its disk, so nothing more is given up here: \(failure.message)",
      at: now)
    guard session.securingFailure?.message != shown.message else { return }
    files[id]?.session?.report(securingFailure: shown)
    files[id]?.note(shown)
    actions.append(.report(.notReleasing(id, files[id]?.path ?? .root, shown)))
    actions.append(.showStatus(id))
  }

  // MARK: - Reading

  /// The bytes are no longer in the spool. Those at the server count as long as they belong to this file's session.
  mutating func chunkIsReleased(_ id: FileID, _ index: Int, at now: ClockReading) {
    guard let file = files[id], let transfer = file.transfer else { return }
    files[id]?.copy.partsMayGo()
    // A file that is to be compared is read here: what a server has proves nothing of it.
    if file.progress.delivered != nil {
      transfer.set(.pending, at: index)
      return failForGood(id, releasedPartMissing(of: file, at: now), at: now)
    }
    let held = file.session?.held
    let told = serverAgreesWithLabel(of: file) ? held?.reportedDigest(of: index) : nil
    if let digest = held?.acknowledged[index] ?? told {
      if held?.acknowledged[index] == nil {
        held?.acknowledge(digest, at: index)
        files[id]?.session?.acknowledgedUnrecorded()
      }
      transfer.set(.done(digest), at: index)
      transfer.noteReleased(index)
      files[id]?.progress.chunkReused()
      totals.reusedChunks += 1
      countFound(of: id)
      actions.append(.showStatus(id))
      return
    }
    transfer.set(.pending, at: index)
    if case .published(let receipt)? = file.session?.state { return publishedOtherwise(id, as: receipt, at: now) }
    // The server may have been restored from an older copy, and have the right one again when the next attempt asks it.
    if file.session?.isOpen == true { files[id]?.session?.doubt() }
    failForGood(id, releasedPartMissing(of: file, at: now), at: now)
  }

  /// Only the file's label records what was sent of what was given up. The server's report of what it holds counts
  /// where all of it agrees with the label.
  private mutating func serverAgreesWithLabel(of file: FileUpload) -> Bool {
    guard let session = file.session, session.trustsServer else { return false }
    if let known = session.saysAsLabel { return known }
    let isAsLabel = session.agrees(with: file.snapshot.released)
    files[file.id]?.session?.compared(withLabel: isAsLabel)
    return isAsLabel
  }

  /// Parts of the file are not here, and the server that was asked does not have them. Where another server does, or
  /// another user, the failure names it; what is kept here is enough to continue there.
  func releasedPartMissing(of file: FileUpload, at now: ClockReading) -> FileStatus.Failure {
    let began = "The disk was full and parts of the file were given up here"
    let kept = "What is left of the file is kept in the spool."
    if let receipt = file.receipt {
      let name = receipt.publishedAs ?? receipt.name
      return FileStatus.Failure(
        code: "released-part-lost",
        message:
          "\(began). The whole of it is published as \(name), and stays there; it cannot be sent under a further name, because those "
          + "parts are there alone. Give it that name there, and remove the name here. \(kept)", at: now)
    }
    guard let theirs = file.session?.owner, let owner, theirs != owner else {
      return FileStatus.Failure(
        code: "released-part-lost", message: "\(began), and the server no longer holds them. \(kept)", at: now)
    }
    let place =
      theirs.address == owner.address
      ? "they are in an upload that was begun at \(theirs.address) with another token. Mount with that token again: the "
        + "upload goes on by itself."
      : "they are in an upload at \(theirs.address), which \(owner.address) does not know. Mount with --to "
        + "\(theirs.address) and its token again: the upload goes on by itself."
    return FileStatus.Failure(code: "released-part-away", message: "\(began); \(place) \(kept)", at: now)
  }

  /// The session that has the only copy of parts was damaged at the server, which keeps it.
  func partsInDamagedSession(_ failure: FileStatus.Failure) -> FileStatus.Failure {
    FileStatus.Failure(
      code: failure.code,
      message:
        "The disk was full and parts of the file were given up here; the upload that has them was damaged at the server, which "
        + "keeps it: its log says how. Once its operator has put it right the upload goes on by itself; what is left of the file "
        + "is kept in the spool.", atMilliseconds: failure.atMilliseconds)
  }

  /// Parts of the file are at the server alone, and the record that names its upload could not be read at the start, or
  /// is lost: another session would replace the one that holds them.
  func mayHaveUnreadRecord(_ file: FileUpload) -> Bool {
    file.lacksParts && file.session == nil && file.receipt == nil
  }

  /// The failure of such a file.
  func recordUnreadable(of file: FileUpload, at now: ClockReading) -> FileStatus.Failure {
    guard catalog.recovery.lacksRecords else {
      return FileStatus.Failure(
        code: "released-part-lost",
        message:
          "The disk was full and parts of the file were given up here; which upload has them is not known any more, so that they "
          + "cannot be asked for. The server may hold them still: look there. What is left of the file is kept in the spool.",
        at: now)
    }
    return FileStatus.Failure(
      code: "record-unreadable",
      message:
        "The disk was full and parts of the file were given up here; the record of the upload that has them could not be "
        + "read at the start. Everything is kept: look after the spool's disk and mount again.", at: now)
  }

  /// The file is not what was delivered, or cannot be compared with that.
  func failAsRest(_ file: inout FileUpload, of entry: CatalogEntry, isCompared: Bool = true, at now: ClockReading) {
    file.copy.partsMayGo()
    let name = entry.receipt?.name ?? String(describing: entry.path)
    let reason =
      isCompared
      ? "The disk was full and parts of the file were given up; the whole of it was delivered as \(name), and stays there. This is what "
        + "a copy of the spool without extended attributes has of it, with zeros in their place, so that nothing of it is sent."
      : "The whole of the file was delivered as \(name), and stays there. In this copy of the spool without extended attributes it cannot "
        + "be told whether parts of it are missing, because an earlier version did not record how it was sent; nothing of it is sent."
    file.fail(
      FileStatus.Failure(
        code: "released-part-lost",
        message: reason + " Remove it; if it is another recording, copy it into the mount anew.", at: now))
  }

  /// The local copy of a delivered file is not whole: no program should take it for what was delivered.
  mutating func dropDeliveredParts(_ id: FileID) {
    guard let file = files[id], file.phase == .complete, file.isLocal, file.lacksParts else { return }
    spool.orders.append(.discard(EvictionCandidate(file.snapshot)))
  }
}

extension FileUpload {
  /// Parts of the file may be at the server alone.
  var lacksParts: Bool { copy.mayLackParts || snapshot.isPartlyReleased }

  /// The server's session, and the record that names it, are the only copy of some parts.
  var mustKeepSession: Bool { lacksParts && receipt == nil && session?.id != nil }
}

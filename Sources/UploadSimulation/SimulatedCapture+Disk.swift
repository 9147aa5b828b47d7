import FileModel
import Lookup

// What the spool's disk does not take or cannot report, and how the daemon reacts, as `Filesystem` does: failing
// queries, marks, and writes that the disk refuses after they have returned.
extension SimulatedCapture {
  /// The meaning of a spool file's extended attribute to the next run (`WriterStateXattr`).
  enum Mark: Hashable {
    case none
    /// In these instances of the spool's filesystem.
    case writing(Int), closed(Int)
    case interrupted(Interruption)
    /// For another reason than missing bytes, in this instance.
    case ended(Interruption, Int)

    var isClosed: Bool { if case .closed = self { true } else { false } }

    /// As `WriterStateXattr.isUnproven`.
    var isUnproven: Bool {
      switch self {
      case .closed, .ended: true
      case .none, .writing, .interrupted: false
      }
    }

    /// As `WriterStateXattr.isProof`.
    var isProof: Bool {
      switch self {
      case .none: true
      case .interrupted(let interruption): !interruption.isLack
      case .writing, .closed, .ended: false
      }
    }

    /// The interruption that follows in an instance for a file that is, or is not, empty.
    func interruption(in instance: Int, isEmpty: Bool) -> Interruption? {
      switch self {
      case .none: nil
      case .closed(let known): known == instance || isEmpty ? nil : .notOnDisk
      case .writing(let known): known == instance ? .mountDied : .notOnDisk
      case .interrupted(let interruption): interruption
      case .ended(let interruption, let known): known == instance ? interruption : .notOnDisk
      }
    }
  }

  /// The latest description of a file by the spool.
  struct KnownAttributes {
    var sizeBytes: UInt64 = 0
    var modifiedNanoseconds: Int64 = 0
    var mode: UInt32 = 0o644
  }

  /// The disk has refused part of a file (`DiskRefusal`).
  struct Refusal {
    /// EIO.
    static let errno: Int32 = 5

    private var tries = 0
    fileprivate var due: Int64 = 0
    /// All of the content is in memory, and stays there.
    fileprivate var isPinned = false
    fileprivate var lost: Range<UInt64>?

    var holdsFile: Bool { !isPinned && lost == nil }

    /// As `forgetWhatWasSaved` of `CapturedFile.State`.
    mutating func forgetWhatWasSaved(_ integrity: ContentIntegrity) {
      isPinned = false
      if integrity.lossErrno == nil { lost = nil }
    }

    fileprivate mutating func refused(at now: Int64) {
      tries += 1
      due = now + min(1 << Int64(min(tries - 1, 5)), 30) * 1_000_000_000
    }
  }

  // MARK: Questions

  func fails(_ kind: EffectKind) -> Bool { world.mayRefuse && world.fails(kind, of: .client) }

  /// The facts for an event, as far as the spool reports them. Only some events describe the content to the client.
  func facts(of file: File, isAnswer: Bool) -> FileSnapshot {
    let wasDoubtful = file.isDoubtful
    file.isDoubtful = false
    readMark(of: file)
    let snapshot = look(at: file)
    if file.isDoubtful { awaitFlush(file) }
    if !isAnswer, wasDoubtful { file.isDoubtful = true }
    return snapshot
  }

  /// As `Filesystem.snapshot(of:)`.
  func look(at file: File) -> FileSnapshot {
    noteWriteBack(of: file)
    if fails(.look) {
      file.isDoubtful = true
    } else {
      file.lastKnown = file.attributes
    }
    var snapshot = file.snapshot
    if world.bug == .announceLastKnown, snapshot.interruption?.isOfSpool == true { snapshot.interruption = nil }
    if world.bug == .publishRemainsAnew, file.isDelivered, file.isRemains { snapshot.interruption = nil }
    if world.bug == .overlookPointers { snapshot.pointer = nil }
    if file.isMarkOverlooked, snapshot.interruption?.isOfSpool != true { snapshot.interruption = nil }
    return snapshot
  }

  func readMark(of file: File) {
    guard !file.isMarkKnown else { return }
    if fails(.recall) {
      file.isMarkOverlooked = world.bug == .forgetUnreadMarks
      guard file.isMarkOverlooked else {
        file.isDoubtful = true
        return
      }
    }
    file.isMarkKnown = true
    file.settledIntegrity = file.integrity
    // Without a mark an earlier run has synced the file.
    file.isSynchronized = world.scenario.losesSpool && file.mark == .none
    if file.mark != .none, !file.mark.isProof { file.provenBytes = .max }
    if file.mark.isUnproven { awaitFlush(file) }
  }

  // MARK: Marks

  /// Without the mark nothing may change. A file that no program has open needs none.
  func markWriting(_ file: File, _ extent: ContentExtent) -> Bool {
    let wasOnDisk = file.isSynchronized
    file.isSynchronized = false
    // As `CapturedFile.State.markWhileWriting`.
    let writing: Mark =
      file.integrity.lack.map { .interrupted($0) }
      ?? (file.refusal == nil ? .writing(instance) : .interrupted(.notOnDisk))
    let isOpen = file.activity.writableOpens > 0
    let wanted = isOpen || file.mark.isUnproven && writing != .writing(instance) ? writing : file.mark
    noteProven(file, wasOnDisk: wasOnDisk)
    if file.mark != wanted {
      guard !fails(.write) else { return false }
      file.mark = wanted
      noteMetadata(of: file)
    }
    if !isOpen, let provenBytes = file.provenBytes, case .size(let sizeBytes) = extent {
      file.provenBytes = max(provenBytes, sizeBytes)
    }
    guard isOpen, let provenBytes = file.provenBytes, extent.changesBytes(ofSize: provenBytes) else { return true }
    file.provenBytes = nil
    if world.bug != .markBesideChanges { file.metadata.commit() }
    return true
  }

  /// As `Filesystem.noteProven`.
  private func noteProven(_ file: File, wasOnDisk: Bool) {
    guard file.mark == .none ? wasOnDisk : file.mark.isProof else { return }
    file.provenBytes = UInt64(file.bytes.count)
  }

  /// The mark is set to the known state of the content; where the disk does not take it, the earlier one stays.
  func keepMark(of file: File) {
    let wanted = wantedMark(of: file)
    put(wanted, on: file)
    if wanted == .none, file.isSynchronized, file.mark == .none { file.metadata.commit() }
    if wanted.isUnproven { awaitFlush(file) }
  }

  /// As `Filesystem.wantedMark`.
  private func wantedMark(of file: File) -> Mark {
    let integrity = file.contentIntegrity
    if let lack = integrity.lack { return .interrupted(lack) }
    if file.refusal != nil { return .interrupted(.notOnDisk) }
    if let interruption = integrity.interruption {
      return file.isSynchronized ? .interrupted(interruption) : .ended(interruption, instance)
    }
    return file.isSynchronized ? .none : .closed(instance)
  }

  private func put(_ mark: Mark, on file: File) {
    guard file.mark != mark else { return }
    file.isMarkOutdated = fails(.write)
    guard !file.isMarkOutdated else { return awaitFlush(file) }
    noteProven(file, wasOnDisk: file.isSynchronized)
    file.mark = mark
    noteMetadata(of: file)
  }

  /// As `Filesystem.markAgain`.
  private func markAgain(_ file: File) {
    guard file.isMarkOutdated, file.isMarkKnown, !file.activity.isGone, file.activity.isQuiet else { return }
    file.isMarkOutdated = false
    keepMark(of: file)
  }

  /// A change does not take effect: its writer gets an error.
  func refuse(_ extent: ContentExtent, of file: File) -> ContentMutation? {
    guard isMounted else { return nil }
    world.trace("a change of \(file.snapshot.brief) fails")
    guard case .bytes(let range) = extent else { return nil }
    let known = file.integrity.interruption
    file.integrity.writeFailed(range, .writeFailed(errno: Refusal.errno))
    if let cause = file.integrity.interruption, cause != known { sink?.handle(.writeFailed(file.id, cause)) }
    return nil
  }

  // MARK: What the kernel keeps

  func noteWritten(_ file: File, _ range: Range<Int>) {
    guard world.mayRefuse else { return }
    file.pages.wrote(range)
    guard !file.isWriteBackDue else { return }
    file.isWriteBackDue = true
    // The kernel writes back without the daemon, too.
    world.time.after(world.random.duration(.milliseconds(200)...(.seconds(30)))) { [self] in
      file.isWriteBackDue = false
      writeBack(file)
    }
  }

  private func writeBack(_ file: File) {
    guard file.pages.isDirty else { return }
    let fails = fails(.writeBack)
    file.pages.writeBack(file.bytes) { _ in fails && world.random.happens(0.7) }
  }

  /// Memory is short: some clean pages are evicted.
  func dropPages() {
    let share = world.random.happens(0.5) ? 1 : 0.3
    for file in byInode.sorted().map(\.value) where file.refusal?.isPinned != true {
      let wasWrong = file.pages.isWrong
      file.pages.drop(file.bytes) { world.random.happens(share) }
      if file.pages.isWrong, !wasWrong { world.trace("the kernel drops what it has of \(file.snapshot.brief)") }
      // A program reads the file before the daemon does.
      if file.pages.isWrong, world.random.happens(0.3) { file.pages.read(0..<file.bytes.count) }
    }
  }

  /// The daemon is gone, and only marks keep its state. A refusal of the disk that was reported to no process by then
  /// is lost (docs/semantics.md, S41).
  func forgetDisk(of file: File) {
    file.integrity = ContentIntegrity(found: foundInterruption(of: file))
    file.settledIntegrity = file.integrity
    (file.isMarkKnown, file.isMarkOverlooked, file.isMarkOutdated) = (false, false, false)
    (file.refusal, file.descriptor, file.kept) = (nil, nil, nil)
    (file.isSynchronized, file.isDoubtful, file.provenBytes) = (false, false, nil)
    file.lastKnown = KnownAttributes()
    forgetRefused(of: file)
  }

  /// A file that no daemon knows stays as it is.
  func forgetRefused(of file: File) {
    // The kernel's memory outlives the daemon, and is lost with the power.
    guard !world.scenario.losesSpool else { return }
    if file.integrity.interruption == .notOnDisk, let unseen = file.lostUnseen.take(),
      unseen.modifiedNanoseconds == file.modifiedNanoseconds
    {
      // What the earlier daemon took for the content is now known as its remains.
      leave(file.bytes, of: file)
      file.closed = unseen.bytes
    }
    writeBack(file)
    guard file.pages.isRefused || file.pages.isWrong else { return }
    if world.oracles.allSatisfy({ !$0.haveReceipt(file.bytes) }) {
      let before = file.bytes
      loseRefused(file)
      // The file's label records that the disk had not taken it. This is what is left of it, as after a power cut, and
      // the receiver may have it all.
      if file.bytes != before, file.integrity.interruption == .notOnDisk {
        leave(file.bytes, of: file)
      } else if file.bytes != before {
        file.lostUnseen = (before, file.modifiedNanoseconds)
      }
    }
    file.pages.begin(with: file.bytes)
  }

  /// Whatever the disk has counts as the intended content.
  func loseRefused(_ file: File) {
    file.pages.drop(file.bytes) { true }
    file.bytes = file.shown
    file.pages.accept()
  }

  // MARK: What the disk has refused

  /// As `Filesystem.noteWriteBack`.
  func noteWriteBack(of file: File) {
    guard world.mayRefuse, takeError(of: file), world.bug != .swallowWriteBackErrors else { return }
    noteRefusal(of: file)
  }

  private func takeError(of file: File) -> Bool {
    if var descriptor = file.descriptor {
      defer { file.descriptor = descriptor }
      return file.pages.takeError(&descriptor)
    }
    guard var kept = file.kept else { return false }
    defer { file.kept = kept }
    return file.pages.takeError(&kept)
  }

  /// As `leaveToItsWriters` of `CapturedFile.State`.
  func leaveToItsWriters(_ file: File) {
    if file.refusal != nil { file.integrity.lostContent(.writeFailed(errno: Refusal.errno)) }
    file.refusal = nil
  }

  private func noteRefusal(of file: File) {
    file.isSynchronized = false
    if file.refusal == nil {
      world.trace("the disk has refused some of \(file.snapshot.brief)")
      file.refusal = Refusal()
    }
    awaitFlush(file)
  }

  /// As `Filesystem.noteSettled`.
  func noteSettled(_ file: File, hasRevision: Bool) {
    noteWriteBack(of: file)
    if hasRevision { file.refusal?.forgetWhatWasSaved(file.integrity) }
    if file.refusal != nil { awaitFlush(file) }
    if hasRevision, file.integrity.interruption == nil { file.isLost = false }
    if hasRevision { file.settledIntegrity = file.integrity } else { file.integrity = file.settledIntegrity }
    if file.isMarkKnown, hasRevision || file.mark != .none { keepMark(of: file) }
  }

  /// The last writer has closed its file.
  func keepDescriptor(of file: File) {
    guard file.descriptor != nil else { return }
    defer { file.descriptor = nil }
    guard !file.isSynchronized, !file.activity.isGone, file.kept == nil else { return }
    file.kept = file.pages.open()
  }

  /// An fsync of a writer. True when it reports that the disk has everything.
  func synchronize(_ file: File) -> Bool {
    guard file.refusal == nil, file.integrity.lossErrno == nil else { return false }
    writeBack(file)
    guard !takeError(of: file) || world.bug == .swallowWriteBackErrors else {
      file.integrity.lostContent(.writeFailed(errno: Refusal.errno))
      return false
    }
    file.isSynchronized = file.activity.mutationsInFlight == 0
    noteSynced(file)
    if !file.pages.isOnDisk {
      world.fail(.writeBack, "an fsync of \(file.snapshot.brief) has confirmed what the disk does not have")
    }
    return true
  }

  // MARK: The flush

  func awaitFlush(_ file: File) {
    guard world.mayRefuse, isMounted else { return }
    flushes.insert(file.inode)
    guard !isFlushDue else { return }
    isFlushDue = true
    let mount = mount
    world.time.after(.seconds(1)) { [self] in if self.mount == mount { flush() } }
  }

  /// As `Filesystem.flush`.
  private func flush() {
    isFlushDue = false
    let files = flushes.sorted().compactMap { byInode[$0] }
    flushes = []
    let mount = mount
    for step in [askAgain, markAgain, watch, flushClosed] {
      for file in files where self.mount == mount { step(file) }
    }
  }

  /// As `Filesystem.endFlushing`: at an orderly end closed contents are on the disk, with the marks that record it. A
  /// disk that takes too long is not waited for.
  func endFlushing() {
    guard world.scenario.losesSpool, world.random.happens(0.9) else { return }
    let mount = mount
    for file in byInode.sorted().map(\.value) where self.mount == mount && !file.names.isEmpty {
      guard isUnflushed(file) else { continue }
      bringToDisk(file)
      if file.mark == .none, file.isSynchronized { file.metadata.commit() }
    }
  }

  private func askAgain(_ file: File) {
    guard file.isDoubtful, !file.activity.isGone, file.activity.isQuiet else { return }
    guard !fails(.look) else { return awaitFlush(file) }
    tell(file, .settled)
  }

  private func watch(_ file: File) {
    if file.activity.writableOpens > 0 {
      noteWriteBack(of: file)
      awaitFlush(file)
    }
    if file.refusal != nil { saveAgain(file) }
  }

  private func isUnflushed(_ file: File) -> Bool {
    file.isMarkKnown && file.mark.isUnproven && !file.isSynchronized && file.refusal == nil && !file.activity.isGone
  }

  private func flushClosed(_ file: File) {
    guard isUnflushed(file) else { return }
    if world.bug == .unmarkBeforeFlush, file.mark.isClosed {
      file.mark = .none
      noteMetadata(of: file)
      file.metadata.commit()
    }
    // The disk takes its time, and may be disconnected meanwhile.
    if world.scenario.losesSpool, world.random.happens(0.3) { return awaitFlush(file) }
    bringToDisk(file)
  }

  private func bringToDisk(_ file: File) {
    var descriptor = file.pages.open()
    if let kept = file.kept {
      descriptor = kept
    } else if fails(.look) {
      return awaitFlush(file)
    }
    writeBack(file)
    let isRefused = file.pages.takeError(&descriptor)
    if file.kept != nil { file.kept = descriptor }
    guard !isRefused || world.bug == .swallowWriteBackErrors else {
      noteRefusal(of: file)
      return saveAgain(file)
    }
    file.isSynchronized = true
    file.kept = nil
    noteSynced(file)
    // A mark that stays is true.
    guard !fails(.write) else { return }
    file.mark = file.integrity.interruption.map { .interrupted($0) } ?? .none
    noteMetadata(of: file)
  }

  /// As `Filesystem.saveAgain`: the bytes of a refused file in memory are written to its disk again.
  private func saveAgain(_ file: File) {
    guard !file.activity.isGone else { return leaveToItsWriters(file) }
    guard var refusal = file.refusal else { return }
    let now = world.time.nanoseconds
    guard refusal.due <= now else { return awaitFlush(file) }
    guard !fails(.look) else {
      file.refusal?.refused(at: now)
      return awaitFlush(file)
    }
    guard file.activity.mutationsInFlight == 0 else { return awaitFlush(file) }
    var descriptor = file.pages.open()
    let lost = file.pages.rewrite(file.bytes, believesAll: world.bug == .believePagesReadAgain) {
      file.released?.intersects($0) == true
    }
    writeBack(file)
    let isRefused = file.pages.takeError(&descriptor)
    let heldFile = refusal.holdsFile
    if isRefused {
      refusal.refused(at: now)
      awaitFlush(file)
    }
    let isNewlyLost = lost != nil && refusal.lost == nil
    if let lost, isNewlyLost {
      refusal.lost = lost
      file.integrity.lostContent(.lostInWriteBack(errno: Refusal.errno, lost))
      if !file.activity.hasOpenRevision {
        file.settledIntegrity.lostContent(.lostInWriteBack(errno: Refusal.errno, lost))
      }
      file.isLost = true
    } else if lost == nil, isRefused, file.activity.isSettled {
      refusal.isPinned = world.random.happens(0.7)
    }
    file.refusal = isRefused ? refusal : nil
    world.trace(
      "\(file.snapshot.brief) is \(isRefused ? "refused again" : "taken")\(isNewlyLost ? ", parts are lost" : "")")
    guard file.activity.isSettled else { return }
    noteSaved(file)
    if isNewlyLost { return announceUnsettled(file) }
    guard heldFile || file.refusal == nil else { return }
    if file.refusal?.holdsFile == true { announceUnsettled(file) } else { tell(file, .settled) }
  }

  private func noteSaved(_ file: File) {
    let known = file.integrity.interruption.map { Mark.interrupted($0) }
    put(known ?? (file.refusal == nil ? .none : .interrupted(.notOnDisk)), on: file)
    guard file.refusal == nil else { return }
    file.isSynchronized = true
    file.kept = nil
  }

  private func announceUnsettled(_ file: File) {
    noteSettled(file)
    if !file.names.isEmpty { sink?.handle(.unsettled(facts(of: file, isAnswer: false))) }
  }
}

extension SimulatedCapture.File {
  /// A session has parts that are no longer here, and nothing of it is published.
  var holdsPartsElsewhere: Bool { released != nil && !isPartlyDelivered && !names.isEmpty }

  /// What reads of the file return.
  var shown: [UInt8] { pages.shown(bytes) }

  /// Reads there return what was written, or the file is not going to be published, or a user wants it as it is.
  func isAsMeant(in range: Range<Int>) -> Bool {
    !pages.isWrong(in: range) || integrity.interruption != nil || wanted == shown
  }
}

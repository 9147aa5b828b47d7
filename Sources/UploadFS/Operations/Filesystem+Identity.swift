import CLinux
import FileModel
import Glibc
import Synchronization

/// Which capture a file of the spool is that is met there, and what is known of it: what the file says of itself counts. It says
/// nothing when it comes from an earlier version, was put there by hand, or lost its attributes when the spool was copied. Then
/// what the catalog knew counts. Without a catalog a spool that was one doubts what it cannot prove.
extension Filesystem {
  /// What speaks for an identity.
  struct Claim {
    /// What the file says of itself; nil where it could not be read.
    var found: SpoolLabel.Found?
    /// By its label or its name.
    var id: FileID?
    /// An earlier run knew it by its inode number.
    var usesInode = true
    /// See ``FileSnapshot/isPutInPlace``.
    var isPutInPlace = false

    /// The file has the identity of what it was put in the place of.
    mutating func isInPlace(of known: KnownCapture) {
      id = known.id
      usesInode = false
      isPutInPlace = true
    }
  }

  /// What a known file says of itself. One that could not say it when it was met, and says now that it is another capture, is neither
  /// that one nor the one that it was taken for: the next start meets it anew, and until then its label stays. The file's lock is held.
  func label(
    of file: CapturedFile, _ state: CapturedFile.State, at place: borrowing SpoolLocation
  ) throws(SystemError) -> SpoolLabel.Found {
    let found = if let known = state.label.found { known } else { try marks.label(at: place) }
    let isOther = state.label.found == nil && found.label.id != nil && found.label.id != file.id
    guard !isOther, found.label.saysWhatIsMissing else { throw SystemError(code: EBADMSG) }
    return found
  }

  /// Looks at a file that was not known. Fails where nothing tells which capture it is: what cannot be read is not nothing, and under a
  /// new identity its upload would not be found again. The namespace lock is held, and no file's lock.
  func claim(
    of key: SpoolKey, at entry: DirectoryEntry, _ place: borrowing SpoolLocation
  ) throws(SystemError) -> Claim {
    var claim = Claim(usesInode: !stamp.isMoved)
    do throws(SystemError) {
      claim.found = try marks.label(at: place)
    } catch {
      // Who may not read it will not be able to the next time either. In a spool that was moved its name says which it is.
      if [EACCES, EPERM].contains(error.code) {
        if let path = path(of: entry) { claim.id = try knownUnlabelled(at: path, entry)?.id }
        return claim
      }
      let isRecognised = error.isAbsence ? false : try isRecognised(key, at: entry)
      guard isRecognised else { throw error }
      // It is read again when more than the identity is asked for.
      return claim
    }
    if let id = claim.found?.label.id {
      claim.usesInode = false
      claim.id = try isCopy(id, of: key, at: entry) ? nil : id
      if let known = try knownInstead(of: id, isCopy: claim.id == nil, key, at: entry) { claim.isInPlace(of: known) }
    } else if let path = path(of: entry) {
      if claim.found?.origin == .nothing, claim.usesInode {
        claim.usesInode = try isKnownByNumber(key, at: path, entry)
      }
      if let known = try knownUnlabelled(at: path, entry) {
        claim.id = known.id
        // In another place inode numbers say nothing, and one may be that of before by chance.
        claim.isPutInPlace = stamp.isMoved
      } else if let known = try knownInPlace(at: path, of: key, entry, isByNumber: claim.usesInode) {
        claim.isInPlace(of: known)
      }
    }
    return claim
  }

  /// The files of this spool have labels: one without was put there past the mount.
  private var findsLabels: Bool { marksWriters && stamp.isThere && !stamp.isMoved }

  /// Whether a file without a label may be the capture that had its inode number, which the spool gives to another file once that one is
  /// gone. It is, if it is as that one was, if both are empty, or if its label was refused, which is recorded. Where files have no labels
  /// its name tells as well.
  private func isKnownByNumber(
    _ key: SpoolKey, at path: RelativePath, _ entry: DirectoryEntry
  ) throws(SystemError) -> Bool {
    guard stamp.isThere, !stamp.isMoved, let id = nodes.withLock({ $0.knownIdentities[key.inode] }) else { return true }
    if marks.record.mark(of: key.inode) != nil { return marks.record.mayBe(of: id, key.inode) }
    guard let known = try knownCapture(id), let facts = facts(of: entry) else { return false }
    if !marksWriters, known.path == path { return true }
    return facts.areThose(of: known) || known.sizeBytes == 0 && (facts.sizeBytes == 0 || known.path == path)
  }

  /// A file that was put past the mount under the name of a capture is another content of that capture. It is not where it is the
  /// file of another capture that could not be labelled.
  private func knownInPlace(
    at path: RelativePath, of key: SpoolKey, _ entry: DirectoryEntry, isByNumber: Bool
  ) throws(SystemError) -> KnownCapture? {
    guard findsLabels, !(isByNumber && nodes.withLock({ $0.knownIdentities[key.inode] }) != nil),
      // The creation of an empty one may have been the last that an earlier run did.
      let facts = facts(of: entry), facts.sizeBytes > 0
    else { return nil }
    return try known(at: path)
  }

  private func known(at path: RelativePath) throws(SystemError) -> KnownCapture? {
    try known { () throws(KnownCapturesUnreadable) in try spool.history.known(at: path) }
  }

  private func knownCapture(_ id: FileID) throws(SystemError) -> KnownCapture? {
    try known { () throws(KnownCapturesUnreadable) in try configuration.knownCaptures.capture(id) }
  }

  /// What cannot be read says of no file that it is not known: that is checked again.
  private func known<Answer>(_ read: () throws(KnownCapturesUnreadable) -> Answer) throws(SystemError) -> Answer {
    do throws(KnownCapturesUnreadable) {
      return try read()
    } catch {
      throw SystemError(code: EIO)
    }
  }

  /// A capture that the catalog does not know any more, or that lies elsewhere by now, lies where a later one is known that was changed
  /// after it: it comes from a backup, and is another content of that one.
  private func knownInstead(
    of id: FileID, isCopy: Bool, _ key: SpoolKey, at entry: DirectoryEntry
  ) throws(SystemError) -> KnownCapture? {
    guard stamp.isThere, let path = path(of: entry) else { return nil }
    if !isCopy, try isKnown(id, key) { return nil }
    guard let known = try known(at: path), let facts = facts(of: entry),
      facts.modifiedNanoseconds < known.modifiedNanoseconds, isCopy || wasForgotten(id, key, beside: known)
    else { return nil }
    return known
  }

  /// As long as the catalog cannot be read, its numbers, which were read before, tell it of a file that is where it was.
  private func isKnown(_ id: FileID, _ key: SpoolKey) throws(SystemError) -> Bool {
    if !stamp.isMoved, nodes.withLock({ $0.knownIdentities[key.inode] }) == id { return true }
    return try knownCapture(id) != nil
  }

  /// A capture that is not known was known once: it was not renamed to the place of the known one in the mount, which died before it could
  /// record that. Such a one is younger, has a file of its own, and was made in the seconds before.
  private func wasForgotten(_ id: FileID, _ key: SpoolKey, beside known: KnownCapture) -> Bool {
    if id < known.id || known.isEvicted { return true }
    if !stamp.isMoved, nodes.withLock({ $0.knownIdentities[key.inode] }) == known.id { return true }
    let (nanoseconds, isOver) = known.modifiedNanoseconds.subtractingReportingOverflow(id.madeAtNanoseconds)
    return !isOver && nanoseconds > Self.recordingNanosecondsMax
  }

  /// So long after a file was made the catalog knows it, if it takes anything.
  private static let recordingNanosecondsMax: Int64 = 2_000_000_000

  private func facts(of entry: DirectoryEntry) -> CapturedFile.KnownAttributes? {
    do throws(SystemError) {
      return CapturedFile.KnownAttributes(try location(of: entry).status())
    } catch {
      return nil
    }
  }

  /// A file that cannot say who it is has the inode number of a capture, and its name, or its size and time.
  private func isRecognised(_ key: SpoolKey, at entry: DirectoryEntry) throws(SystemError) -> Bool {
    guard !stamp.isMoved, let id = nodes.withLock({ $0.knownIdentities[key.inode] }),
      let known = try knownCapture(id)
    else { return false }
    return known.path == path(of: entry) || facts(of: entry)?.areThose(of: known) == true
  }

  /// A capture was copied beside itself, with its label: the known one keeps the identity.
  private func isCopy(_ id: FileID, of key: SpoolKey, at entry: DirectoryEntry) throws(SystemError) -> Bool {
    if !stamp.isMoved, nodes.withLock({ $0.knownIdentities[key.inode] }) == id { return false }
    guard let known = try knownCapture(id), let path = path(of: entry), known.path != path else {
      return false
    }
    do throws(SystemError) {
      let components = known.path.components.map { EntryName(bytes: Array($0)) }
      let place = try SpoolLocation(root: root.number, components: components)
      return try marks.label(at: place).label.id == id
    } catch  where error.isAbsence {
      // It was renamed.
      return false
    }
  }

  /// A doubtful one is known by its name alone, every other one if it is as long as it was: copies may have other times, and what was
  /// delivered is compared.
  private func knownUnlabelled(
    at path: RelativePath, _ entry: DirectoryEntry
  ) throws(SystemError) -> KnownCapture? {
    guard marksWriters || stamp.isMoved else { return nil }
    if let known = configuration.knownCaptures.doubtful[path] { return known }
    guard stamp.isMoved, let known = try known(at: path) else { return nil }
    return facts(of: entry)?.sizeBytes == known.sizeBytes ? known : nil
  }

  private func path(of entry: DirectoryEntry) -> RelativePath? {
    let folder = nodes.withLock { $0.table.components(of: entry.directory) }
    return folder.map { components in
      (components + [entry.name]).reduce(RelativePath.root) { $0.appending($1.bytes) }
    }
  }

  // MARK: - What is known of it

  /// Takes over what a file was found with, and sees to it that its label says so. The file's lock and the namespace lock are held.
  func take(
    _ found: SpoolLabel.Found, of file: CapturedFile, _ state: inout CapturedFile.State,
    _ facts: CapturedFile.KnownAttributes
  ) -> WriterStateXattr {
    let sizeBytes = facts.sizeBytes
    let isCopy = found.label.id != nil && found.label.id != file.id
    let former = marks.record.formerMark(of: file.id)
    let recorded = recordedMark(of: file, found) ?? former
    var mark = recorded ?? found.label.mark
    // What a copy lacks is held by the upload of another capture.
    state.label.takeOver(pointer: isCopy ? nil : found.label.pointer, others: found.label.others)
    noteReleased(found.label.released, of: file, &state, sizeBytes: sizeBytes)
    if found.origin == .nothing {
      let (doubt, pointer) = knownOfUnlabelled(file, facts)
      if let pointer {
        let missing = chunksWithoutBytes(of: file, chunkBytes: pointer.chunkBytes, sizeBytes: sizeBytes)
        noteReleased(missing, of: file, &state, sizeBytes: sizeBytes)
        state.label.point(to: pointer)
        if missing == nil, !mark.isDoubt { mark = .interrupted(.unproven) }
      }
      if let doubt, recorded == nil { mark = .interrupted(doubt) }
      // A mark of none would say that the disk is known to have it.
      if marksWriters, mark == .none {
        mark =
          lacksWrittenBytes(file, state, sizeBytes)
          ? .interrupted(.notOnDisk) : .closed(sizeBytes: sizeBytes, in: instance)
      }
    }
    if found.origin != .attribute, !stamp.isThere { spool.history.metUnlabelled() }
    guard found.origin != .attribute || isCopy || former != nil else { return mark }
    do throws(SystemError) {
      try putFirstLabel(mark, of: file, &state, removesEarlier: found.origin == .earlierAttributes)
    } catch {
      // It is known by its inode or its name the next time as it was now, and labelled before its first change.
    }
    return mark
  }

  /// A file that says who it is may have got the inode number of another one, past the mount.
  private func recordedMark(of file: CapturedFile, _ found: SpoolLabel.Found) -> WriterStateXattr? {
    guard let mark = marks.record.mark(of: file.key.inode) else { return nil }
    let isKnown = found.label.id == file.id
    return isKnown && !marks.record.mayBe(of: file.id, file.key.inode) ? nil : mark
  }

  /// Of a file of which the disk may not have all: there are places that were kept for bytes and never got any.
  private func lacksWrittenBytes(_ file: CapturedFile, _ state: CapturedFile.State, _ sizeBytes: UInt64) -> Bool {
    guard !stamp.isThere else { return false }
    do throws(SystemError) {
      let descriptor = try openForMarks(file, state)
      return uploadfs_has_unwritten_bytes(descriptor.number, sizeBytes) == 1
    } catch {
      // It is known to lack nothing.
      return false
    }
  }

  private func putFirstLabel(
    _ mark: WriterStateXattr, of file: CapturedFile, _ state: inout CapturedFile.State, removesEarlier: Bool
  ) throws(SystemError) {
    if marksWriters {
      let descriptor = try openForMarks(file, state)
      if put(state.label.fileLabel(of: file.id, mark), &state, on: descriptor) {
        if removesEarlier { SpoolLabel.removeEarlier(from: descriptor) }
        return
      }
    }
    if mark.isDoubt { try marks.record.keep(mark, of: file.key.inode, as: file.id, durably: false) }
  }

  /// What earlier runs knew of a file that says nothing of itself.
  private func knownOfUnlabelled(
    _ file: CapturedFile, _ facts: CapturedFile.KnownAttributes
  ) -> (doubt: Interruption?, pointer: SessionPointer?) {
    guard marksWriters || stamp.isMoved, let path = nodes.withLock({ $0.table.paths(of: file.node).first }) else {
      return (nil, nil)
    }
    let captures = configuration.knownCaptures
    if let known = captures.doubtful[path] {
      guard var doubt = known.doubt else { return (doubt(of: known, facts), known.pointer) }
      // Of what its writer has not ended the disk may have lost bytes anywhere, which no writer makes good that goes on at its end.
      if !doubt.isLack, !isRecordedHere(known) { doubt = .unproven }
      // Nothing but its name says that it is this one, which the upload has parts of: another file may have taken that just before.
      return (known.pointer == nil ? doubt : .unproven, known.pointer)
    }
    // What `.spool` has kept says nothing of the captures, which may have been copied by themselves.
    guard stamp.isThere, stamp.isMoved || captures.areLost else { return (nil, nil) }
    return (doubt(of: spool.history.knownIfRead(at: path), facts), nil)
  }

  /// Why a file that looks like a known one may not be as that was. Of what was closed shortly before a power cut the disk may have the size
  /// and zeros. In a copy without times the size has to do, and what counts as delivered is compared.
  private func doubt(of known: KnownCapture?, _ facts: CapturedFile.KnownAttributes) -> Interruption? {
    guard let known, known.sizeBytes == facts.sizeBytes else { return .unproven }
    let isTimeKnown = stamp.keepsTimes && known.modifiedNanoseconds != .min
    guard !isTimeKnown || facts.haveTheTime(of: known) else { return .unproven }
    // Held whatever the rules say: no power need have been cut, and it may be whole.
    return known.isOnDisk || isRecordedHere(known) || known.sizeBytes == 0 ? nil : .unproven
  }

  /// Copied within a filesystem that was not unmounted since, and so had it in memory where the disk did not have it yet.
  private func isRecordedHere(_ known: KnownCapture) -> Bool {
    known.recordedIn.map { instance.isThat(of: SpoolInstance(name: $0)) } ?? false
  }

  // MARK: - The spool

  /// What people should know of where the spool comes from; nil where it is as it was.
  public var spoolHistory: String? {
    guard stamp.isThere else { return nil }
    let held = "what nothing proves to have been finished is held (uploadfs-mount publish takes it as it is)"
    if configuration.knownCaptures.areLost {
      return
        "what was known of the spool's captures is gone, or as old as its copy for backups: what is whole and not known to have "
        + "been delivered is delivered again, and \(held)"
    }
    guard stamp.isMoved else { return nil }
    return stamp.hasLostAttributes
      ? "the spool was copied without extended attributes: \(held)"
      : "the spool, or its folder of captures, was moved: captures are known by what stands on their files; of those without that \(held)"
  }

  /// What was put into the spool by hand under the names of the mount's own folders, which stand before it. Blocks.
  public var hiddenNames: [String] {
    virtual.reservedNames.filter { name in
      do throws(SystemError) {
        _ = try location(of: DirectoryEntry(directory: .root, name: name)).status()
        return true
      } catch {
        // A root that cannot be examined is said by the scan (S35c).
        return false
      }
    }.map { "captures/" + String(decoding: $0.bytes, as: UTF8.self) }.sorted()
  }

  /// Captures of an earlier version, or put there by hand before the first start: how many were found so far.
  public var capturesWithoutLabels: Int { spool.history.unlabelledCount }
}

extension CapturedFile.KnownAttributes {
  /// What copies may keep of a time: 2 s (or 10 ms) on FAT, 100 ns on NTFS and SMB, and what programs cut it to. The longest first.
  private static let unitsNanoseconds: [Int64] = [2_000_000_000, 1_000_000, 1_000, 100]
  /// Times that are cut to a second or two are multiples of this.
  private static let coarseNanoseconds: Int64 = 10_000_000

  /// A copy was changed when a capture was.
  fileprivate func haveTheTime(of known: KnownCapture) -> Bool {
    let (lost, isOver) = known.modifiedNanoseconds.subtractingReportingOverflow(modifiedNanoseconds)
    let unit = Self.unitsNanoseconds.first { unit in
      modifiedNanoseconds % (unit > 1_000_000 ? Self.coarseNanoseconds : unit) == 0
    }
    return !isOver && 0..<(unit ?? 1) ~= lost
  }

  /// A file is as long as a capture was, and was changed when that was.
  fileprivate func areThose(of known: KnownCapture) -> Bool {
    sizeBytes == known.sizeBytes && modifiedNanoseconds == known.modifiedNanoseconds
  }
}

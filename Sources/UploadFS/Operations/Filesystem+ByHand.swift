import CLinux
public import FileModel
import Glibc
import Synchronization

/// What other programs do to files of the spool, past the mount.
///
/// A content that changes so is another one: nothing that was sent of the one before belongs to it, and no writer through the
/// mount has finished it. So it counts as a change of the content from the moment in which it is noticed. The new content is held
/// until a user wants it as it is or writes it anew. A file that is taken out of the spool is gone, and is said to be.
extension Filesystem {
  /// Compares what the spool has just said of a file with what it said before. The file's lock is held.
  func noteContent(of file: CapturedFile, _ state: inout CapturedFile.State) {
    guard state.activity.mutationsInFlight == 0 else {
      state.byHand.forgetSeen()
      return
    }
    let content = ChangesByHand.Content(
      epoch: state.activity.epoch, sizeBytes: state.lastKnown.sizeBytes,
      modifiedNanoseconds: spool.hasSteadyTimes ? state.lastKnown.modifiedNanoseconds : 0)
    if state.byHand.saw(content) { flushes.add(file) }
  }

  /// Whether another program has changed the file, or taken it away, which is about to be said. So it may have where the disk does not
  /// say what the file is like.
  public func isChangedOutsideMount(_ id: FileID) -> Bool {
    guard let file = file(of: id) else { return false }
    return namespaceLock.shared {
      file.state.withLock { state in
        _ = snapshotLocked(of: file, &state)
        return state.byHand.hasChangedContent || state.byHand.missedSinceSeconds != nil || state.doubt != nil
      }
    }
  }

  /// Sets a file's times by a call of the mount, which is no change of the content. The namespace lock is held.
  func setTimes(of file: CapturedFile?, _ set: () throws(SystemError) -> Void) throws(SystemError) {
    guard let file else { return try set() }
    try file.state.withLock { (state) throws(SystemError) in
      look(at: file, &state)
      try set()
      state.byHand.forgetSeen()
      look(at: file, &state)
    }
  }

  /// The file's lock and the namespace lock are held.
  private func look(at file: CapturedFile, _ state: inout CapturedFile.State) {
    note(Result { () throws(SystemError) in try statusLocked(of: file, state) }, of: file, &state)
  }

  /// A file with a writer is checked each second.
  func checkOpenFile(_ file: CapturedFile, _ state: inout CapturedFile.State) {
    guard let descriptor = state.handles.descriptor, state.activity.mutationsInFlight == 0 else { return }
    note(Result { () throws(SystemError) in try descriptor.status() }, of: file, &state)
  }

  /// Where nothing could be seen, the next look compares; a program that wants to read the file is told why that fails.
  private func note(
    _ status: Result<stat, SystemError>, of file: CapturedFile, _ state: inout CapturedFile.State
  ) {
    guard case .success(let status) = status else { return }
    state.lastKnown = CapturedFile.KnownAttributes(status)
    noteContent(of: file, &state)
  }

  /// A file does not stand where it stood. The file's lock is held.
  func noteMissing(_ file: CapturedFile, _ state: inout CapturedFile.State) {
    guard !state.activity.isGone else { return }
    state.byHand.missed(atSeconds: Self.monotonicSeconds())
    flushes.add(file)
  }

  /// Nothing stands here, whatever is known to. A file's name is known until it is looked for; a folder's is not, and what lies in it
  /// is looked for wherever the folder turns up. The namespace lock is held, and no file's lock.
  func noteTakenAway(_ entry: DirectoryEntry) {
    let known = nodes.withLock { namespace -> (files: [CapturedFile], isFile: Bool)? in
      guard let node = namespace.table.child(of: entry.directory, named: entry.name) else { return nil }
      return (namespace.table.files(below: node), namespace.table[node]?.kind == .regular)
    }
    guard let known else { return }
    noteReplaced(known.files, by: nil)
    if !known.isFile { withNodes { _ = $0.table.removeName(entry) } }
  }

  /// Something else has taken the place of these files, or of the folder that they lie in, without the mount. The namespace lock is
  /// held, and no file's lock.
  func noteReplaced(_ files: [CapturedFile], by other: NodeID?) {
    for file in files { file.state.withLock { noteMissing(file, &$0) } }
    guard let other else { return }
    for file in nodes.withLock({ $0.table.files(below: other) }) { notePutInPlace(file) }
  }

  /// Another program has given the file the place of another one, or has moved its folder to where another one was. The file's content
  /// is not meant for that name, as far as is known.
  private func notePutInPlace(_ file: CapturedFile) {
    file.state.withLock { state in
      guard !state.activity.isGone else { return }
      state.byHand.putInPlace(isKnown: !state.announcement.isToBeFound)
    }
    flushes.add(file)
  }

  /// Two captures or folders were exchanged without the mount: each stands where the other one stood. True where that is so; then each
  /// is known under its new name, and the captures are held. The namespace lock is held, and no file's lock.
  func noteExchange(of known: NodeID, with status: stat, at entry: DirectoryEntry) -> Bool {
    let pair = nodes.withLock { namespace -> (NodeTable.Node, NodeID, names: [DirectoryEntry])? in
      guard let former = namespace.table[known], let other = namespace.table.node(of: status.key),
        let names = namespace.table[other].map({ Array($0.names) }), namespace.table[other]?.kind == status.kind
      else { return nil }
      return (former, other, names)
    }
    guard let (former, other, names) = pair,
      let place = names.first(where: { $0 != entry && stands(former, at: $0) })
    else { return false }
    let files = withNodes { namespace in
      namespace.table.exchange(entry, place)
      return namespace.table.files(below: known) + namespace.table.files(below: other)
    }
    for file in files { notePutInPlace(file) }
    return true
  }

  private func stands(_ node: NodeTable.Node, at entry: DirectoryEntry) -> Bool {
    do throws(SystemError) {
      let status = try location(of: entry).status()
      return status.key == node.key && status.kind == node.kind
    } catch {
      // Then it was not exchanged, as far as is known, and is looked for like one that was replaced.
      return false
    }
  }

  // MARK: Said on the thread that flushes

  /// Tells the sink what was noticed of these files: first of those that are gone, because others may have their names.
  func announceChangesByHand(of files: [CapturedFile]) {
    var seen: [CapturedFile] = []
    for file in files {
      let isMissed = file.state.withLock { $0.byHand.missedSinceSeconds != nil }
      if !isMissed || findMissing(file) { seen.append(file) }
    }
    for file in seen {
      if file.state.withLock({ $0.byHand.hasPutInPlace }) { announcePutInPlace(file) }
      if file.state.withLock({ $0.byHand.hasChangedContent && !$0.activity.isGone }) { announceChange(of: file) }
    }
  }

  /// Programs that write files anew leave a name free for a moment.
  private static let patienceSeconds = 2

  /// Whether it is there, under one of its names at least.
  private func findMissing(_ file: CapturedFile) -> Bool {
    let missedSince = file.state.withLock { $0.activity.isGone ? nil : $0.byHand.missedSinceSeconds }
    guard let since = missedSince else { return false }
    let isOver = Self.monotonicSeconds() - since >= Self.patienceSeconds
    let found = namespaceLock.shared { () -> Standing in
      var result = Standing.gone
      let entries = nodes.withLock { $0.table[file.node].map { Array($0.names) } ?? [] }
      for entry in entries {
        switch standing(of: file, at: entry) {
        case .there: result = .there
        case .unknown: return .unknown
        case .gone:
          guard isOver else { return .unknown }
          withNodes { _ = $0.table.removeName(entry) }
        case .replaced(let status):
          guard isMet(status, at: entry) else { return .unknown }
          // Where the two were exchanged it has the other one's name by now.
          let names = nodes.withLock { $0.table[file.node].map { Array($0.names) } ?? [] }
          if names.contains(where: { !entries.contains($0) }) { result = .there }
        }
      }
      return result
    }
    switch found {
    case .there:
      file.state.withLock { $0.byHand.found() }
      announceNames(of: file)
      return true
    case .gone, .replaced:
      announceVanished(file)
      return false
    case .unknown:
      flushes.add(file)
      return false
    }
  }

  /// False where nothing tells which capture it is.
  private func isMet(_ status: stat, at entry: DirectoryEntry) -> Bool {
    do throws(SystemError) {
      _ = try adopt(status, at: entry)
      return true
    } catch {
      return false
    }
  }

  private enum Standing {
    case there
    case gone
    case replaced(by: stat)
    /// The disk cannot say it, or it is too early.
    case unknown
  }

  /// The namespace lock is held.
  private func standing(of file: CapturedFile, at entry: DirectoryEntry) -> Standing {
    do throws(SystemError) {
      // Another folder may stand where its own stood.
      for folder in nodes.withLock({ $0.table.folders(to: entry.directory) }) {
        _ = try adopt(try location(of: folder).status(), at: folder)
      }
      let place = try location(of: entry)
      do throws(SystemError) {
        let status = try place.status()
        return file.matches(status) ? .there : .replaced(by: status)
      } catch .notFound {
        // Below another filesystem that was mounted over the folder nothing is gone, only hidden.
        var folder = stat()
        try check(fstat(place.directory, &folder))
        return UInt64(folder.st_dev) == file.key.device ? .gone : .unknown
      }
    } catch {
      return error.isAbsence ? .gone : .unknown
    }
  }

  private func announceVanished(_ file: CapturedFile) {
    announce(file) { state in
      guard !state.activity.isGone, !nodes.withLock({ $0.table.isNamed(file.node) }) else { return nil }
      state.lostLastName()
      // Another file may have its number by now.
      if nodes.withLock({ $0.table.node(of: file.key) == nil }) { forgetRecordedMark(of: file.key) }
      return .vanished
    }
  }

  /// What stands in the place of a file that is gone is held as well, for it was not written through the mount, or not under this
  /// name. One that the sink knows counts as changed.
  private func announcePutInPlace(_ file: CapturedFile) {
    let isKnown = file.state.withLock { state in
      guard state.byHand.hasChangedContent else { return false }
      state.byHand.forgetPlace()
      return true
    }
    if isKnown {
      if nodes.withLock({ $0.table.isNamed(file.node) }) { announceNames(of: file) }
      return
    }
    announce(file) { state in
      state.byHand.forgetPlace()
      guard state.announcement.isToBeFound, !state.activity.isGone, state.activity.isQuiet,
        !state.activity.hasOpenRevision
      else { return nil }
      state.announcement.found()
      state.integrity.present.changedByHand()
      state.integrity.settleAsItIs()
      keepMark(of: file, &state)
      return .found
    }
  }

  private func announceChange(of file: CapturedFile) {
    let descriptor: FileDescriptor
    do throws(SystemError) {
      descriptor = try namespaceLock.shared { () throws(SystemError) in
        try file.state.withLock { (state) throws(SystemError) in try openForMarks(file, state) }
      }
    } catch {
      // One that is gone by now is found out as such.
      return flushes.add(file)
    }
    let mutation = beginUnrefusableMutation(of: file, .size(0), through: descriptor)
    file.state.withLock { state in
      state.byHand.forgetChange()
      state.integrity.present.changedByHand()
    }
    endMutation(mutation, of: file, through: descriptor, writtenBytes: nil)
    notices.pagesBecameStale(of: file.node)
    notices.attributesChanged(of: file.node)
  }

  /// The mark says what is known of the content.
  private func keepMark(of file: CapturedFile, _ state: inout CapturedFile.State) {
    do throws(SystemError) {
      keepMark(of: file, &state, through: try openForMarks(file, state))
    } catch {
      state.disk.markIsOutdated()
      flushes.add(file)
    }
  }
}

import FileModel
import Lookup

// The power fails, and what was not synced to the spool's disk is lost: bytes in any choice, sizes before them, labels
// in their order.
extension SimulatedCapture {
  func noteMetadata(of file: File) {
    guard world.scenario.losesSpool else { return }
    file.metadata.note(file.mark, count: file.bytes.count, modifiedNanoseconds: file.modifiedNanoseconds)
  }

  /// The disk has the file as it is.
  func noteSynced(_ file: File) {
    guard world.scenario.losesSpool else { return }
    file.metadata.sync(file.bytes)
  }

  /// What a label records for the run that finds it.
  func foundInterruption(of file: File) -> Interruption? {
    let isEmpty = file.bytes.isEmpty
    if world.bug == .believeClosedMarks, file.mark.isClosed { return nil }
    if world.bug == .believeEndedMarks, case .ended(let interruption, _) = file.mark { return interruption }
    if world.bug == .goOnAfterCuts, case .writing = file.mark { return .mountDied }
    return file.mark.interruption(in: instance, isEmpty: isEmpty)
  }

  /// The filesystem was unmounted with all its state, and is mounted again.
  func remount() {
    guard world.scenario.losesSpool else { return }
    world.trace("the spool's filesystem is mounted anew")
    instance += 1
    for file in byInode.sorted().map(\.value) {
      doubt(file, file.mark, isEmpty: file.bytes.isEmpty)
      file.pages.writeBack(file.bytes) { _ in false }
      noteSynced(file)
      if !isMounted { forgetDisk(of: file) }
    }
  }

  /// The machine crashes, or the disk is removed.
  func losePower() {
    guard world.scenario.losesSpool else { return }
    instance += 1
    for file in byInode.sorted().map(\.value) where !file.names.isEmpty {
      tear(file)
      if !isMounted { forgetDisk(of: file) }
    }
  }

  private func tear(_ file: File) {
    let (last, found) = (file.metadata.last, file.metadata.remaining(using: &world.random))
    var remains: [UInt8]
    if found.keptCount == last.keptCount {
      remains = file.pages.torn(file.bytes, count: found.count) { world.random.happens(0.5) }
    } else {
      // What was written since the cut lies behind this size.
      let kept = file.metadata.synced.prefix(min(found.keptCount, found.count))
      remains = kept + [UInt8](repeating: 0, count: found.count - kept.count)
    }
    for place in remains.indices where file.released?.intersects(UInt64(place)..<UInt64(place) + 1) == true {
      // The bytes are elsewhere, and not read here.
      if place < file.bytes.count { remains[place] = file.bytes[place] }
    }
    doubt(file, found.mark, isEmpty: remains.isEmpty)
    let isOther = remains != file.bytes
    if isOther {
      world.trace("a power cut leaves \(remains.count) bytes of \(file.snapshot.brief)")
      // An empty file leaves nothing that could be mixed with later writes, and an earlier content is whole, unless its
      // label contradicts that.
      let doubt = found.mark.interruption(in: instance, isEmpty: remains.isEmpty)
      if remains.isEmpty || doubt == nil && world.oracles.contains(where: { $0.knows(remains, names: file.names) }) {
        (file.isRemains, file.isPutBack) = (false, true)
      } else if doubt?.isLack == true || remains != file.metadata.synced {
        leave(remains, of: file)
      } else {
        // What a killed writer had left, and the disk had: the next writer may continue it.
        file.isPutBack = true
      }
    }
    file.bytes = remains
    // The catalog may still have the reason why the file is not whole, and is believed.
    if file.contentIntegrity.interruption != nil { file.mayBeDoubted = true }
    file.mark = found.mark
    file.modifiedNanoseconds = found.modifiedNanoseconds
    file.released?.cut(at: UInt64(remains.count))
    if file.released?.isEmpty == true { file.released = nil }
    file.pages.begin(with: remains)
    file.metadata = SimulatedMetadata()
    noteMetadata(of: file)
    noteSynced(file)
  }

  /// In another instance of the filesystem a file is doubted. A file that its disk has, with the mark that records it,
  /// is whole.
  private func doubt(_ file: File, _ mark: Mark, isEmpty: Bool) {
    if mark.interruption(in: instance, isEmpty: isEmpty) != nil { file.mayBeDoubted = true }
  }

  /// No writer has written these bytes.
  func leave(_ remains: [UInt8], of file: File) {
    file.isRemains = true
    for oracle in world.oracles { oracle.remain(remains) }
  }

  /// Remains are no longer just that when something is added to them or cut off.
  func noteRemains(of file: File) {
    file.closed = nil
    if file.isRemains { leave(file.bytes, of: file) }
  }

  // MARK: What is at the server alone

  /// A file whose parts are in this session and nowhere else.
  func file(withPartsIn session: String) -> File? {
    byInode.sorted().map(\.value).first { $0.holdsPartsElsewhere && $0.pointer?.sessionID == session }
  }

  /// The sessions that have parts of some files.
  func sessions(of isOne: (FileID) -> Bool) -> LookupSet<String> {
    let files = byInode.sorted().map(\.value).filter { $0.holdsPartsElsewhere && isOne($0.id) }
    return LookupSet(files.compactMap { $0.pointer?.sessionID })
  }
}

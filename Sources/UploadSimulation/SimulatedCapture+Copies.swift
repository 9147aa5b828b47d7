import FileModel
import Lookup
import UploadEngine

// A spool that was copied elsewhere without its files' labels: the catalog knows the files by name, and what it does
// not prove is held (`Filesystem.knownOfUnlabelled`).
extension SimulatedCapture {
  /// Parts that were given up read as zeros in the copy, and nothing marks them.
  func copyWithoutLabels() {
    let keepsTimes = world.random.happens(0.5)
    let staysHere = world.random.happens(0.5)
    world.trace(
      "the spool is copied without labels\(keepsTimes ? "" : ", and without times")\(staysHere ? ", on its filesystem" : "")"
    )
    if !staysHere { instance += 1 }
    copiesKeepTimes = keepsTimes
    for file in byInode.sorted().map(\.value) where !file.names.isEmpty {
      (file.hasLostLabel, file.mayBeDoubted) = (true, true)
      if !keepsTimes { file.modifiedNanoseconds = world.time.wallNanoseconds }
      giveNewNumber(to: file)
    }
  }

  /// A start finds files without labels.
  func takeUnlabelled(knownTo storage: SimulatedJournal.Storage) {
    var known: LookupTable<RelativePath, CatalogEntry> = [:]
    for entry in storage.entriesByChange where !entry.state.isHistory {
      if known[entry.path]?.isDoubtful == true, !entry.isDoubtful { continue }
      known[entry.path] = entry
    }
    for file in byInode.sorted().map(\.value) {
      // In a copied spool inode numbers prove nothing.
      file.isPutInPlace = file.hasLostLabel
      guard file.hasLostLabel else { continue }
      file.hasLostLabel = false
      let entry = known[file.names[0]]
      let isThere = entry.map { storage.isOnDisk($0.id) || storage.isRecorded($0.id, in: instance) } ?? false
      take(file, entry, isOnDisk: isThere, isHere: entry.map { storage.isRecorded($0.id, in: instance) } ?? false)
    }
  }

  /// What the spool's disk is known to have of captures: whether some of a closed content may be missing.
  var onDisk: [(id: FileID, isMissing: Bool)] {
    byInode.sorted().map(\.value).filter { !$0.names.isEmpty }.map { file in
      let isOnDisk = !world.scenario.losesSpool || file.isSynchronized && file.mark == .none
      return (file.id, file.activity.isQuiet && file.integrity.interruption == nil && !isOnDisk)
    }
  }

  private func take(_ file: File, _ entry: CatalogEntry?, isOnDisk: Bool, isHere: Bool) {
    let (released, wasMistaken) = (file.released, file.isMistaken)
    (file.released, file.pointer, file.isMistaken) = (nil, nil, false)
    if let entry, entry.isDoubtful {
      let isOther = entry.id != file.id
      file.id = entry.id
      let recorded = entry.doubt.map { $0.isLack || isHere ? $0 : .unproven }
      let known = recorded ?? doubt(of: entry, file, isOnDisk: isOnDisk)
      let doubt = entry.doubt == nil || entry.pointer == nil ? known : .unproven
      file.mark = doubt.map { .interrupted($0) } ?? .closed(instance)
      file.pointer = entry.pointer
      // The parts are found by their zeros.
      if let pointer = entry.pointer, pointer.chunkBytes == released?.chunkBytes {
        file.released = released?.withoutContents
        // Each further copy keeps that mistake.
        file.isMistaken = isOther || wasMistaken
      }
    } else {
      let isSameSize = entry?.sizeBytes == UInt64(file.bytes.count)
      file.id = isSameSize ? entry?.id ?? file.id : FileID.random(using: &world.random)
      file.mark = doubt(of: entry, file, isOnDisk: isOnDisk).map { .interrupted($0) } ?? .closed(instance)
    }
    if world.bug == .believeBareCopies { (file.mark, file.released, file.pointer) = (.closed(instance), nil, nil) }
    if let released, file.released == nil { fill(file, released) }
    forgetDisk(of: file)
    noteMetadata(of: file)
    noteSynced(file)
  }

  /// As `Filesystem.doubt(of:_:)`.
  private func doubt(of entry: CatalogEntry?, _ file: File, isOnDisk: Bool) -> Interruption? {
    guard let entry, entry.sizeBytes == UInt64(file.bytes.count),
      !copiesKeepTimes || entry.modifiedNanoseconds == file.modifiedNanoseconds
    else { return .unproven }
    return isOnDisk || file.bytes.isEmpty || world.bug == .believeSizes ? nil : .unproven
  }

  /// A user wants a file as it is that was taken for another one: the missing parts are replaced by what that one has at the server.
  func noteMixed(_ file: File) {
    guard file.isMistaken, file.wanted != nil else { return }
    for oracle in world.oracles { oracle.mixed(file.names) }
  }

  /// It is not known that anything is missing.
  private func fill(_ file: File, _ released: ReleasedChunks) {
    for place in file.bytes.indices where released.intersects(UInt64(place)..<UInt64(place) + 1) {
      file.bytes[place] = 0
    }
    file.pages.begin(with: file.bytes)
    leave(file.bytes, of: file)
  }
}

extension CatalogEntry {
  /// As ``KnownCapture/isDoubtful``.
  fileprivate var isDoubtful: Bool { doubt != nil || pointer != nil }
}

public import FileModel

/// The captured files for one of several who read them and follow their chunks.
struct SubscribedContents: FileContents {
  let filesystem: Filesystem
  let subscriber: SubscriberID

  func snapshot(of id: FileID) -> FileSnapshot? { filesystem.snapshot(of: id) }

  func sizeBytesSoon(of id: FileID) -> UInt64? { filesystem.sizeBytesSoon(of: id) }

  func growth(of id: FileID, chunkBytes: Int, anew: Bool) -> GrowthReport? {
    filesystem.growth(of: id, chunkBytes: chunkBytes, anew: anew, for: subscriber)
  }

  func stableEpoch(of id: FileID, at offset: UInt64) -> UInt64? {
    filesystem.stableEpoch(of: id, at: offset, for: subscriber)
  }

  func isChangedOutsideMount(_ id: FileID) -> Bool { filesystem.isChangedOutsideMount(id) }

  func isReleased(_ id: FileID, _ range: Range<UInt64>) -> Bool { filesystem.isReleased(id, range) }

  func openForReading(_ id: FileID) throws(FileContentsError) -> any ReadableFile {
    try filesystem.openForReading(id)
  }

  func rescan(at path: RelativePath) -> RescanResult { filesystem.rescan(at: path) }

  func rescanAll(below folder: RelativePath, where isWanted: (FileID) -> Bool) -> Bool {
    filesystem.rescanAll(below: folder, where: isWanted)
  }

  func unload(_ ids: [FileID]) { filesystem.unload(ids) }

  func entries(of folder: RelativePath) -> [SpoolEntry]? { filesystem.entries(of: folder) }

  func evict(_ candidate: EvictionCandidate) -> Bool { filesystem.evict(candidate) }

  func accept(_ id: FileID, _ interruption: Interruption?, ifUnchangedSince epoch: UInt64) {
    filesystem.accept(id, interruption, ifUnchangedSince: epoch)
  }
}

extension Filesystem {
  /// The captured files as one of several readers sees them, each of whom has a number of its own. The filesystem itself is
  /// what a single reader sees.
  public func contents(for subscriber: SubscriberID) -> any FileContents {
    SubscribedContents(filesystem: self, subscriber: subscriber)
  }
}

import FileModel
import Lookup
import OrderedCollections

/// What has changed at one destination since the last query.
struct CountedFiles: Sendable {
  var changed: [(id: FileID, standing: FileStanding)] = []
  /// Larger files of which chunks are sent: ready ones that count as uploading.
  var atWork: [FileID] = []
  /// Undelivered ones that a rule is about to remove.
  var leaving: OrderedSet<FileID> = []
  /// The destination cannot be reached.
  var isPaused = false
  /// A folder of the spool cannot be read, which counts as something undelivered.
  var isScanFailing = false
}

extension UploadSchedule {
  /// From now on the identifiers of files whose counted state changes are kept until they are taken. Called before the
  /// first file.
  mutating func rememberChanges() { files.changed = [] }

  /// The number of identifiers that are kept.
  var changedCount: Int { files.changed?.count ?? 0 }

  /// Where several destinations are counted together: what has changed since the last time.
  mutating func takeCounted() -> CountedFiles {
    let changed = files.changed?.sorted() ?? []
    if files.changed != nil { files.changed = [] }
    return CountedFiles(
      changed: changed.map { id in (id, files.entry(id).map { FileStanding($0.file) } ?? .none) },
      atWork: queues.working.filter { files.entry($0)?.file.phase == .ready },
      leaving: filesBeingDiscarded(), isPaused: destination.gate.failure != nil, isScanFailing: spool.health.scan != nil
    )
  }
}

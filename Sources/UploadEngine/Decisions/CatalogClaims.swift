import FileModel
import Lookup

/// What the catalog records of contents that may have changed. The spool cannot say yet what lies there, another
/// content was found than was delivered, or a content is about to change.
struct CatalogClaims: Sendable {
  /// Entries of files that were found, and of which the spool cannot say yet whether they are what their entries describe.
  private var unconfirmed: LookupTable<FileID, CatalogEntry> = [:]
  /// Files of which the catalog records that another content was delivered than the one that was found, until it has
  /// ceased to do so.
  private var superseded: LookupSet<FileID> = []
  /// Between ``UploadSchedule/contentWillChange(_:)`` and the change, or its refusal.
  private var changing: LookupTable<FileID, KnownContent> = [:]

  /// The file is gone.
  mutating func forget(_ id: FileID) {
    unconfirmed[id] = nil
    superseded.remove(id)
    changing[id] = nil
  }

  /// No claim concerns the file.
  func isClear(of id: FileID) -> Bool { unconfirmed[id] == nil && changing[id] == nil && !superseded.contains(id) }

  // MARK: - Unconfirmed entries

  func unconfirmedEntry(of id: FileID) -> CatalogEntry? { unconfirmed[id] }

  mutating func leaveUnconfirmed(_ entry: CatalogEntry?, of id: FileID) { unconfirmed[id] = entry }

  mutating func takeUnconfirmed(_ id: FileID) -> CatalogEntry? { unconfirmed.removeValue(forKey: id) }

  /// What was delivered of the file counts no longer, or is known to be what lies there.
  mutating func forgetUnconfirmed(_ id: FileID) { unconfirmed[id] = nil }

  mutating func renamed(_ id: FileID, to path: RelativePath) { unconfirmed[id]?.path = path }

  /// From now on the file itself says that it is this capture. Its inode number must not tell the next start that it
  /// was changed.
  mutating func inodeIsNoProof(of id: FileID) { unconfirmed[id]?.inode = 0 }

  // MARK: - Superseded deliveries

  var haveSuperseded: Bool { !superseded.isEmpty }

  func isSuperseded(_ id: FileID) -> Bool { superseded.contains(id) }

  mutating func supersede(_ id: FileID) { superseded.insert(id) }

  /// The catalog has ceased to record the delivery, or is right.
  mutating func endSuperseding(_ id: FileID) { superseded.remove(id) }

  // MARK: - Contents that are about to change

  func isChanging(_ id: FileID) -> Bool { changing[id] != nil }

  func changingContent(of id: FileID) -> KnownContent? { changing[id] }

  mutating func beginChange(of id: FileID, _ known: KnownContent) { changing[id] = known }

  /// The content has changed, or stays.
  mutating func endChange(of id: FileID) { changing[id] = nil }
}

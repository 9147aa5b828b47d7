import FileModel
import Lookup

/// What earlier runs have left, until the scan of the spool finds its files: catalog entries, resume records and
/// sessions to end.
struct Recovery: Sendable {
  private var entries: LookupTable<FileID, CatalogEntry> = [:]
  private var records: LookupTable<FileID, ResumeRecord> = [:]
  private var sessions: LookupTable<String, DiscardedSession> = [:]
  /// Records could not be read.
  private(set) var lacksRecords = false
  /// Files of this run were accepted before the state of earlier runs was known.
  private(set) var isLate = false
  /// Files that were removed before the scan found them: a call may wait for their delivery.
  private var removedUnfound: LookupSet<FileID> = []
  /// The number of files found that a new catalog does not record; nil where the catalog is the earlier one.
  private var unknownCount: Int?

  mutating func goOnWithoutThem() { isLate = true }

  mutating func begin(with state: RecoveredUploads) {
    entries = state.entries
    records = state.records
    lacksRecords = state.lacksRecords
    unknownCount = state.isCatalogAnew ? 0 : nil
  }

  // MARK: - Entries of the catalog

  func entry(of id: FileID) -> CatalogEntry? { entries[id] }

  mutating func takeEntry(of id: FileID) -> CatalogEntry? { entries.removeValue(forKey: id) }

  /// The catalog entry of a file that the scan is about to find, or that memory does not hold.
  mutating func expect(_ entry: CatalogEntry) { entries[entry.id] = entry }

  /// A content that was about to change has stayed: its entry applies again.
  mutating func contentStays(_ entry: CatalogEntry) {
    if entries[entry.id] != nil { entries[entry.id] = entry }
  }

  mutating func contentChanges(of id: FileID) { entries[id]?.contentChanges() }

  mutating func forgetEntry(of id: FileID) { entries[id] = nil }

  /// Entries in the order of their files, so that a run can be replayed.
  func entries(where isWanted: (FileID) -> Bool) -> [CatalogEntry] {
    entries.sorted().filter { isWanted($0.key) }.map(\.value)
  }

  /// The scan has ended: only these entries are still waited for.
  mutating func keepEntries(_ kept: [CatalogEntry]) { entries = LookupTable(kept.map { ($0.id, $0) }) }

  // MARK: - Resume records

  func record(of id: FileID) -> ResumeRecord? { records[id] }

  mutating func takeRecord(of id: FileID) -> ResumeRecord? { records.removeValue(forKey: id) }

  /// Ordered, so that a run can be replayed.
  var filesWithRecords: [FileID] { records.sorted().map(\.key) }

  // MARK: - Sessions

  /// Sessions that a file may continue, or that are to be ended.
  var sessionIDs: LookupSet<String> {
    var ids = records.values(\.sessionID)
    ids.formUnion(sessionsWithParts)
    ids.formUnion(sessions.values(\.id))
    return ids
  }

  /// Sessions that have parts of a file, by the catalog.
  var sessionsWithParts: LookupSet<String> { entries.values { $0.pointer?.sessionID } }

  /// Sessions to end once the spool is known: a file may say that one has parts of it. Returns the files whose records
  /// name them. No file continues these sessions: they may have been ended.
  mutating func expectToEnd(_ sessions: [DiscardedSession]) -> [FileID] {
    self.sessions = LookupTable(sessions.map { ($0.id, $0) })
    let files = records.sorted().filter { self.sessions[$0.value.sessionID] != nil }.map(\.key)
    for id in files { records[id] = nil }
    return files
  }

  /// Keeps the session. True where it was to be ended.
  mutating func spare(_ session: String) -> Bool { sessions.removeValue(forKey: session) != nil }

  var hasSessionsToEnd: Bool { !sessions.isEmpty }

  /// The sessions in the order of their names; from now on the caller owns them.
  mutating func takeSessionsToEnd() -> [DiscardedSession] {
    defer { sessions = [:] }
    return sessions.sorted().map(\.value)
  }

  // MARK: - What the search finds, and what not

  /// The scan has found a file that the catalog does not record.
  mutating func noteUnknown() { unknownCount = unknownCount.map { $0 + 1 } }

  /// The number of such files, where the catalog was created anew; returned once.
  mutating func takeUnknownCount() -> Int? { unknownCount.take() }

  mutating func noteRemovedUnfound(_ id: FileID) { removedUnfound.insert(id) }

  func wasRemovedUnfound(_ id: FileID) -> Bool { removedUnfound.contains(id) }

  mutating func searchEnded() { removedUnfound = [] }
}

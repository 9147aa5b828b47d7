import FileModel
import Lookup

/// What earlier runs have left, until the search of the spool comes to its files: entries of the catalog, resume records and sessions that
/// were to be ended.
struct Recovery: Sendable {
  private var entries: LookupTable<FileID, CatalogEntry> = [:]
  private var records: LookupTable<FileID, ResumeRecord> = [:]
  private var sessions: LookupTable<String, DiscardedSession> = [:]
  /// Records could not be read.
  private(set) var lacksRecords = false
  /// Files of this run were taken before it was known what earlier ones have left.
  private(set) var isLate = false
  /// Files that were removed before the search came to them: a call may wait for their delivery.
  private var removedUnfound: LookupSet<FileID> = []
  /// So many files were found that a new catalog does not know; nil where the catalog is the one of before.
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

  /// The catalog says this of a file that the search is about to find, or that memory does not hold.
  mutating func expect(_ entry: CatalogEntry) { entries[entry.id] = entry }

  /// A content that was to change has stayed: the entry says of it what it said.
  mutating func contentStays(_ entry: CatalogEntry) {
    if entries[entry.id] != nil { entries[entry.id] = entry }
  }

  mutating func contentChanges(of id: FileID) { entries[id]?.contentChanges() }

  mutating func forgetEntry(of id: FileID) { entries[id] = nil }

  /// Entries in the order of their files, so that a run can be played again.
  func entries(where isWanted: (FileID) -> Bool) -> [CatalogEntry] {
    entries.sorted().filter { isWanted($0.key) }.map(\.value)
  }

  /// The search has ended: these alone are still waited for.
  mutating func keepEntries(_ kept: [CatalogEntry]) { entries = LookupTable(kept.map { ($0.id, $0) }) }

  // MARK: - Resume records

  func record(of id: FileID) -> ResumeRecord? { records[id] }

  mutating func takeRecord(of id: FileID) -> ResumeRecord? { records.removeValue(forKey: id) }

  /// In an order, so that a run can be played again.
  var filesWithRecords: [FileID] { records.sorted().map(\.key) }

  // MARK: - Sessions

  /// Those that a file may go on with, or that are to be ended.
  var sessionIDs: LookupSet<String> {
    var ids = records.values(\.sessionID)
    ids.formUnion(sessionsWithParts)
    ids.formUnion(sessions.values(\.id))
    return ids
  }

  /// Sessions that the catalog names as those that have parts of a file.
  var sessionsWithParts: LookupSet<String> { entries.values { $0.pointer?.sessionID } }

  /// Sessions that are to be ended once the spool is known: a file may say that one has parts of it. Files whose records name them, which no
  /// file goes on with: they may have been ended.
  mutating func expectToEnd(_ sessions: [DiscardedSession]) -> [FileID] {
    self.sessions = LookupTable(sessions.map { ($0.id, $0) })
    let files = records.sorted().filter { self.sessions[$0.value.sessionID] != nil }.map(\.key)
    for id in files { records[id] = nil }
    return files
  }

  /// True where the session was to be ended, which it is not any more.
  mutating func spare(_ session: String) -> Bool { sessions.removeValue(forKey: session) != nil }

  var hasSessionsToEnd: Bool { !sessions.isEmpty }

  /// In the order of their names; from now on they are the caller's.
  mutating func takeSessionsToEnd() -> [DiscardedSession] {
    defer { sessions = [:] }
    return sessions.sorted().map(\.value)
  }

  // MARK: - What the search finds, and what not

  /// The search has found a file of which the catalog knows nothing.
  mutating func noteUnknown() { unknownCount = unknownCount.map { $0 + 1 } }

  /// So many such files were found, where the catalog was made anew; counted once.
  mutating func takeUnknownCount() -> Int? { unknownCount.take() }

  mutating func noteRemovedUnfound(_ id: FileID) { removedUnfound.insert(id) }

  func wasRemovedUnfound(_ id: FileID) -> Bool { removedUnfound.contains(id) }

  mutating func searchEnded() { removedUnfound = [] }
}

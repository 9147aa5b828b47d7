import FileModel
import Lookup
import Testing

@testable import UploadEngine

@Suite struct RecoveryTests {
  private static func entry(_ number: UInt64, session: SessionPointer? = nil) -> CatalogEntry {
    var entry = CatalogEntry(
      id: FileID(high: 0, low: number), path: RelativePath("\(number).mov"), inode: number, sizeBytes: 1,
      modifiedNanoseconds: 0, revision: 1, state: .pending)
    entry.pointer = session
    return entry
  }

  /// An event, the search or a loss takes an entry once; what the search keeps is waited for on.
  @Test func anEntry_isTakenOnce_andOnlyKeptOnesOutliveTheSearch() {
    var recovery = Recovery()
    recovery.begin(with: RecoveredUploads(catalog: [3, 1, 2].map { Self.entry($0) }, records: []))
    #expect(recovery.takeEntry(of: FileID(high: 0, low: 1)) != nil)
    #expect(recovery.takeEntry(of: FileID(high: 0, low: 1)) == nil)
    #expect(recovery.entries { _ in true }.map(\.id.low) == [2, 3])
    recovery.keepEntries(recovery.entries { $0.low == 3 })
    #expect(recovery.entry(of: FileID(high: 0, low: 2)) == nil && recovery.entry(of: FileID(high: 0, low: 3)) != nil)
  }

  /// A content that stays is told to an entry that is still there, and brings back none that was taken.
  @Test func aContentThatStays_restoresItsEntryAlone() {
    var recovery = Recovery()
    recovery.contentStays(Self.entry(1))
    #expect(recovery.entry(of: FileID(high: 0, low: 1)) == nil)
  }

  /// Files that a new catalog does not know are counted, and said once; with the catalog of before none is.
  @Test(arguments: [true, false]) func unknownFiles_areCounted_whereTheCatalogIsNew(isNew: Bool) {
    var recovery = Recovery()
    recovery.begin(with: RecoveredUploads(catalog: [], records: [], isCatalogAnew: isNew))
    for _ in 0..<3 { recovery.noteUnknown() }
    #expect(recovery.takeUnknownCount() == (isNew ? 3 : nil))
    #expect(recovery.takeUnknownCount() == nil)
  }

  /// A session that was to be ended, and has parts of a file after all, is not; the others are the caller's, once.
  @Test func sessionsToEnd_areTakenOnce_butForThoseThatAreSpared() {
    var recovery = Recovery()
    let sessions = ["b", "a", "c"].map { DiscardedSession(id: $0, sinceSeconds: 0) }
    #expect(recovery.expectToEnd(sessions).isEmpty && recovery.hasSessionsToEnd)
    #expect(recovery.spare("b") && !recovery.spare("b"))
    #expect(recovery.sessionIDs == ["a", "c"])
    #expect(recovery.takeSessionsToEnd().map(\.id) == ["a", "c"] && !recovery.hasSessionsToEnd)
  }
}

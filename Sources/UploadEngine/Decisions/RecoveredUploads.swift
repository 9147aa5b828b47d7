public import FileModel
import Lookup

/// What earlier runs knew of the files that lie in the spool.
public struct RecoveredUploads: Sendable {
  let entries: LookupTable<FileID, CatalogEntry>
  let records: LookupTable<FileID, ResumeRecord>
  /// What is known of the speed of the link, from the record that knows most.
  let estimator: SpeedEstimate.State?
  /// The longest chunk of a session that is continued: sessions keep their chunk size, whatever the settings say.
  let chunkBytesMax: Int

  /// Files were delivered, or partly so: their destination takes uploads, and its 404 is temporary.
  let provesAddress: Bool

  /// There may be more records that the disk could not return.
  let lacksRecords: Bool

  /// The catalog was created anew, or is an older copy: what it does not record was lost, or never known.
  let isCatalogAnew: Bool

  /// Sessions that are still to be ended, and the reference time for their age.
  let discarded: [DiscardedSession]
  let atSeconds: Int64

  /// Files whose catalog entries are read when they are needed: memory may not hold all.
  let unread: [FileID]

  /// From the catalog and the resume records. `hasDeliveries`: some of the unread entries have receipts.
  public init(
    catalog: [CatalogEntry], unread: [FileID] = [], hasDeliveries: Bool = false, records: [ResumeRecord],
    lacksRecords: Bool = false, isCatalogAnew: Bool = false, discarded: [DiscardedSession] = [], atSeconds: Int64 = 0
  ) {
    self.unread = unread
    self.isCatalogAnew = isCatalogAnew
    self.lacksRecords = lacksRecords
    self.discarded = discarded
    self.atSeconds = atSeconds
    entries = LookupTable(catalog.map { ($0.id, $0) })
    self.records = LookupTable(records.map { ($0.fileID, $0) })
    provesAddress = hasDeliveries || !records.isEmpty || catalog.contains { $0.receipt != nil }
    chunkBytesMax = (records.map(\.chunkBytes) + catalog.compactMap { $0.pointer?.chunkBytes }).max() ?? 0
    estimator = records.compactMap(\.estimator).max { $0.sampleCount < $1.sampleCount }
  }
}

import FileModel

/// What earlier runs knew of the files that lie in the spool.
public struct Inheritance: Sendable {
  let entries: [FileID: CatalogEntry]
  let records: [FileID: ResumeRecord]
  /// What is known of the speed of the link, from the record that knows most.
  let estimator: SpeedEstimate.State?

  /// From the catalog and the resume records.
  public init(catalog: [CatalogEntry], records: [ResumeRecord]) {
    entries = Dictionary(catalog.map { ($0.id, $0) }) { _, newer in newer }
    self.records = Dictionary(records.map { ($0.fileID, $0) }) { _, newer in newer }
    estimator = records.compactMap(\.estimator).max { $0.sampleCount < $1.sampleCount }
  }
}

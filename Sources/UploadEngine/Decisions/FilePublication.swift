import FileModel
import TransferModel

/// What is published of a file, and what is being published.
struct FilePublication: Sendable {
  /// The commit, or the whole-file request of an empty file, in flight; with the name that it publishes.
  @Boxed private(set) var current: FileUpload.Publishing?
  /// Names under which the present content is published.
  private(set) var paths: [RelativePath] = []
  @Boxed private(set) var receipt: Receipt?
  private(set) var completedAt: Int64?
  /// See ``chunkBytes``. It lies where the value before it leaves room.
  private var formerChunkBytes: UInt32 = 0
  /// The delivery time by ``SteadyClock``; nil where an earlier run has delivered the file.
  private(set) var keptSince: Int64?

  /// The chunk length of what is delivered, or else of the latest delivery; 0 where that is not known, or went in one request.
  var chunkBytes: Int {
    guard let receipt else { return Int(formerChunkBytes) }
    guard let chunkBytes = receipt.chunkBytes, receipt.sizeBytes > UInt64(clamping: chunkBytes) else { return 0 }
    return chunkBytes
  }

  /// The delivery time, for durations counted from then.
  var deliveredAt: Int64 { keptSince ?? completedAt ?? 0 }

  /// A request has gone out.
  mutating func begin(_ publishing: FileUpload.Publishing) { current = publishing }

  /// The request was answered, or has failed.
  mutating func end() { current = nil }

  /// The present content is published, under this name of the file; nil where it has lost that.
  mutating func succeed(_ receipt: Receipt, under path: RelativePath?) {
    self.receipt = receipt
    if let path { paths.append(path) }
  }

  /// The first publication of a content is its delivery.
  mutating func complete(at time: Int64, keptSince: Int64) {
    completedAt = time
    self.keptSince = keptSince
  }

  /// A name that the file no longer has does not show this content to a local program. Should the file get it back, it
  /// is published again.
  mutating func keep(_ names: [RelativePath]) { paths.removeAll { !names.contains($0) } }

  /// The content is about to differ from what was delivered.
  mutating func contentWillChange() {
    formerChunkBytes = UInt32(clamping: chunkBytes)
    receipt = nil
    paths = []
  }

  /// The content differs from what was delivered.
  mutating func contentChanged() {
    contentWillChange()
    (completedAt, keptSince) = (nil, nil)
  }

  /// The content that was about to change is what was delivered.
  mutating func contentStays(_ receipt: Receipt?, under paths: [RelativePath]) {
    self.receipt = receipt
    self.paths = paths
  }

  /// The same content is to be delivered again.
  mutating func restart() {
    receipt = nil
    paths = []
    (completedAt, keptSince) = (nil, nil)
  }

  /// The catalog knows the delivery of what lies here; of these names those count that the file has.
  mutating func found(_ entry: CatalogEntry, names: [RelativePath]) {
    receipt = entry.receipt
    paths = entry.publishedPaths.filter { names.contains($0) }
    // Earlier versions did not record the time.
    completedAt = entry.completedAtMilliseconds ?? entry.receipt?.publishedAtMilliseconds
    keptSince = nil
  }

  /// The catalog knows the delivery of a file that is not there to be read.
  mutating func recall(_ entry: CatalogEntry) {
    receipt = entry.receipt
    completedAt = entry.completedAtMilliseconds
  }

  /// The names of a file that memory did not hold.
  mutating func recallPaths(of entry: CatalogEntry) { paths = entry.publishedPaths }

  /// This run has delivered the file; nil where an earlier one did.
  mutating func recall(keptSince time: Int64?) { keptSince = time }
}

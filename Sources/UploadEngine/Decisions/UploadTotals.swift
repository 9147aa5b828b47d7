/// What has come about since the start, over all files; counters only grow.
struct UploadTotals: Hashable, Sendable {
  /// Bytes that the destination has taken, whether or not they are published by now.
  var acknowledgedBytes: UInt64 = 0
  /// Chunks that were sent again after a failure.
  var retriedChunks: UInt64 = 0
  /// Chunks that did not have to be sent, because the destination had them.
  var reusedChunks: UInt64 = 0
  /// Files that have outgrown what the destination takes.
  var outgrownFiles: UInt64 = 0
  /// Files that the spool's disk did not take when they were written.
  var filesRefusedByDisk: UInt64 = 0
  /// Files that other programs changed in the spool or removed from it before they were delivered.
  var filesChangedInSpool: UInt64 = 0
  var rate = RateMeter()
}

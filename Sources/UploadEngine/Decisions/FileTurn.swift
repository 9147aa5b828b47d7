/// A file's place among those that are sent, and what its next request has to heed.
struct FileTurn: Hashable, Sendable {
  /// Bytes given to this file so far, for fairness; see ``UploadSchedule``.
  private(set) var virtualTime: UInt64 = 0
  /// True for a small file that is being read or sent; the others are in the schedule's lists.
  private(set) var isSmallAtWork = false
  /// A request that carried the file beside others was refused as a whole.
  private(set) var goesAlone = false
  /// Set until something is acknowledged: its connections did not move.
  private(set) var needsNewConnection = false

  /// The file takes its place behind those that were served by then.
  mutating func join(at time: UInt64) { virtualTime = max(virtualTime, time) }

  /// The file comes before all others.
  mutating func joinFirst() { virtualTime = 0 }

  mutating func give(_ bytes: UInt64) { virtualTime += bytes }

  mutating func beginSmallWork() { isSmallAtWork = true }

  mutating func endSmallWork() { isSmallAtWork = false }

  mutating func goAlone() { goesAlone = true }

  /// What was refused may have been the former content.
  mutating func contentChanged() { goesAlone = false }

  /// Its connections do not move.
  mutating func connectionStalled() { needsNewConnection = true }

  /// Something of it was acknowledged.
  mutating func connectionMoved() { needsNewConnection = false }
}

/// What has to hold in every run. Each has a word for replays, proofs and reports.
public enum Invariant: String, CaseIterable, Sendable {
  /// What is published is what a file contained, under a name that it had, while it had no writer.
  case publication
  /// What the catalog calls complete has a receipt for those bytes.
  case receipt
  /// Nothing is complete before its receipt is on the disk.
  case durability
  /// What is read of a capture, and what an fsync has confirmed, is what was written to it, whatever its disk has refused.
  case writeBack = "write-back"
  /// A receipt is for bytes that the receiver's disk has, and is on the disk itself.
  case stableStorage = "stable-storage"
  /// Nothing is forgotten, ended or deleted because it could not be read.
  case retention
  /// What waits or is held says why.
  case explanation
  /// What was acknowledged can be read.
  case acknowledgement
  /// What was acknowledged is not sent again.
  case resending
  /// What a power cut, or a copy without labels, has left of a capture is published only by command.
  case remains
  /// An older content that was put back by hand does not replace a later one that was delivered.
  case older
  /// A part whose only copy is at the server is never given up there, nor taken for lost.
  case onlyCopy = "only-copy"
  /// The same bytes do not go out again and again without pauses that grow.
  case cost
  /// Nothing is published by two requests at once.
  case singlePublication = "single-publication"
  /// No chunk is sent by two requests at once.
  case singleChunk = "single-chunk"
  /// Requests in flight are bounded, as memory allows.
  case parallelism
  /// Buffers are bounded, as memory allows.
  case buffers
  /// Every buffer comes back, and every request is answered.
  case leaks
  /// Failures come at a bounded pace.
  case pace
  /// Nothing is compressed for a receiver that has not asked for it.
  case encoding
  /// Resume records can be written.
  case resumeRecord = "resume-record"
  /// No request goes to an address that has just failed while there is one that has not.
  case address
  /// No request outlives its deadline.
  case deadline
  /// What moves is left alone.
  case patience
  /// A stuck file connects anew.
  case reconnection
  /// A file without progress reacts to that, and what is chosen is sent.
  case standstill
  /// A local copy goes only when the receiver shows those bytes.
  case eviction
  /// No more is published than the quota allows.
  case quota
  /// The parts of the schedule agree with each other, and no file enters an impossible phase.
  case consistency
  /// Once the faults end, everything ends.
  case progress
  /// Then every file shows its last content or reports why not.
  case delivery
  /// A capture is published under one name as long as it lives, and no other one under that.
  case names
  /// What the client has published is replaced by what it publishes later, however often it has died in between. What
  /// another machine has published is not.
  case owners
  /// A call that waits for a delivery ends when its file's result is known, with that result, and not before.
  case waits
  /// Files go where rules send them, and a failing destination delays no other.
  case destinations
  /// A user's decision about a file is kept.
  case words
  /// On a good link a file is acknowledged soon after its close.
  case tail
  /// After more than a week the receiver holds nothing but what is published.
  case expiry
  /// A capture takes its line no longer than its bytes do, and a little more.
  case lineTime = "line-time"
  /// Of what a line carries next to nothing is sent twice.
  case resentBytes = "resent-bytes"
  /// A cut at any moment loses at most two seconds of the line, or a chunk of each stream.
  case lostBytes = "lost-bytes"
  /// The shown remaining time is true.
  case estimate
  /// The shown progress changes while bytes move.
  case shownProgress = "shown-progress"
  /// Of many clients none waits much longer than the others for its turn at the receiver.
  case starvation
  /// Many clients whose receiver goes down and comes back do not ask it all at once, and not again and again.
  case retryStorm = "retry-storm"
  /// A receiver has no more sessions than captures that are under way.
  case receiverSessions = "receiver-sessions"
  /// What many clients send over a restart of the receiver is published once.
  case publishedOnce = "published-once"
  /// A run has no end of events.
  case events
}

/// What an invariant found.
public struct Violation: Error, Hashable, Sendable {
  /// What does not hold.
  public var invariant: Invariant
  /// What happened.
  public var detail: String
  /// Virtual seconds since the start.
  public var seconds: Double
}

/// A subscriber to the chunks of files that are being written. Each asks for chunks of its own length, and hears for itself
/// what is new.
public struct SubscriberID: Hashable, Sendable {
  /// Differs from every other follower's.
  public var number: Int

  /// Where there is only one.
  public static let only = SubscriberID(number: 0)

  /// One of several.
  public init(number: Int) {
    self.number = number
  }
}

/// The chunks of one open file, for all their subscribers. A pure value; the filesystem keeps it under the file's lock.
package struct ChunkChangeTracker: Hashable, Sendable {
  private struct Subscription: Hashable, Sendable {
    var subscriber: SubscriberID
    var activity: ChunkActivity
  }

  /// As many as there are destinations: few.
  private var subscriptions: [Subscription] = []

  /// Without subscribers.
  package init() {}

  /// Before a mutation's system call.
  package mutating func begin(_ mutation: ContentMutation) {
    for index in subscriptions.indices { subscriptions[index].activity.begin(mutation) }
  }

  /// After a mutation's system call; `writtenBytes` is nil when it failed.
  package mutating func end(_ mutation: ContentMutation, writtenBytes: UInt64?) {
    for index in subscriptions.indices { subscriptions[index].activity.end(mutation, writtenBytes: writtenBytes) }
  }

  /// What is new for a follower; `start` is asked when it does not follow chunks of this length yet, or wants to begin anew.
  package mutating func takeReport(
    for subscriber: SubscriberID, of file: FileID, chunkBytes: Int, anew: Bool, sizeBytes: UInt64,
    start: () -> ChunkActivity
  ) -> GrowthReport? {
    let known = subscriptions.firstIndex { $0.subscriber == subscriber }
    if let known, !anew, subscriptions[known].activity.chunkBytes == chunkBytes {
      return takeReport(at: known, of: file, sizeBytes: sizeBytes)
    }
    let subscription = Subscription(subscriber: subscriber, activity: start())
    if let known { subscriptions[known] = subscription } else { subscriptions.append(subscription) }
    return takeReport(at: known ?? subscriptions.count - 1, of: file, sizeBytes: sizeBytes)
  }

  /// The last report of each follower.
  package mutating func takeReports(of file: FileID, sizeBytes: UInt64) -> [GrowthReport] {
    subscriptions.indices.compactMap { takeReport(at: $0, of: file, sizeBytes: sizeBytes) }
  }

  /// The epoch of the last mutation that touched the chunk of a follower at an offset; nil while one is in progress, or when it
  /// is not known.
  package func stableEpoch(for subscriber: SubscriberID, at offset: UInt64) -> UInt64? {
    subscriptions.first { $0.subscriber == subscriber }?.activity.stableEpoch(at: offset)
  }

  /// Whether a chunk of this length has not been touched since an epoch, as a subscriber to such chunks knows.
  package func isQuiet(at offset: UInt64, chunkBytes: Int, since epoch: UInt64) -> Bool {
    subscriptions.contains { $0.activity.chunkBytes == chunkBytes && $0.activity.stableEpoch(at: offset) == epoch }
  }

  private mutating func takeReport(at index: Int, of file: FileID, sizeBytes: UInt64) -> GrowthReport? {
    var report = subscriptions[index].activity.takeReport(of: file, sizeBytes: sizeBytes)
    report?.subscriber = subscriptions[index].subscriber
    return report
  }
}

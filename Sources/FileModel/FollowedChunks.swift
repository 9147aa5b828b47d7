/// A subscriber to the chunks of files that are being written. Each asks for chunks of its own length, and hears for itself
/// what is new.
public struct ContentFollower: Hashable, Sendable {
  /// Differs from every other follower's.
  public var number: Int

  /// Where there is only one.
  public static let only = ContentFollower(number: 0)

  /// One of several.
  public init(number: Int) {
    self.number = number
  }
}

/// The chunks of one open file, for all their subscribers. A pure value; the filesystem keeps it under the file's lock.
package struct FollowedChunks: Hashable, Sendable {
  private struct Following: Hashable, Sendable {
    var follower: ContentFollower
    var activity: ChunkActivity
  }

  /// As many as there are destinations: few.
  private var followings: [Following] = []

  /// Without subscribers.
  package init() {}

  /// Before a mutation's system call.
  package mutating func begin(_ mutation: ContentMutation) {
    for index in followings.indices { followings[index].activity.begin(mutation) }
  }

  /// After a mutation's system call; `writtenBytes` is nil when it failed.
  package mutating func end(_ mutation: ContentMutation, writtenBytes: UInt64?) {
    for index in followings.indices { followings[index].activity.end(mutation, writtenBytes: writtenBytes) }
  }

  /// What is new for a follower; `start` is asked when it does not follow chunks of this length yet, or wants to begin anew.
  package mutating func takeReport(
    for follower: ContentFollower, of file: FileID, chunkBytes: Int, anew: Bool, sizeBytes: UInt64,
    start: () -> ChunkActivity
  ) -> GrowthReport? {
    let known = followings.firstIndex { $0.follower == follower }
    if let known, !anew, followings[known].activity.chunkBytes == chunkBytes {
      return takeReport(at: known, of: file, sizeBytes: sizeBytes)
    }
    let following = Following(follower: follower, activity: start())
    if let known { followings[known] = following } else { followings.append(following) }
    return takeReport(at: known ?? followings.count - 1, of: file, sizeBytes: sizeBytes)
  }

  /// The last report of each follower.
  package mutating func takeReports(of file: FileID, sizeBytes: UInt64) -> [GrowthReport] {
    followings.indices.compactMap { takeReport(at: $0, of: file, sizeBytes: sizeBytes) }
  }

  /// The epoch of the last mutation that touched the chunk of a follower at an offset; nil while one is in progress, or when it
  /// is not known.
  package func quietEpoch(for follower: ContentFollower, at offset: UInt64) -> UInt64? {
    followings.first { $0.follower == follower }?.activity.quietEpoch(at: offset)
  }

  /// Whether a chunk of this length has not been touched since an epoch, as a subscriber to such chunks knows.
  package func isQuiet(at offset: UInt64, chunkBytes: Int, since epoch: UInt64) -> Bool {
    followings.contains { $0.activity.chunkBytes == chunkBytes && $0.activity.quietEpoch(at: offset) == epoch }
  }

  private mutating func takeReport(at index: Int, of file: FileID, sizeBytes: UInt64) -> GrowthReport? {
    var report = followings[index].activity.takeReport(of: file, sizeBytes: sizeBytes)
    report?.follower = followings[index].follower
    return report
  }
}

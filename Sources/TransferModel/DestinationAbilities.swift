public import FileModel

/// What a destination can do, as data.
public struct DestinationAbilities: Hashable, Sendable {
  /// Chunk requests that may be in flight for one upload.
  public var parallelChunks: Int
  /// A chunk may be sent again with other bytes until the commit.
  public var replaceableChunks: Bool
  /// A session can be opened before the size is known.
  public var unknownLength: Bool
  /// A file of at most this size goes in one request; 0 when there is no such request.
  public var wholeFileBytesMax: Int
  /// What must not be published twice: a file of which it is not known whether it was published waits until a user has checked
  /// the server, also after a crash.
  public var atMostOnceScope = AtMostOnceScope.nothing
  /// Requests of which each further one may leave a copy at the server, whatever is to become of a file for that.
  public var repeatsLeaveCopies = AtMostOnceScope.nothing
  /// A larger one does as well: it is read while it is sent.
  public var streamsWholeFiles = false
  /// The largest file that is accepted; nil when unknown.
  public var fileBytesMax: UInt64?
  /// A commit may be sent while chunks are on their way: the server waits for them.
  public var commitWaitsForChunks: Bool
  /// A session publishes under the name that it was opened with; another name needs another session.
  public var bindsNameAtOpening = false
  /// Which chunks are taken only one after another.
  public var appendSequences = AppendSequences.none
  /// A commit names every chunk by its digest and the token with which it was acknowledged.
  public var commitListsChunks = false
  /// One request may carry several chunks of a session, where the server offers it (``DestinationOffers/runBytesMax``).
  public var takesRuns = false
  /// Chunks of zeros need not be sent, where the server offers that (``DestinationOffers/zeroRangesMax``).
  public var takesZeros = false
  /// Decodes the files of one request that were compressed together; whether its server does, it says itself.
  public var takesSharedFrames = false
  /// A session without a chunk cannot be published: an empty file goes as a whole file.
  public var needsChunks = false
  /// Chunks can be copied at the server from what is published, if they are as long there: a later content has chunks of the length of the
  /// one before.
  public var copiesChunks = false
  /// Every chunk but the last is at least so long.
  public var chunkBytesMin = 1
  /// A session has no more chunks than this.
  public var chunkCountMax = Int.max
  /// A session can be ended, with what the server holds for it; elsewhere it is left to expire.
  public var endsSessions = true
  /// An orphaned session may stay at the server for ever, and takes space there.
  public var sessionsStay = false
  /// Of two contents of one name the one that was sent later stays, however late the server hears of either.
  public var ordersPublications = false
  /// What is to become of a file whose name is another capture's, where no rule says it; nil where the destination cannot tell whose a
  /// name is (``NameRight``), and replaces.
  public var ifExists: FileSettings.IfExists?
  /// Whose a name is tells the object that has it, by the nonce it was sent with or its id.
  public var comparesObjects = false
  /// The server can be asked to bring chunks to its disk before the commit.
  public var durableChunks: Bool

  /// States the abilities.
  public init(
    parallelChunks: Int, replaceableChunks: Bool, unknownLength: Bool, wholeFileBytesMax: Int, fileBytesMax: UInt64?,
    commitWaitsForChunks: Bool = false, durableChunks: Bool = false
  ) {
    self.durableChunks = durableChunks
    self.commitWaitsForChunks = commitWaitsForChunks
    self.parallelChunks = parallelChunks
    self.replaceableChunks = replaceableChunks
    self.unknownLength = unknownLength
    self.wholeFileBytesMax = wholeFileBytesMax
    self.fileBytesMax = fileBytesMax
  }
}

extension DestinationAbilities {
  /// Files can be sent while they are written.
  public var sendsWhileWriting: Bool { (replaceableChunks || appendSequences == .one) && unknownLength }

  /// What was acknowledged of a large file outlives a broken connection and the death of either side.
  public var resumes: Bool { !streamsWholeFiles }

  /// A file of this size has no more chunks of this length than one session takes.
  package func takes(chunksOf chunkBytes: Int, forFileOf sizeBytes: UInt64) -> Bool {
    guard sizeBytes > 0, chunkCountMax < .max else { return true }
    return (sizeBytes - 1) / UInt64(max(1, chunkBytes)) < UInt64(max(1, chunkCountMax))
  }

  /// The shortest chunk with which a file of this size fits into one session; nil is a size that is not known yet.
  public func chunkBytesLeast(forFileOf sizeBytes: UInt64?) -> Int {
    guard let sizeBytes = sizeBytes ?? fileBytesMax, chunkCountMax < .max else { return chunkBytesMin }
    let count = UInt64(max(1, chunkCountMax))
    let least = Int(clamping: sizeBytes / count + (sizeBytes.isMultiple(of: count) ? 0 : 1))
    let step = 64 << 10
    guard least > chunkBytesMin, least < .max - step else { return max(chunkBytesMin, least) }
    return max(chunkBytesMin, (least + step - 1) / step * step)
  }
}

/// Requests of which a second one may make another file at the server.
public enum AtMostOnceScope: Hashable, Sendable {
  /// None, or a copy does no harm.
  case nothing
  /// Those that carry the whole file; what a commit has published can be asked for.
  case wholeFiles
  /// Commits as well.
  case everything
}

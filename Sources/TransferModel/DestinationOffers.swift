public import Lookup

/// What a server takes, as its answers say beside what they answer.
public struct DestinationOffers: Hashable, Sendable {
  /// How bodies may be coded; nil when the answer does not say.
  public var encodings: LookupSet<OfferedEncoding>?
  /// How many small files one request may carry; nil when the answer does not say.
  public var filesPerRequest: Int?
  /// The most plain bytes that one request may carry in chunks of one session; nil when the answer does not say.
  public var runBytesMax: Int?
  /// The most ranges of chunks that one request may name as zeros; nil when the answer does not say.
  public var zeroRangesMax: Int?
  /// It decodes the files of one request that were compressed together; nil when the answer does not say.
  public var takesSharedFrames: Bool?
  /// What the destination can do, now that its server has said so; nil when the answer does not say. Until then a
  /// destination claims no more than any of its servers can do.
  public var abilities: DestinationAbilities?
  /// Which of its servers has answered; nil when the answer does not say.
  public var instance: String?

  /// What an answer says.
  public init(
    encodings: LookupSet<OfferedEncoding>? = nil, filesPerRequest: Int? = nil, runBytesMax: Int? = nil,
    zeroRangesMax: Int? = nil, takesSharedFrames: Bool? = nil, abilities: DestinationAbilities? = nil,
    instance: String? = nil
  ) {
    self.instance = instance
    self.abilities = abilities
    self.encodings = encodings
    self.filesPerRequest = filesPerRequest
    self.runBytesMax = runBytesMax
    self.zeroRangesMax = zeroRangesMax
    self.takesSharedFrames = takesSharedFrames
  }
}

/// What a server says that it takes, when it is asked.
public struct DestinationLimits: Hashable, Sendable {
  /// The largest file; nil when it does not say.
  public var fileBytesMax: UInt64?
  /// The shortest and the longest chunk; nil when it does not say.
  public var chunkBytes: ClosedRange<Int>?
  /// The largest file that comes in one request; nil when it does not say.
  public var wholeFileBytesMax: Int?

  /// What a server says.
  public init(fileBytesMax: UInt64? = nil, chunkBytes: ClosedRange<Int>? = nil, wholeFileBytesMax: Int? = nil) {
    self.fileBytesMax = fileBytesMax
    self.chunkBytes = chunkBytes
    self.wholeFileBytesMax = wholeFileBytesMax
  }
}

/// What one request may carry that has several members.
public struct BundleBounds: Hashable, Sendable {
  /// The most members.
  public var membersMax: Int
  /// The most plain bytes of the members together; also the most of their bodies as sent.
  public var bytesMax: Int

  /// Of whole files.
  public static let files = BundleBounds(
    membersMax: ProtocolLimits.bundleFilesMax, bytesMax: ProtocolLimits.bundleBytesMax)
  /// Of chunks of one session.
  public static let run = BundleBounds(membersMax: ProtocolLimits.runChunksMax, bytesMax: ProtocolLimits.runBytesMax)

  /// Bounds of another kind.
  public init(membersMax: Int, bytesMax: Int) {
    self.membersMax = membersMax
    self.bytesMax = bytesMax
  }

  /// The longest body that they allow: the members' bytes and heads.
  public var contentBytesMax: Int { bytesMax + membersMax * ProtocolLimits.bundleHeadBytesMax }
}

/// Reads a bundle, or a run, in the pieces in which it arrives. Keeps nothing of it but the head that is not yet whole; the bytes
/// come from the network, and whatever they are, each is read once.
public struct BundleReader: Sendable {
  /// What comes next in a bundle. Each member is a head, its body in any number of pieces, and an end.
  public enum Event {
    /// A member begins; its body has so many bytes.
    case head(BundleMemberHead, contentLength: Int)
    /// Bytes of the member's body; a part of the piece, valid as long as that is.
    case body(UnsafeRawBufferPointer)
    /// The member is complete.
    case end
  }

  private enum Phase {
    case head
    case body(left: Int)
    case failed(BundleViolation)
  }

  private let bounds: BundleBounds
  private var phase = Phase.head
  private var head: [UInt8] = []
  /// How much of the empty line that ends a head was seen.
  private var seenOfEnd = 0
  private var plainBytes = 0

  /// The members that have begun.
  public private(set) var memberCount = 0

  /// Begins with the first byte.
  public init(_ bounds: BundleBounds = .files) {
    self.bounds = bounds
  }

  /// The next event, taken from the front of the piece; nil when the piece is used up. After an error it throws the same
  /// one again.
  public mutating func next(_ piece: inout UnsafeRawBufferPointer) throws(BundleViolation) -> Event? {
    do throws(BundleViolation) {
      switch phase {
      case .head: return try readHead(&piece)
      case .body(left: 0):
        phase = .head
        return .end
      case .body(let left):
        guard !piece.isEmpty else { return nil }
        let count = min(left, piece.count)
        let bytes = UnsafeRawBufferPointer(rebasing: piece[..<count])
        piece = UnsafeRawBufferPointer(rebasing: piece[count...])
        phase = .body(left: left - count)
        return .body(bytes)
      case .failed(let violation): throw violation
      }
    } catch {
      phase = .failed(error)
      head = []
      throw error
    }
  }

  /// The bundle has ended; throws unless it did so after a member's end.
  public func finish() throws(BundleViolation) {
    switch phase {
    case .head where head.isEmpty && memberCount > 0: return
    case .failed(let violation): throw violation
    default: throw .brokenOff
    }
  }

  private mutating func readHead(_ piece: inout UnsafeRawBufferPointer) throws(BundleViolation) -> Event? {
    guard !piece.isEmpty else { return nil }
    guard memberCount < bounds.membersMax else { throw .tooManyMembers }
    let count = lookForEnd(piece.prefix(ProtocolLimits.bundleHeadBytesMax - head.count))
    head.append(contentsOf: piece[..<count])
    piece = UnsafeRawBufferPointer(rebasing: piece[count...])
    guard seenOfEnd == BundleReader.endOfHead.count else {
      guard head.count < ProtocolLimits.bundleHeadBytesMax else { throw .headTooLong }
      return nil
    }
    let (member, contentLength) = try head.withUnsafeBufferPointer { (bytes) throws(BundleViolation) in
      try BundleMemberHead.read(UnsafeRawBufferPointer(bytes))
    }
    head.removeAll(keepingCapacity: true)
    seenOfEnd = 0
    memberCount += 1
    let length = try admit(member, contentLength)
    phase = .body(left: length)
    return .head(member, contentLength: length)
  }

  private static let endOfHead: [UInt8] = [0x0d, 0x0a, 0x0d, 0x0a]

  /// The number of bytes up to and including the end of the head, or all of them.
  private mutating func lookForEnd(_ bytes: Slice<UnsafeRawBufferPointer>) -> Int {
    var count = 0
    for byte in bytes {
      count += 1
      if byte == BundleReader.endOfHead[seenOfEnd] {
        seenOfEnd += 1
        if seenOfEnd == BundleReader.endOfHead.count { break }
      } else {
        seenOfEnd = byte == BundleReader.endOfHead[0] ? 1 : 0
      }
    }
    return count
  }

  /// Counts a member's bytes before any of them arrives: those that are sent, and those that they decode to.
  private mutating func admit(_ member: BundleMemberHead, _ contentLength: UInt64) throws(BundleViolation) -> Int {
    let stated = member.fields.first { $0.name.isSameFieldName(as: HeaderName.chunkSize) }
    let plain = max(contentLength, stated.flatMap { DecimalText.unsigned($0.value) } ?? 0)
    guard let length = Int(exactly: contentLength), let bytes = Int(exactly: plain),
      bytes <= bounds.bytesMax - plainBytes
    else {
      throw .tooManyBytes
    }
    plainBytes += bytes
    return length
  }
}

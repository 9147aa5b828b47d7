import ChunkProtocol
import Integrity

/// Takes a bundle as it arrives: cuts it into members, says what each of them means, and has their bodies and digests ready
/// when it is complete. Pure, as the translation; nothing is asked of the core before the whole bundle is there. One that
/// comes as a frame is cut into members when that is decoded.
public struct BundleIntake: Sendable {
  /// One whole file of a bundle.
  public struct Member: Sendable {
    /// What became of the body that was sent.
    public enum Body: Sendable {
      /// Not kept: the member is answered already.
      case none
      /// As sent; ``BundleIntake/decode()`` has still to be called.
      case encoded([UInt8])
      /// The plain bytes and their digests.
      case plain([UInt8], ChunkChecksums)
      /// What was sent does not decode.
      case refused(Refusal)
    }

    /// What is to be done about it.
    public let plan: MemberPlan
    /// Its body.
    public internal(set) var body = Body.none

    /// The event that follows when the core lets the body in.
    public func next(_ coreRequest: CoreRequest, _ request: RequestID) -> CoreEvent {
      switch body {
      case .plain(_, let facts): coreRequest.bodyArrived(request, facts)
      case .refused(let refusal): coreRequest.bodyFailed(request, refusal)
      case .none, .encoded: coreRequest.bodyFailed(request, .bodyBrokeOff)
      }
    }
  }

  /// The memory that it may take: all that is sent, what that is decoded to, and room for undoing the filter of one member. A frame is
  /// decoded to a bundle, and is not needed any more when the members' bodies are taken from that.
  public var memoryBytes: Int {
    let members = ProtocolLimits.bundleBytesMax + RecordFilter.blockBytes
    guard let frame else { return contentLength + members }
    return frame.plainBytes + max(contentLength, frame.plainBytes + members)
  }
  /// The members that are complete, in order.
  public private(set) var members: [Member] = []

  /// Whose it is.
  public let credential: CredentialID

  private let contentLength: Int
  private let translation: RequestTranslation
  /// The whole bundle is one, and not decoded yet.
  private var frame: AdmittedBody?
  private var frameBytes: [UInt8] = []
  private var reader = BundleReader()
  private var open: (plan: MemberPlan, body: [UInt8])?
  /// The member whose digests are computed beside the next one's.
  private var unhashed: Int?

  /// For the body of a request of this credential; with a frame, the body is that.
  init(
    contentLength: Int, _ frame: AdmittedBody?, of credential: CredentialID, _ translation: RequestTranslation
  ) {
    self.contentLength = contentLength
    self.frame = frame
    self.credential = credential
    self.translation = translation
  }

  /// Takes a whole bundle and makes it ready.
  public mutating func take(_ whole: [UInt8]) throws(Refusal) {
    try whole.withUnsafeBufferPointer { (bytes) throws(Refusal) in try take(UnsafeRawBufferPointer(bytes)) }
    try finish()
    try decode()
  }

  /// Takes the bytes that have arrived.
  public mutating func take(_ bytes: UnsafeRawBufferPointer) throws(Refusal) {
    guard let frame else { return try read(bytes) }
    try frame.check(arrivedBytes: frameBytes.count + bytes.count)
    if frameBytes.isEmpty { frameBytes.reserveCapacity(frame.sentBytesMax) }
    frameBytes.append(contentsOf: bytes)
  }

  private mutating func read(_ bytes: UnsafeRawBufferPointer) throws(Refusal) {
    do throws(BundleViolation) {
      var rest = bytes
      while let event = try reader.next(&rest) { take(event) }
    } catch {
      throw Refusal(error, .files)
    }
  }

  private mutating func take(_ event: BundleReader.Event) {
    switch event {
    case .head(let head, let contentLength):
      let plan = translation.plan(head, of: credential)
      var body: [UInt8] = []
      if plan.encoding != nil { body.reserveCapacity(contentLength) }
      open = (plan, body)
    case .body(let bytes):
      if open?.plan.encoding != nil { open?.body.append(contentsOf: bytes) }
    case .end:
      guard let member = open else { return }
      open = nil
      add(member.plan, member.body)
    }
  }

  private mutating func add(_ plan: MemberPlan, _ body: [UInt8]) {
    switch plan.encoding {
    case nil: members.append(Member(plan: plan))
    case .lz4?, .zstd?: members.append(Member(plan: plan, body: .encoded(body)))
    case .identity?:
      members.append(Member(plan: plan, body: .encoded(body)))
      hash(members.count - 1)
    }
  }

  /// Two bodies side by side take hardly longer than one.
  private mutating func hash(_ index: Int) {
    guard ChunkHasherPair.isAvailable else { return hashAlone(index) }
    guard let other = unhashed else {
      unhashed = index
      return
    }
    unhashed = nil
    guard case .encoded(let first) = members[other].body, case .encoded(let second) = members[index].body else {
      return
    }
    let facts = ChunkChecksums.ofBoth(first, second)
    members[other].body = .plain(first, facts.0)
    members[index].body = .plain(second, facts.1)
  }

  private mutating func hashAlone(_ index: Int) {
    guard case .encoded(let bytes) = members[index].body else { return }
    members[index].body = .plain(bytes, ChunkChecksums(of: bytes))
  }

  /// The request's body has ended.
  public mutating func finish() throws(Refusal) {
    if frame == nil { try finishReading() }
  }

  private mutating func finishReading() throws(Refusal) {
    do throws(BundleViolation) {
      try reader.finish()
    } catch {
      throw Refusal(error, .files)
    }
    if let last = unhashed { hashAlone(last) }
    unhashed = nil
  }

  /// The memory that the members' bodies take now.
  public var bodyBytes: Int {
    members.reduce(frameBytes.count) { bytes, member in
      switch member.body {
      case .none, .refused: bytes
      case .encoded(let body), .plain(let body, _): bytes + body.count
      }
    }
  }

  /// Whether ``decode()`` has something to do; it takes the processor for long.
  public var hasEncoded: Bool {
    frame != nil || members.contains { member in if case .encoded = member.body { true } else { false } }
  }

  /// Decodes what came encoded, the bundle or members of it; to be called when the bundle is complete.
  public mutating func decode() throws(Refusal) {
    try openFrame()
    for index in members.indices {
      guard case .encoded(let sent) = members[index].body, let announced = members[index].plan.announced else {
        continue
      }
      do throws(Refusal) {
        let (plain, facts) = try AdmittedBody(announced).take(sent)
        members[index].body = .plain(plain, facts)
      } catch {
        members[index].body = .refused(error)
      }
    }
  }
}

extension BundleIntake {
  private mutating func openFrame() throws(Refusal) {
    guard let frame else { return }
    let bundle = try frame.plain(of: frameBytes)
    frameBytes = []
    self.frame = nil
    try bundle.withUnsafeBufferPointer { (bytes) throws(Refusal) in try read(UnsafeRawBufferPointer(bytes)) }
    try finishReading()
  }
}

/// What is to be done about a member of a bundle or a run.
public enum MemberPlan: Sendable {
  /// It is answered already.
  case answer(Answer)
  case ask(CoreRequest)
}

extension MemberPlan {
  /// What is announced of the body that the question brings along.
  var announced: AnnouncedBytes? {
    switch self {
    case .ask(.wholeFile(_, _, _, let announced)), .ask(.chunk(_, _, _, let announced)): announced
    case .ask, .answer: nil
    }
  }

  fileprivate var encoding: ChunkEncoding? { announced?.encoding }
}

extension Refusal {
  /// The request whose members these are is refused as a whole.
  init(_ violation: BundleViolation, _ bounds: BundleBounds) {
    let limit: Int
    switch violation {
    case .malformed, .brokenOff:
      self.init(.badRequest(field: "body"), violation.description)
      return
    case .tooManyMembers: limit = bounds.membersMax
    case .headTooLong: limit = ProtocolLimits.bundleHeadBytesMax
    case .tooManyBytes: limit = bounds.bytesMax
    }
    self.init(.tooLarge(limitBytes: UInt64(limit)), violation.description)
  }
}

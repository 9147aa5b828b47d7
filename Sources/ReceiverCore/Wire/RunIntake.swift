import ChunkProtocol

/// Takes a run of chunks as it arrives: cuts it into members, says what each of them means, and which of their bodies are
/// worth their memory. Pure, as the translation. A member can be handed to the core as soon as it is complete; what becomes
/// of the rest of the run changes nothing about it.
public struct RunIntake: Sendable {
  /// One chunk of a run.
  public struct Member: Sendable {
    /// What is to be done about it.
    public let plan: MemberPlan
    /// What arrives as its body; nil where it is not kept: the member is answered already, or the core will refuse it.
    public let body: AdmittedBody?

    /// The event that follows when the core lets the body in: what arrived, and decoded.
    public func next(
      _ coreRequest: CoreRequest, _ request: RequestID, _ arrived: Result<ChunkChecksums, Refusal>?
    ) -> CoreEvent {
      switch arrived {
      case .success(let facts)?: coreRequest.bodyArrived(request, facts)
      case .failure(let refusal)?: coreRequest.bodyFailed(request, refusal)
      case nil: coreRequest.bodyFailed(request, .bodyBrokeOff)
      }
    }
  }

  /// What comes next in a run.
  public enum Step: Sendable {
    /// A member begins; the memory for its body is needed now.
    case begins(Member)
    /// The bytes that were taken are of its body.
    case body
    /// The member is complete.
    case ends
  }

  /// Whose it is.
  public let credential: CredentialID
  /// Where its chunks belong.
  public let session: SessionID

  private let translation: RequestTranslation
  private var reader = BundleReader(.run)
  private var chunkBytesMax = 0

  /// For the body of a request of this credential.
  init(of credential: CredentialID, into session: SessionID, _ translation: RequestTranslation) {
    self.credential = credential
    self.session = session
    self.translation = translation
  }

  /// Asks the core whether the session takes chunks; to be asked before the body is read.
  public func begin(_ request: RequestID) -> CoreEvent { .beginRun(request, credential, session) }

  /// The request's answer, where the core does not let the run in; nil when its body is to be read.
  public mutating func answer(to reply: Reply) -> Answer? {
    switch reply {
    case .runAdmitted(let bytesMax):
      chunkBytesMax = bytesMax
      return nil
    case .refused(let refusal): return .refused(refusal)
    default: return .refused(Refusal(.storeFailed, "the receiver contradicts itself"))
    }
  }

  /// Tells the core that nothing more of the run arrives.
  public func end(_ request: RequestID) -> CoreEvent { .endRun(request) }

  /// Takes bytes from the front of those that have arrived, and says how many and what they are; no step when it needs more
  /// of them.
  public mutating func take(_ bytes: UnsafeRawBufferPointer) throws(Refusal) -> (count: Int, step: Step?) {
    var rest = bytes
    do throws(BundleViolation) {
      let event = try reader.next(&rest)
      return (bytes.count - rest.count, event.map(step))
    } catch {
      throw Refusal(error, .run)
    }
  }

  private func step(_ event: BundleReader.Event) -> Step {
    switch event {
    case .head(let head, _): .begins(member(translation.plan(head, of: credential, into: session)))
    case .body: .body
    case .end: .ends
    }
  }

  /// A body that is none of this session's chunks gets no memory; the core says why.
  private func member(_ plan: MemberPlan) -> Member {
    guard let announced = plan.announced, announced.lengthRefusal == nil,
      (1...max(1, chunkBytesMax)).contains(Int(announced.facts.sizeBytes))
    else { return Member(plan: plan, body: nil) }
    return Member(plan: plan, body: AdmittedBody(announced))
  }

  /// The request's body has ended.
  public func finish() throws(Refusal) {
    do throws(BundleViolation) {
      try reader.finish()
    } catch {
      throw Refusal(error, .run)
    }
  }
}

extension RunIntake {
  /// Takes a body, or as much of it as has arrived, at once: the members that are complete, with their bodies as they were
  /// sent, and why the run as a whole is refused, if it is.
  public mutating func takeAll(_ bytes: [UInt8]) -> (complete: [(member: Member, sent: [UInt8])], refusal: Refusal?) {
    var complete: [(member: Member, sent: [UInt8])] = []
    do throws(Refusal) {
      try bytes.withUnsafeBufferPointer { (bytes) throws(Refusal) in
        try takeAll(UnsafeRawBufferPointer(bytes)) { complete.append(($0, $1)) }
      }
      try finish()
      return (complete, nil)
    } catch {
      return (complete, error)
    }
  }

  private mutating func takeAll(
    _ bytes: UnsafeRawBufferPointer, _ add: (Member, [UInt8]) -> Void
  ) throws(Refusal) {
    var open: (member: Member, sent: [UInt8])?
    var start = 0
    while true {
      let (count, step) = try take(UnsafeRawBufferPointer(rebasing: bytes[start...]))
      switch step {
      case .begins(let member)?: open = (member, [])
      case .body?: if open?.member.body != nil { open?.sent += bytes[start..<(start + count)] }
      case .ends?: if let open { add(open.member, open.sent) }
      case nil: return
      }
      start += count
    }
  }
}

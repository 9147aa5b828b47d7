public import FileModel
import Synchronization
public import TransferModel

/// A server of which it is asked first what it speaks: the IETF's draft where its answer to OPTIONS is that of the draft, else
/// tus. The answer counts for what begins from then on; what has begun stays with the protocol that its session names.
public struct DiscoveringDestination: Destination {
  /// What any of both can do.
  public var abilities: DestinationAbilities { tus.abilities }
  /// The address, without credentials.
  public var displayURL: String { tus.displayURL }

  private let tus: TusDestination
  private let draft: ResumableDestination
  private let choice = Choice()

  private final class Choice: Sendable {
    let isDraft = Mutex<Bool?>(nil)
  }

  /// A destination that is one of these.
  public init(tus: TusDestination, draft: ResumableDestination) {
    self.tus = tus
    self.draft = draft
  }

  /// The path, with either.
  public func publishedName(for path: RelativePath) -> String { tus.publishedName(for: path) }

  /// What a server's answer to OPTIONS makes possible.
  public func offers(in response: HTTPResponse) -> DestinationOffers {
    if Self.isDraft(response) == true { return draft.offers(in: response) }
    return tus.offers(in: response)
  }

  /// The draft's question, which is also one for servers of tus.
  public func limitsRequest(at endpoint: EndpointID) -> HTTPRequest? { draft.limitsRequest(at: endpoint) }

  /// By the protocol that answers.
  public func limits(in response: HTTPResponse) -> DestinationLimits? {
    if Self.isDraft(response) == true { return draft.limits(in: response) }
    return tus.limits(in: response)
  }

  /// Whether an answer to OPTIONS is the draft's; nil for one that says nothing. Limits alone are announced by servers of
  /// earlier versions as well: of one that also speaks tus they prove nothing.
  private static func isDraft(_ response: HTTPResponse) -> Bool? {
    guard (200..<300).contains(response.status) else { return nil }
    guard let features = ResumableFeatures(response) else { return false }
    return features.isCertain || response.header("tus-version") == nil && response.header("tus-extension") == nil
  }

  /// Who carries out a step, by what is known.
  private func destination(for step: DestinationStep, after responses: [HTTPResponse]) -> any Destination {
    switch step {
    case .querySession(.credentialTrial): break
    case .querySession(let session), .secureSession(let session), .abort(let session): return owner(of: session)
    case .chunk(let sending): return owner(of: sending.session)
    case .commit(let commit): return owner(of: commit.session)
    case .prewarm, .openSession, .wholeFile, .bundle, .run, .zeros: break
    }
    let asks = if case .wholeFile = step { choice.isDraft.withLock { $0 } == nil } else { true }
    if asks, let found = responses.first.flatMap(Self.isDraft) { choice.isDraft.withLock { $0 = found } }
    let isDraft = choice.isDraft.withLock { $0 }
    // The draft's question is also one for servers of tus.
    return isDraft ?? responses.isEmpty ? draft : tus
  }

  private func owner(of session: SessionIdentity) -> any Destination {
    ResumableSession.isOne(session.id) ? draft : tus
  }

  /// The request that carries out a step. There is one address.
  public func request(for step: DestinationStep, at endpoint: EndpointID = .first) -> HTTPRequest {
    destination(for: step, after: []).request(for: step, at: endpoint)
  }

  /// The next request of a step that takes several.
  public func followUp(
    of step: DestinationStep, after responses: [HTTPResponse], at endpoint: EndpointID = .first
  ) -> HTTPRequest? {
    destination(for: step, after: responses).followUp(of: step, after: responses, at: endpoint)
  }

  /// What the response to a step means, where it needs no other.
  public func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    outcome(of: step, responses: [response])
  }

  /// What the responses to a step mean. Whatever they hold, this returns.
  public func outcome(of step: DestinationStep, responses: [HTTPResponse]) -> StepOutcome {
    destination(for: step, after: responses).outcome(of: step, responses: responses)
  }

  /// What it means for a step that there was no answer.
  public func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome {
    destination(for: step, after: []).outcome(of: step, lost: error)
  }
}

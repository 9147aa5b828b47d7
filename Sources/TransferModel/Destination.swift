public import FileModel

/// Where files go. Sans-I/O: it turns a step into a request value and a response value into an outcome. So every rule
/// of a protocol is a plain unit test, and a simulation runs the real code (docs/design/scheduling.md#destinations).
public protocol Destination: Sendable {
  /// What the destination can do. The engine decides from these, never from the destination's name.
  var abilities: DestinationAbilities { get }
  /// The address for people and logs; holds no credentials.
  var displayURL: String { get }
  /// One of its addresses, likewise.
  func displayURL(of endpoint: EndpointID) -> String
  /// Tells the credential that is used from another one, and says nothing else about it. Nil without one, and where it changes by
  /// itself.
  var credentialMark: String? { get }
  /// How many addresses lead to it; at least 1. Whatever was begun over one can go on over another.
  var endpointCount: Int { get }
  /// What its requests go through, over a transport: a protocol may have to do with each of them.
  func transport(over transport: any HTTPTransport) -> any HTTPTransport
  /// The request that carries out a step over one of its addresses.
  func request(for step: DestinationStep, at endpoint: EndpointID) -> HTTPRequest
  /// Where the server has a chunk's bytes already, and can copy them into the session; nil where that is not known. Takes no time.
  func source(of sending: ChunkSending) -> ChunkSource?
  /// The same request with the files that it carries compressed together, where that saves enough. Takes the processor, and no lock: a
  /// lowered thread does it.
  func compressedTogether(_ request: HTTPRequest) -> HTTPRequest
  /// What a response to a step means.
  func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome
  /// A further request that a step needs before it can be said what became of it: the next page of a list, or a probe of
  /// what is published. Nil when the responses so far, oldest first and at least one, are enough.
  func followUp(of step: DestinationStep, after responses: [HTTPResponse], at endpoint: EndpointID) -> HTTPRequest?
  /// What the response to a step means, with those to its follow-ups.
  func outcome(of step: DestinationStep, responses: [HTTPResponse]) -> StepOutcome
  /// What it means for a step that there was no answer.
  func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome
  /// What it means for a step that one of its follow-ups had no answer. Those before it, oldest first and at least one, may have
  /// carried it out.
  func outcome(of step: DestinationStep, lost error: TransportError, after responses: [HTTPResponse]) -> StepOutcome
  /// What a response says about the server, whatever the step was.
  func offers(in response: HTTPResponse) -> DestinationOffers
  /// The name under which a file's path will be published; tells people when it differs from the path.
  func publishedName(for path: RelativePath) -> String
  /// The request that takes away again what was published; nil where no client can. Captures are never taken away: only a test
  /// of the destination cleans up behind itself.
  func removalRequest(of path: RelativePath, _ receipt: Receipt, at endpoint: EndpointID) -> HTTPRequest?
  /// The same where it is to leave names alone that are taken, and relies on the server for that without looking itself; nil
  /// elsewhere. For a test of the server: it finds out whether that knows the condition.
  var underConditionsAlone: (any Destination)? { get }
  /// What people are to do about what a test of the destination finds.
  var advice: DestinationAdvice { get }
  /// The request that asks what the server takes; nil where it cannot be asked.
  func limitsRequest(at endpoint: EndpointID) -> HTTPRequest?
  /// What the server takes, by its answer to that; nil when it is not understood.
  func limits(in response: HTTPResponse) -> DestinationLimits?
  /// The request that lists the sessions that are open at the place where files go, of every client, from the first on or
  /// behind ``SessionPage/next``; nil where the server does not list them.
  func sessionListRequest(after next: String?, at endpoint: EndpointID) -> HTTPRequest?
  /// What a session is called in that list.
  func listedID(ofSession id: String) -> String
  /// A page of that list; nil when the answer is none.
  func sessionPage(in response: HTTPResponse) -> SessionPage?
}

extension Destination {
  /// None is known.
  public var credentialMark: String? { nil }

  /// One address.
  public var endpointCount: Int { 1 }

  /// Nothing.
  public func transport(over transport: any HTTPTransport) -> any HTTPTransport { transport }

  /// Nothing is copied.
  public func source(of sending: ChunkSending) -> ChunkSource? { nil }

  /// Nothing there would decode it.
  public func compressedTogether(_ request: HTTPRequest) -> HTTPRequest { request }

  /// Every step is one request.
  public func followUp(
    of step: DestinationStep, after responses: [HTTPResponse], at endpoint: EndpointID
  ) -> HTTPRequest? { nil }

  /// Only the step's own response counts.
  public func outcome(of step: DestinationStep, responses: [HTTPResponse]) -> StepOutcome {
    guard let first = responses.first else {
      return .refused(StepFailure(.unexpectedAnswer, "There is no answer."))
    }
    return outcome(of: step, response: first)
  }

  /// As if there had been none before.
  public func outcome(
    of step: DestinationStep, lost error: TransportError, after responses: [HTTPResponse]
  ) -> StepOutcome {
    outcome(of: step, lost: error)
  }

  /// It can be tried again.
  public func outcome(of step: DestinationStep, lost error: TransportError) -> StepOutcome {
    .refused(StepFailure(error))
  }

  /// Nothing beyond the abilities.
  public func offers(in response: HTTPResponse) -> DestinationOffers { DestinationOffers() }

  /// The only address.
  public func displayURL(of endpoint: EndpointID) -> String { displayURL }

  /// What is published stays.
  public func removalRequest(of path: RelativePath, _ receipt: Receipt, at endpoint: EndpointID) -> HTTPRequest? {
    nil
  }

  /// What is published is replaced.
  public var underConditionsAlone: (any Destination)? { nil }

  /// No request is made that it is about.
  public var advice: DestinationAdvice { DestinationAdvice() }

  /// There is no server to ask.
  public func limitsRequest(at endpoint: EndpointID) -> HTTPRequest? { nil }

  /// No server was asked.
  public func limits(in response: HTTPResponse) -> DestinationLimits? { nil }

  /// There is no such list.
  public func sessionListRequest(after next: String?, at endpoint: EndpointID) -> HTTPRequest? { nil }

  /// As everywhere else.
  public func listedID(ofSession id: String) -> String { id }

  /// No server was asked.
  public func sessionPage(in response: HTTPResponse) -> SessionPage? { nil }
}

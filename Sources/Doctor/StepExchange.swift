import Dispatch
import Lookup
import Synchronization
import TransferModel

/// What became of a step.
struct StepAnswer: Sendable {
  /// A request that was not answered is a refusal, too.
  var outcome: StepOutcome
  /// To the step and its follow-ups; empty without an answer.
  var responses: [HTTPResponse]
  var time: Duration

  var connection: HTTPConnectionMetrics? { responses.first?.connection }
}

/// Carries out steps one after another, as an upload would, and waits for each.
final class StepExchange: Sendable {
  let destination: any Destination
  let transport: any HTTPTransport
  private let lastID = Atomic<UInt64>(0)
  private let status = Atomic<Int>(0)

  private let offered = Mutex(DestinationOffers())
  private let answering = Mutex<LookupSet<String>>([])

  /// What the server has offered to take in one request.
  var offers: DestinationOffers { offered.withLock { $0 } }

  /// Those of its servers that have answered, as they name themselves.
  var instances: LookupSet<String> { answering.withLock { $0 } }

  /// What the last answer said; 0 where there was none.
  var lastStatus: Int { status.load(ordering: .relaxed) }

  /// A list has no more pages than this.
  private static let followUpsMax = 64

  init(destination: any Destination, transport: any HTTPTransport) {
    self.destination = destination
    self.transport = transport
  }

  /// A request's name; never used twice.
  func nextID() -> HTTPRequestID { HTTPRequestID(lastID.add(1, ordering: .relaxed).newValue) }

  /// Blocks until the step has an outcome.
  func run(_ step: DestinationStep, at endpoint: EndpointID) -> StepAnswer {
    let begin = ContinuousClock.now
    var responses: [HTTPResponse] = []
    var request: HTTPRequest? = destination.request(for: step, at: endpoint)
    while let next = request, responses.count <= Self.followUpsMax {
      switch send(next) {
      case .success(let response):
        responses.append(response)
        note(destination.offers(in: response))
      case .failure(let error):
        return StepAnswer(
          outcome: destination.outcome(of: step, lost: error), responses: [], time: begin.duration(to: .now))
      }
      request = destination.followUp(of: step, after: responses, at: endpoint)
    }
    return StepAnswer(
      outcome: destination.outcome(of: step, responses: responses), responses: responses,
      time: begin.duration(to: .now))
  }

  private func note(_ offers: DestinationOffers) {
    if let instance = offers.instance { answering.withLock { _ = $0.insert(instance) } }
    offered.withLock {
      $0.filesPerRequest = offers.filesPerRequest ?? $0.filesPerRequest
      $0.runBytesMax = offers.runBytesMax ?? $0.runBytesMax
    }
  }

  /// Blocks until there is an answer, or there will be none.
  func send(_ request: HTTPRequest) -> Result<HTTPResponse, TransportError> {
    let answer = Answer()
    transport.start(request, id: nextID()) { result in
      answer.result.withLock { $0 = result }
      answer.isThere.signal()
    }
    answer.isThere.wait()
    let result = answer.result.withLock { $0 } ?? .failure(TransportError(.other, "the request has no result"))
    status.store((try? result.get().status) ?? 0, ordering: .relaxed)
    return result
  }

  private final class Answer: Sendable {
    let result = Mutex<Result<HTTPResponse, TransportError>?>(nil)
    let isThere = DispatchSemaphore(value: 0)
  }
}

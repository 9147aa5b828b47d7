import Dispatch
import Lookup
import Synchronization
import TransferModel
import UploadEngine

/// Begins an upload of a large file, measures how fast it goes, asks what the server holds, and ends it: nothing is
/// published, and nothing is left.
struct SessionTrial {
  let exchange: StepExchange
  let endpoint: EndpointID
  let plan: TrialPlan
  let file: TrialFile
  /// False: one chunk is sent, for the sake of the rest.
  let isMeasuring: Bool

  /// Blocks until it is done. Where chunks are too long for what stands before the server, shorter ones are tried, as a mount
  /// would, and chunks that broke in mid-way go once more: why they do may show with the second time. Also how long requests are that
  /// pass.
  func run(clockDifference: Int64?) -> (findings: [Finding], passingBytes: Int) {
    var plan = plan
    var refused: (bytes: Int, failure: StepFailure)?
    var broken: StepFailure?
    while true {
      let (findings, failure) = attempt(plan, clockDifference)
      if let failure, failure.hasBrokenOff, broken == nil {
        broken = failure
        continue
      }
      guard let tooLong = failure, tooLong.kind == .requestTooLarge else {
        let warnings = [
          failure == nil ? broken.map(Finding.chunksBroken) : nil,
          refused.map { Finding.requestsRefused($0.failure, of: $0.bytes, passing: plan.contentBytes) },
        ]
        return (warnings.compactMap { $0 } + findings, plan.contentBytes)
      }
      refused = refused ?? (plan.contentBytes, tooLong)
      guard let shorter = plan.shorter else {
        return ([Finding.refusal(tooLong, of: .session, clockDifference: clockDifference)], 0)
      }
      plan = shorter
    }
  }

  /// One upload; and why none of its chunks was taken, where that is so.
  private func attempt(_ plan: TrialPlan, _ clockDifference: Int64?) -> ([Finding], failure: StepFailure?) {
    let opening = file.opening(chunkBytes: plan.chunkBytes, sizeBytes: plan.sizeBytes)
    let opened = exchange.run(.openSession(opening), at: endpoint).outcome
    guard case .sessionOpened(let id, let chunkBytes, _, _, _, _) = opened else {
      return ([refusal(opened, clockDifference)], nil)
    }
    let session = SessionIdentity(id: id, nonce: file.nonce)
    let contentBytes = min(chunkBytes, plan.contentBytes)
    let content = contentBytes < file.content.bytes.count ? file.content.prefix(contentBytes) : file.content
    let race = ChunkRace(exchange: exchange, endpoint: endpoint, session: session, content: content, plan: plan)
    let measure = race.run()
    let held = exchange.run(.querySession(session), at: endpoint).outcome
    let ended = exchange.run(.abort(session), at: endpoint).outcome
    var findings: [Finding] = []
    let failure = measure.acknowledgedBytes == 0 ? race.failure : nil
    if let failure {
      findings.append(Finding.refusal(failure, of: .session, clockDifference: clockDifference))
    } else {
      findings.append(Finding.session(held: held, acknowledged: race.acknowledgedIndices, ended: ended))
    }
    if isMeasuring {
      findings.append(Finding.throughput(measure, chunkBytes: content.bytes.count, streams: plan.streams))
    }
    return (findings, failure)
  }

  private func refusal(_ outcome: StepOutcome, _ clockDifference: Int64?) -> Finding {
    guard case .refused(let failure) = outcome else {
      return Finding(.session, .problem, "the server answered the beginning of an upload with something unexpected.")
    }
    return Finding.refusal(failure, of: .session, clockDifference: clockDifference)
  }
}

extension StepFailure {
  /// The request was on its way when its connection ended, or stood still.
  fileprivate var hasBrokenOff: Bool {
    switch kind {
    case .transport(.stalled), .transport(.connectionLost), .transport(.timedOut): true
    default: false
    }
  }
}

extension TrialContent {
  /// The first bytes as a content of its own.
  func prefix(_ count: Int) -> TrialContent { TrialContent(Array(bytes.prefix(max(1, count)))) }
}

extension Finding {
  /// Requests of the mount's length were refused, and shorter ones taken.
  static func requestsRefused(_ failure: StepFailure, of byteCount: Int, passing passingBytes: Int) -> Finding {
    Finding(
      .limits, .warning,
      "requests of \(Readable.bytes(UInt64(byteCount))) are refused, and those of \(Readable.bytes(UInt64(passingBytes))) "
        + "taken: \(failure.message)",
      advice: "Files arrive, in shorter requests and slower. Raise the limit, or give --chunk-size \(passingBytes).",
      facts: [Fact(key: "request_bytes_max", value: .number(Int64(passingBytes)))])
  }

  /// Chunks broke in mid-way, and were taken when they came once more.
  static func chunksBroken(_ failure: StepFailure) -> Finding {
    Finding(.session, .warning, "chunks were taken only when they came once more. The first time: \(failure.message)")
  }

  /// Of an upload that was begun and ended.
  static func session(held: StepOutcome, acknowledged: Set<Int>, ended: StepOutcome) -> Finding {
    var doubts: [String] = []
    switch held {
    case .held(let digests, _, _, _, let tokens, _):
      let isKnown = acknowledged.allSatisfy { digests[$0] != nil || tokens[$0] != nil }
      if !isKnown { doubts.append("it does not know all chunks that it has taken") }
    case .refused(let failure): doubts.append("it does not say what it holds: \(failure.message)")
    default: doubts.append("it does not say what it holds")
    }
    if case .refused(let failure) = ended { doubts.append("the upload could not be ended: \(failure.message)") }
    guard doubts.isEmpty else {
      return Finding(
        .session, .warning, "the server takes large files in chunks, but \(doubts.joined(separator: "; ")).",
        advice: "After a crash or an outage files may be sent again from their beginning.")
    }
    return Finding(
      .session, .ok, "an upload of a large file was begun, asked about and ended; nothing of it is left.")
  }
}

/// Sends chunks at the same time, until all are sent or the time is over.
private final class ChunkRace: Sendable {
  private let exchange: StepExchange
  private let endpoint: EndpointID
  private let session: SessionIdentity
  private let content: TrialContent
  private let plan: TrialPlan
  private let state = Mutex(State())
  private let hasNews = DispatchSemaphore(value: 0)

  private struct State {
    var underWay: [HTTPRequestID: SentByteCounter] = [:]
    var acknowledged: Set<Int> = []
    var failure: StepFailure?
  }

  /// The time between two samples.
  private static let interval: DispatchTimeInterval = .milliseconds(100)

  init(
    exchange: StepExchange, endpoint: EndpointID, session: SessionIdentity, content: TrialContent, plan: TrialPlan
  ) {
    self.exchange = exchange
    self.endpoint = endpoint
    self.session = session
    self.content = content
    self.plan = plan
  }

  /// Why a chunk was not taken; the first that was not ends the race.
  var failure: StepFailure? { state.withLock { $0.failure } }

  var acknowledgedIndices: Set<Int> { state.withLock { $0.acknowledged } }

  func run() -> ThroughputMeasure {
    let begin = ContinuousClock.now
    var measure = ThroughputMeasure()
    var next = 0
    while true {
      let underWay = state.withLock { $0.underWay.count }
      let mayStart = failure == nil && begin.duration(to: .now) < ThroughputMeasure.timeMax
      if mayStart, next < plan.chunkCount, underWay < plan.streams {
        start(next)
        next += 1
        continue
      }
      measure.add(probe(begin.duration(to: .now)))
      guard mayStart, underWay > 0 else { break }
      _ = hasNews.wait(timeout: .now() + Self.interval)
    }
    endAll()
    return measure
  }

  private func probe(_ time: Duration) -> ThroughputMeasure.Sample {
    state.withLock { state in
      let acknowledged = UInt64(state.acknowledged.count) * UInt64(content.bytes.count)
      let sent = state.underWay.values.reduce(acknowledged) { $0 + $1.value }
      return ThroughputMeasure.Sample(time: time, acknowledgedBytes: acknowledged, sentBytes: sent)
    }
  }

  private func start(_ index: Int) {
    let id = exchange.nextID()
    let counter = SentByteCounter()
    let step = DestinationStep.chunk(
      ChunkSending(session: session, index: index, digest: content.digest, body: content, sentBytes: counter))
    state.withLock { $0.underWay[id] = counter }
    exchange.transport.start(exchange.destination.request(for: step, at: endpoint), id: id) { [self] result in
      ended(id, index, step, result)
    }
  }

  private func ended(
    _ id: HTTPRequestID, _ index: Int, _ step: DestinationStep, _ result: Result<HTTPResponse, TransportError>
  ) {
    let outcome: StepOutcome =
      switch result {
      case .success(let response): exchange.destination.outcome(of: step, responses: [response])
      case .failure(let error): .refused(StepFailure(error))
      }
    state.withLock { state in
      state.underWay[id] = nil
      switch outcome {
      case .chunkStored, .chunkStoredAs: state.acknowledged.insert(index)
      case .refused(let failure) where failure.kind != .transport(.cancelled): state.failure = state.failure ?? failure
      default: break
      }
    }
    hasNews.signal()
  }

  /// What is still in progress is given up; each request says when it has ended.
  private func endAll() {
    for id in state.withLock({ Array($0.underWay.keys) }) { exchange.transport.cancel(id) }
    while state.withLock({ !$0.underWay.isEmpty }) { hasNews.wait() }
  }
}

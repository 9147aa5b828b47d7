public import CurlTransport
import Destinations
import Glibc
import Lookup
import MountConfiguration
import Quantities
public import TransferModel
import UploadEngine

/// Examines a destination along the path of an upload: from the name of its host to a file that is published. Here things
/// are done; what they mean is said in the extensions of ``Finding``.
public struct DestinationExamination {
  /// What is to be done.
  public struct Options: Sendable {
    /// Publish a small file.
    public var publishesTestFile = true
    /// What the test file holds, and how its name ends; nil for a line of text.
    public var sample: TrialSample?
    /// Measure how fast uploads are.
    public var measuresThroughput = true
    /// Chunk requests at the same time.
    public var streams = UploadConstants.maxParallelChunkUploads
    /// As a mount would cut files.
    public var chunkBytes = UploadConstants.chunkBytesDefault
    /// What writers may make.
    public var fileBytesMax = UploadConstants.fileBytesMax
    /// The environment's variables: they may name a proxy.
    public var environment: [String: String] = [:]

    /// Everything.
    public init() {}
  }

  private let exchange: StepExchange
  private let connection: CurlTransportConfiguration
  private let options: Options

  private var destination: any Destination { exchange.destination }

  /// An examination over a transport of its own; `connection` is how that connects.
  public init(
    destination: any Destination, transport: any HTTPTransport, connection: CurlTransportConfiguration,
    options: Options = Options()
  ) {
    exchange = StepExchange(destination: destination, transport: transport)
    self.connection = connection
    self.options = options
  }

  /// Blocks until everything is checked; each finding is told as soon as it is made.
  public func run(_ report: (Finding) -> Void) {
    var first: (endpoint: EndpointID, reached: Reached)?
    for index in 0..<max(1, destination.endpointCount) {
      let endpoint = EndpointID(index)
      if let reached = reach(endpoint, report) { first = first ?? (endpoint, reached) }
    }
    // Some servers say what they can do when they are asked.
    let abilities = first?.reached.abilities ?? destination.abilities
    report(.abilities(abilities))
    guard let first else { return }
    defer { countServers(first.endpoint, report) }
    let limits = askForLimits(first.endpoint)
    report(.limits(abilities, limits, fileBytesMax: options.fileBytesMax))
    tryOut(first.endpoint, abilities, limits, first.reached.clockDifference, report)
  }

  private struct Reached {
    var clockDifference: Int64?
    var abilities: DestinationAbilities?
  }

  /// Nil when the server cannot be reached over this address.
  private func reach(_ endpoint: EndpointID, _ report: (Finding) -> Void) -> Reached? {
    let url = destination.request(for: .prewarm, at: endpoint).url
    guard let server = ServerAddress(url: url) else {
      report(Finding(.names, .problem, "the address \(destination.displayURL(of: endpoint)) has no host."))
      return nil
    }
    let isBehindProxy =
      ProxyUse(connection.proxy, options.environment).holds(
        forHost: server.host, isEncrypted: server.isEncrypted)
    if isBehindProxy {
      report(.behindProxy(.names, server))
    } else {
      let probe = NetworkProbe.at(server)
      let (names, connection) = (Finding.names(of: server, probe), Finding.connection(to: server, probe))
      report(names)
      guard names.level != .problem else { return nil }
      report(connection)
      guard connection.level != .problem else { return nil }
    }
    let answer = exchange.run(.prewarm, at: endpoint)
    if isBehindProxy {
      let proxy = Finding.proxy(to: server, answer.outcome)
      report(proxy)
      guard proxy.level != .problem else { return nil }
    }
    let security = Finding.security(of: server, probe(at: server, answer))
    report(security)
    guard security.level != .problem else { return nil }
    let found = Finding.answer(
      answer, hindranceOfHTTP2: connection.protocolChoice == .automatic ? connection.hindranceOfHTTP2 : nil)
    report(found)
    guard found.level != .problem else { return nil }
    let difference = clockDifference(answer)
    report(.clock(difference: difference))
    return Reached(
      clockDifference: difference,
      abilities: answer.responses.lazy.compactMap { destination.offers(in: $0).abilities }.first)
  }

  private func probe(at server: ServerAddress, _ answer: StepAnswer) -> SecurityProbe {
    let refusal: TransportError? =
      if case .refused(let failure) = answer.outcome, case .transport(let kind) = failure.kind {
        TransportError(kind, failure.message)
      } else {
        nil
      }
    var current = ServerProbe()
    var older: ServerProbe?
    var other: ServerProbe?
    var verified: ServerProbe?
    if server.isEncrypted {
      if refusal.map({ !$0.kind.isOfHandshake }) ?? true {
        verified = .at(server.authority, .verified, configuration: connection)
      }
      current = .at(server.authority, .tls13, configuration: connection)
      if current.certificates.isEmpty { older = .at(server.authority, .olderTLS, configuration: connection) }
      if older?.certificates.isEmpty == true { other = .at(server.authority, .plain, configuration: connection) }
    } else if !(200..<300).contains(answer.responses.first?.status ?? 0) {
      other = .at(server.authority, .tls13, configuration: connection)
    }
    return SecurityProbe(
      current: current, verified: verified, older: older, other: other, refusal: refusal,
      nowSeconds: Self.now() / 1_000_000_000,
      serverSeconds: current.date.flatMap(HTTPDate.seconds))
  }

  private func clockDifference(_ answer: StepAnswer) -> Int64? {
    guard let seconds = answer.responses.first?.header("date").flatMap(HTTPDate.seconds) else { return nil }
    return ClockDifference.seconds(serverSeconds: seconds, nowNanoseconds: Self.now(), roundTrip: answer.time)
  }

  private func askForLimits(_ endpoint: EndpointID) -> DestinationLimits? {
    guard let request = destination.limitsRequest(at: endpoint),
      case .success(let response) = exchange.send(request)
    else { return nil }
    return destination.limits(in: response)
  }

  /// Asks over some fresh connections: what stands before several servers may lead each to another one.
  private func countServers(_ endpoint: EndpointID, _ report: (Finding) -> Void) {
    guard !exchange.instances.isEmpty else { return }
    for _ in 0..<DestinationExamination.connectionsAsked {
      exchange.transport.renewConnections()
      _ = exchange.run(.prewarm, at: endpoint)
    }
    if let finding = Finding.severalServers(exchange.instances.count) { report(finding) }
  }

  private static let connectionsAsked = 4

  // MARK: Trying it out

  private func tryOut(
    _ endpoint: EndpointID, _ abilities: DestinationAbilities, _ limits: DestinationLimits?,
    _ clockDifference: Int64?, _ report: (Finding) -> Void
  ) {
    do {
      var mayGoOn = true
      if options.publishesTestFile {
        let note = try TrialFile.note(host: Self.hostName, sample: options.sample, nowNanoseconds: Self.now())
        let findings = PublicationTrial(exchange: exchange, endpoint: endpoint, file: note)
          .run(clockDifference: clockDifference)
        mayGoOn = !findings.contains { $0.level == .problem }
        findings.forEach(report)
        if mayGoOn { batchTrial(endpoint).tryFiles(like: note).forEach(report) }
        if mayGoOn { mayGoOn = try complete(endpoint, note, clockDifference, report) }
      } else {
        report(Finding(.testFile, .skipped, "not sent, as asked for."))
      }
      guard mayGoOn else {
        report(Finding(.session, .skipped, "not tried: the server does not take a small file either."))
        return
      }
      if let reason = Self.noSession(abilities) {
        report(Finding(.session, .skipped, "not tried: \(reason)."))
        report(Finding(.throughput, .skipped, "not measured, for the same reason."))
        return
      }
      let plan = TrialPlan(
        abilities, limits: limits, streams: options.streams, chunkBytes: options.chunkBytes,
        measuring: options.measuresThroughput && abilities.appendSequences == .none)
      guard abilities.appendSequences == .none else {
        let noise = try TrialFile.noise(plan.contentBytes, nowNanoseconds: Self.now())
        let trial = SequenceTrial(
          exchange: exchange, endpoint: endpoint, plan: plan, file: noise,
          hasSequences: abilities.appendSequences == .growing)
        trial.run(clockDifference: clockDifference).forEach(report)
        return report(
          Finding(.throughput, .skipped, "not measured: the server would keep what is sent for it until it expires."))
      }
      let noise = try TrialFile.noise(plan.contentBytes, nowNanoseconds: Self.now())
      let trial = SessionTrial(
        exchange: exchange, endpoint: endpoint, plan: plan, file: noise, isMeasuring: options.measuresThroughput)
      let (findings, passingBytes) = trial.run(clockDifference: clockDifference)
      findings.forEach(report)
      batchTrial(endpoint).tryChunks(of: noise, requestBytes: passingBytes).forEach(report)
      if !options.measuresThroughput { report(Finding(.throughput, .skipped, "not measured, as asked for.")) }
    } catch {
      report(Finding(.testFile, .problem, "this machine has no random numbers: \(error)", status: .internalError))
    }
  }

  private func batchTrial(_ endpoint: EndpointID) -> BatchTrial {
    BatchTrial(exchange: exchange, endpoint: endpoint)
  }

  /// Publishes a file in parts where it can be taken away again; false where that is a problem.
  private func complete(
    _ endpoint: EndpointID, _ note: TrialFile, _ clockDifference: Int64?, _ report: (Finding) -> Void
  ) throws -> Bool {
    let abilities = destination.abilities
    guard abilities.needsChunks, abilities.commitListsChunks else { return true }
    let publisher = TrialPublisher(exchange: exchange, endpoint: endpoint)
    let conditions = destination.underConditionsAlone.map {
      TrialPublisher(exchange: StepExchange(destination: $0, transport: exchange.transport), endpoint: endpoint)
    }
    let parts = note.inParts
    let findings = CompletionTrial(
      publisher: publisher, underConditions: conditions, file: try parts.another(abilities.chunkBytesMin),
      other: try parts.another(0)
    ).run(clockDifference: clockDifference)
    findings.forEach(report)
    return !findings.contains { $0.level == .problem }
  }

  /// Why no upload of a large file can be begun and ended without a trace; nil when one can.
  private static func noSession(_ abilities: DestinationAbilities) -> String? {
    if abilities.streamsWholeFiles {
      let most = Readable.bytes(UInt64(TrialSample.bytesMax))
      return "the destination takes each file in one request, which cannot be begun without publishing it. "
        + "Whether long captures pass what stands before it, --test-sample shows with one as long (up to \(most))"
    }
    return abilities.endsSessions ? nil : "the server cannot end uploads, and would keep a part of it until it expires"
  }

  /// Nanoseconds since 1970.
  private static func now() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
  }

  private static var hostName: String {
    var name = [CChar](repeating: 0, count: 256)
    guard gethostname(&name, name.count - 1) == 0 else { return "" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

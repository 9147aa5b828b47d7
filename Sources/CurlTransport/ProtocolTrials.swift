import CCurl
import Synchronization
import TransferModel

/// The trials of all servers, and what they are told. Belongs to the curl thread.
struct ProtocolTrials {
  private var trials: [String: ProtocolTrial] = [:]
  /// What was acknowledged on each socket when it was last looked at.
  private var acknowledged: [Int32: Int64] = [:]
  /// What was acknowledged to each server since its trial was last told.
  private var moved: [String: Int] = [:]
  private let times: ProtocolTrial.Times
  private let report: ProtocolReport

  init(_ times: ProtocolTrial.Times, to report: ProtocolReport) {
    self.times = times
    self.report = report
  }

  /// The version of a request that begins now. Each is to end by ``end(_:_:of:at:)``.
  mutating func choose(for request: HTTPRequest) -> VersionChoice {
    guard let target = RequestTarget(url: request.url), target.scheme == "https",
      ProtocolTrial.concerns(
        bodyBytes: request.body.byteCount, isStreamed: request.body.stream != nil, isSentOnce: request.isSentOnce,
        opensConnection: request.opensConnection)
    else { return .fixed(.http1) }
    return .tried(trials[target.origin, default: ProtocolTrial(times: times)].begin(bodyBytes: request.body.byteCount))
  }

  /// A request to this server has ended, or never begun.
  mutating func end(
    _ choice: VersionChoice, _ ending: ProtocolTrial.Ending, of origin: String, at now: ContinuousClock.Instant
  ) {
    guard case .tried(let version) = choice, trials[origin] != nil else { return }
    // First: a call's own value is taken before its arguments are.
    let decision = trials[origin]?.end(version, ending, at: now)
    say(decision, of: origin)
  }

  /// A connection to a server: what it has acknowledged counts once, whichever requests use it.
  mutating func count(_ socket: Int32, of origin: String) {
    guard trials[origin] != nil else { return }
    let bytes = Int64(uploadfs_acknowledged_bytes(socket))
    guard bytes >= 0 else { return }
    let before = acknowledged.updateValue(bytes, forKey: socket) ?? 0
    // The number of a connection that has gone may be another one's.
    add(Int(clamping: bytes >= before ? bytes - before : bytes), of: origin)
  }

  /// So much was acknowledged by a server.
  mutating func add(_ bytes: Int, of origin: String) { moved[origin] = (moved[origin] ?? 0) &+ bytes }

  /// All connections have been counted. The servers at which HTTP/2 is behind, as was found just now.
  mutating func look(at now: ContinuousClock.Instant) -> [String] {
    var behind: [String] = []
    for origin in Array(trials.keys) {
      let decision = trials[origin]?.look(acknowledged: moved[origin] ?? 0, at: now)
      if decision?.finding == .behind { behind.append(origin) }
      say(decision, of: origin)
    }
    moved = [:]
    return behind
  }

  /// Whether a request to such a server is ended, so that it goes again.
  func goesAgain(to origin: String, _ choice: VersionChoice, bodyBytes: Int, sent: Int, age: Duration) -> Bool {
    choice == .tried(.http2) && trials[origin]?.goesAgain(bodyBytes: bodyBytes, sent: sent, age: age) == true
  }

  /// The ways to all servers may be others.
  mutating func restart() { for origin in Array(trials.keys) { restart(origin) } }

  /// Packets to a server are sent by another rule.
  mutating func restart(_ origin: String) {
    guard trials[origin] != nil else { return }
    trials[origin]?.restart()
    say(nil, of: origin)
  }

  private func say(_ decision: ProtocolStanding?, of origin: String) {
    guard let standing = trials[origin]?.standing else { return }
    report.set(standing, of: origin, isDecision: decision != nil)
  }
}

extension ProtocolTrial.Ending {
  /// What the end of a transfer says of the version that it was sent with.
  init(_ result: Result<HTTPResponse, TransportError>) {
    switch result {
    case .success(let response): self = .answered(response.connection.protocolName == "HTTP/2" ? .http2 : .http1)
    case .failure(let error):
      switch error.kind {
      case .cancelled, .stopped, .overloaded, .bodyUnavailable, .pathLost: self = .ended
      default: self = .failed
      }
    }
  }
}

/// A server, and what is known of HTTP/2 on the way there.
public struct ServerProtocol: Hashable, Sendable {
  /// Scheme, host and port.
  public var server: String
  /// What is known.
  public var standing: ProtocolStanding

  /// One sentence without a stop: what was decided, and by which figures.
  public var words: String {
    let http1 = standing.http1BytesPerSecond.map(Self.megabytes)
    let http2 = standing.http2BytesPerSecond.map(Self.megabytes)
    let rates = http2.flatMap { two in http1.map { one in " (\(two) beside \(one))" } } ?? ""
    return switch standing.finding {
    case .unmeasured: "HTTP/1.1 is used: what HTTP/2 would carry has not been measured"
    case .trying: "HTTP/2 is being tried"
    case .better: "HTTP/2 carried more than HTTP/1.1\(rates), and is used"
    case .notBetter: "HTTP/2 did not carry a tenth more than HTTP/1.1\(rates), which stays"
    case .behind: "HTTP/2 carried less than HTTP/1.1\(rates), which stays"
    case .fellBehind: "HTTP/2 carries less now than HTTP/1.1 had before\(rates), which is used again"
    case .notOffered: "the server does not speak HTTP/2: HTTP/1.1 stays"
    case .failed: "requests over HTTP/2 failed: HTTP/1.1 is used"
    case .undecided: "the load changed before HTTP/2 had shown what it carries: HTTP/1.1 stays"
    }
  }

  private static func megabytes(_ rate: Double) -> String {
    let hundredths = Int((rate / 10_000).rounded())
    return "\(hundredths / 100).\(hundredths % 100 < 10 ? "0" : "")\(hundredths % 100) MB/s"
  }
}

/// What is known of all servers, for other threads.
final class ProtocolReport: Sendable {
  private let standings = Mutex<[String: ProtocolStanding]>([:])
  private let whenDecided: @Sendable (ServerProtocol) -> Void

  init(whenDecided: @escaping @Sendable (ServerProtocol) -> Void) { self.whenDecided = whenDecided }

  func set(_ standing: ProtocolStanding, of server: String, isDecision: Bool) {
    standings.withLock { $0[server] = standing }
    if isDecision { whenDecided(ServerProtocol(server: server, standing: standing)) }
  }

  /// In the order of their names.
  var servers: [ServerProtocol] {
    standings.withLock { $0 }.map { ServerProtocol(server: $0.key, standing: $0.value) }.sorted {
      $0.server < $1.server
    }
  }
}

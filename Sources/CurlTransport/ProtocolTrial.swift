/// Decides whether requests to a server go over HTTP/1.1, each on a connection of its own, or share one of HTTP/2. Pure: the loop tells
/// it what has begun, ended, and been acknowledged.
///
/// HTTP/1.1 stays unless HTTP/2 was seen to carry more. Requests that share a connection have one congestion window, one window of the
/// server's and one thread of its instead of twelve; where they are small they do not wait for connections whose windows are still narrow.
/// Which counts for more depends on line, server and load, so that it is measured on what is to be sent anyway.
///
/// A trial goes in steps, each of which puts more at stake: one request, whose handshake shows whether the server has HTTP/2; a third of
/// the requests; all of them. Under loss that halves windows, a connection that carries a third of the requests is slower than theirs
/// together were, which shows before all of them are on it. Then HTTP/1.1 is measured again, because a line may have changed meanwhile.
/// What a trial has cost is known at each moment: what HTTP/1.1 would have carried in its time, and it has not. It ends when that is more
/// than ``costShare`` of the time under load before. Requests that would still take long over HTTP/2 then go again.
///
/// Nothing is tried where requests take longer than ``Times/window``. There is little to win: what HTTP/2 spares is a part of a round trip
/// for each request. And much is under way when it turns out to be slow.
///
/// Bytes decide, and not requests: where requests are as long as before, as many more bytes are as many more requests. Where they are
/// not, nothing is decided.
struct ProtocolTrial {
  enum Version: Hashable {
    case http1
    case http2
  }

  /// How a request has ended.
  enum Ending: Hashable {
    case answered(Version)
    /// The connection or the server has failed it.
    case failed
    /// Something else: it says nothing of the version.
    case ended
  }

  /// A request's body is longer, or comes while it is sent: it keeps the version for too long.
  static let bodyBytesMax = 32 << 20
  /// A shorter one is over soon.
  static let bodyBytesOfRepetition = 256 << 10
  static let slownessOfRepetition = 1.25
  /// With fewer requests under way the line is not asked for all that it has.
  static let loadMin = 4
  struct Times: Hashable, Sendable {
    /// Under load, before a trial begins.
    var loaded: Duration = .seconds(60)
    /// From a trial to the next one on the same way.
    var interval: Duration = .seconds(3600)
    /// For so long each version is measured, and a third of the requests.
    var window: Duration = .seconds(5)
    var sharing: Duration = .seconds(3)
    /// Before that, without a request of the other version.
    var settling: Duration = .seconds(1)
  }

  /// A trial may cost this part of the time under load, and so much at most.
  static let costShare = 0.015
  static let costMax: Duration = .seconds(2)
  /// Less than this part of the rate of HTTP/1.1 is behind it; HTTP/2 is kept from this one on.
  static let behind = 0.9
  static let better = 1.1
  /// Requests are as long as before, if their mean is within this ratio, and so many tell.
  static let lengthRatioMax = 2.0
  static let lengthCountMin = 4
  /// A trial that lasts longer, or is without load for so long, decides nothing.
  static let trialTimeMax: Duration = .seconds(90)
  static let pauseMax: Duration = .seconds(5)
  /// Failures in a row over HTTP/2 that end its use.
  static let failuresMax = 3
  /// Between two looks. After a longer time the machine slept, or nothing was under way.
  static let lookGapMax: Duration = .seconds(1)

  private enum State {
    /// Over HTTP/1.1.
    case measuring
    /// One request at a time over HTTP/2, until one is answered.
    case asking
    /// A third of them.
    case sharing(ProtocolWindow)
    /// All, as soon as those before have ended.
    case comparing(ProtocolWindow, settled: Duration)
    /// None, likewise.
    case confirming(ProtocolWindow, settled: Duration)
    /// All. What was measured last, while it was used.
    case kept(ProtocolWindow)
  }

  private let times: Times
  private var state = State.measuring
  private(set) var standing = ProtocolStanding()
  private var inFlight: [Version: Int] = [:]
  /// The most that were in flight since the last look.
  private var load = 0
  /// Requests begun since the last look, and their bodies.
  private var begun = (count: 0, bytes: 0)
  private var lookedAt: ContinuousClock.Instant?
  /// The last ``Times/window`` under load over HTTP/1.1.
  private var recent: [ProtocolWindow] = []
  /// Before the trial.
  private var baseline = ProtocolWindow()
  /// Over HTTP/2, in the trial.
  private var measured = ProtocolWindow()
  private var loaded: Duration = .zero
  /// Seconds of all requests in that time, and how many have ended.
  private var requestSeconds = 0.0
  private var endedCount = 0
  private var pause: Duration = .zero
  /// Bytes that HTTP/1.1 would have carried in the trial, beyond those that were.
  private var cost = 0.0
  private var costLimit = 0.0
  /// Since all or a third of the requests go over HTTP/2, those that were begun before included.
  private var mixed = ProtocolWindow()
  private var triedAt: ContinuousClock.Instant?
  private var failures = 0

  init(times: Times = Times()) { self.times = times }

  /// Whether the version of a request may be chosen here. Others have HTTP/1.1.
  static func concerns(bodyBytes: Int, isStreamed: Bool, isSentOnce: Bool, opensConnection: Bool) -> Bool {
    !isStreamed && !isSentOnce && !opensConnection && bodyBytes <= bodyBytesMax
  }

  /// That of a request which begins now.
  mutating func begin(bodyBytes: Int) -> Version {
    let version = nextVersion(hasBody: bodyBytes > 0)
    inFlight[version, default: 0] += 1
    load = max(load, requestsInFlight)
    if bodyBytes > 0 {
      begun.count += 1
      begun.bytes += bodyBytes
    }
    return version
  }

  private func nextVersion(hasBody: Bool) -> Version {
    switch state {
    case .measuring, .confirming: .http1
    case .asking: hasBody && count(.http2) == 0 ? .http2 : .http1
    case .sharing: (count(.http2) + 1) * 3 <= requestsInFlight + 1 ? .http2 : .http1
    case .comparing, .kept: .http2
    }
  }

  /// Whether a request over HTTP/2 that is behind is ended, so that it goes again over HTTP/1.1: all of it would be there long before
  /// what is left.
  func goesAgain(bodyBytes: Int, sent: Int, age: Duration) -> Bool {
    guard bodyBytes >= Self.bodyBytesOfRepetition, requestsInFlight > 0, age > .zero else { return false }
    let again = Double(bodyBytes) * Double(requestsInFlight) / max(1, baseline.rate)
    let left = Double(bodyBytes - sent) * (age / .seconds(1)) / Double(max(1, sent))
    return left > Self.slownessOfRepetition * again
  }

  private func count(_ version: Version) -> Int { inFlight[version] ?? 0 }
  private var requestsInFlight: Int { count(.http1) + count(.http2) }

  /// A request has ended that was begun here with this version. What has been decided.
  mutating func end(_ version: Version, _ ending: Ending, at now: ContinuousClock.Instant) -> ProtocolStanding? {
    inFlight[version] = max(0, count(version) - 1)
    endedCount += 1
    guard version == .http2 else { return nil }
    switch (state, ending) {
    case (.measuring, _), (_, .ended): return nil
    case (_, .answered(.http1)): return decide(.notOffered, at: now)
    case (.asking, .answered(.http2)):
      state = .sharing(ProtocolWindow())
      (cost, mixed) = (0, ProtocolWindow())
      return nil
    case (_, .answered(.http2)):
      failures = 0
      return nil
    case (.kept, .failed):
      failures += 1
      return failures >= Self.failuresMax ? decide(.failed, at: now) : nil
    case (_, .failed): return decide(.failed, at: now)
    }
  }

  /// The way to the server is another one, or packets are sent by another rule: nothing holds that was measured.
  mutating func restart() {
    state = .measuring
    standing = ProtocolStanding()
    (recent, triedAt, failures) = ([], nil, 0)
    forgetLoad()
  }

  private mutating func forgetLoad() { (loaded, requestSeconds, endedCount) = (.zero, 0, 0) }

  /// So many bytes have been acknowledged on all connections since the last look. What has been decided.
  mutating func look(acknowledged: Int, at now: ContinuousClock.Instant) -> ProtocolStanding? {
    let before = lookedAt
    let (isLoaded, most) = (load >= Self.loadMin, load)
    let window = ProtocolWindow(
      time: before.map { now - $0 } ?? .zero, bytes: acknowledged, begunCount: begun.count, begunBytes: begun.bytes)
    lookedAt = now
    load = requestsInFlight
    begun = (0, 0)
    guard before != nil, window.time <= Self.lookGapMax, isLoaded else { return rest(window.time, at: now) }
    pause = .zero
    loaded += window.time
    requestSeconds += Double(most) * (window.time / .seconds(1))
    return take(window, at: now)
  }

  /// How long one takes.
  private var requestTime: Duration { .seconds(requestSeconds / Double(max(1, endedCount))) }

  /// Nothing is to be learnt from the time since the last look.
  private mutating func rest(_ time: Duration, at now: ContinuousClock.Instant) -> ProtocolStanding? {
    pause += time
    guard pause > Self.lookGapMax else { return nil }
    recent = []
    switch state {
    case .measuring, .kept: return nil
    default: return pause > Self.pauseMax || isOverdue(at: now) ? decide(.undecided, at: now) : nil
    }
  }

  private func isOverdue(at now: ContinuousClock.Instant) -> Bool {
    triedAt.map { now - $0 > Self.trialTimeMax } ?? false
  }

  private mutating func take(_ window: ProtocolWindow, at now: ContinuousClock.Instant) -> ProtocolStanding? {
    switch state {
    case .measuring:
      measure(window)
      beginIfDue(at: now)
      return nil
    case .kept(var latest):
      latest.add(window)
      guard latest.time >= times.window else {
        state = .kept(latest)
        return nil
      }
      state = .kept(ProtocolWindow())
      if latest.rate < Self.behind * baseline.rate { return decide(.fellBehind, latest, at: now) }
      // Once an hour.
      if let triedAt, now - triedAt >= times.interval {
        restartMeasuring()
      }
      return nil
    default:
      return tryOn(window, at: now)
    }
  }

  private mutating func measure(_ window: ProtocolWindow) {
    // What HTTP/2 still carries is no measure of HTTP/1.1.
    guard count(.http2) == 0 else { return recent = [] }
    recent.append(window)
    while recent.dropFirst().reduce(.zero, { $0 + $1.time }) >= times.window { recent.removeFirst() }
  }

  private mutating func beginIfDue(at now: ContinuousClock.Instant) {
    var sum = ProtocolWindow()
    for window in recent { sum.add(window) }
    guard loaded >= times.loaded, sum.time >= times.window, requestTime < times.window, sum.bytes > 0,
      triedAt.map({ now - $0 >= times.interval }) ?? true
    else { return }
    baseline = sum
    measured = ProtocolWindow()
    costLimit = sum.rate * min(Self.costShare * (loaded / .seconds(1)), Self.costMax / .seconds(1))
    (triedAt, failures) = (now, 0)
    forgetLoad()
    standing = ProtocolStanding(finding: .trying, http1BytesPerSecond: sum.rate)
    state = .asking
  }

  private mutating func tryOn(_ window: ProtocolWindow, at now: ContinuousClock.Instant) -> ProtocolStanding? {
    mixed.add(window)
    cost += baseline.rate * (window.time / .seconds(1)) - Double(window.bytes)
    guard !isOverdue(at: now) else { return decide(.undecided, at: now) }
    switch state {
    case .sharing(var shared):
      guard cost <= costLimit else { return decide(.behind, mixed, at: now) }
      guard count(.http2) > 0 || shared.time > .zero else { return nil }
      shared.add(window)
      state = .sharing(shared)
      guard shared.time >= times.sharing else { return nil }
      guard shared.rate >= Self.behind * baseline.rate else { return decide(.behind, mixed, at: now) }
      state = .comparing(ProtocolWindow(), settled: .zero)
      mixed = ProtocolWindow()
    case .comparing(var compared, let settled):
      guard cost <= costLimit else { return decide(.behind, compared.time > .zero ? compared : mixed, at: now) }
      guard count(.http1) == 0, settled >= times.settling else {
        state = .comparing(compared, settled: count(.http1) == 0 ? settled + window.time : .zero)
        return nil
      }
      compared.add(window)
      state = .comparing(compared, settled: settled)
      guard compared.time >= times.window else { return nil }
      measured = compared
      guard compared.isComparable(with: baseline) else { return decide(.undecided, at: now) }
      guard compared.rate >= Self.better * baseline.rate else { return decide(.notBetter, compared, at: now) }
      state = .confirming(ProtocolWindow(), settled: .zero)
    case .confirming(var confirmed, let settled):
      guard count(.http2) == 0, settled >= times.settling else {
        state = .confirming(confirmed, settled: count(.http2) == 0 ? settled + window.time : .zero)
        return nil
      }
      confirmed.add(window)
      state = .confirming(confirmed, settled: settled)
      guard confirmed.time >= times.window else { return nil }
      guard confirmed.isComparable(with: measured) else { return decide(.undecided, at: now) }
      // The better of the two is what HTTP/2 is to beat.
      if confirmed.rate > baseline.rate { baseline = confirmed }
      return decide(measured.rate >= Self.better * baseline.rate ? .better : .notBetter, measured, at: now)
    case .asking, .measuring, .kept: break
    }
    return nil
  }

  /// After an hour HTTP/2 has to show again what it is worth.
  private mutating func restartMeasuring() {
    state = .measuring
    recent = []
    loaded = max(loaded, times.loaded)
    standing.finding = .trying
  }

  private mutating func decide(
    _ finding: ProtocolStanding.Finding, _ window: ProtocolWindow? = nil, at now: ContinuousClock.Instant
  ) -> ProtocolStanding {
    state = finding == .better ? .kept(ProtocolWindow()) : .measuring
    (recent, failures, pause) = ([], 0, .zero)
    forgetLoad()
    // From its end on.
    triedAt = now
    standing = ProtocolStanding(
      finding: finding, http1BytesPerSecond: baseline.rate,
      http2BytesPerSecond: window.flatMap { $0.time > .zero ? $0.rate : nil })
    return standing
  }
}

/// What went over all connections to a server in some time.
struct ProtocolWindow: Hashable {
  var time: Duration = .zero
  /// Acknowledged.
  var bytes = 0
  /// Requests that began, and their bodies.
  var begunCount = 0
  var begunBytes = 0

  /// In a second.
  var rate: Double { time > .zero ? Double(bytes) / (time / .seconds(1)) : 0 }

  mutating func add(_ other: ProtocolWindow) {
    time += other.time
    bytes += other.bytes
    begunCount += other.begunCount
    begunBytes += other.begunBytes
  }

  /// Requests were about as long, as far as there were enough to tell.
  func isComparable(with other: ProtocolWindow) -> Bool {
    guard min(begunCount, other.begunCount) >= ProtocolTrial.lengthCountMin else { return true }
    let ratio = (Double(begunBytes) / Double(begunCount)) / max(1, Double(other.begunBytes) / Double(other.begunCount))
    return ratio <= ProtocolTrial.lengthRatioMax && ratio >= 1 / ProtocolTrial.lengthRatioMax
  }
}

/// What is known of HTTP/2 on the way to a server.
public struct ProtocolStanding: Hashable, Sendable {
  /// Why requests go over the version that they go over.
  public enum Finding: String, Sendable, CaseIterable {
    /// Too little went to the server yet.
    case unmeasured
    /// It is being found out.
    case trying
    /// HTTP/2 carried more, and is used.
    case better
    /// It did not.
    case notBetter = "not-better"
    /// It carried so much less that the trial ended early.
    case behind
    /// It carried more once, and then less than HTTP/1.1 had.
    case fellBehind = "fell-behind"
    /// The server does not speak it.
    case notOffered = "not-offered"
    /// Requests over it failed.
    case failed
    /// The load ended, or changed, before there was a result.
    case undecided
  }

  /// The reason.
  public var finding: Finding
  /// What HTTP/1.1 carried; nil where it was not measured.
  public var http1BytesPerSecond: Double?
  /// What HTTP/2 carried.
  public var http2BytesPerSecond: Double?

  /// Nothing known, unless something is given.
  public init(
    finding: Finding = .unmeasured, http1BytesPerSecond: Double? = nil, http2BytesPerSecond: Double? = nil
  ) {
    self.finding = finding
    self.http1BytesPerSecond = http1BytesPerSecond
    self.http2BytesPerSecond = http2BytesPerSecond
  }
}

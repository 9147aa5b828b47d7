import TransferModel

/// One path to the destination: how fast it is, how many streams fill it, and how much may be in flight
/// (docs/design/scheduling.md#the-line).
///
/// A path has its own rate, delay and requests in flight. It knows requests by their bytes, and nothing of files.
struct LinkControl: Hashable, Sendable {
  /// Bounds that hold for each path.
  struct Bounds: Hashable, Sendable {
    /// The delay between the starts of two streams on a line that was idle.
    var rampDelay = UploadConstants.parallelRampUpDelay
    /// The least that a stream carries; a shorter request says nothing about the line.
    var streamBytesLeast = UploadConstants.chunkBytesMin
    /// Bytes that may always be in flight, however slow the line is.
    var flightBytesLeast = UploadConstants.flightBytesLeast
    /// The most requests in flight.
    var requestsMax = UploadConstants.maxParallelChunkUploads
  }

  /// What has arrived of the requests in flight: of their files' bytes, and of those sent instead of them.
  struct Arrived: Hashable, Sendable {
    var plainBytes: UInt64 = 0
    var sentBytes: UInt64 = 0
  }

  /// A request with bytes that has ended.
  struct Ended: Hashable, Sendable {
    /// Bytes of its files.
    var byteCount: Int
    /// Bytes sent instead of them, where all were sent.
    var sentBytes: Int
    /// Of ``byteCount``, what was seen to have arrived before the answer.
    var arrivedBytes: UInt64
    /// The bytes were sent, and the destination has them.
    var isCarried: Bool
  }

  /// Servers that take longer over an answer are slow themselves, whatever the line is; in seconds.
  private static let answerSecondsMax = 2.0

  /// Nearer servers answer so soon that further connections would only cost descriptors, at both ends.
  private static let longAnswerTime: Duration = .milliseconds(5)

  private let bounds: Bounds
  private var estimate = SpeedEstimate()
  private var sampler: SpeedSampler
  /// The estimate for the bytes as they are sent.
  private var lineRate = LineRate()
  private var lineSampler: SpeedSampler
  private var plan: StreamPlan
  private var window: FlightWindow
  /// The shortest time from a request without a body to its answer.
  private var answerTime: Duration?
  /// When a request with bytes was last answered because of what it carried.
  private(set) var carriedAt: MonotonicTime?
  /// Requests in flight with bytes of files.
  private(set) var inFlight = 0
  /// Their bytes, but for those of requests that read their file while they send it.
  private var bytesInFlight = 0

  init(_ bounds: Bounds) {
    self.bounds = bounds
    sampler = SpeedSampler(bytesLeast: bounds.streamBytesLeast)
    lineSampler = sampler
    plan = StreamPlan(rampDelay: bounds.rampDelay)
    window = FlightWindow(bytesLeast: bounds.flightBytesLeast)
  }

  /// Begins with what an earlier run has measured.
  mutating func recall(_ state: SpeedEstimate.State?) {
    estimate = SpeedEstimate(state)
    lineRate = LineRate(state)
  }

  // MARK: - Rates

  /// How fast files go; nil until enough was measured.
  var bytesPerSecond: Double? { estimate.bytesPerSecond }

  /// The estimate for a resume record; nil before the first sample.
  var measured: SpeedEstimate.State? { estimate.state.sampleCount > 0 ? estimate.state : nil }

  /// How fast the line takes bytes as they are sent.
  func lineBytesPerSecond(at now: MonotonicTime) -> Double? { lineRate.bytesPerSecond(at: now) }

  /// What the line took in the last two seconds; nil where it had nothing to carry for a part of them.
  func shownBytesPerSecond(at now: MonotonicTime) -> Double? { window.bytesPerSecond(at: now) }

  /// In the last second the line has carried less than half of what it can: its streams, and not the line, are slow.
  func isUnderused(at now: MonotonicTime) -> Bool {
    guard let expected = expectedBytesPerSecond(at: now) else { return false }
    return Double(window.latest(at: now)) < expected / 2
  }

  /// The rate that a request's bytes can expect if none of them can be saved: earlier ones may have been compressed.
  func expectedBytesPerSecond(at now: MonotonicTime) -> Double? {
    guard let files = bytesPerSecond else { return nil }
    return min(files, lineBytesPerSecond(at: now) ?? files)
  }

  // MARK: - Streams

  /// The kind of line.
  var tier: SpeedTier { plan.tier }

  /// Streams that the line is to carry now.
  var streams: Int { plan.streams }

  /// When one more request with bytes may go out; nil while as many are in flight as may be.
  mutating func nextStart(limit: Int, at now: MonotonicTime) -> MonotonicTime? {
    plan.nextStart(inFlight: inFlight, limit: limit, at: now)
  }

  /// Adjusts the streams to the rate.
  mutating func adjust(at now: MonotonicTime) { plan.adjust(to: bytesPerSecond, at: now) }

  /// So many connections have answered.
  mutating func warmed(_ connections: Int, at now: MonotonicTime) { plan.warmed(connections, at: now) }

  /// The connections are gone.
  mutating func connectionsLost() { plan.connectionsLost() }

  /// A request stood still for too long.
  mutating func stalled(at now: MonotonicTime) { plan.stalled(at: now) }

  // MARK: - Requests

  /// A request goes out with so many bytes; `arrived` counts the others in flight.
  mutating func began(_ byteCount: Int, beside arrived: Arrived, at now: MonotonicTime) {
    inFlight += 1
    bytesInFlight += byteCount
    sampler.sent(byteCount, underWay: arrived.plainBytes, at: now)
    lineSampler.sent(byteCount, underWay: arrived.sentBytes, at: now)
    plan.started(inFlight: inFlight, at: now)
    window.started(at: now)
  }

  /// A request goes out that reads its file while it sends it: hours of it say nothing about the rate between two
  /// answers.
  mutating func beganStreaming(at now: MonotonicTime) {
    inFlight += 1
    plan.started(inFlight: inFlight, at: now)
    window.started(at: now)
  }

  /// So many more bytes of a request have arrived.
  mutating func arrived(_ byteCount: Int, at now: MonotonicTime) { window.arrived(byteCount, at: now) }

  /// A request has ended; `arrived` counts the others in flight.
  mutating func ended(_ request: Ended, beside arrived: Arrived, at now: MonotonicTime) {
    inFlight -= 1
    bytesInFlight -= request.byteCount
    if request.isCarried {
      carriedAt = now
      window.answered(request.byteCount - Int(clamping: request.arrivedBytes), at: now)
    }
    plan.ended(inFlight: inFlight, at: now)
    window.ended(inFlight: inFlight)
    if let (bytes, interval) = sampler.ended(
      request.byteCount, isAcknowledged: request.isCarried, underWay: arrived.plainBytes, at: now)
    {
      estimate.add(bytes: bytes, over: interval, at: now)
    }
    if let (bytes, interval) = lineSampler.ended(
      request.byteCount, counting: request.sentBytes, isAcknowledged: request.isCarried, underWay: arrived.sentBytes,
      at: now)
    {
      lineRate.add(bytes: bytes, over: interval, at: now)
    }
  }

  /// A request without a body was answered after so long: the fastest show the round-trip time.
  mutating func answered(after time: Duration) { answerTime = min(answerTime ?? time, time) }

  // MARK: - What may be on its way

  /// One stream may be broken and wait for its answers. On a line that is not among the slowest, two of them leave it idle now and then.
  private var requestsLeast: Int {
    let megabits = (bytesPerSecond ?? 0) * 8 / 1_000_000
    return megabits < UploadConstants.fewStreamsMegabitsPerSecond
      ? StreamPlan.streamsMin : UploadConstants.slowTierChunks
  }

  /// Whether one more request with bytes of a larger file may go out: there is one for each shortest chunk that the
  /// line has room for. Two are always allowed, and four where the line is not among the slowest: while one waits for
  /// its answer the others fill the line.
  ///
  /// The bytes of the requests are not counted: most of them wait in the requests, and take nothing of the line. The
  /// streams fill a queue on the path and share its rate, and each of them may lose a chunk.
  func hasRoom(beside awaited: Int, at now: MonotonicTime) -> Bool {
    guard inFlight >= requestsLeast else { return true }
    return inFlight < windowBytes(at: now) / bounds.streamBytesLeast + awaited
  }

  /// How many of the requests in flight have nothing to send and wait for their answers. On a long line others go out
  /// beside them. Twice the average number: several begin together, and end so.
  func requestsAwaited(at now: MonotonicTime) -> Int {
    guard let bytesPerSecond, let answerTime else { return 0 }
    let waitingBytes = 2 * bytesPerSecond * answerTime.seconds
    let requestBytes = max(bounds.streamBytesLeast, streamBytes(of: windowBytes(at: now), streams))
    return Int(min(waitingBytes / Double(requestBytes), Double(bounds.requestsMax)).rounded())
  }

  /// The same of requests as they are in flight, which may be shorter than what a stream carries: those of whole files. They say
  /// nothing about the rate of a line, so what has arrived lately counts.
  func filesAwaited(at now: MonotonicTime) -> Int {
    guard let bytesPerSecond = bytesPerSecond ?? shownBytesPerSecond(at: now), let answerTime,
      answerTime >= Self.longAnswerTime, inFlight > 0
    else { return 0 }
    let waitingBytes = 2 * bytesPerSecond * answerTime.seconds
    let requestBytes = max(1, bytesInFlight / inFlight)
    return Int(min(waitingBytes / Double(requestBytes), Double(bounds.requestsMax)).rounded())
  }

  /// The length of a request of each of so many streams: what it carries in about two seconds. On a line of unknown
  /// speed each request is longer than the one that begins before it, so that they do not all wait for their answers at
  /// the same time.
  func requestBytes(ofEachOf streams: Int, chunkBytes: Int, at now: MonotonicTime) -> Int {
    let window = windowBytes(at: now)
    let few = max(window / 4, (1 + inFlight) * chunkBytes)
    let first = bytesPerSecond == nil ? min(UploadConstants.slowTierChunkBytes, few) : 0
    return max(streamBytes(of: window, streams), first)
  }

  /// The most that one request carries of several small files: all that may be in flight take two seconds of the line
  /// together. A request that breaks off takes all of its files with it. The latest measured rate counts before an
  /// estimate, to which such short requests add nothing.
  func bundleBytes(ofEachOf requests: Int, at now: MonotonicTime) -> Int {
    (window.shown(at: now) ?? windowBytes(at: now) / 2) / max(1, requests)
  }

  /// What the line carries in two seconds; nil until enough was measured.
  var twoSecondsBytes: Int? {
    bytesPerSecond.map { max(bounds.streamBytesLeast, Int(min(2 * $0, 1e12))) }
  }

  private func windowBytes(at now: MonotonicTime) -> Int { window.bytes(bytesPerSecond: bytesPerSecond, at: now) }

  /// What one of so many streams carries in a second or two, and while it would otherwise wait for its answer: on a long line requests are longer.
  private func streamBytes(of windowBytes: Int, _ streams: Int) -> Int {
    let share = Double(windowBytes) / Double(2 * max(1, streams))
    return Int(share * (1 + min(answerTime?.seconds ?? 0, Self.answerSecondsMax)))
  }
}

import FileModel
import TransferModel
import UploadEngine

/// Checks an upload over a line: its duration, what is sent twice, what a cut would lose, and what is shown of it.
struct LineChecks {
  /// The time of a server for the last answers, and of a disk for its queries.
  private static let slackSeconds = 0.2
  private static let twiceMax = 0.02
  /// The least part of the line's rate, and of an equal share of it.
  private static let rateMin = 0.95
  private static let shareMin = 0.8
  /// Round trips for queries before and after the bytes.
  private static let trips = 10.0
  private static let lossSeconds = 2.0
  /// Estimates count from then on, as long as so much is left.
  private static let estimateAfter = 10.0
  private static let estimateLeast = 3.0
  private static let estimateError = 0.2

  private unowned let world: World
  private let kind: LineKind
  private let sizeBytes: Int
  private let closedAt: Double
  /// Round trips from the end of a request to the first byte of the next one, where the protocol lets none go out beside it.
  private let tripsBetween: Int
  /// All that requests carried beside the file's bytes.
  var headBytes = 0
  /// The most requests at the same time that carried bytes of the file.
  private(set) var streamsMax = 0
  /// Bytes that a cut has lost.
  var lostBytes = 0
  /// Connections were cut, or a request was lost on purpose.
  var isDisturbed = false

  private var estimates: [(at: Double, seconds: Double)] = []
  private var percents: [(at: Double, percent: Int)] = []
  /// Since when bytes of the file are confirmed without a pause, and how many are.
  private var moving: (since: Double, bytes: Int)
  /// The requests that carried bytes of the file.
  private var requestCount = 0

  init(_ world: World, _ kind: LineKind, sizeBytes: Int, tripsBetween: Int) {
    self.world = world
    self.kind = kind
    self.tripsBetween = tripsBetween
    self.sizeBytes = sizeBytes
    closedAt = world.time.seconds
    moving = (closedAt, 0)
  }

  // MARK: In progress

  /// A request goes out, and carries so many bytes of the file.
  mutating func sent(_ byteCount: Int) { requestCount += byteCount > 0 ? 1 : 0 }

  /// So many bytes of requests have passed the line by now.
  func passed(_ byteCount: Int) {
    let allowed = Double(sizeBytes + lostBytes) * (1 + Self.twiceMax) + Double(headBytes)
    guard Double(byteCount) > allowed + 1 else { return }
    world.fail(.resentBytes, "\(byteCount) bytes have passed for a file of \(sizeBytes), with \(headBytes) of heads")
  }

  /// So many streams carry bytes of the file, of which a cut would lose so many now; the longest pieces that they carry may be lost.
  mutating func mayLose(_ byteCount: Int, streams: Int, pieces: Int) {
    streamsMax = max(streamsMax, streams)
    let allowed = max(pieces, Int(Self.lossSeconds * kind.bytesPerSecond))
    guard byteCount > allowed else { return }
    world.fail(.lostBytes, "a cut would lose \(byteCount) bytes, and may lose \(allowed)")
  }

  /// The status, and how many bytes of the file are confirmed.
  mutating func shown(_ status: FileStatus, confirmed: Int) {
    let now = world.time.seconds
    let percent = Int(10_000 * status.sentBytes / UInt64(max(1, sizeBytes)))
    if percents.last?.percent != percent { percents.append((now, percent)) }
    // The least shown step is a hundredth of a percent: of a large file the first bytes of a long line are less than that in a second.
    if confirmed <= moving.bytes + sizeBytes / 10_000 || confirmed >= sizeBytes { moving.since = now }
    moving.bytes = confirmed
    // Confirmed bytes are known by polling, which was less than half a second ago.
    let changes = percents.reversed().prefix { $0.at > now - 1 }.count
    if now - moving.since > 1.5, changes < 2 {
      world.fail(.shownProgress, "bytes move, and \(changes) changes of what is shown in a second")
    }
    if let seconds = status.etaSeconds, now - closedAt > Self.estimateAfter { estimates.append((now, seconds)) }
  }

  // MARK: At its end

  func delivered() {
    checkEstimates()
    guard !isDisturbed else { return }
    let took = world.time.seconds - closedAt
    let allowed = timeAllowed()
    world.trace("delivered after \(Int(took * 1000)) ms, \(Int(allowed * 1000)) ms are allowed")
    guard took > allowed else { return }
    world.fail(.lineTime, "\(sizeBytes) bytes took \(Int(took * 1000)) ms, \(Int(allowed * 1000)) ms are allowed")
  }

  /// The bytes at the line's rate and a little more; or the time that as many streams take that never pause.
  private func timeAllowed() -> Double {
    let bytes = sizeBytes + headBytes
    let queueSeconds = kind.queueBytes / kind.bytesPerSecond
    guard kind.otherFlows == 0 else {
      let share = Self.shareMin * kind.bytesPerSecond / Double(kind.otherFlows + 1)
      return Double(bytes) / share + trips * (kind.roundTripSeconds + queueSeconds) + Self.slackSeconds
    }
    let byLine = Double(bytes) / kind.bytesPerSecond / Self.rateMin
    let byStreams = Line.seconds(for: bytes, over: streamsMax, of: kind) / Self.rateMin
    return max(byLine, byStreams) + (trips + tripsAwaited) * kind.roundTripSeconds + Self.slackSeconds
  }

  /// A mount knows nothing of the line and begins with four streams. The windows of later streams double while earlier
  /// ones have done so already, twice as slowly, because requests wait for answers.
  private var trips: Double {
    var (doublings, window) = (0.0, Line.firstWindowBytes)
    let share = kind.bytesPerSecond * kind.roundTripSeconds / Double(UploadConstants.maxParallelChunkUploads)
    while window < share { (doublings, window) = (doublings + 1, window * 2) }
    return Self.trips + 2 * doublings
  }

  /// A resource of tus takes one request after the other, and is queried before each of them: streams pause.
  private var tripsAwaited: Double { Double(tripsBetween * requestCount) / Double(max(1, streamsMax)) }

  /// The median counts. Beside other flows a capture's share of the line changes with its streams.
  private func checkEstimates() {
    let now = world.time.seconds
    guard kind.otherFlows == 0, !isDisturbed else { return }
    let errors = estimates.filter { now - $0.at >= Self.estimateLeast }.map { estimate in
      let left = now - estimate.at
      // The estimate is for bytes; the last answers are not part of it.
      return max(0, abs(estimate.seconds - left) - 2 * kind.roundTripSeconds) / left
    }
    guard !errors.isEmpty else { return }
    let error = errors.sorted()[errors.count / 2]
    guard error > Self.estimateError else { return }
    world.fail(.estimate, "what was shown to be left of the time was off by \(Int(100 * error)) %")
  }
}

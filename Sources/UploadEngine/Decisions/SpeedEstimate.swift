public import TransferModel

/// How fast the link to the destination takes bytes, over all streams together: a one-dimensional Kalman
/// filter. Its noise is relative to the speed itself, because links differ by five orders of magnitude. In one dimension it
/// is a few lines of arithmetic, where a library would bring matrices.
public struct SpeedEstimate: Hashable, Sendable {
  /// What is carried over a restart in a resume record.
  public struct State: Hashable, Sendable {
    /// The estimate.
    public var bytesPerSecond: Double
    /// Its variance, (bytes/s)².
    public var variance: Double
    /// How many samples it rests on.
    public var sampleCount: Int

    /// An estimate as it was written down.
    public init(bytesPerSecond: Double, variance: Double, sampleCount: Int) {
      self.bytesPerSecond = bytesPerSecond
      self.variance = variance
      self.sampleCount = sampleCount
    }
  }

  /// The speed may drift by this part of itself in a second.
  private static let driftPerSecond = 0.1
  /// One sample is off by this part of itself.
  private static let sampleNoise = 0.3
  /// A sample further away than this many standard deviations is an outlier.
  private static let outlierDeviations = 3.0
  /// No link is faster; a figure beyond it is no measurement.
  private static let bytesPerSecondMax = 1e12

  /// What is known, including what is still too little to be trusted.
  public private(set) var state: State
  private var last: MonotonicTime?
  /// Outliers in a row, positive when they lie above the estimate. One is an accident; the third is a new link.
  private var outliers = 0

  /// An estimate that knows nothing, or what an earlier run knew. Impossible figures count as nothing.
  public init(_ state: State? = nil) {
    let nothing = State(bytesPerSecond: 0, variance: 0, sampleCount: 0)
    guard let state, state.sampleCount > 0, state.bytesPerSecond > 0, state.bytesPerSecond <= Self.bytesPerSecondMax,
      state.variance >= 0, state.variance.isFinite
    else {
      self.state = nothing
      return
    }
    self.state = state
    // The earlier run may have been in another network: its estimate is kept with a large variance.
    self.state.variance = max(state.variance, state.bytesPerSecond * state.bytesPerSecond / 4)
    self.state.sampleCount = min(state.sampleCount, 1 << 20)
  }

  /// The speed, once there are enough samples to trust it.
  public var bytesPerSecond: Double? {
    state.sampleCount >= UploadConstants.minSpeedSamples ? state.bytesPerSecond : nil
  }

  /// So many bytes were acknowledged in an interval in which the link was never idle.
  public mutating func add(bytes: UInt64, over interval: Duration, at now: MonotonicTime) {
    guard interval > .zero, bytes > 0 else { return }
    let sample = Double(bytes) / interval.seconds
    guard sample.isFinite, sample > 0, sample <= Self.bytesPerSecondMax else { return }
    defer { last = now }
    guard state.sampleCount > 0 else {
      state = State(bytesPerSecond: sample, variance: sample * sample / 4, sampleCount: 1)
      return
    }
    drift(to: now, over: interval)
    correct(with: sample)
    state.sampleCount = min(state.sampleCount + 1, 1 << 20)
  }

  /// Time makes every estimate less certain; an idle hour makes it uncertain, and not wrong.
  private mutating func drift(to now: MonotonicTime, over interval: Duration) {
    let elapsed = max(0, last.map { (now - $0).seconds } ?? interval.seconds)
    let step = Self.driftPerSecond * state.bytesPerSecond
    state.variance = min(state.variance + step * step * elapsed, state.bytesPerSecond * state.bytesPerSecond)
  }

  private mutating func correct(with sample: Double) {
    let innovation = sample - state.bytesPerSecond
    let scale = Self.sampleNoise * max(min(sample, 4 * state.bytesPerSecond), state.bytesPerSecond)
    var noise = scale * scale
    let bound = Self.outlierDeviations * Self.outlierDeviations
    if innovation * innovation > bound * (state.variance + noise) {
      outliers = innovation > 0 ? max(1, outliers + 1) : min(-1, outliers - 1)
      if abs(outliers) < 3 {
        // As noisy as necessary to be no surprise: the sample moves the estimate a little.
        noise = max(noise, innovation * innovation)
      } else {
        state.variance = innovation * innovation
      }
    } else {
      outliers = 0
    }
    let gain = state.variance / (state.variance + noise)
    state.bytesPerSecond = max(1, state.bytesPerSecond + gain * innovation)
    state.variance *= 1 - gain
  }
}

/// Cuts the acknowledgements of all streams into samples for a ``SpeedEstimate``. Only the time in which the link had
/// something to carry counts. Only chunks that are long enough to measure the link count: a thousand tiny files measure
/// the round trip. A time in which nothing was sent or answered, except a stalled request, does not count. Otherwise
/// each stalled request would lengthen the wait for the next one.
struct SpeedSampler: Hashable, Sendable {
  /// Shorter intervals measure how acknowledgements bunch up.
  static let intervalMin: Duration = .milliseconds(250)
  /// After so long without a request sent or ended, the next one begins a new sample. Where all streams are busy, a
  /// request is sent when another one has ended.
  static let quietMax: Duration = .seconds(1)

  private let bytesLeast: Int
  private var inFlight = 0
  private var start: MonotonicTime?
  /// The time when a request was last sent or ended.
  private var latest: MonotonicTime?
  private var bytes: UInt64 = 0
  /// What had arrived by then of unanswered requests.
  private var unansweredAtStart: UInt64 = 0

  /// Requests with fewer bytes than these say nothing.
  init(bytesLeast: Int = UploadConstants.chunkBytesMin) { self.bytesLeast = bytesLeast }

  private func isInformative(_ byteCount: Int) -> Bool { byteCount >= bytesLeast }

  /// A request goes out; `underWay` has arrived of those that are not answered.
  mutating func sent(_ byteCount: Int, underWay: UInt64 = 0, at now: MonotonicTime) {
    guard isInformative(byteCount) else { return }
    if start != nil, let latest, now - latest >= Self.quietMax { begin(with: underWay, at: now) }
    inFlight += 1
    latest = now
  }

  /// A request has ended. Returns the sample that its acknowledgement completes, if it does. Of its bytes so many are
  /// counted; nil is all of them.
  ///
  /// `underWay` has arrived of those that are not answered. Without it a sample is what happened to be answered within it: a request that
  /// took ten seconds, or three that end together.
  mutating func ended(
    _ byteCount: Int, counting counted: Int? = nil, isAcknowledged: Bool, underWay: UInt64 = 0, at now: MonotonicTime
  ) -> (UInt64, Duration)? {
    guard isInformative(byteCount) else { return nil }
    latest = now
    inFlight = max(0, inFlight - 1)
    defer { if inFlight == 0 { start = nil } }
    guard isAcknowledged else {
      // What had arrived of the request is not part of the next sample.
      if start != nil { begin(with: underWay, at: now) }
      return nil
    }
    guard let start else {
      // The first acknowledgement also includes empty buffers and handshakes: samples begin here.
      begin(with: underWay, at: now)
      return nil
    }
    bytes &+= UInt64(clamping: counted ?? byteCount)
    guard now - start >= Self.intervalMin else { return nil }
    defer { begin(with: underWay, at: now) }
    let arrived = bytes &+ underWay
    return arrived > unansweredAtStart ? (arrived - unansweredAtStart, now - start) : nil
  }

  private mutating func begin(with underWay: UInt64, at now: MonotonicTime) {
    start = now
    bytes = 0
    unansweredAtStart = underWay
  }
}

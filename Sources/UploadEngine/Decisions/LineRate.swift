import TransferModel

/// How fast the line takes bytes as they are sent, which are fewer than those of the files where they are compressed.
///
/// A line seems slower than it is while the processor does not keep up with it. Its best speed of late is therefore
/// believed, and half of it after each ``memory`` without such a speed: otherwise compression that is too slow would
/// make itself look worthwhile.
struct LineRate: Hashable, Sendable {
  private static let memory: Duration = .seconds(30)

  private var estimate: SpeedEstimate
  private var best: Best?
  /// An earlier run may have been on another line: only what this run has measured is shown.
  private var sampleCount = 0

  private struct Best: Hashable, Sendable {
    var bytesPerSecond: Double
    var at: MonotonicTime
  }

  /// Begins with what an earlier run knew.
  init(_ state: SpeedEstimate.State? = nil) { estimate = SpeedEstimate(state) }

  /// So many bytes were acknowledged in an interval in which the line was never idle.
  mutating func add(bytes: UInt64, over interval: Duration, at now: MonotonicTime) {
    estimate.add(bytes: bytes, over: interval, at: now)
    sampleCount += 1
    guard let known = estimate.bytesPerSecond, known >= remembered(at: now) ?? 0 else { return }
    best = Best(bytesPerSecond: known, at: now)
  }

  /// Nil until enough was measured.
  func bytesPerSecond(at now: MonotonicTime) -> Double? {
    guard sampleCount >= UploadConstants.minSpeedSamples else { return nil }
    return estimate.bytesPerSecond.map { max($0, remembered(at: now) ?? 0) }
  }

  private func remembered(at now: MonotonicTime) -> Double? {
    best.map { $0.bytesPerSecond * halved(max(0, (now - $0.at) / Self.memory)) }
  }

  /// One half to the power of this, straight between the whole ones.
  private func halved(_ times: Double) -> Double {
    let whole = min(times, 60).rounded(.down)
    let half = 1 / Double(UInt64(1) << UInt64(whole))
    return half * (1 - (min(times, 60) - whole) / 2)
  }
}

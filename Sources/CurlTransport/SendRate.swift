import Glibc
import Synchronization
public import TransferModel

/// The bound on what all transports of a process send together. They share one, and ask it from their threads.
public final class SendRate: Sendable {
  private struct State {
    var bucket: RateBucket
    var nextLook: ContinuousClock.Instant
  }

  private let timetable: RateTimetable
  private let state: Mutex<State>

  /// How often the time of day is looked at.
  private static let lookInterval: Duration = .seconds(1)

  /// A bound by the local time.
  public init(_ timetable: RateTimetable) {
    self.timetable = timetable
    let now = ContinuousClock.now
    state = Mutex(State(bucket: RateBucket(at: now), nextLook: now))
  }

  /// How long a body of so many bytes may take at the lowest bound of the day, beside as many others as there are connections.
  func longestTime(ofBody bytes: Int, among connections: Int) -> Duration {
    let bounds = ([timetable.bytesPerSecond] + timetable.windows.map(\.bytesPerSecond)).compactMap { $0 }
    guard let bytesPerSecond = bounds.min() else { return .zero }
    return .seconds(Double(bytes) * RateBucket.wireShare * Double(connections) / Double(max(1, bytesPerSecond)))
  }

  /// How many of so many bytes of a body may be sent now; 0 where the transfer has to wait.
  func take(upTo wanted: Int) -> Int {
    withBucket { bucket, now in bucket.take(upTo: wanted, at: now) }
  }

  /// So many bytes went out beside bodies, or were taken and did not, where it is negative.
  func spend(_ bytes: Int) { withBucket { bucket, _ in bucket.spend(bytes) } }

  /// After how long something may be sent again.
  var pause: Duration { withBucket { bucket, now in bucket.pause(at: now) } }

  private func withBucket<Value>(_ body: (inout RateBucket, ContinuousClock.Instant) -> Value) -> Value {
    state.withLock { state in
      let now = ContinuousClock.now
      if now >= state.nextLook {
        state.nextLook = now + Self.lookInterval
        let bound = timetable.bytesPerSecond(atMinute: Self.minuteOfDay)
        if bound != state.bucket.bytesPerSecond { state.bucket.change(to: bound, at: now) }
      }
      return body(&state.bucket, now)
    }
  }

  private static var minuteOfDay: Int {
    var seconds = time(nil)
    var local = tm()
    guard localtime_r(&seconds, &local) != nil else { return 0 }
    return Int(local.tm_hour) * 60 + Int(local.tm_min)
  }
}

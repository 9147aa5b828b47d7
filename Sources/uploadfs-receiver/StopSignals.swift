import Dispatch
import Glibc
import Synchronization

/// SIGTERM and SIGINT: the first asks for an orderly end, which has 12 seconds; the second ends at once. Neither loses
/// anything: what was acknowledged is in the journal, and what was not is sent again.
///
/// Sendable is unchecked because of the sources, which nothing touches after init: they are only kept alive.
final class StopSignals: @unchecked Sendable {
  private let requests: AsyncStream<Void>
  private let sources: [any DispatchSourceSignal]

  /// Returns when no signal can be lost any more. Before that one ends the process, which has begun nothing yet.
  init() async {
    let (requests, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    let (registered, registration) = AsyncStream<Void>.makeStream()
    self.requests = requests
    let arrivals = Mutex(StopArrivals())
    sources = Self.numbers.map { number in
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler {
        switch arrivals.withLock({ $0.arrived(at: .now) }) {
        case .first: break
        case .echo: return
        case .further: _exit(0)
        }
        continuation.yield()
        // A connection that never ends must not keep the receiver.
        DispatchQueue.global().asyncAfter(deadline: .now() + 12) { _exit(0) }
      }
      // Dispatch has a handler of its own from then on: ignoring the signal as well would take it away again.
      source.setRegistrationHandler { registration.yield() }
      source.resume()
      return source
    }
    for await _ in registered.prefix(Self.numbers.count) {}
  }

  private static let numbers = [SIGTERM, SIGINT]

  /// Returns when an end is asked for.
  func wait() async {
    for await _ in requests { return }
  }
}

/// Tells signals apart that come one after another.
struct StopArrivals {
  enum Arrival { case first, echo, further }

  private var firstAt: ContinuousClock.Instant?

  /// timeout(1), and whatever ends a whole process group beside its leader, sends the same signal twice.
  private static let echo: Duration = .milliseconds(50)

  mutating func arrived(at now: ContinuousClock.Instant) -> Arrival {
    guard let firstAt else {
      firstAt = now
      return .first
    }
    return now - firstAt < Self.echo ? .echo : .further
  }
}

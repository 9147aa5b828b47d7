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

  init() {
    let (requests, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    self.requests = requests
    let count = Counter()
    sources = [SIGTERM, SIGINT].map { number in
      signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler {
        guard count.next() == 1 else { _exit(0) }
        continuation.yield()
        // A connection that never ends must not keep the receiver.
        DispatchQueue.global().asyncAfter(deadline: .now() + 12) { _exit(0) }
      }
      source.resume()
      return source
    }
  }

  private final class Counter: Sendable {
    private let value = Atomic(0)
    func next() -> Int { value.wrappingAdd(1, ordering: .relaxed).newValue }
  }

  /// Returns when an end is asked for.
  func wait() async {
    for await _ in requests { return }
  }
}

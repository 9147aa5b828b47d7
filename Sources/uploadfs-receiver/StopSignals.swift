import CLinux
import Dispatch
import Glibc
import LogText
import Synchronization
import Threads

/// SIGTERM, SIGINT and a terminal that hangs up: the first asks for an orderly end, which has 12 seconds; a second one, a second later, ends
/// at once. Neither loses anything: what was acknowledged is in the journal, and what was not is sent again. To a service, which has
/// no terminal, a hang-up says that files are to be read anew.
///
/// Sendable is unchecked because of the sources, which nothing touches after init: they are only kept alive.
final class StopSignals: @unchecked Sendable {
  private let requests: AsyncStream<Void>
  /// Files are to be read anew; several requests while that is done are one.
  let hangUps: AsyncStream<Void>
  private let sources: [any DispatchSourceSignal]

  /// Returns when no signal can be lost any more. Before that one ends the process, which has begun nothing yet.
  init() async {
    let (requests, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    let (registered, registration) = AsyncStream<Void>.makeStream()
    let (hangUps, hangUp) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    self.requests = requests
    self.hangUps = hangUps
    let arrivals = Mutex(StopArrivals())
    let isService = Self.isService()
    // Those that were ignored when the program was started stay so.
    let numbers = [SIGTERM, SIGINT, SIGHUP].filter { uploadfs_ignores_signal($0) == 0 }
    sources = numbers.map { number in
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler {
        if number == SIGHUP, isService {
          hangUp.yield()
          return
        }
        switch arrivals.withLock({ $0.arrived(isHangUp: number == SIGHUP, at: .now) }) {
        case .first: break
        case .repeated: return
        case .further: Self.leave()
        }
        continuation.yield()
        // A connection that never ends must not keep the receiver.
        DispatchQueue.global().asyncAfter(deadline: .now() + 12) { Self.leave() }
      }
      // Dispatch has a handler of its own from then on: ignoring the signal as well would take it away again.
      source.setRegistrationHandler { registration.yield() }
      source.resume()
      return source
    }
    for await _ in registered.prefix(numbers.count) {}
  }

  private static func isService() -> Bool {
    let terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)
    guard terminal >= 0 else { return true }
    close(terminal)
    return false
  }

  /// Ends the receiver whatever it is at.
  private static func leave() {
    Output.flush()
    _exit(0)
  }

  /// Returns when an end is asked for.
  func wait() async {
    for await _ in requests { return }
  }
}

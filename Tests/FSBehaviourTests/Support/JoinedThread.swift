import CFilesystemCalls
import Glibc

/// A thread whose end can be waited for: what its body holds has been let go by then, which Foundation's threads do not say.
final class JoinedThread: Sendable {
  private let identifier: pthread_t

  /// The body, on its way to the thread.
  private final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  init?(_ body: @escaping @Sendable () -> Void) {
    var identifier = pthread_t()
    // One retain travels to the thread, which takes it over.
    let context = Unmanaged.passRetained(Body(body))
    guard pthread_create(&identifier, nil, runBody, context.toOpaque()) == 0 else {
      context.release()
      return nil
    }
    self.identifier = identifier
  }

  fileprivate static func run(_ context: UnsafeMutableRawPointer) {
    Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
  }

  /// False when the thread goes on for more than so many seconds; it can be joined later then.
  func join(within seconds: Int32 = 20) -> Bool {
    calls_join(identifier, seconds) == 0
  }
}

private func runBody(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  if let context { JoinedThread.run(context) }
  return nil
}

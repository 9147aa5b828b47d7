import Synchronization

/// Whether a server is asked before a large body goes out (`Expect: 100-continue`). One that has refused the question (417) is not asked
/// again.
final class BodyQuestion: Sendable {
  private let isRefused = Atomic(false)

  var isAsked: Bool { !isRefused.load(ordering: .relaxed) }

  func refused() { isRefused.store(true, ordering: .relaxed) }
}

import ReceiverCore
import Synchronization

/// The answers to the members of a run, which come in any order while the rest of it still arrives; and how much of the
/// run is in memory without an answer. One request waits for them.
final class RunReplies: Sendable {
  private struct State {
    var answers: [Answer?] = []
    var missing = 0
    var bytes = 0
    var waiter: (until: Condition, continuation: CheckedContinuation<Void, Never>)?

    func fulfils(_ condition: Condition) -> Bool {
      switch condition {
      case .bytes(let most): bytes <= most
      case .allAnswered: missing == 0
      }
    }
  }

  private enum Condition {
    case bytes(atMost: Int)
    case allAnswered
  }

  /// A run that arrives faster than the disk takes it waits here. The largest chunk has more, and is then alone.
  static let bytesMax = 16 << 20

  private let state = Mutex(State())

  /// A member is complete and has these bytes in memory; its place among the answers.
  func add(bytes: Int) -> Int {
    state.withLock { state in
      state.answers.append(nil)
      state.missing += 1
      state.bytes += bytes
      return state.answers.count - 1
    }
  }

  /// The member in this place is answered, and its bytes are given back.
  func answered(_ place: Int, bytes: Int, _ answer: Answer) {
    let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
      state.answers[place] = answer
      state.missing -= 1
      state.bytes -= bytes
      guard let waiter = state.waiter, state.fulfils(waiter.until) else { return nil }
      state.waiter = nil
      return waiter.continuation
    }
    continuation?.resume()
  }

  /// Waits until so many bytes more may be in memory.
  func waitForRoom(_ bytes: Int) async { await wait(until: .bytes(atMost: max(0, RunReplies.bytesMax - bytes))) }

  /// All answers, in the members' order.
  var all: [Answer] {
    get async {
      await wait(until: .allAnswered)
      return state.withLock { $0.answers.compactMap(\.self) }
    }
  }

  private func wait(until condition: Condition) async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if state.fulfils(condition) { return true }
        state.waiter = (condition, continuation)
        return false
      }
      if isOver { continuation.resume() }
    }
  }
}

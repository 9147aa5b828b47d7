import ReceiverCore
import Synchronization

/// The memory for request bodies, over all requests. Who finds it used up waits, in order, without reading from its
/// connection; when too many wait, or one waits too long, it is refused and told to come back.
final class ByteBudget: Sendable {
  private struct Waiter {
    var id: UInt64
    var bytes: Int
    var deadline: Milliseconds
    var continuation: CheckedContinuation<Bool, Never>
  }

  private struct State {
    var free: Int
    var waiters: [Waiter] = []
    var nextID: UInt64 = 0
  }

  static let waitersMax = 256
  static let waitMax: Milliseconds = 10_000

  private let state: Mutex<State>
  private let clock: ReceiverClock

  init(bytes: Int, clock: ReceiverClock) {
    state = Mutex(State(free: bytes))
    self.clock = clock
  }

  /// Bytes that are not taken.
  var freeBytes: Int { state.withLock { $0.free } }

  /// Takes bytes, waiting for them if need be; false when it is not to be.
  func take(_ bytes: Int) async -> Bool {
    if takeAtOnce(bytes) { return true }
    return await withCheckedContinuation { continuation in
      let isRefused = state.withLock { state in
        if state.waiters.isEmpty, state.free >= bytes {
          state.free -= bytes
          return nil as Bool?
        }
        guard state.waiters.count < ByteBudget.waitersMax else { return true }
        state.nextID += 1
        state.waiters.append(
          Waiter(
            id: state.nextID, bytes: bytes, deadline: clock.now + ByteBudget.waitMax, continuation: continuation))
        return false
      }
      switch isRefused {
      case nil: continuation.resume(returning: true)
      case true?: continuation.resume(returning: false)
      case false?: break
      }
    }
  }

  private func takeAtOnce(_ bytes: Int) -> Bool {
    state.withLock { state in
      guard state.waiters.isEmpty, state.free >= bytes else { return false }
      state.free -= bytes
      return true
    }
  }

  /// Gives bytes back to those who wait.
  func give(_ bytes: Int) {
    let served = state.withLock { state in
      state.free += bytes
      return serveLocked(&state)
    }
    for waiter in served { waiter.continuation.resume(returning: true) }
  }

  private func serveLocked(_ state: inout State) -> [Waiter] {
    var served: [Waiter] = []
    while let first = state.waiters.first, first.bytes <= state.free {
      state.free -= first.bytes
      served.append(state.waiters.removeFirst())
    }
    return served
  }

  /// Refuses those who have waited too long.
  func tick() {
    let now = clock.now
    let (late, served) = state.withLock { state in
      let late = state.waiters.filter { $0.deadline <= now }
      state.waiters.removeAll { $0.deadline <= now }
      return (late, serveLocked(&state))
    }
    for waiter in late { waiter.continuation.resume(returning: false) }
    for waiter in served { waiter.continuation.resume(returning: true) }
  }
}

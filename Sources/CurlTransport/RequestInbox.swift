import CCurl
import Synchronization
import TransferModel

/// What the rest of the world wants of the curl thread: the only state that both sides touch.
///
/// Bounded: at most `capacity` requests wait, a further one is refused. Cancellations need no bound of their own, since
/// only ids that are waiting or in flight are remembered.
final class RequestInbox: Sendable {
  /// What one turn of the loop has to do.
  struct Work {
    /// Requests to start, in the order in which they were put.
    var starts: [PendingHTTPRequest] = []
    /// Requests that were cancelled before their turn came; to be completed as such.
    var withdrawn: [PendingHTTPRequest] = []
    /// Requests in flight that were cancelled, where less of their bodies is out than this.
    var cancels: [HTTPRequestID: UInt64] = [:]
    /// Requests in flight that have more to send.
    var resumes: Set<HTTPRequestID> = []
    /// What is started uses no connection that is there.
    var renewsConnections = false
    /// Links, addresses or routes have changed.
    var hasNetworkChanged = false
    /// The resolver's answers.
    var resolved: [ResolvedName] = []
    /// Servers whose names are wanted soon.
    var warmedNames: Set<NamedServer> = []
    /// The loop must end.
    var isStopping = false
  }

  private struct State {
    var waiting: [PendingHTTPRequest] = []
    /// Waiting or in flight.
    var live: Set<HTTPRequestID> = []
    /// A subset of `live`.
    var cancelled: [HTTPRequestID: UInt64] = [:]
    /// A subset of `live`.
    var resumed: Set<HTTPRequestID> = []
    var renewsConnections = false
    var hasNetworkChanged = false
    /// At most one for each family of each server whose name is being asked for.
    var resolved: [ResolvedName] = []
    /// As few as a mount has servers; of more none is remembered.
    var warmedNames: Set<NamedServer> = []
    var isStopping = false
    /// The loop looks here before it sleeps, or a wakeup is on its way: a further one would only cost system calls.
    var isLoopAwake = true
    /// Nil once the loop has ended.
    var waker: LoopWaker?
  }

  private let capacity: Int
  private let state: Mutex<State>

  /// An empty inbox, read by the loop that `waker` wakes.
  init(capacity: Int, waker: LoopWaker) {
    self.capacity = capacity
    state = Mutex(State(waker: waker))
  }

  /// Queues requests under one lock, so that the loop takes them in one turn; returns those that are refused, and why.
  func put(_ requests: [PendingHTTPRequest]) -> [(PendingHTTPRequest, TransportError)] {
    state.withLock { state in
      let refused = requests.compactMap { request in queueLocked(request, &state).map { (request, $0) } }
      if refused.count < requests.count { Self.wakeLocked(&state) }
      return refused
    }
  }

  private func queueLocked(_ request: PendingHTTPRequest, _ state: inout State) -> TransportError? {
    guard !state.isStopping else { return TransportError(.stopped, "the transport has been stopped") }
    guard state.waiting.count < capacity else {
      return TransportError(.overloaded, "\(capacity) requests are already waiting to be sent")
    }
    guard state.live.insert(request.id).inserted else {
      return TransportError(.other, "request id \(request.id.value) is already in use")
    }
    state.waiting.append(request)
    return nil
  }

  /// Asks for a request's end; ids that are neither waiting nor in flight are ignored.
  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {
    state.withLock { state in
      guard state.live.contains(id) else { return }
      state.cancelled[id] = max(unsentBelow, state.cancelled[id] ?? 0)
      Self.wakeLocked(&state)
    }
  }

  /// A request in flight has more to send.
  func resume(_ id: HTTPRequestID) {
    state.withLock { state in
      guard state.live.contains(id) else { return }
      state.resumed.insert(id)
      Self.wakeLocked(&state)
    }
  }

  /// What is put from now on uses no connection that is there. It is enough that the loop hears of it with the next request.
  func renewConnections() { state.withLock { $0.renewsConnections = true } }

  /// Links, addresses or routes have changed: what is in flight is looked at.
  func networkChanged() {
    state.withLock { state in
      state.hasNetworkChanged = true
      Self.wakeLocked(&state)
    }
  }

  /// The resolver has answered.
  func resolved(_ name: ResolvedName) {
    state.withLock { state in
      state.resolved.append(name)
      Self.wakeLocked(&state)
    }
  }

  /// A server's name is wanted soon.
  func warmName(of server: NamedServer) {
    state.withLock { state in
      guard state.warmedNames.count < NameCache.serversMax, state.warmedNames.insert(server).inserted else { return }
      Self.wakeLocked(&state)
    }
  }

  /// Asks the loop to end.
  func stop() {
    state.withLock { state in
      state.isStopping = true
      Self.wakeLocked(&state)
    }
  }

  /// Hands over what is to be done, with at most `freeSlots` starts. Only the loop calls this and what follows.
  func take(freeSlots: Int) -> Work {
    state.withLock { state in
      state.isLoopAwake = true
      var work = Work(isStopping: state.isStopping)
      if !state.cancelled.isEmpty {
        work.withdrawn = state.waiting.filter { state.cancelled[$0.id] != nil }
        state.waiting.removeAll { state.cancelled[$0.id] != nil }
        for request in work.withdrawn {
          state.cancelled[request.id] = nil
          state.live.remove(request.id)
        }
        work.cancels = state.cancelled
        state.cancelled.removeAll(keepingCapacity: true)
      }
      swap(&work.resumes, &state.resumed)
      swap(&work.renewsConnections, &state.renewsConnections)
      swap(&work.hasNetworkChanged, &state.hasNetworkChanged)
      swap(&work.resolved, &state.resolved)
      swap(&work.warmedNames, &state.warmedNames)
      let count = min(freeSlots, state.waiting.count)
      if count > 0 {
        work.starts = Array(state.waiting.prefix(count))
        state.waiting.removeFirst(count)
      }
      return work
    }
  }

  /// Asks whether the loop may sleep: not while there is something that ``take(freeSlots:)`` would hand over. Whatever
  /// comes after a yes wakes the loop.
  func mayRest(freeSlots: Int) -> Bool {
    state.withLock { state in
      guard !state.isStopping, !state.hasNetworkChanged, state.resolved.isEmpty, state.warmedNames.isEmpty,
        state.cancelled.isEmpty, state.resumed.isEmpty,
        freeSlots <= 0 || state.waiting.isEmpty
      else { return false }
      state.isLoopAwake = false
      return true
    }
  }

  /// Forgets a request that is about to be completed.
  func forget(_ id: HTTPRequestID) {
    state.withLock { state in
      state.live.remove(id)
      state.cancelled[id] = nil
      state.resumed.remove(id)
    }
  }

  /// Refuses everything from now on, lets go of the multi handle, and returns what still waits.
  func close() -> [PendingHTTPRequest] {
    state.withLock { state in
      let rest = state.waiting
      state.isStopping = true
      state.waiting = []
      state.live = []
      state.cancelled = [:]
      state.resumed = []
      state.waker = nil
      return rest
    }
  }

  private static func wakeLocked(_ state: inout State) {
    // Under the lock, so that it can never meet a multi handle that the loop is just cleaning up.
    guard !state.isLoopAwake, let waker = state.waker else { return }
    state.isLoopAwake = waker.wake()
  }
}

/// Interrupts the loop's poll.
///
/// Sendable although it holds a raw pointer: its only use is curl_multi_wakeup, the one call on a multi handle that
/// libcurl allows on any thread. It writes to a non-blocking descriptor and cannot wait.
struct LoopWaker: @unchecked Sendable {
  let multi: UnsafeMutableRawPointer

  /// False when the wakeup could not be sent.
  func wake() -> Bool { curl_multi_wakeup(multi) == CURLM_OK }
}

import CFuse
import FileModel
import Synchronization

/// Calls of the kernel that are answered later: when something is delivered, or when their caller is interrupted. No thread
/// waits for them.
///
/// Bounded: when too many wait, a further one fails with EAGAIN at once, and what it would have waited for goes on.
final class WaitingCalls: Sendable {
  /// How many may wait.
  static let callsMax = 256

  private struct Waiting {
    var request: DeferredRequest
    var file: FileID
    /// libfuse has learnt what to call on an interruption, and is done with the request: from then on it can be answered.
    var isArmed = false
    var isInterrupted = false
    var wait: DeliveryWait?
  }

  private struct State {
    var calls: [UInt: Waiting] = [:]
    /// Never 0, which as a pointer would be none.
    var nextToken: UInt = 1
    var isClosed = false
  }

  private let sink: any FileEventSink
  private let state = Mutex(State())

  init(sink: any FileEventSink) {
    self.sink = sink
  }

  /// Answers a request when the delivery is known.
  func keep(_ request: DeferredRequest, until awaited: AwaitedDelivery) {
    let token: UInt
    do throws(SystemError) {
      token = try state.withLock { (state) throws(SystemError) -> UInt in
        guard !state.isClosed else { throw .inputOutput }
        guard state.calls.count < Self.callsMax else { throw .wouldBlock }
        defer { state.nextToken &+= 1 }
        state.calls[state.nextToken] = Waiting(request: request, file: awaited.file)
        return state.nextToken
      }
    } catch {
      return request.answer(error)
    }
    // Calls back at once if the caller has been interrupted already; it still needs the request after that.
    fuse_req_interrupt_func(request.pointer, waitingCallInterrupted, UnsafeMutableRawPointer(bitPattern: token))
    let failure = state.withLock { state -> SystemError? in
      guard let call = state.calls[token], !call.isInterrupted else {
        return state.isClosed ? .inputOutput : .interrupted
      }
      state.calls[token]?.isArmed = true
      return nil
    }
    if let failure { return take(token)?.request.answer(failure) ?? () }
    let wait = sink.awaitDelivery(of: awaited.file, epoch: awaited.epoch) { [weak self] outcome in
      self?.take(token)?.request.answer(outcome == .failed ? .inputOutput : nil)
    }
    let isOver = state.withLock { state in
      state.calls[token]?.wait = wait
      return state.calls[token] == nil
    }
    if isOver { sink.endWaiting(wait, for: awaited.file) }
  }

  /// A signal has come for the caller. The delivery goes on.
  func interrupted(_ token: UInt) {
    let isArmed = state.withLock { state in
      state.calls[token]?.isInterrupted = true
      return state.calls[token]?.isArmed ?? false
    }
    if isArmed { end(token, .interrupted) }
  }

  /// No call is kept waiting any more, now or later.
  func endAll() {
    let tokens = state.withLock { state -> [UInt] in
      state.isClosed = true
      for token in state.calls.keys { state.calls[token]?.isInterrupted = true }
      return state.calls.filter(\.value.isArmed).map(\.key)
    }
    for token in tokens { end(token, .inputOutput) }
  }

  private func end(_ token: UInt, _ error: SystemError) {
    guard let call = take(token) else { return }
    if let wait = call.wait { sink.endWaiting(wait, for: call.file) }
    call.request.answer(error)
  }

  /// The thread that takes it answers it.
  private func take(_ token: UInt) -> Waiting? {
    state.withLock { $0.calls.removeValue(forKey: token) }
  }
}

/// A request that is answered later.
///
/// `@unchecked Sendable` is sound because a request may be answered from any thread, and ``WaitingCalls`` hands it to exactly
/// one that does.
struct DeferredRequest: @unchecked Sendable {
  let pointer: fuse_req_t

  /// With an error, or that it was done.
  func answer(_ error: SystemError?) {
    let reply = Reply(pointer)
    if let error { reply.failure(error) } else { reply.done() }
  }
}

/// What libfuse calls on an interruption: a global function, because C must not get one that belongs to an actor. The data is
/// a number and no object, because libfuse may still call while the request is being answered.
private func waitingCallInterrupted(_ request: fuse_req_t?, _ token: UnsafeMutableRawPointer?) {
  guard let request, let userdata = fuse_req_userdata(request) else { return }
  // The mount outlives its session.
  let mount = Unmanaged<FuseMount>.fromOpaque(userdata).takeUnretainedValue()
  mount.waitingCalls.interrupted(UInt(bitPattern: token))
}

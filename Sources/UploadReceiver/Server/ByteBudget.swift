import ReceiverCore
import Synchronization

/// The memory that a body has been granted, while it has it.
final class BodyLease: Sendable {
  let id: MemoryShares.ID
  private let arrived = Atomic(0)
  private let reading = Atomic(true)
  private let revoke: @Sendable (BodyLease) -> Void

  fileprivate init(_ id: MemoryShares.ID, revoke: @escaping @Sendable (BodyLease) -> Void) {
    self.id = id
    self.revoke = revoke
  }

  /// Whether the body is still arriving; only then is its memory taken back.
  var isReading: Bool { reading.load(ordering: .relaxed) }

  /// Of the body.
  var arrivedBytes: Int { arrived.load(ordering: .relaxed) }

  func note(arrivedBytes count: Int) { arrived.wrappingAdd(count, ordering: .relaxed) }

  /// The body is complete, or will not come.
  func endReading() { reading.store(false, ordering: .relaxed) }

  fileprivate func revokeNow() { revoke(self) }
}

/// The memory for request bodies, over all requests. Who finds it used up waits without reading from its connection;
/// when too many wait, or one waits too long, it is refused and told to come back. ``MemoryShares`` decides.
final class ByteBudget: Sendable {
  private struct State {
    var shares: MemoryShares
    var leases: [MemoryShares.ID: BodyLease] = [:]
    var waiters: [MemoryShares.ID: CheckedContinuation<BodyLease?, Never>] = [:]
    var nextID: MemoryShares.ID = 0
    var givenBytes = 0
  }

  private typealias Answers = [(CheckedContinuation<BodyLease?, Never>, BodyLease?)]

  private let state: Mutex<State>
  private let clock: ReceiverClock

  init(bytes: Int, clock: ReceiverClock) {
    state = Mutex(State(shares: MemoryShares(bytes: bytes)))
    self.clock = clock
  }

  /// Bytes that are not taken; negative while a body is in memory that is larger than all of them.
  var freeBytes: Int { state.withLock { $0.shares.free } }

  /// Whether no body holds any.
  var isUnused: Bool { state.withLock { $0.leases.isEmpty } }

  /// Takes bytes, waiting for them if need be; nil when it is not to be. `revoke` is called when others need them more,
  /// and has the body end.
  func take(
    _ bytes: Int, of owner: CredentialID, revoke: @escaping @Sendable (BodyLease) -> Void = { _ in }
  ) async -> BodyLease? {
    await withCheckedContinuation { continuation in
      let answers: Answers = state.withLock { state in
        state.nextID += 1
        let id = state.nextID
        let lease = BodyLease(id, revoke: revoke)
        let answer = state.shares.take(bytes, id, of: owner, at: clock.now)
        guard answer != .refused else { return [(continuation, nil)] }
        state.leases[id] = lease
        state.waiters[id] = continuation
        switch answer {
        case .granted: return ByteBudget.answer([id], isGranted: true, &state)
        case .waits, .refused: return []
        case .waitsInsteadOf(let other): return ByteBudget.answer([other], isGranted: false, &state)
        }
      }
      ByteBudget.resume(answers)
    }
  }

  /// Gives bytes back to bodies that wait, or all of the body's.
  func give(_ bytes: Int? = nil, of lease: BodyLease) {
    let answers: Answers = state.withLock { state in
      let before = state.shares.free
      let served = state.shares.give(bytes, of: lease.id)
      state.givenBytes += max(0, state.shares.free - before)
      if bytes == nil { state.leases[lease.id] = nil }
      return ByteBudget.answer(served, isGranted: true, &state)
    }
    ByteBudget.resume(answers)
  }

  /// The bytes that were given back since this was last asked.
  func takeGivenBytes() -> Int {
    state.withLock { state in
      defer { state.givenBytes = 0 }
      return state.givenBytes
    }
  }

  /// Refuses bodies that have waited too long, and takes memory back from owners that have more than their share.
  func tick() {
    let now = clock.now
    let (answers, revoked): (Answers, [BodyLease]) = state.withLock { state in
      let leases = state.leases
      let result = state.shares.tick(at: now) { id in
        leases[id].flatMap { $0.isReading ? $0.arrivedBytes : nil }
      }
      let answers =
        ByteBudget.answer(result.late, isGranted: false, &state)
        + ByteBudget.answer(result.granted, isGranted: true, &state)
      return (answers, result.revoked.compactMap { leases[$0] })
    }
    ByteBudget.resume(answers)
    for lease in revoked { lease.revokeNow() }
  }

  private static func answer(_ ids: [MemoryShares.ID], isGranted: Bool, _ state: inout State) -> Answers {
    ids.compactMap { id in
      guard let waiter = state.waiters.removeValue(forKey: id) else { return nil }
      return (waiter, isGranted ? state.leases[id] : state.leases.removeValue(forKey: id).flatMap { _ in nil })
    }
  }

  private static func resume(_ answers: Answers) {
    for (waiter, lease) in answers { waiter.resume(returning: lease) }
  }
}

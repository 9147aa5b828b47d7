import Threads

/// Files that were closed without an fsync(2), until the one thread that makes them durable takes them.
///
/// Each is there once, however often it is closed, so that no more are there than the mount knows files. When the queue is full they
/// are taken at once, without waiting for the second to pass; none is left out.
final class FlushQueue: Sendable {
  fileprivate struct State {
    var files: [ObjectIdentifier: CapturedFile] = [:]
    /// Open files that rest; those of one turn are taken each second.
    var idle = [[ObjectIdentifier: CapturedFile]](repeating: [:], count: idleTurns)
    var turn = 0
    /// Of the monotonic clock; 0 where what is there is not to wait.
    var dueNanoseconds: Int64?
    var isClosed = false
    var isEmptied = false
  }

  private let state = Monitor(State())

  /// From the first close to the flush of all that were closed by then: as long as a power cut may cost what no call has
  /// synced.
  static let delayNanoseconds: Int64 = 1_000_000_000
  /// So many seconds pass between two checks of a file that rests.
  static let idleTurns = 8
  static let capacity = 65_536
  private let capacity: Int

  init(capacity: Int = FlushQueue.capacity) {
    self.capacity = capacity
  }

  /// Called under a file's lock: never waits for the disk.
  func add(_ file: CapturedFile) {
    change { state in
      guard !state.isClosed else { return }
      let key = ObjectIdentifier(file)
      state.idle[Self.turn(of: key)][key] = nil
      state.files[key] = file
      if state.files.count == capacity { state.dueNanoseconds = 0 }
      state.beDue()
    }
  }

  /// One that is open and rests: it is taken in its turn. Called under a file's lock.
  func addIdle(_ file: CapturedFile) {
    change { state in
      let key = ObjectIdentifier(file)
      guard !state.isClosed, state.files[key] == nil else { return }
      state.idle[Self.turn(of: key)][key] = file
      state.beDue()
    }
  }

  /// The same one each time, and about as many files in each.
  private static func turn(of key: ObjectIdentifier) -> Int { Int(key.hashValue.magnitude % UInt(idleTurns)) }

  /// What is there is taken at once, without waiting for the second to pass.
  func hurry() {
    change { state in if !state.files.isEmpty { state.dueNanoseconds = 0 } }
  }

  /// What is there does not wait for the second.
  var isHurried: Bool { state.withLock { state, _ in state.dueNanoseconds == 0 } }

  /// The mount ends.
  var hasClosed: Bool { state.withLock { state, _ in state.isClosed } }

  /// Ends the thread that waits in ``next()``.
  func close() {
    change { $0.isClosed = true }
  }

  /// What was there when the queue was closed is flushed.
  func noteEmptied() {
    change { $0.isEmptied = true }
  }

  /// Waits for that; false when the time is over.
  func waitUntilEmptied(seconds: Int) -> Bool { wait(seconds: seconds) { $0.isEmptied } }

  /// Waits until the time of the first file has come, and takes all, and of those that rest the ones whose turn it is; nil once the
  /// queue is closed.
  func next() -> [CapturedFile]? {
    state.wait { state in
      if state.isClosed { return .done(nil) }
      if let due = state.dueNanoseconds, due <= monotonicNanoseconds() {
        let taken = state.takeDue()
        if !taken.isEmpty { return .done(taken) }
      }
      return state.dueNanoseconds.map { .againBy(nanoseconds: $0) } ?? .again
    }
  }

  /// Waits as long as that, for another thread that asks the disk again and again; false at once when the queue is closed.
  func waitUnlessClosed(seconds: Int) -> Bool { !wait(seconds: seconds) { $0.isClosed } }

  /// Takes all, whatever the time is.
  func takeAll() -> [CapturedFile] { state.withLock { state, _ in state.takeAll() } }

  /// Takes what a second takes: all that changes, and of those that rest the ones whose turn it is.
  func takeDue() -> [CapturedFile] { state.withLock { state, _ in state.takeDue() } }

  /// Wakes the threads that wait where there is something for them: once a second, unless it is hurried or ends.
  private func change(_ body: (inout State) -> Void) {
    state.withLock { state, signal in
      let before = state.condition
      body(&state)
      if state.condition != before { signal.broadcast() }
    }
  }

  private func wait(seconds: Int, until isOver: (State) -> Bool) -> Bool {
    let end = monotonicNanoseconds() + Int64(seconds) * 1_000_000_000
    return state.wait { state in
      if isOver(state) { return .done(true) }
      return monotonicNanoseconds() < end ? .againBy(nanoseconds: end) : .done(false)
    }
  }
}

extension FlushQueue.State {
  /// What threads wait for.
  fileprivate var condition: Condition { Condition(due: dueNanoseconds, isClosed: isClosed, isEmptied: isEmptied) }

  fileprivate struct Condition: Equatable {
    var due: Int64?
    var isClosed: Bool
    var isEmptied: Bool
  }

  fileprivate mutating func beDue() {
    if dueNanoseconds == nil { dueNanoseconds = monotonicNanoseconds() + FlushQueue.delayNanoseconds }
  }

  fileprivate mutating func takeAll() -> [CapturedFile] {
    defer {
      files = [:]
      for turn in idle.indices { idle[turn] = [:] }
      dueNanoseconds = nil
    }
    return Array(files.values) + idle.flatMap(\.values)
  }

  fileprivate mutating func takeDue() -> [CapturedFile] {
    let taken = Array(files.values) + idle[turn].values
    files = [:]
    idle[turn] = [:]
    turn = (turn + 1) % FlushQueue.idleTurns
    dueNanoseconds = nil
    if idle.contains(where: { !$0.isEmpty }) { beDue() }
    return taken
  }
}

import FilesystemCalls
import Glibc
import Synchronization
import Testing

/// One of the two folders in which a test plays, and what was answered there.
///
/// Used by one thread, that of its test; what goes on beside it does so in actors.
final class Side {
  enum Kind { case mounted, plain }

  let kind: Kind
  let mount: InProcessMount
  let folder: String
  private(set) var transcript: [(call: String, answer: Answer)] = []
  private var actors: [Actor] = []

  init(_ kind: Kind, _ mount: InProcessMount) throws {
    self.kind = kind
    self.mount = mount
    switch kind {
    case .plain: folder = mount.plain
    case .mounted:
      let maker = try Actor(in: mount.root)
      defer { maker.leave() }
      let call = Call.mkdir("work", mode: 0o755)
      let answer = try maker.answer(try maker.begin(call, onThread: false), of: call)
      guard answer == .done else { throw Actor.Failure.ended(call) }
      folder = mount.root + "/work"
    }
    actors.append(try Actor(in: folder))
  }

  /// Makes a call as the first actor.
  @discardableResult
  func callAsFunction(_ call: Call) throws -> Answer { try Player(side: self, actor: actors[0], name: "")(call) }

  var first: Player { Player(side: self, actor: actors[0], name: "") }

  /// A further process, at first in the same folder.
  func another(_ name: String = "another", as identity: Actor.Identity? = nil) throws -> Player {
    let actor = try Actor(in: folder, as: identity)
    actors.append(actor)
    return Player(side: self, actor: actor, name: name)
  }

  /// A value of the test's own that both sides must agree on.
  func note(_ what: String, _ value: some CustomStringConvertible) {
    transcript.append((what, .content(Content(Array(value.description.utf8)))))
  }

  /// The kernel says that a file was released after close(2) has returned. In a mount that answers in order
  /// (``MountOptions/inOrder``), it has been heard when something else is answered.
  func afterEveryRelease() throws { try self(.statvfs(".")) }

  fileprivate func add(_ actor: Actor) { actors.append(actor) }

  fileprivate func record(_ call: String, _ answer: Answer) {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    transcript.append((call, answer.comparable(now: Int64(now.tv_sec) * 1_000_000_000)))
  }

  /// Lets every actor end.
  func end() {
    // Copies are waited for by their parents' ends.
    for actor in actors.reversed() { actor.leave() }
  }

  /// Ends every actor by a signal; for a mount that hangs.
  func kill() {
    for actor in actors { actor.send(SIGKILL) }
  }
}

/// An actor as a test sees it: each answer is put down in its side's transcript.
struct Player {
  let side: Side
  let actor: Actor
  let name: String

  /// Makes a call and waits for its answer.
  @discardableResult
  func callAsFunction(_ call: Call) throws -> Answer { try begin(call, onThread: false).answer() }

  /// Begins a call on a thread of its own.
  func begin(_ call: Call) throws -> Pending { try begin(call, onThread: true) }

  /// Begins a call on a thread of its own, or on the main thread, which is the one that signals are for.
  func begin(_ call: Call, onThread: Bool) throws -> Pending {
    Pending(player: self, call: call, number: try actor.begin(call, onThread: onThread))
  }

  /// A copy of the process, by fork(2).
  func fork(_ name: String) throws -> Player {
    let copy = try actor.fork()
    side.add(copy)
    return Player(side: side, actor: copy, name: name)
  }

  /// Ends the process by a signal.
  func kill(_ signal: Int32 = SIGKILL) { actor.kill(signal) }

  /// Lets the process end by itself: its descriptors are closed then, and not before.
  func leave() { actor.leave() }

  /// Lets it end by itself, with an exit code.
  func exit(_ code: Int32) throws { try actor.exit(code) }

  /// Sends a signal, and does not wait for its effect.
  func send(_ signal: Int32) { actor.send(signal) }
}

/// A call that has begun.
struct Pending {
  let player: Player
  let call: Call
  let number: Int

  @discardableResult
  func answer(within patience: Duration = Actor.patience, mayLackSlot: Bool = false) throws -> Answer {
    let answer = try player.actor.answer(number, of: call, within: patience)
    // Both sides would agree on that, and on everything after it.
    if answer == .failed(.noSuchSlot), !mayLackSlot { Issue.record("\(call): the actor has nothing of that name") }
    player.side.record((player.name.isEmpty ? "" : player.name + ": ") + "\(call)", answer)
    return answer
  }

  /// Ends a repetition and waits for what it saw.
  @discardableResult
  func stop() throws -> Answer {
    try player.actor.stop(number)
    return try answer()
  }
}

import CFilesystemCalls
import FilesystemCalls
import Foundation
import Glibc
import Synchronization

/// A process that makes the calls of one side.
final class Actor: Sendable {
  /// Who it is; nil for the user of the tests.
  struct Identity: Sendable {
    let user: uid_t
    let group: gid_t
  }

  enum Failure: Error, CustomStringConvertible {
    case notStarted(Int32)
    case ended(Call)
    case late(Call, Duration)

    var description: String {
      switch self {
      case .notStarted(let code): "the actor was not started: \(Errno(code))"
      case .ended(let call): "the actor ended during \(call)"
      case .late(let call, let patience): "no answer within \(patience): \(call)"
      }
    }
  }

  /// How long a call may take. Sanitized builds on a busy machine are slow; what hangs, hangs for good.
  static let patience = Duration.seconds(60)

  let identifier: pid_t
  private let conversation: Conversation
  /// A copy made by fork(2) is no child of this process.
  private let isChild: Bool
  private let state = Mutex(State())

  private struct State {
    var nextNumber = 0
    var early: [Int: Answer] = [:]
    var hasEnded = false
  }

  init(in folder: String, as identity: Identity? = nil) throws {
    var ends: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
      throw Failure.notStarted(errno)
    }
    var arguments = [Self.program, folder]
    if let identity { arguments += ["\(identity.user)", "\(identity.group)"] }
    let texts = arguments.map { strdup($0) }
    defer { for text in texts { free(text) } }
    var child: pid_t = 0
    let failure = calls_spawn(Self.program, texts + [nil], ends[1], &child)
    close(ends[1])
    guard failure == 0 else {
      close(ends[0])
      throw Failure.notStarted(failure)
    }
    identifier = child
    conversation = Conversation(socket: ends[0])
    isChild = true
  }

  private init(copy identifier: pid_t, _ socket: Int32) {
    self.identifier = identifier
    conversation = Conversation(socket: socket)
    isChild = false
  }

  /// Beside the tests in the build folder.
  private static let program: String = {
    let tests = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    return (tests as NSString).deletingLastPathComponent + "/FilesystemActor"
  }()

  /// Begins a call; on a thread of its own, others go on meanwhile.
  func begin(_ call: Call, onThread: Bool) throws -> Int {
    let number = state.withLock { state in
      state.nextNumber += 1
      return state.nextNumber
    }
    do {
      try conversation.send(Order.make(call, number: number, onThread: onThread))
    } catch is Conversation.Failure {
      throw Failure.ended(call)
    }
    return number
  }

  /// Waits for the answer of a call that has begun.
  func answer(_ number: Int, of call: Call, within patience: Duration = Actor.patience) throws -> Answer {
    if let answer = state.withLock({ $0.early.removeValue(forKey: number) }) { return answer }
    let deadline = ContinuousClock.now + patience
    do {
      while let reply = try conversation.receive(Reply.self, until: deadline) {
        if reply.number == number { return reply.answer }
        state.withLock { $0.early[reply.number] = reply.answer }
      }
    } catch Conversation.Failure.late {
      throw Failure.late(call, patience)
    } catch Conversation.Failure.closed {
      throw Failure.ended(call)
    }
    throw Failure.ended(call)
  }

  func stop(_ number: Int) throws { try conversation.send(Order.stop(number: number)) }

  /// A copy of the process: the same descriptors, mappings, and locks of open files.
  func fork() throws -> Actor {
    let answer = try answer(try begin(.fork, onThread: false), of: .fork)
    guard case .number(let child) = answer else { throw Failure.ended(.fork) }
    let socket = try conversation.receiveDescriptor(until: .now + Self.patience)
    return Actor(copy: pid_t(child), socket)
  }

  /// Sends a signal. Once it has ended, its number may be that of another process.
  func send(_ signal: Int32) {
    state.withLock { state in
      if !state.hasEnded { Glibc.kill(identifier, signal) }
    }
  }

  /// Ends it by a signal, and waits for that.
  func kill(_ signal: Int32 = SIGKILL) {
    send(signal)
    waitForEnd()
  }

  /// Lets it end by itself.
  func leave() {
    state.withLock { state in
      // Afterwards the descriptor may be that of another actor's conversation.
      if !state.hasEnded { _ = shutdown(conversation.socket, Int32(SHUT_WR)) }
    }
    waitForEnd()
  }

  /// Has it end itself with an exit code.
  func exit(_ code: Int32) throws {
    _ = try begin(.exit(code), onThread: false)
    waitForEnd()
  }

  /// The end of the conversation is the end of the process: it closes the socket with everything else it has.
  private func waitForEnd() {
    guard state.withLock({ state in !exchange(&state.hasEnded, with: true) }) else { return }
    let deadline = ContinuousClock.now + Self.patience
    while (try? conversation.receive(Reply.self, until: deadline)) != nil {}
    close(conversation.socket)
    guard isChild else { return }
    if ContinuousClock.now >= deadline { Glibc.kill(identifier, SIGKILL) }
    _ = calls_wait(identifier, 20)
  }
}

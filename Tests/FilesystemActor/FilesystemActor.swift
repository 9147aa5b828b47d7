import CFilesystemCalls
import FilesystemCalls
import Foundation
import Glibc
import Synchronization

/// Makes the system calls that a test asks for. The process that serves a mount must not use it: it could wait for itself.
///
/// `FilesystemActor FOLDER [USER GROUP]`, with its conversation as descriptor 3.
@main struct FilesystemActor {
  static func main() throws {
    let arguments = CommandLine.arguments
    guard arguments.count == 2 || arguments.count == 4 else { exit(2) }
    if arguments.count == 4, let user = UInt32(arguments[2]), let group = UInt32(arguments[3]) {
      guard calls_become(user, group) == 0 else { exit(3) }
    }
    guard Glibc.chdir(arguments[1]) == 0 else { exit(4) }
    Glibc.umask(0o022)
    // A write beyond a limit fails, and does not end the process; a socket that is gone likewise.
    signal(SIGXFSZ, SIG_IGN)
    signal(SIGPIPE, SIG_IGN)
    // The handlers of a sanitizer or of the runtime's backtraces take long, or end the process by exit(3).
    signal(SIGSEGV, SIG_DFL)
    signal(SIGABRT, SIG_DFL)
    try Service(Conversation(socket: 3)).run()
  }
}

/// Answers one test until it has no further order.
final class Service: Sendable {
  private let resources = Resources()
  private let conversation: Mutex<Conversation>
  private let incoming: Conversation
  private let stopped = Mutex<Set<Int>>([])

  init(_ conversation: Conversation) {
    self.conversation = Mutex(conversation)
    incoming = conversation
  }

  func run() throws {
    while let order = try incoming.receive(Order.self) {
      switch order {
      case .stop(let number): stopped.withLock { _ = $0.insert(number) }
      case .make(.fork, let number, _):
        if try forked(number) { return }
      case .make(let call, let number, false): try reply(number, answer(call, number))
      case .make(let call, let number, true):
        Thread.detachNewThread { [self] in
          // The test is gone: so is the process, soon.
          try? reply(number, answer(call, number))
        }
      }
    }
  }

  private func reply(_ number: Int, _ answer: Answer) throws {
    try conversation.withLock { try $0.send(Reply(number: number, answer: answer)) }
  }

  /// True in the copy, when it has been served to its end.
  private func forked(_ number: Int) throws -> Bool {
    var ends: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
      try reply(number, .failed(Errno(errno)))
      return false
    }
    let child = calls_fork()
    if child == 0 {
      Glibc.close(ends[1])
      Glibc.close(incoming.socket)
      let copy = Service(Conversation(socket: ends[0]), resources)
      try copy.run()
      _exit(0)
    }
    Glibc.close(ends[0])
    try reply(number, child < 0 ? .failed(Errno(errno)) : .number(Int64(child)))
    if child > 0 { _ = calls_send_descriptor(incoming.socket, ends[1]) }
    Glibc.close(ends[1])
    return false
  }

  private init(_ conversation: Conversation, _ resources: Resources) {
    self.conversation = Mutex(conversation)
    incoming = conversation
    resources.copy(into: self.resources)
  }

  private func answer(_ call: Call, _ number: Int) -> Answer {
    switch call {
    case .sequence(let calls): return .several(calls.map { answer($0, number) })
    case .untilStopped(let calls):
      var rounds = 0
      var distinct: [Answer] = []
      repeat {
        let round = Answer.several(calls.map { answer($0, number) })
        rounds += 1
        if !distinct.contains(round), distinct.count < 100 { distinct.append(round) }
      } while stopped.withLock({ !$0.contains(number) })
      return .rounds(rounds, distinct: distinct)
    default:
      do throws(Errno) {
        return try resources.make(call)
      } catch {
        return .failed(error)
      }
    }
  }
}

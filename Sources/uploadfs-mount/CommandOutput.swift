import FoundationEssentials
import Glibc
import MountConfiguration
import Synchronization

/// Runs a command that the user has configured, and takes what it prints.
enum CommandOutput {
  private static let bytesMax = 64 << 10
  private static let timeoutMilliseconds: Int64 = 60_000
  /// How long a stopping signal may go unnoticed.
  private static let lookMilliseconds: Int64 = 100

  /// What a shell command printed before it ended with 0. Why not, in a sentence that holds nothing of its output.
  static func of(_ command: String, called name: String) throws(ToolFailure) -> [UInt8] {
    do throws(CommandProblem) {
      return try output(of: command)
    } catch {
      throw ToolFailure(.destinationUnusable, "the \(name) \(error.what)")
    }
  }

  private struct CommandProblem: Error {
    var what: String
  }

  /// The process groups of those that run. Each is ended, and its leader is waited for, while this is held: until then its number
  /// is no other process's.
  private static let running = Mutex<Set<pid_t>>([])

  /// Ends those that run: the process ends.
  static func endAll() {
    running.withLock { running in
      for process in running { kill(-process, SIGKILL) }
    }
  }

  private static func output(of command: String) throws(CommandProblem) -> [UInt8] {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw failure("cannot be started: \(systemMessage(errno))") }
    defer { close(ends[0]) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    let process: pid_t
    do throws(SystemError) {
      defer { close(ends[1]) }
      process = try running.withLock { (running) throws(SystemError) in
        let process = try start(command, output: ends[1])
        running.insert(process)
        return process
      }
    } catch {
      throw failure("cannot be started: \(systemMessage(error.code))")
    }
    do throws(CommandProblem) {
      return try Signals.holding { () throws(CommandProblem) in try output(of: process, from: ends[0]) }
    } catch {
      end(process)
      throw error
    }
  }

  /// What it prints until it has closed its output and has ended.
  private static func output(of process: pid_t, from descriptor: Int32) throws(CommandProblem) -> [UInt8] {
    let deadline = milliseconds() + timeoutMilliseconds
    var bytes: [UInt8] = []
    var block = [UInt8](repeating: 0, count: 4096)
    var isOpen = true
    while true {
      if !isOpen, let status = reap(process) { return try result(bytes, status) }
      if Signals.isWaiting { throw failure("was ended: a signal came while it ran") }
      let left = deadline - milliseconds()
      guard left > 0 else { throw failure("took longer than \(timeoutMilliseconds / 1000) s") }
      // Without a descriptor it is a pause: most end right after they have closed their output.
      var waiting = pollfd(fd: isOpen ? descriptor : -1, events: Int16(POLLIN), revents: 0)
      guard poll(&waiting, 1, Int32(min(left, isOpen ? lookMilliseconds : 10))) > 0 else { continue }
      let count = Glibc.read(descriptor, &block, block.count)
      if count < 0 && errno == EINTR { continue }
      guard count >= 0 else { throw failure("cannot be read from: \(systemMessage(errno))") }
      bytes += block[..<count]
      guard bytes.count <= bytesMax else { throw failure("printed more than \(bytesMax) bytes") }
      if count == 0 { isOpen = false }
    }
  }

  private static func result(_ bytes: [UInt8], _ status: Int32) throws(CommandProblem) -> [UInt8] {
    guard status == 0 else {
      throw failure(status & 0x7f == 0 ? "ended with \(status >> 8 & 0xff)" : "was ended by signal \(status & 0x7f)")
    }
    return bytes
  }

  /// With what it has left behind. One that the kernel does not let end is not waited for.
  private static func end(_ process: pid_t) {
    running.withLock { running in
      if running.contains(process) { kill(-process, SIGKILL) }
    }
    let deadline = milliseconds() + 1000
    while reap(process) == nil, milliseconds() < deadline { poll(nil, 0, 10) }
  }

  /// The status of one that has ended; nil while it runs.
  private static func reap(_ process: pid_t) -> Int32? {
    running.withLock { running in
      guard running.contains(process) else { return 0 }
      var status: Int32 = 0
      let found = waitpid(process, &status, WNOHANG)
      guard found == process || found < 0 && errno != EINTR else { return nil }
      running.remove(process)
      return status
    }
  }

  private static func failure(_ what: String) -> CommandProblem { CommandProblem(what: what) }

  /// In a group of its own, with the signals that this program blocks or ignores as they are by default, and as many files as were
  /// allowed before this program asked for more.
  private static func start(_ command: String, output: Int32) throws(SystemError) -> pid_t {
    var actions = posix_spawn_file_actions_t()
    var attributes = posix_spawnattr_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawnattr_init(&attributes)
    defer {
      posix_spawn_file_actions_destroy(&actions)
      posix_spawnattr_destroy(&attributes)
    }
    var none = sigset_t()
    var all = sigset_t()
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setpgroup(&attributes, 0)
    posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
    var arguments: [UnsafeMutablePointer<CChar>?] = Self.copies(["/bin/sh", "-c", OpenFileLimit.shellLine + command])
    var variables: [UnsafeMutablePointer<CChar>?] = Self.copies(
      ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" })
    defer { for text in arguments + variables { free(text) } }
    var process: pid_t = 0
    let code = posix_spawn(&process, "/bin/sh", &actions, &attributes, &arguments, &variables)
    guard code == 0 else { throw SystemError(code: code) }
    return process
  }

  /// Texts as C wants them, with a nil behind the last; to be freed.
  private static func copies(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] {
    texts.map { text in strdup(text) } + [nil]
  }

  private static func milliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
  }
}

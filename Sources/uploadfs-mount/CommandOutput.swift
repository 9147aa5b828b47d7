import FoundationEssentials
import Glibc
import MountConfiguration

/// Runs a command that the user has configured, and takes what it prints.
enum CommandOutput {
  private static let bytesMax = 64 << 10
  private static let timeoutMilliseconds: Int64 = 60_000

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

  private static func output(of command: String) throws(CommandProblem) -> [UInt8] {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw failure("cannot be started: \(systemMessage(errno))") }
    defer { close(ends[0]) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    let process: pid_t
    do throws(SystemError) {
      defer { close(ends[1]) }
      process = try start(command, output: ends[1])
    } catch {
      throw failure("cannot be started: \(systemMessage(error.code))")
    }
    let output = read(ends[0])
    // What it has left behind ends with it.
    if output == nil { kill(-process, SIGKILL) }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 && errno == EINTR {}
    guard let output else { throw failure("printed too much, or took longer than \(timeoutMilliseconds / 1000) s") }
    guard status == 0 else {
      throw failure(status & 0x7f == 0 ? "ended with \(status >> 8 & 0xff)" : "was ended by signal \(status & 0x7f)")
    }
    return output
  }

  private static func failure(_ what: String) -> CommandProblem { CommandProblem(what: what) }

  /// In a group of its own, with the signals that this program blocks or ignores as they are for everybody.
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
    var arguments: [UnsafeMutablePointer<CChar>?] = Self.copies(["/bin/sh", "-c", command])
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

  /// Everything up to the end; nil when that is too much, or does not come in time.
  private static func read(_ descriptor: Int32) -> [UInt8]? {
    let deadline = milliseconds() + timeoutMilliseconds
    var bytes: [UInt8] = []
    var block = [UInt8](repeating: 0, count: 4096)
    while bytes.count <= bytesMax {
      var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      let left = deadline - milliseconds()
      guard left > 0 else { return nil }
      guard poll(&waiting, 1, Int32(clamping: left)) > 0 else { continue }
      let count = Glibc.read(descriptor, &block, block.count)
      if count < 0 && errno == EINTR { continue }
      guard count >= 0 else { return nil }
      guard count > 0 else { return bytes }
      bytes += block[..<count]
    }
    return nil
  }

  private static func milliseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
  }
}

import Glibc
import Testing

/// A process that has ended, kept as the kernel knows it.
final class EndedProcess {
  /// What a limited one may make of a file; POSIX counts blocks of 512 bytes.
  static let limitBytes = 512

  let number: pid_t

  /// It could make files of ``limitBytes`` at most.
  static func limited() throws -> EndedProcess { try EndedProcess(running: "ulimit -f 1") }

  /// A signal has ended it.
  static func killed() throws -> EndedProcess { try EndedProcess(running: "kill -9 $$") }

  private init(running script: String) throws {
    var number: pid_t = 0
    var arguments = [strdup("sh"), strdup("-c"), strdup(script), nil]
    defer { arguments.forEach { free($0) } }
    try #require(posix_spawn(&number, "/bin/sh", nil, nil, &arguments, nil) == 0)
    self.number = number
    var information = siginfo_t()
    try #require(waitid(P_PID, id_t(number), &information, WEXITED | WNOWAIT) == 0)
  }

  deinit { waitpid(number, nil, 0) }
}

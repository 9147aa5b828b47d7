import Glibc
import Testing

/// A process that may make files of 512 bytes at most and has ended, kept as the kernel knows it.
final class LimitedProcess {
  static let bytes = 512

  let number: pid_t

  init() throws {
    var number: pid_t = 0
    // POSIX counts blocks of 512 bytes.
    var arguments = [strdup("sh"), strdup("-c"), strdup("ulimit -f 1"), nil]
    defer { arguments.forEach { free($0) } }
    try #require(posix_spawn(&number, "/bin/sh", nil, nil, &arguments, nil) == 0)
    self.number = number
    var information = siginfo_t()
    try #require(waitid(P_PID, id_t(number), &information, WEXITED | WNOWAIT) == 0)
  }

  deinit { waitpid(number, nil, 0) }
}

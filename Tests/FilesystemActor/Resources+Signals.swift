import FilesystemCalls
import Glibc

extension Resources {
  func makeSignalCall(_ call: Call) throws(Errno) -> Answer {
    switch call {
    case .exit(let code): _exit(code)
    case .pause: try checked(Glibc.pause())
    case .handle(let signal):
      // Without SA_RESTART, which signal(2) would set.
      var action = sigaction()
      action.__sigaction_handler.sa_handler = { _ in }
      try checked(sigaction(signal, &action, nil))
    default: throw Errno(ENOSYS)
    }
    return .done
  }
}

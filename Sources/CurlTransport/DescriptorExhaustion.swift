// The headers of sockets belong to whichever of both modules is loaded first.
import CCurl
import Glibc

/// Whether this process can open anything. libcurl only says that it has no connection, or no address, where it has no descriptor for either.
enum DescriptorExhaustion {
  /// Why nothing more can be opened, as it is now; nil where it can.
  static func words() -> String? {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor < 0 else {
      close(descriptor)
      return nil
    }
    switch errno {
    case EMFILE: return "this process has as many files open as it may (ulimit -Hn, LimitNOFILE=)"
    case ENFILE: return "this machine has as many files open as it may (fs.file-max)"
    default: return nil
    }
  }
}

import CLinux
import Glibc
import ReceiverCore

/// A folder that is kept open, and the path under which others look for it. A rename, a removal or another filesystem that is
/// mounted there can part the two; what is published through the descriptor then is not where the operator expects it.
struct ConfiguredFolder: Sendable {
  /// Where the path leads now.
  enum Place: Hashable, Sendable {
    case inPlace
    /// Nothing stands there, or no folder.
    case gone
    /// Another folder stands there.
    case taken
    /// The disk cannot say it; the errno.
    case unreadable(Int32)
  }

  let path: String
  let descriptor: FileDescriptor

  /// The path as the kernel has it. Two spellings of one text, which are one `String`, are two folders.
  var pathBytes: [UInt8] { Array(path.utf8) }

  /// Asks the kernel, which mostly has it in memory.
  var place: Place {
    var (found, held) = (stat(), stat())
    guard stat(path, &found) == 0 else {
      let code = errno
      return code == ENOENT || code == ENOTDIR ? .gone : .unreadable(code)
    }
    guard fstat(descriptor.raw, &held) == 0 else { return .unreadable(errno) }
    guard found.st_mode & S_IFMT == S_IFDIR else { return .gone }
    return found.st_ino == held.st_ino && found.st_dev == held.st_dev ? .inPlace : .taken
  }

  /// Fails unless the path leads to it.
  func requireInPlace() throws(StoreFailure) {
    let place = place
    guard place == .inPlace else { throw .misplaced(words(for: place)) }
  }

  /// For the log.
  func words(for place: Place) -> String {
    switch place {
    case .inPlace: "\(path) is in its place"
    case .gone: "\(path) is gone; nothing is taken until it is back"
    case .taken: "\(path) is another folder than before; nothing is taken until the one before is back"
    case .unreadable(let code): "\(path) cannot be reached: \(String(cString: strerror(code)))"
    }
  }
}

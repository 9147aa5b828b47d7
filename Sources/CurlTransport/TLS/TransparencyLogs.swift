import CCurl
import Glibc
import Synchronization

/// A list of logs as OpenSSL has it as well.
///
/// Sendable is unchecked because of the pointer: it never changes, and OpenSSL only reads what it points to.
final class TransparencyLogs: @unchecked Sendable {
  let list: TransparencyLogList
  let pointer: UnsafeMutableRawPointer

  /// The file's content.
  init(json: [UInt8]) throws(TransparencyLogList.Problem) {
    list = try TransparencyLogList(json: json)
    let text = list.openSSLConfiguration
    let made = text.utf8CString.withUnsafeBufferPointer { uploadfs_logs_new($0.baseAddress, $0.count - 1) }
    guard let made else {
      throw TransparencyLogList.Problem(
        words: "has a key that OpenSSL cannot read, or the installed OpenSSL has no Certificate Transparency")
    }
    pointer = made
  }

  deinit { uploadfs_logs_free(pointer) }
}

/// The operator's file with the list of logs, which is read anew when it has changed: a mount runs for longer than a list is good for.
final class TransparencySource: Sendable {
  /// What tells one content of a file from another.
  private struct Mark: Equatable {
    var device: UInt64
    var inode: UInt64
    var size: Int64
    var seconds: Int
    var nanoseconds: Int
  }

  private struct State {
    var logs: TransparencyLogs
    var mark: Mark
  }

  private static let bytesMax = 8 << 20

  private let path: String
  private let state: Mutex<State>

  /// Reads the file.
  init(path: String) throws(TransportConfigurationError) {
    self.path = path
    state = Mutex(try Self.read(path))
  }

  /// What the file holds; what it held before, where it is gone or no list now.
  var current: TransparencyLogs {
    let known = state.withLock { $0 }
    guard let mark = Self.mark(of: path), mark != known.mark else { return known.logs }
    do throws(TransportConfigurationError) {
      let fresh = try Self.read(path)
      state.withLock { $0 = fresh }
      return fresh.logs
    } catch {
      // Not read again for each connection: it is looked at when it changes once more. Its date says how old the one in use is.
      state.withLock { $0.mark = mark }
      return known.logs
    }
  }

  private static func mark(of path: String) -> Mark? {
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { return nil }
    defer { close(file) }
    return mark(of: file)
  }

  private static func mark(of file: Int32) -> Mark? {
    var facts = stat()
    guard fstat(file, &facts) == 0 else { return nil }
    return Mark(
      device: UInt64(facts.st_dev), inode: UInt64(facts.st_ino), size: Int64(facts.st_size),
      seconds: facts.st_mtim.tv_sec, nanoseconds: facts.st_mtim.tv_nsec)
  }

  private static func read(_ path: String) throws(TransportConfigurationError) -> State {
    func refusal(_ reason: String) -> TransportConfigurationError { .unreadableCAFile(path: path, reason: reason) }
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { throw refusal(String(cString: strerror(errno))) }
    defer { close(file) }
    guard let mark = mark(of: file) else { throw refusal(String(cString: strerror(errno))) }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = Glibc.read(file, &part, part.count)
      guard count >= 0 else { throw refusal(String(cString: strerror(errno))) }
      guard count > 0 else { break }
      bytes += part[..<count]
      guard bytes.count <= bytesMax else {
        throw .unusableFile(path: path, problem: "is larger than \(bytesMax >> 20) MiB, which no list of logs is")
      }
    }
    do {
      return State(logs: try TransparencyLogs(json: bytes), mark: mark)
    } catch {
      throw .unusableFile(path: path, problem: error.words)
    }
  }
}

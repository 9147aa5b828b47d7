import CLinux
import Glibc

/// The length beyond which the kernel lets a process write no file (RLIMIT_FSIZE, `ulimit -f`).
///
/// It refuses that before it asks the daemon, past which or through which the file is written. A write across the limit ends there.
struct FileSizeLimit: Hashable, Sendable {
  let bytes: UInt64

  private init(bytes: UInt64) { self.bytes = bytes }

  /// Of the process of a thread, as the kernel numbers it for this daemon; 0 is one that cannot be seen from here. Nil where there is
  /// no limit, or none that can be seen.
  init?(of thread: pid_t) {
    guard thread > 0 else { return nil }
    var bytes: UInt64 = 0
    if uploadfs_file_size_limit(thread, &bytes) == 0 {
      guard bytes != .max else { return nil }
      self.init(bytes: bytes)
      return
    }
    // Of another user's process an ordinary user's daemon may read it. No lock is taken for which that process could hold it up.
    guard errno == EPERM else { return nil }
    self.init(limits: ProcessExitState.read("/proc/\(thread)/limits"))
  }

  /// From proc(5)'s `limits`: nil where there is none.
  init?(limits text: [UInt8]) {
    let name = Array("Max file size".utf8)
    guard let line = text.split(separator: UInt8(ascii: "\n")).first(where: { $0.starts(with: name) }),
      let word = line.dropFirst(name.count).split(separator: UInt8(ascii: " ")).first,
      let bytes = UInt64(String(decoding: word, as: UTF8.self))
    else { return nil }
    self.bytes = bytes
  }

  /// Whether a file of this size, which a process with the limit has written and closes, may lack what that process was to write: it
  /// ends where the kernel would have cut it off.
  func mayHaveCut(sizeBytes: UInt64) -> Bool { sizeBytes == bytes }
}

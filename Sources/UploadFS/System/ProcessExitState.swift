import CLinux
import Glibc

/// What the kernel says of a thread that closes a descriptor: whether it does so because it lives, or because it dies.
struct ProcessExitState: Hashable, Sendable {
  /// The signal that ends it; 0 when it lives, ends by itself, or cannot be seen.
  let signal: Int32
  /// It closes the descriptor because it ends, for whatever reason.
  let isEnding: Bool

  /// A thread that goes on.
  static let alive = ProcessExitState(signal: 0, isEnding: false)

  private init(signal: Int32, isEnding: Bool) {
    self.signal = signal
    self.isEnding = isEnding
  }

  /// Of a thread as the kernel numbers it for this daemon; 0 is one that cannot be seen from here.
  ///
  /// A thread that executes another program closes what is not passed on while the kernel holds its process's `exec_update_lock`. A
  /// reader of `stat` waits for that lock (since Linux 6.18.40 or so), and the thread would wait for the reader's answer: a deadlock.
  /// `statm` takes no lock, and says first whether the thread ends: then it has given its memory back, and a process with an ending
  /// thread starts no program before that one is gone.
  init(of thread: pid_t) {
    // The way through task/ spares the kernel a sum over all threads of the process.
    let folder = "/proc/\(thread)/task/\(thread)"
    guard thread > 0, Self.hasNoMemory(Self.read("\(folder)/statm")) else {
      self = .alive
      return
    }
    self.init(statusLine: Self.read("\(folder)/stat"))
  }

  /// From a line of proc(5)'s `statm`, which begins with the pages that the process has. One that cannot be read says nothing.
  static func hasNoMemory(_ line: [UInt8]) -> Bool {
    line.starts(with: Array("0 ".utf8))
  }

  /// From a line of proc(5)'s `stat`.
  ///
  /// An exiting thread has its exit code before its descriptors are closed; the lower seven bits are the signal. PF_SIGNALED
  /// would be wrong: the threads of a process that ends by itself have it too.
  init(statusLine line: [UInt8]) {
    // The name, in parentheses, can hold anything.
    let fields =
      line.lastIndex(of: UInt8(ascii: ")")).map { line[($0 + 1)...].split(separator: UInt8(ascii: " ")) } ?? []
    guard fields.count > Self.exitCodeIndex, let flags = UInt64(Self.text(fields[Self.flagsIndex])),
      let code = Int32(Self.text(fields[Self.exitCodeIndex]).filter { $0 != "\n" }), flags & Self.exiting != 0
    else {
      self = .alive
      return
    }
    self.init(signal: code & 0x7f, isEnding: true)
  }

  /// Whether a thread that closes a descriptor belongs to the process whose thread opened it, or to one that has outlived it:
  /// then no process is left to write through it once it is closed.
  static func isOwner(_ closer: pid_t, ofDescriptorOpenedBy opener: pid_t) -> Bool {
    guard closer > 0, opener > 0, closer != opener else { return true }
    return access("/proc/\(closer)/task/\(opener)", F_OK) == 0 || access("/proc/\(opener)", F_OK) != 0
  }

  /// Fields 9 and 52 of proc(5), counted from the one behind the name.
  private static let flagsIndex = 6
  private static let exitCodeIndex = 49
  /// PF_EXITING.
  private static let exiting: UInt64 = 4

  private static func text(_ field: ArraySlice<UInt8>) -> String { String(decoding: field, as: UTF8.self) }

  /// The beginning of a file of proc(5); empty where it cannot be read.
  static func read(_ path: String) -> [UInt8] {
    let number = uploadfs_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0)
    guard number >= 0 else { return [] }
    defer { close(number) }
    return [UInt8](unsafeUninitializedCapacity: 1024) { buffer, count in
      count = max(0, Glibc.read(number, buffer.baseAddress, buffer.count))
    }
  }
}

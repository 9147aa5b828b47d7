import Glibc

/// The pid namespace of this process (pid_namespaces(7)): a process number means a process in one of them.
enum PIDNamespace {
  /// The number by which the system tells it from all others that exist; nil where there is no `/proc`.
  static var own: UInt64? {
    var status = stat()
    guard stat("/proc/self/ns/pid", &status) == 0 else { return nil }
    return UInt64(status.st_ino)
  }
}

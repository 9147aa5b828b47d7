import CLinux
import Glibc

/// Where system calls reach an entry of the spool: a directory's descriptor and a path relative to it.
///
/// Valid while the namespace lock is held: a rename elsewhere would change what the path means.
struct SpoolLocation: ~Copyable {
  /// The descriptor to start from.
  let directory: Int32
  /// NUL-terminated.
  let path: [CChar]
  private let ownsDirectory: Bool

  /// One call takes at most PATH_MAX bytes; longer paths are walked up to their last part.
  private static let pathBytesMax = 4000

  /// The place that `components` lead to from the spool's root; the root itself when there are none.
  init(root: Int32, components: [EntryName]) throws(SystemError) {
    var directory = root
    var ownsDirectory = false
    var path: [CChar] = []
    for component in components {
      if path.count + component.bytes.count + 2 > Self.pathBytesMax {
        path.append(0)
        let next = uploadfs_openat(
          directory, path, uploadfs_o_path | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0)
        let failure = SystemError.last
        if ownsDirectory { close(directory) }
        guard next >= 0 else {
          self.directory = -1
          self.path = []
          self.ownsDirectory = false
          throw failure
        }
        directory = next
        ownsDirectory = true
        path.removeAll(keepingCapacity: true)
      }
      if !path.isEmpty { path.append(CChar(bitPattern: UInt8(ascii: "/"))) }
      for byte in component.bytes { path.append(CChar(bitPattern: byte)) }
    }
    if path.isEmpty { path.append(CChar(bitPattern: UInt8(ascii: "."))) }
    path.append(0)
    self.directory = directory
    self.path = path
    self.ownsDirectory = ownsDirectory
  }

  deinit {
    if ownsDirectory { close(directory) }
  }

  /// lstat(2) of what stands there.
  func status() throws(SystemError) -> stat {
    var status = stat()
    try check(fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW))
    return status
  }

  /// Opens what stands there, never through a symbolic link.
  func open(_ flags: Int32, mode: mode_t = 0) throws(SystemError) -> Int32 {
    while true {
      let descriptor = uploadfs_openat(directory, path, flags | O_NOFOLLOW | O_CLOEXEC, mode)
      if descriptor >= 0 { return descriptor }
      if errno != EINTR { throw .last }
    }
  }

  /// A descriptor that keeps the inode reachable without opening it.
  func pin() throws(SystemError) -> FileDescriptor {
    FileDescriptor(owning: try open(uploadfs_o_path), isReadable: false, isWritable: false)
  }
}

extension stat {
  var key: SpoolKey { SpoolKey(device: UInt64(st_dev), inode: UInt64(st_ino)) }

  var kind: NodeKind {
    switch st_mode & S_IFMT {
    case S_IFDIR: .directory
    case S_IFREG: .regular
    default: .other
    }
  }
}

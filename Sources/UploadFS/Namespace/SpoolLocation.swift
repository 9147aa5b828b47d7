import CLinux
import Glibc

/// Where system calls reach an entry of the spool: the descriptor of the folder that it stands in, and its name.
///
/// The folder is reached through folders alone. A symbolic link that another program put into the spool in the place of one leads
/// nowhere: system calls guard the last part of a path only, and would carry out in another place, with the daemon's rights,
/// what was asked for here.
///
/// Valid while the namespace lock is held: a rename elsewhere would change what stands there.
struct SpoolLocation: ~Copyable {
  /// The folder's descriptor.
  let directory: Int32
  /// The entry's name in it, NUL-terminated.
  let path: [CChar]
  private let ownsDirectory: Bool

  /// One call takes at most PATH_MAX bytes; longer paths are entered in several.
  private static let pathBytesMax = 4000

  /// The place that `components` lead to from the spool's root; the root itself when there are none.
  init(root: Int32, components: [EntryName]) throws(SystemError) {
    let folder = Self.openFolder(components.dropLast(), below: root)
    let failure = SystemError.last
    directory = folder
    ownsDirectory = folder >= 0 && folder != root
    path = components.last?.cString ?? EntryName(".").cString
    guard folder >= 0 else {
      // Another thing stands in a folder's place: the kernel has to look again.
      throw failure.code == ELOOP ? .stale : failure
    }
  }

  /// The root itself where there are no components; −1, with errno, where they do not lead to a folder.
  private static func openFolder(_ components: ArraySlice<EntryName>, below root: Int32) -> Int32 {
    var folder = root
    var path: [CChar] = []
    func enter() -> Bool {
      path.append(0)
      let next = uploadfs_open_folder_beneath(folder, path)
      let failure = errno
      if folder != root { close(folder) }
      errno = failure
      folder = next
      path.removeAll(keepingCapacity: true)
      return next >= 0
    }
    for component in components {
      if path.count + component.bytes.count + 2 > pathBytesMax, !enter() { return -1 }
      if !path.isEmpty { path.append(CChar(bitPattern: UInt8(ascii: "/"))) }
      for byte in component.bytes { path.append(CChar(bitPattern: byte)) }
    }
    if !path.isEmpty, !enter() { return -1 }
    return folder
  }

  deinit {
    if ownsDirectory { close(directory) }
  }

  /// Whether something stands there. What cannot be examined throws.
  func isTaken() throws(SystemError) -> Bool {
    do throws(SystemError) {
      _ = try status()
      return true
    } catch .notFound {
      return false
    }
  }

  /// lstat(2) of what stands there.
  func status() throws(SystemError) -> stat {
    var status = stat()
    try check(fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW))
    return status
  }

  /// Opens what stands there, never through a symbolic link.
  func open(_ flags: Int32, mode: mode_t = 0) throws(SystemError) -> Int32 {
    Int32(try retryingInterrupts { Int(uploadfs_openat(directory, path, flags | O_NOFOLLOW | O_CLOEXEC, mode)) })
  }

  /// chmod(2), never of what a symbolic link leads to.
  func setMode(_ mode: mode_t) throws(SystemError) {
    try pin().setMode(mode)
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

import CLinux
import FileModel
import Glibc
import Synchronization

/// What setattr is to change.
struct AttributeChanges: Hashable, Sendable {
  enum Time: Hashable, Sendable {
    case keep
    case now
    case at(seconds: Int, nanoseconds: Int)

    var timespec: timespec {
      switch self {
      case .keep: Glibc.timespec(tv_sec: 0, tv_nsec: uploadfs_utime_omit)
      case .now: Glibc.timespec(tv_sec: 0, tv_nsec: uploadfs_utime_now)
      case .at(let seconds, let nanoseconds): Glibc.timespec(tv_sec: seconds, tv_nsec: nanoseconds)
      }
    }
  }

  var mode: mode_t?
  var user: uid_t?
  var group: gid_t?
  var size: Int64?
  var accessed = Time.keep
  var modified = Time.keep

  var changesAttributes: Bool {
    mode != nil || user != nil || group != nil || accessed != .keep || modified != .keep
  }
}

extension Filesystem {
  /// stat(2), or fstat(2) when there is a handle.
  func attributes(of node: NodeID, handle number: UInt64?) throws(SystemError) -> stat {
    if node.isVirtual { return try virtualAttributes(of: node, handle: number) }
    if node == .root { return rootAttributes() }
    if let number, case .file(let handle)? = handles.withLock({ $0[number] }) {
      return shown(try handle.descriptor.status(), of: node)
    }
    return shown(try namespaceLock.shared { () throws(SystemError) in try statusInSpool(of: node) }, of: node)
  }

  /// A status as programs see it. No file's lock is held.
  func shown(_ status: stat, of node: NodeID) -> stat {
    let status = spool.shownInodes.shown(status)
    guard status.kind == .regular, let file = file(of: node) else { return status }
    return file.state.withLock { $0.changeTime.shown(status) }
  }

  /// The root needs no disk.
  func rootAttributes() -> stat { spool.status() }

  /// chmod, chown, truncate and utimens, in the order in which they do not undo each other.
  func setAttributes(of node: NodeID, _ changes: AttributeChanges, handle number: UInt64?) throws(SystemError) -> stat {
    if node.isVirtual { return try setVirtualAttributes(of: node, changes, handle: number) }
    let kept = keepLoaded(node)
    defer { if let kept { sink.endKeeping(kept) } }
    let open: FileHandle?
    if let number { open = try fileHandle(number) } else { open = nil }
    if changes.user != nil || changes.group != nil || changes.mode != nil {
      try namespaceLock.shared { () throws(SystemError) in
        try withPlace(of: node, open?.descriptor) { (directory, path, follows) throws(SystemError) in
          defer { virtual.recentAccess.withLock { $0.changed() } }
          try setOwnerAndMode(changes, directory, path, follows)
        }
      }
    }
    if let size = changes.size {
      if let open, open.descriptor.isWritable {
        if open.writes { willChange(through: open, empties: size == 0) }
        try truncate(open.file, to: size, through: open.descriptor)
      } else {
        try requireAccepting()
        let (file, descriptor) = try descriptorForTruncation(of: node)
        try truncate(file, to: size, through: descriptor)
      }
    }
    if changes.accessed != .keep || changes.modified != .keep {
      let times = [changes.accessed.timespec, changes.modified.timespec]
      let file = open?.file ?? file(of: node)
      try namespaceLock.shared { () throws(SystemError) in
        try withPlace(of: node, open?.descriptor) { (directory, path, follows) throws(SystemError) in
          try setTimes(of: file) { () throws(SystemError) in
            try check(utimensat(directory, path, times, follows ? 0 : AT_SYMLINK_NOFOLLOW))
          }
        }
      }
    }
    if changes.changesAttributes, let file = open?.file ?? file(of: node) {
      file.state.withLock { $0.changeTime.changed() }
      announce(file) { state in state.activity.isGone ? nil : .attributesChanged }
    }
    return try attributes(of: node, handle: number)
  }

  private func setOwnerAndMode(
    _ changes: AttributeChanges, _ directory: Int32, _ path: [CChar], _ follows: Bool
  ) throws(SystemError) {
    // chown(2) clears set-ID bits, so the mode comes last.
    if changes.user != nil || changes.group != nil {
      try check(
        fchownat(directory, path, changes.user ?? .max, changes.group ?? .max, follows ? 0 : AT_SYMLINK_NOFOLLOW))
    }
    if let mode = changes.mode {
      let flags = uploadfs_o_path | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW)
      let number = try check(uploadfs_openat(directory, path, flags, 0))
      try FileDescriptor(owning: number, isReadable: false, isWritable: false).setMode(mode)
    }
  }

  /// A path for calls that take one: the node's own, or the way through /proc to an inode without a name, which then
  /// has to be followed. The namespace lock is held.
  private func withPlace(
    of node: NodeID, _ descriptor: FileDescriptor?,
    _ body: (_ directory: Int32, _ path: [CChar], _ follows: Bool) throws(SystemError) -> Void
  ) throws(SystemError) {
    guard let known = nodes.withLock({ $0.table[node] }) else { throw .stale }
    if node != .root, known.names.isEmpty {
      let opened = known.file?.state.withLock { $0.handles.descriptor }
      guard let holder = descriptor ?? opened ?? known.pin else { throw .stale }
      return try body(AT_FDCWD, holder.reopenPath, true)
    }
    let place = try location(of: node)
    try body(place.directory, place.path, false)
  }

  func statistics() throws(SystemError) -> uploadfs_space {
    try space.statistics()
  }
}

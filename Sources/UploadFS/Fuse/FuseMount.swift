import CFuse
import CLinux
import FileModel
import Glibc
import Synchronization
import Threads

/// The filesystem where people see it: a mount of the kernel, answered by libfuse's threads.
public final class FuseMount: Sendable {
  let filesystem: Filesystem
  let polls = PollRegistry()
  let readBuffers: ReadBuffers
  let waitingCalls: WaitingCalls
  private let mountPoint: MountPoint
  private let threadCount: Int
  private let session = Mutex(Session())

  // libfuse's session pointer. Its functions that are used from several threads (exit, fd, notify) are made for that, and
  // destroying it happens once, after its loop has ended.
  private struct Session: @unchecked Sendable {
    var pointer: OpaquePointer?
    /// Nil where the kernel does not list mounts.
    var place: MountIdentity?
  }

  /// Checks the mount point and mounts. From then on callers wait until ``run(onReady:)`` answers them.
  public init(filesystem: Filesystem, configuration: FilesystemConfiguration) throws(MountError) {
    self.filesystem = filesystem
    threadCount = min(max(configuration.threadCount, 1), 64)
    waitingCalls = WaitingCalls(sink: filesystem.sink)
    readBuffers = ReadBuffers(idleMax: max(configuration.threadCount, 1))
    mountPoint = try MountPoint(checking: configuration.mountPoint)
    var operations = makeFuseOperations()
    // nosuid and nodev: what a capture tool writes must not become a way to root.
    var options = "default_permissions,nosuid,nodev,fsname=uploadfs,subtype=uploadfs"
    if configuration.allowOther { options += ",allow_other" }
    uploadfs_capture_log()
    // Unretained: this object outlives the session, which it destroys in its deinit.
    guard let pointer = uploadfs_session_new(options, &operations, Unmanaged.passUnretained(self).toOpaque()) else {
      throw MountError(.system(errno: EINVAL), "libfuse refused its options: \(Self.lastLogLine)")
    }
    guard fuse_session_mount(pointer, mountPoint.path) == 0 else {
      let failure = errno
      let line = Self.lastLogLine
      fuse_session_destroy(pointer)
      throw Self.mountFailure(failure, line, mountPoint, configuration)
    }
    let place = UploadMounts.mountinfo.flatMap { MountIdentity(at: mountPoint.path, in: $0) }
    session.withLock { $0 = Session(pointer: pointer, place: place) }
    if uploadfs_has_passthrough(), filesystem.isPrivileged {
      filesystem.passthrough.mayFindLentFiles()
    }
  }

  /// The kernel has agreed to read and write files of the spool by itself.
  func enablePassthrough() {
    guard filesystem.isPrivileged, let pointer = session.withLock({ Session(pointer: $0.pointer) }).pointer else {
      return
    }
    let files = PassthroughFiles(connection: fuse_session_fd(pointer))
    filesystem.passthrough.begin(with: files)
  }

  deinit {
    session.withLock { session in
      guard let pointer = session.pointer else { return }
      // Does nothing when the mount is already gone.
      fuse_session_unmount(pointer)
      fuse_session_destroy(pointer)
    }
  }

  /// Answers the kernel on the calling thread and others, until the mount is gone: on up to `threadCount` of them what a disk can hold
  /// up, and on two more what none can.
  ///
  /// `onReady` is called once, when the kernel has got the answer to its first request and the mount can be used.
  public func run(onReady: @Sendable () -> Void) {
    guard let pointer = session.withLock({ Session(pointer: $0.pointer) }).pointer else { return }
    let notifier = startNotifier(Session(pointer: pointer))
    // The first request is INIT.
    if uploadfs_session_process_one(pointer) == 1 {
      onReady()
      RequestLoop(session: pointer, filesystem: filesystem, diskThreadsMax: threadCount).run()
    }
    waitingCalls.endAll()
    filesystem.releaseEverything()
    filesystem.notices.close()
    notifier?.join()
  }

  /// Calls that wait for a delivery fail with EIO, now and from now on. The files are kept, and delivered later.
  public func endWaitingCalls() {
    waitingCalls.endAll()
  }

  /// Unmounts, wherever the mount was moved; false while files of the mount are in use. ``run(onReady:)`` then returns.
  public func unmount() -> Bool {
    presentMountPoint?.unmount() ?? true
  }

  /// Takes the mount out of the tree at once. ``run(onReady:)`` returns when the last user has closed its files.
  public func unmountLazily() {
    presentMountPoint?.detach()
  }

  private var presentMountPoint: MountPoint? { mountPoint.followed(session.withLock { $0.place }) }

  // MARK: Notices

  /// What the notifier thread works with.
  private final class Notifier: Sendable {
    let mount: FuseMount
    let session: Session

    init(mount: FuseMount, session: Session) {
      self.mount = mount
      self.session = session
    }

    /// The kernel may have to wait for a request to end before it takes a notice, so no lock is held here.
    func run() {
      guard let pointer = session.pointer else { return }
      while let batch = mount.filesystem.notices.next() {
        for removed in batch.removed {
          let name = removed.entry.name
          fuse_lowlevel_notify_delete(
            pointer, fuse_ino_t(removed.entry.directory.rawValue), fuse_ino_t(removed.node.rawValue), name.cString,
            name.bytes.count)
        }
        for unneeded in batch.unneeded {
          let name = unneeded.entry.name
          fuse_lowlevel_notify_inval_entry(
            pointer, fuse_ino_t(unneeded.entry.directory.rawValue), name.cString, name.bytes.count)
        }
        for node in batch.changed {
          // A negative offset: the attributes, not the pages.
          fuse_lowlevel_notify_inval_inode(pointer, fuse_ino_t(node.rawValue), -1, 0)
        }
        for node in batch.stale {
          // From the beginning to the end, whatever the length.
          fuse_lowlevel_notify_inval_inode(pointer, fuse_ino_t(node.rawValue), 0, 0)
        }
        if batch.isTimeToCheck { mount.filesystem.checkPassthroughWriters() }
        if batch.hasVirtualChange {
          mount.polls.wake { number in (try? mount.filesystem.readyEvents(number)) ?? 0 != 0 }
        }
      }
    }
  }

  private func startNotifier(_ session: Session) -> NamedThread? {
    let notices = filesystem.notices
    filesystem.virtual.tree.observeChanges { notices.virtualTreeChanged() }
    let notifier = Notifier(mount: self, session: session)
    return NamedThread("fuse-notifier", .answering) {
      var everySignal = sigset_t()
      sigfillset(&everySignal)
      pthread_sigmask(SIG_BLOCK, &everySignal, nil)
      notifier.run()
    }
  }

  // MARK: Errors

  private static var lastLogLine: String {
    var buffer = [CChar](repeating: 0, count: 512)
    let length = uploadfs_last_log_line(&buffer, buffer.count)
    return String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static func mountFailure(
    _ failure: Int32, _ line: String, _ mountPoint: MountPoint, _ configuration: FilesystemConfiguration
  ) -> MountError {
    let detail = line.isEmpty ? String(cString: strerror(failure)) : line
    if geteuid() != 0, configuration.allowOther {
      return MountError(
        .noPermission,
        "mounting at \(mountPoint.path) failed: \(detail); allow_other needs `user_allow_other` in /etc/fuse.conf")
    }
    if failure == EPERM || failure == EACCES || geteuid() != 0 {
      return MountError(
        .noPermission,
        "mounting at \(mountPoint.path) is not permitted: \(detail); in a container this needs CAP_SYS_ADMIN and /dev/fuse"
      )
    }
    return MountError(.system(errno: failure), "mounting at \(mountPoint.path) failed: \(detail)")
  }
}

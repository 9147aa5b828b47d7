import CLinux
import FileModel
import FilesystemFixtures
import Dispatch
import Foundation
import Glibc
import Synchronization

@testable import UploadFS

/// How a test's filesystem is made.
struct MountOptions: Sendable {
  /// Other users take part: the mount is made with allow_other, and the folders above both sides can be entered.
  var hasOthers = false
  /// The disk on which the spool seems to lie; nil for the real one.
  var disk: SimulatedDisk?
  /// The spool lies on an overlay, of which the kernel takes no files; needs root.
  var isOnOverlay = false
  var change: @Sendable (inout FilesystemConfiguration) -> Void = { _ in }

  static let alone = MountOptions()
  static let others = MountOptions(hasOthers: true)
  /// One thread answers, so that everything is done in the order in which the kernel asks for it.
  static let inOrder = MountOptions { $0.threadCount = 1 }
}

/// A filesystem, mounted and served by threads of this process, which itself must never touch it; and a plain folder
/// beside it.
final class InProcessMount: Sendable {
  enum Failure: Error { case noFolder, notServed }

  let folder: String
  private let spool: String
  private let overlay: String?
  let sink = RecordingSink()
  let tree = SettableTree()
  private let filesystem: Mutex<Filesystem?>
  private let mount: Mutex<FuseMount?>
  private let threads = Mutex<[(name: String, thread: JoinedThread)]>([])
  /// The kernel's number of the connection.
  private let connection = Mutex<Int?>(nil)
  private let isServing = Atomic<Bool>(false)
  private let isAborted = Atomic<Bool>(false)

  var root: String { folder + "/mount" }
  var plain: String { folder + "/plain" }
  var captures: String { spool + "/captures" }
  /// What the mount shows; nil once it is closed.
  var served: Filesystem? { filesystem.withLock { $0 } }

  init(_ options: MountOptions) throws {
    var template = Array("/tmp/uploadfs-behaviour-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw Failure.noFolder }
    folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    for name in ["mount", "plain"] {
      guard mkdir("\(folder)/\(name)", 0o755) == 0 else { throw Failure.noFolder }
    }
    if options.hasOthers { chmod(folder, 0o755) }
    overlay = options.isOnOverlay ? try Self.mountOverlay(in: folder) : nil
    spool = (overlay ?? folder) + "/spool"
    var configuration = FilesystemConfiguration(mountPoint: folder + "/mount", spoolDirectory: spool)
    configuration.allowOther = options.hasOthers
    configuration.reserveBytes = 0
    configuration.threadCount = 3
    options.change(&configuration)
    let filesystem = try Filesystem(
      configuration: configuration, sink: sink, virtualTree: tree,
      spaceSource: options.disk?.source(captures: spool + "/captures"), instance: nil,
      // What an overlay says of quotas would keep the kernel from being asked for more.
      quotas: { options.isOnOverlay ? .none : SpoolQuotas(of: $0) })
    self.filesystem = Mutex(filesystem)
    mount = Mutex(try FuseMount(filesystem: filesystem, configuration: configuration))
    connection.withLock { $0 = Self.deviceMinor(at: folder + "/mount") }
    try serve()
  }

  private static func mountOverlay(in folder: String) throws -> String {
    let script = """
      cd \(folder) && mkdir lower upper work overlay &&
        mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work,userxattr overlay overlay
      """
    guard uploadfs_run("sh", "-c", script, nil) == 0 else { throw Failure.noFolder }
    return folder + "/overlay"
  }

  private func serve() throws {
    guard let mount = mount.withLock({ $0 }), let filesystem = filesystem.withLock({ $0 }) else { return }
    let begun = DispatchSemaphore(value: 0)
    let serving = JoinedThread { [self] in
      mount.run {
        isServing.store(true, ordering: .relaxed)
        begun.signal()
      }
      begun.signal()
    }
    let flushing = JoinedThread { filesystem.flushClosedFiles() }
    guard let serving, let flushing else { throw Failure.notServed }
    threads.withLock { $0 = [("serving", serving), ("flushing", flushing)] }
    guard begun.wait(timeout: .now() + 20) == .success, isServing.load(ordering: .relaxed) else {
      throw Failure.notServed
    }
    filesystem.scanSpool()
  }

  /// What the end of the mount begins with.
  func endWaitingCalls() { mount.withLock { $0 }?.endWaitingCalls() }

  /// Makes a closed file durable, as the mount's own thread does within a second.
  func flush(_ id: FileID) {
    guard let served, let file = served.file(of: id) else { return }
    served.flush([file])
  }

  private static let connections = "/sys/fs/fuse/connections"

  /// Whether the kernel's switch can be had: it is root's to mount, and then that of the user who mounted the filesystem.
  static var canBeAborted: Bool { geteuid() == 0 || deviceMinor(at: connections) != nil }

  /// Makes every call fail that waits in the mount: for one that hangs. Where the kernel's switch cannot be had, the mount
  /// is taken out of the tree at least.
  func abort() {
    isAborted.store(true, ordering: .relaxed)
    abortConnection()
    mount.withLock { $0 }?.unmountLazily()
  }

  private func abortConnection() {
    let connections = Self.connections
    let isMountedHere =
      geteuid() == 0 && Self.deviceMinor(at: connections) == nil
      && uploadfs_run("mount", "-tfusectl", "fusectl", connections) == 0
    defer { if isMountedHere { _ = uploadfs_run("umount", connections, nil, nil) } }
    if let minor = connection.withLock({ $0 }) {
      let number = uploadfs_openat(AT_FDCWD, "\(connections)/\(minor)/abort", O_WRONLY | O_CLOEXEC, 0)
      if number >= 0 {
        _ = write(number, "1", 1)
        Glibc.close(number)
      }
    }
  }

  /// The number of what is mounted somewhere; that itself is not asked.
  private static func deviceMinor(at root: String) -> Int? {
    guard let text = try? String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8) else { return nil }
    for line in text.split(separator: "\n") {
      let fields = line.split(separator: " ")
      if fields.count > 4, fields[4] == root { return fields[2].split(separator: ":").last.flatMap { Int($0) } }
    }
    return nil
  }

  /// The kernel says that a file was released some time after its last process has ended, and no longer once unmounted.
  private func waitForLastRelease() {
    guard !isAborted.load(ordering: .relaxed), let filesystem = filesystem.withLock({ $0 }) else { return }
    let lastIsGone = DispatchSemaphore(value: 0)
    filesystem.stopAcceptingWriters { lastIsGone.signal() }
    if filesystem.writableOpenCount != 0 { _ = lastIsGone.wait(timeout: .now() + 20) }
  }

  /// Unmounts, and removes everything. Says what should not have been.
  func close() -> [String] {
    var complaints: [String] = []
    tree.letGo()
    waitForLastRelease()
    filesystem.withLock { $0 }?.stopFlushing()
    if !isAborted.load(ordering: .relaxed), mount.withLock({ $0 })?.unmount() != true {
      complaints.append("the mount is in use although every actor has ended")
      abort()
    }
    var running = threads.withLock { $0 }.filter { !$0.thread.join(within: 3) }
    if !running.isEmpty {
      // A mount namespace that was made meanwhile has a copy of the mount, which keeps the connection.
      abortConnection()
      running = running.filter { !$0.thread.join() }
    }
    if !running.isEmpty {
      // What they use must stay.
      _ = Unmanaged.passRetained(self)
      return complaints + running.map { "\($0.name) goes on" }
    }
    complaints += sink.problems
    let writers = filesystem.withLock { $0 }?.writableOpenCount ?? 0
    if writers != 0 { complaints.append("\(writers) writers are left") }
    mount.withLock { $0 = nil }
    filesystem.withLock { $0 = nil }
    if Self.deviceMinor(at: root) != nil { complaints.append("\(root) is still mounted") }
    complaints += descriptorsLeft().map { "descriptor left open: \($0)" }
    if let overlay, uploadfs_run("umount", overlay, nil, nil) != 0 { complaints.append("\(overlay) is in use") }
    _ = uploadfs_run("rm", "-rf", "--one-file-system", folder)
    return complaints
  }

  private func descriptorsLeft() -> [String] {
    ((try? entries(of: "/proc/self/fd")) ?? []).compactMap { name in
      let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + name)
      return target.flatMap { $0.hasPrefix(folder) ? $0 : nil }
    }
  }

  private func entries(of directory: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory)
  }
}

import CurlTransport
import Destinations
import Dispatch
import Glibc
import Logging
import MountConfiguration
import MountStatus
import Synchronization
import UploadEngine
import UploadFS

/// One mount, put together: this is the only place that knows every part.
final class MountSession: Sendable {
  private let mountPoint: String
  private let logger: Logger
  private let state: StateDirectory
  private let transport: CurlTransport
  private let s3Credentials: S3CredentialSource?
  private let statusTree: StatusTree
  private let engine: UploadEngine
  private let filesystem: Filesystem
  private let mount: FuseMount
  private let drain: Drain

  /// Makes every part, from the ones that can refuse a wrong setting to the one that others can see.
  init(_ configuration: MountConfiguration, mountPoint: String) throws {
    self.mountPoint = mountPoint
    let logger = Self.logger(configuration.logLevel)
    self.logger = logger
    let token = try configuration.tokenFile.map { path throws(ToolFailure) in
      try TokenFile.read(path, logger: logger)
    }
    transport = try Self.transport(configuration)
    s3Credentials = try Self.credentialSource(configuration, logger: logger)
    let destination = try Self.destination(configuration, token: token, s3Credentials: s3Credentials)
    try Spool.make(configuration.spool)
    let source = AttachedStatus()
    do throws(StorageError) {
      state = try StateDirectory(spool: configuration.spool)
      statusTree = StatusTree(source: source, controlFiles: Self.controlFiles(configuration, source))
      engine = try UploadEngine(
        configuration: Self.engineConfiguration(configuration), destination: destination, transport: transport,
        catalog: try Catalog(path: state.catalogPath),
        resumeStore: try ResumeStore(directory: state.resumeDirectory, masterKeyFile: state.masterKeyFile),
        statusTree: statusTree, logger: logger)
    } catch {
      throw ToolFailure(.spoolUnusable, error.message)
    }
    source.attach(engine)
    do throws(MountError) {
      let filesystemConfiguration = Self.filesystemConfiguration(
        configuration, mountPoint: mountPoint, knownIdentities: engine.knownIdentities)
      filesystem = try Filesystem(configuration: filesystemConfiguration, sink: engine, virtualTree: statusTree)
      engine.attach(contents: filesystem)
      // Last: from here on others can see the mount, and wait until it is served.
      mount = try FuseMount(filesystem: filesystem, configuration: filesystemConfiguration)
    } catch {
      throw ToolFailure(error)
    }
    if !filesystem.marksWriters {
      logger.warning(
        "the spool's filesystem has no user extended attributes: files that are being written when the mount dies will count as finished",
        metadata: ["spool": "\(configuration.spool)"])
    }
    drain = Drain(filesystem: filesystem, engine: engine, mount: mount, timeout: configuration.drainTimeout)
  }

  /// Mounts, serves until told to stop, delivers what is left and unmounts.
  func run() throws -> ExitStatus {
    let ended = DispatchSemaphore(value: 0)
    let outcome = Mutex(ExitStatus.internalError)
    engine.start()
    let hasThreads =
      Signals.watch(stop: { [self] in signalled($0) }, retry: { [self] in engine.retryAll() })
      && DedicatedThread.start { [self] in filesystem.flushClosedFiles() }
      && s3Credentials?.start() ?? true
      && DedicatedThread.start { [self] in
        let status = drain.runWhenAsked()
        // Somebody stands in the mount although it is out of the tree, so the loop goes on: the process ends without it.
        if !drain.waitUntilUnmounted(within: .seconds(1)) {
          stop()
          _exit(status.rawValue)
        }
        outcome.withLock { $0 = status }
        ended.signal()
      }
    guard hasThreads else {
      throw ToolFailure(.internalError, "the system has no thread left; is a process limit too low?")
    }
    let isServed = Atomic(false)
    mount.run {
      isServed.store(true, ordering: .relaxed)
      self.ready()
    }
    guard isServed.load(ordering: .relaxed) else {
      throw ToolFailure(.fuseUnavailable, "the kernel gave \(mountPoint) up before it was mounted")
    }
    // Unmounted: by the drain, or by somebody else. In both cases what is left is delivered first.
    drain.noteUnmounted()
    ended.wait()
    stop()
    return outcome.withLock { $0 }
  }

  private func stop() {
    filesystem.stopFlushing()
    engine.stop()
    transport.stop()
    s3Credentials?.stop()
    statusTree.stop()
    logger.info("stopped", metadata: ["mount": "\(mountPoint)"])
  }

  private func ready() {
    StandardOutput.line("mounted \(mountPoint)")
    ServiceNotification.ready(status: "mounted \(mountPoint)")
    // The mount is usable whatever the backlog: it is searched for beside it.
    let search: @Sendable () -> Void = { [self] in
      engine.waitUntilLoaded()
      filesystem.scanSpool()
    }
    if !DedicatedThread.start(search) { search() }
  }

  private func signalled(_ ordinal: Int) {
    if ordinal == 1 {
      drain.ask()
    } else {
      drain.leaveAtOnce()
    }
  }
}

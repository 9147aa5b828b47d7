import CurlTransport
import Dispatch
import FileModel
import Glibc
import LogText
import Logging
import MountConfiguration
import MountStatus
import Synchronization
import Threads
import TransferModel
import UploadEngine
import UploadFS

/// One mount, put together: this is the only place that knows every part.
final class MountSession: Sendable {
  private let mountPoint: String
  private let logger: Logger
  private let state: SpoolState
  private let destinations: [DestinationParts]
  private let statusTree: StatusTree
  private let source: AttachedStatus
  private let engines: EngineGroup
  private let filesystem: Filesystem
  private let mount: FuseMount
  private let drain: Drain
  private let networkNotices: NetworkNotices?
  private let watchdog = Watchdog()

  /// Makes every part, from the ones that can refuse a wrong setting to the one that others can see.
  init(_ configuration: MountConfiguration, mountPoint: String) throws {
    self.mountPoint = mountPoint
    let logger = Self.logger(configuration.logLevel)
    self.logger = logger
    MachineShares.say(MachineRequirements(configuration), logger)
    let rate = configuration.rate.isBound ? SendRate(configuration.rate) : nil
    let destinations =
      [try DestinationParts(.main, configuration, within: rate, logger: logger)]
      + (try configuration.further.map {
        try DestinationParts($0.name, $0.configuration, within: rate, logger: logger)
      })
    self.destinations = destinations
    try Self.makeSpool(configuration, mountPoint: mountPoint, logger: logger)
    let source = AttachedStatus()
    self.source = source
    do throws(StorageError) {
      let state = try SpoolState(
        spool: configuration.spool, rules: configuration.rules, reserveBytes: configuration.reserveBytes,
        logger: logger, pause: Signals.pause)
      let statusTree = StatusTree(
        source: source, controlFiles: Self.controlFiles(configuration, destinations, source, state.identity))
      engines = EngineGroup(
        try destinations.map { parts throws(StorageError) in
          let engine = try parts.engine(
            rules: configuration.rules, destinationCount: destinations.count, state: state, statusTree: statusTree,
            logger: logger)
          return EngineGroup.Member(parts.name, engine)
        })
      self.state = state
      self.statusTree = statusTree
    } catch {
      throw ToolFailure(.spoolUnusable, error.message)
    }
    source.attach(engines)
    do throws(MountError) {
      var filesystemConfiguration = Self.filesystemConfiguration(
        configuration, mountPoint: mountPoint, knownIdentities: engines.knownIdentities,
        knownCaptures: engines.knownCaptures)
      filesystemConfiguration.giveRoom = { [room = state.room] in room.giveBack() }
      let filesystem = try Filesystem(
        configuration: filesystemConfiguration, sink: engines, virtualTree: statusTree)
      self.filesystem = filesystem
      state.begin(in: filesystem.instanceName)
      source.attach(filesystem)
      engines.attach { filesystem.contents(for: $0) }
      // Last: from here on others can see the mount, and wait until it is served.
      mount = try FuseMount(filesystem: filesystem, configuration: filesystemConfiguration)
    } catch {
      throw ToolFailure(error)
    }
    if !filesystem.marksWriters {
      logger.notice(
        "the spool's filesystem has no user extended attributes: what is being written stands in .state/marks, and parts of captures cannot be given back to the disk (when-full=release)",
        metadata: ["spool": "\(configuration.spool)"])
    }
    if let refusal = filesystem.passthroughRefusal {
      logger.warning(
        "captures go through the daemon, whatever --passthrough says: a write that a quota refuses past it would be seen by its writer alone",
        metadata: ["spool": "\(configuration.spool)", "reason": "\(refusal)"])
    }
    if let history = filesystem.spoolHistory {
      logger.warning("\(history)", metadata: ["spool": "\(configuration.spool)"])
    }
    for name in filesystem.hiddenNames {
      logger.warning(
        "what lies in the spool under a name of the mount's own is not shown and not delivered: give it another name",
        metadata: ["spool": "\(configuration.spool)", "name": "\(name)"])
    }
    networkNotices = NetworkNotices()
    LastEnd.forget(in: configuration.spool)
    drain = Drain(
      filesystem: filesystem, engines: engines, mount: mount, timeout: configuration.drainTimeout,
      spool: configuration.spool)
  }

  /// Mounts, serves until told to stop, delivers what is left and unmounts.
  func run() throws -> ExitStatus {
    let ended = DispatchSemaphore(value: 0)
    let outcome = Mutex(ExitStatus.internalError)
    engines.start()
    let hasThreads =
      Signals.watch { [self] in signalled($0) }
      && DedicatedThread.start("flush-closed") { [self] in filesystem.flushClosedFiles() }
      && DedicatedThread.start("flush-growing") { [self] in filesystem.flushGrowingFiles() }
      && DedicatedThread.start("watch-spool") { [self] in filesystem.watchSpool { spoolChanged($0) } }
      && destinations.allSatisfy { $0.renewal?.start() ?? true }
      && networkNotices?.start { [self] in engines.networkChanged() } ?? true
      && watchdog?.start { [self] in
        _ = engines.summary()
        _ = filesystem.writableOpenCount
      } ?? true
      && DedicatedThread.start("drain") { [self] in
        let status = drain.runWhenAsked()
        // A process uses the mount although it is out of the tree, so the loop goes on: the process ends without it.
        if !drain.waitUntilUnmounted(within: .seconds(1)) {
          stop()
          Output.flush()
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
    // Unmounted: by the drain, or by another program. In both cases what is left is delivered first.
    drain.noteUnmounted()
    ended.wait()
    stop()
    return outcome.withLock { $0 }
  }

  private func stop() {
    filesystem.endFlushing()
    networkNotices?.stop()
    watchdog?.stop()
    engines.stop()
    state.close()
    for destination in destinations {
      destination.transport.stop()
      destination.renewal?.stop()
    }
    statusTree.stop()
    CommandOutput.endAll()
    logger.info("stopped", metadata: ["mount": "\(mountPoint)"])
  }

  private func ready() {
    Output.standardOutput.put("mounted \(mountPoint)\n")
    ServiceNotification.ready(status: "mounted \(mountPoint)")
    // The mount is usable whatever the backlog: it is searched for beside it.
    let search: @Sendable () -> Void = { [self] in
      engines.waitUntilLoaded()
      filesystem.scanSpool()
      let count = filesystem.capturesWithoutLabels
      guard count > 0 else { return }
      logger.notice(
        "captures lay here before: each counts as it was found, and one that a power cut has left without its bytes is held",
        metadata: ["files": "\(count)"])
    }
    if !DedicatedThread.start("search-spool", search) { search() }
  }

  private func spoolChanged(_ trouble: SpoolFault?) {
    if let trouble {
      logger.error("the spool is not as it was", metadata: ["code": "\(trouble.code)", "reason": "\(trouble.message)"])
    } else {
      logger.notice("the spool is as it was again")
    }
    source.note(trouble)
    statusTree.mountChanged()
  }

  private func signalled(_ arrival: StopArrivals.Arrival) {
    switch arrival {
    case .first: drain.ask()
    case .repeated: break
    case .further: drain.leaveAtOnce()
    }
  }
}

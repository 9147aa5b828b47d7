import CurlTransport
import Destinations
import FileModel
import FoundationEssentials
import Glibc
import LogText
import Logging
import Lookup
import MountConfiguration
import MountStatus
import ProgramVersion
import Synchronization
import Telemetry
import TransferModel
import UploadEngine
import UploadFS

/// Each part's own configuration, from the mount's.
extension MountSession {
  static func logger(_ level: MountConfiguration.LogLevel) -> Logger {
    var logger = Logger(label: "uploadfs") { Output.logHandler(label: $0) }
    logger.logLevel = Logger.Level(rawValue: level.rawValue) ?? .info
    return logger
  }

  /// Connections to a server where descriptors are few: twelve requests, and four without bytes. Files that only wait for their
  /// answers would take those that opens need.
  private static let connectionsOfFewDescriptors = 16

  /// How connections are made.
  static func connection(_ configuration: MountConfiguration) throws(ToolFailure) -> CurlTransportConfiguration {
    var settings = CurlTransportConfiguration()
    if !OpenFileLimit.allows(MachineRequirements(configuration).descriptorsBesideCaptures) {
      settings.maxConnections = Self.connectionsOfFewDescriptors
    }
    settings.caFile = configuration.authorityFile
    settings.trust = configuration.trust
    for (flag, path) in [
      ("--ca", configuration.authorityFile), ("--transparency-logs", configuration.trust.logListFile),
      ("--client-cert", configuration.clientCertificateFile),
    ] {
      guard let path, access(path, R_OK) != 0 else { continue }
      throw ToolFailure(.destinationUnusable, "\(flag): the file \(path) cannot be read: \(systemMessage(errno))")
    }
    settings.proxy.url = configuration.proxy
    settings.proxy.exceptions = configuration.proxyExceptions
    settings.proxy.oldestTLS = configuration.timing.proxyTLS
    if let path = configuration.proxyAuthFile,
      case .basic(let user, let password) = try SecretFile.basic(path, what: "proxy password")
    {
      settings.proxy.user = user
      settings.proxy.password = password
    }
    if let certificate = configuration.clientCertificateFile {
      let key = configuration.clientKeyFile
      try SecretFile.checkKey(key ?? certificate)
      settings.clientCertificate = ClientCertificate(certificateFile: certificate, keyFile: key)
    }
    let endpoints = [configuration.destination] + configuration.alternatives
    settings.allowPlainHTTP = !endpoints.allSatisfy(\.isEncrypted)
    settings.priority = configuration.uploadPriority
    settings.protocolChoice =
      switch configuration.httpVersion {
      case .automatic: .automatic
      case .http1: .http1
      case .http2: .http2
      }
    settings.http2Library = configuration.timing.http2Library
    settings.congestionControl =
      switch configuration.congestion {
      case .automatic: .automatic
      case .system: .system
      case .bbr: .bbr
      case .cubic: .cubic
      }
    return settings
  }

  /// What is taken out of the words of servers and proxies, some of which repeat what they were sent.
  static func mask(
    _ renewed: RenewedCredential?, _ renewal: CredentialRenewal?, _ configuration: MountConfiguration
  ) throws(ToolFailure) -> CredentialMask {
    let mask = renewed?.mask ?? renewal?.source.mask ?? CredentialMask()
    let proxy = try connection(configuration).proxy
    if let user = proxy.user, let password = proxy.password { mask.learn(.basic(user: user, password: password)) }
    return mask
  }

  static func transport(
    _ configuration: MountConfiguration, within rate: SendRate? = nil,
    whenDecided: @escaping @Sendable (ServerProtocol) -> Void = { _ in }
  ) throws(ToolFailure) -> CurlTransport {
    let connection = try connection(configuration)
    do {
      return try CurlTransport(configuration: connection, within: rate, whenDecided: whenDecided)
    } catch {
      throw ToolFailure(.destinationUnusable, error.description)
    }
  }

  /// The same with the mount's own time-outs.
  static func timed(_ transport: any HTTPTransport, _ configuration: MountConfiguration) -> any HTTPTransport {
    let timing = configuration.timing.requests
    return timing == RequestTiming() ? transport : TimedTransport(transport, timing)
  }

  /// The credentials that the destination finds by itself; nil where there are none but those that settings name.
  static func credentialRenewal(
    _ configuration: MountConfiguration, logger: Logger
  ) throws(ToolFailure) -> CredentialRenewal? {
    do throws(DestinationError) {
      let source = try configuration.settings.makeCredentialSource(MachineCredentials())
      return source.map { CredentialRenewal(of: $0, logger: logger) }
    } catch {
      throw ToolFailure(error)
    }
  }

  static func destination(
    _ configuration: MountConfiguration, credential: Credential?, renewal: CredentialRenewal?,
    whenConditionsFail: @escaping @Sendable (String) -> Void = { _ in }
  ) throws(ToolFailure) -> any Destination {
    var context = DestinationContext(
      parallelRequests: configuration.parallel, chunkBytes: configuration.chunkBytes,
      fileBytesMax: configuration.fileBytesMax, secondsSince1970: { Int64(time(nil)) })
    context.credential = credential
    context.credentialSource = renewal?.source
    context.hasTokenCommand = configuration.tokenCommand != nil
    context.ifExists = configuration.ifExists
    context.allowPlainHTTP = configuration.allowPlainHTTP
    let environment = ProcessInfo.processInfo.environment
    context.variable = { environment[$0] }
    context.whenExpired = { renewal?.refused() }
    context.whenConditionsFail = whenConditionsFail
    do throws(DestinationError) {
      return try configuration.settings.makeDestination(in: context)
    } catch {
      throw ToolFailure(error)
    }
  }

  static func engineConfiguration(_ configuration: MountConfiguration) -> EngineConfiguration {
    var settings = EngineConfiguration()
    settings.reading =
      switch configuration.reading {
      case .automatic, .plain: .plain
      case .mapped: .mapped
      }
    settings.priority = configuration.uploadPriority
    settings.triesCredentials = configuration.settings.triesCredentials
    settings.limits.asksForLimits = true
    var system = utsname()
    uname(&system)
    settings.hostName = withUnsafeBytes(of: &system.nodename) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    settings.limits.parallelChunks = configuration.parallel
    settings.limits.buffers = configuration.parallel + configuration.timing.prefetch
    settings.limits.timing = configuration.timing
    settings.limits.chunkBytes = configuration.chunkBytes
    settings.limits.bufferBytes = configuration.chunkBytes
    settings.limits.rules = configuration.rules
    settings.limits.temporaryNames.patterns = configuration.temporaryNames
    settings.limits.keepDelivered = configuration.keepDelivered
    settings.limits.adaptsChunkBytes = !configuration.isChunkSizeFixed
    settings.limits.followsLine = !configuration.isChunkSizeFixed
    return settings
  }

  /// Looks at the mount point and the spool before anything is made of either.
  static func makeSpool(
    _ configuration: MountConfiguration, mountPoint: String, logger: Logger
  ) throws(ToolFailure) {
    do throws(MountError) {
      let place = try MountTarget(
        checking: filesystemConfiguration(configuration, mountPoint: mountPoint))
      guard try place.makeSpool() else { return }
    } catch {
      throw ToolFailure(error)
    }
    logger.warning(
      "the spool could be entered by other users and is closed to them now",
      metadata: ["spool": "\(configuration.spool)", "mode": "0700"])
  }

  static func filesystemConfiguration(
    _ configuration: MountConfiguration, mountPoint: String, knownIdentities: KnownIdentities = KnownIdentities(),
    knownCaptures: KnownCaptures = KnownCaptures()
  ) -> FilesystemConfiguration {
    var settings = FilesystemConfiguration(mountPoint: mountPoint, spoolDirectory: configuration.spool)
    settings.allowOther = configuration.allowOther
    settings.reserveBytes = configuration.reserveBytes
    settings.fileBytesMax = configuration.fileBytesMax
    settings.rules = configuration.rules
    settings.threadCount = configuration.threadCount
    settings.descriptorsForDelivery = MachineRequirements(configuration).descriptorsForDelivery
    settings.passthrough = configuration.passthrough
    settings.knownIdentities = knownIdentities
    settings.knownCaptures = knownCaptures
    return settings
  }
}

extension MountSession {
  /// The files that show the mount as a whole.
  static func controlFiles(
    _ configuration: MountConfiguration, _ destinations: [DestinationParts], _ source: AttachedStatus,
    _ identity: SpoolIdentity
  ) -> [ControlFile] {
    let telemetry = TelemetryReader()
    let process = DaemonProcess.current
    let reserveBytes = configuration.reserveBytes
    // Asked once: a reader of the summary does not wait for the disk.
    let spool = RealPath.of(configuration.spool) ?? configuration.spool
    let passthrough = configuration.passthrough
    let expertSettings = configuration.timing.changedSettings
    return MountSnapshot.files {
      let summary = source.summary()
      // Files that are known and not gone.
      let captures = summary.filesByState.reduce(0) { $0 + ($1.key == .cancelled ? 0 : $1.value) }
      return MountSnapshot(
        summary: summary, pipeline: source.pipelineStatistics, process: process,
        spool: Spool.facts(
          at: spool, freeBytes: source.spoolFreeBytes, reserveBytes: reserveBytes, captures: captures,
          trouble: source.spoolTrouble, renewal: identity.renewal),
        passthrough: PassthroughStatus(mode: passthrough, handles: source.passthroughHandles),
        transparency: destinations.map(\.transparency), httpVersions: destinations.map(\.httpVersions),
        expertSettings: expertSettings, telemetry: telemetry.reading())
    }
  }
}

extension DaemonProcess {
  static var current: DaemonProcess {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    let milliseconds = Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
    return DaemonProcess(
      pid: getpid(), pidNamespace: PIDNamespace.own, version: ProgramVersion.number, startedAtMilliseconds: milliseconds
    )
  }
}

/// The engines as the source of status, for a tree that has to exist before it.
final class AttachedStatus: StatusSource {
  private let engines = Mutex<EngineGroup?>(nil)
  private let filesystem = Mutex(WeakFilesystem())
  private let spoolTroubleSeen = Mutex<FileStatus.Failure?>(nil)

  /// The filesystem holds the tree that asks here.
  private struct WeakFilesystem: Sendable {
    weak var value: Filesystem?
  }

  func attach(_ engines: EngineGroup) {
    self.engines.withLock { $0 = engines }
  }

  func attach(_ filesystem: Filesystem) {
    self.filesystem.withLock { $0.value = filesystem }
  }

  /// The time is that of the first look that found it.
  func note(_ trouble: SpoolFault?) {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    let milliseconds = Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
    let failure = trouble.map {
      FileStatus.Failure(code: $0.code, message: $0.message, atMilliseconds: milliseconds)
    }
    spoolTroubleSeen.withLock { $0 = failure }
  }

  func status(of id: FileID) -> FileStatus? { engines.withLock { $0 }?.status(of: id) }
  func summary() -> MountSummary { engines.withLock { $0 }?.summary() ?? MountSummary() }
  func waitWhileLoading() { engines.withLock { $0 }?.waitWhileLoading() }
  var isBeyondMemory: Bool { engines.withLock { $0 }?.isBeyondMemory ?? false }
  func load(at path: RelativePath) -> Bool { engines.withLock { $0 }?.load(at: path) ?? false }
  func spoolEntries(of folder: RelativePath) -> [SpoolEntry]? { engines.withLock { $0 }?.spoolEntries(of: folder) }
  func unloadedFiles(after id: FileID, countMax: Int) -> UnloadedPage? {
    guard let engines = engines.withLock({ $0 }) else { return UnloadedPage() }
    return engines.unloadedFiles(after: id, countMax: countMax)
  }
  var spoolTrouble: FileStatus.Failure? { spoolTroubleSeen.withLock { $0 } }
  var spoolFreeBytes: UInt64? { filesystem.withLock { $0.value }?.freeBytesSoon() }
  var passthroughHandles: Int { filesystem.withLock { $0.value }?.passthroughHandles ?? 0 }
  func execute(_ order: FileOrder, on id: FileID) throws(FileOrderRefusal) {
    guard let engines = engines.withLock({ $0 }) else { throw .unknownFile }
    try engines.execute(order, on: id)
  }
  var pipelineStatistics: PipelineStatistics {
    engines.withLock { $0 }?.pipelineStatistics ?? PipelineStatistics()
  }
}

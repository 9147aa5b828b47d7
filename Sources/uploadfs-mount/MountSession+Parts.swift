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
import Synchronization
import Telemetry
import UploadEngine
import UploadFS

/// Each part's own configuration, from the mount's.
extension MountSession {
  static func logger(_ level: MountConfiguration.LogLevel) -> Logger {
    var logger = Logger(label: "uploadfs") { Output.logHandler(label: $0) }
    logger.logLevel = Logger.Level(rawValue: level.rawValue) ?? .info
    return logger
  }

  /// How connections are made.
  static func connection(_ configuration: MountConfiguration) throws(ToolFailure) -> CurlTransportConfiguration {
    var settings = CurlTransportConfiguration()
    settings.caFile = configuration.authorityFile
    for (flag, path) in [("--ca", configuration.authorityFile), ("--client-cert", configuration.clientCertificateFile)]
    {
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
      case .automatic, .http1: .http1
      case .http2: .http2
      }
    return settings
  }

  /// What is taken out of the words of servers and proxies, some of which repeat what they were sent.
  static func mask(
    _ renewed: RenewedCredential?, _ s3Credentials: S3CredentialSource?, _ configuration: MountConfiguration
  ) throws(ToolFailure) -> CredentialMask {
    let mask = renewed?.mask ?? s3Credentials?.mask ?? CredentialMask()
    let proxy = try connection(configuration).proxy
    if let user = proxy.user, let password = proxy.password { mask.learn(.basic(user: user, password: password)) }
    return mask
  }

  static func transport(_ configuration: MountConfiguration) throws(ToolFailure) -> CurlTransport {
    let connection = try connection(configuration)
    do {
      return try CurlTransport(configuration: connection)
    } catch {
      throw ToolFailure(.destinationUnusable, error.description)
    }
  }

  /// The same with the mount's own time-outs.
  static func timed(_ transport: any HTTPTransport, _ configuration: MountConfiguration) -> any HTTPTransport {
    let timing = configuration.timing.requests
    return timing == RequestTiming() ? transport : TimedTransport(transport, timing)
  }

  /// What proves to the server who uploads, and stays as it is; nil when it asks for nothing, and for S3.
  static func credential(_ configuration: MountConfiguration) throws(ToolFailure) -> Credential? {
    if let path = configuration.tokenFile { return try SecretFile.token(path) }
    if let command = configuration.tokenCommand { return .bearer(try RenewedCredential.token(of: command)) }
    return nil
  }

  /// S3's credentials; nil for other destinations.
  static func credentialSource(
    _ configuration: MountConfiguration, logger: Logger
  ) throws(ToolFailure) -> S3CredentialSource? {
    guard let s3 = configuration.s3 else { return nil }
    return try S3CredentialSource(
      profile: s3.profile, environment: ProcessInfo.processInfo.environment, logger: logger)
  }

  static func destination(
    _ configuration: MountConfiguration, credential: Credential?, s3Credentials: S3CredentialSource?,
    whenConditionsFail: @escaping @Sendable (String) -> Void = { _ in }
  ) throws(ToolFailure) -> any Destination {
    do throws(DestinationError) {
      switch configuration.settings {
      case .s3(let s3):
        guard let s3Credentials else { throw DestinationError(.invalidCredential, "There are no S3 credentials.") }
        return try S3Destination(
          address: s3.address, options: options(of: s3, configuration, renewsCredentials: s3Credentials.renews),
          credentials: { s3Credentials.credentials }, secondsSince1970: { Int64(time(nil)) },
          whenExpired: { s3Credentials.refused() }, whenConditionsFail: whenConditionsFail)
      case .tus(let tus): return try uploads(tus, options(of: tus, configuration), credential: credential)
      case .form(let form):
        return try FormDestination(
          address: form.address, credential: credential, options: options(of: form, configuration))
      case .webDAV(let webDAV):
        return try WebDAVDestination(
          address: webDAV.address, credential: credential, options: webDAVOptions(configuration),
          whenConditionsFail: whenConditionsFail)
      case .receiver: return try receiver(configuration, credential: credential)
      }
    } catch {
      throw ToolFailure(.destinationUnusable, error.message)
    }
  }

  private static func options(
    of s3: S3Settings, _ configuration: MountConfiguration, renewsCredentials: Bool
  ) -> S3Options {
    let environment = ProcessInfo.processInfo.environment
    var options = S3Options()
    options.region =
      s3.region ?? s3.address.regionOfHost ?? environment["AWS_REGION"] ?? environment["AWS_DEFAULT_REGION"]
    options.style = s3.style
    options.checksum = s3.checksum
    options.ifExists = s3.ifExists
    options.renewsCredentials = renewsCredentials
    options.parallelChunks = configuration.parallel
    options.wholeFileBytesMax = configuration.chunkBytes
    options.fileBytesMax = configuration.fileBytesMax
    return options
  }

  private static func options(of form: FormSettings, _ configuration: MountConfiguration) -> FormOptions {
    var options = FormOptions()
    options.successText = form.successText
    options.fileField = form.fileField
    options.fields = form.fields
    options.unclear = form.unclear
    options.digestField = form.digestField
    options.omittedMembers.insert(form.omittedMembers)
    options.fileBytesMax = form.fileBytesMax
    options.parallelRequests = configuration.parallel
    options.bufferBytes = configuration.chunkBytes
    return options
  }

  private static func webDAVOptions(_ configuration: MountConfiguration) -> WebDAVOptions {
    var options = WebDAVOptions()
    options.ifExists = configuration.ifExists ?? options.ifExists
    options.parallelRequests = configuration.parallel
    options.bufferBytes = configuration.chunkBytes
    return options
  }

  private static func options(of tus: TusSettings, _ configuration: MountConfiguration) -> TusOptions {
    var options = TusOptions()
    options.metadata = tus.metadata
    options.staysAtOrigin = configuration.tokenCommand != nil
    options.unclear = tus.unclear
    options.parallelChunks = configuration.parallel
    options.wholeFileBytesMax = configuration.chunkBytes
    options.fileBytesMax = configuration.fileBytesMax
    return options
  }

  /// What is spoken at an address of uploads.
  private static func uploads(
    _ tus: TusSettings, _ options: TusOptions, credential: Credential?
  ) throws(DestinationError) -> any Destination {
    let now: @Sendable () -> Int64 = { Int64(time(nil)) }
    let destination = try TusDestination(
      address: tus.address, credential: credential, options: options, secondsSince1970: now)
    let draft = try ResumableDestination(
      address: tus.address, credential: credential, options: options, secondsSince1970: now)
    return switch tus.uploadProtocol {
    case .tus: destination
    case .ietf: draft
    case .automatic: DiscoveringDestination(tus: destination, draft: draft)
    }
  }

  private static func receiver(
    _ configuration: MountConfiguration, credential: Credential?
  ) throws(DestinationError) -> ChunkProtocolDestination {
    var options = ChunkProtocolOptions()
    options.parallelChunks = configuration.parallel
    options.chunkBytesMax = configuration.chunkBytes
    options.wholeFileBytesMax = configuration.chunkBytes
    options.fileBytesMax = configuration.fileBytesMax
    options.allowPlainHTTP = configuration.allowPlainHTTP
    options.ifExists = configuration.ifExists ?? options.ifExists
    return try ChunkProtocolDestination(
      baseURL: configuration.destination.text, alternatives: configuration.alternatives.map(\.text),
      credential: credential, options: options)
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
        checking: filesystemConfiguration(configuration, mountPoint: mountPoint, knownIdentities: [:]))
      guard try place.makeSpool() else { return }
    } catch {
      throw ToolFailure(error)
    }
    logger.warning(
      "the spool could be entered by other users and is closed to them now",
      metadata: ["spool": "\(configuration.spool)", "mode": "0700"])
  }

  static func filesystemConfiguration(
    _ configuration: MountConfiguration, mountPoint: String, knownIdentities: [UInt64: FileID],
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
    _ configuration: MountConfiguration, _ source: AttachedStatus, _ identity: SpoolIdentity
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
      pid: getpid(), pidNamespace: PIDNamespace.own, version: UploadFSMount.version, startedAtMilliseconds: milliseconds
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

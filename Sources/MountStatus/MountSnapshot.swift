public import FileModel
public import Telemetry
public import UploadEngine

/// Facts of the running daemon.
public struct DaemonProcess: Sendable, Hashable {
  /// The daemon's process number.
  public var pid: Int32
  /// The pid namespace in which it has that number; nil where the system does not say it.
  public var pidNamespace: UInt64?
  /// Its version.
  public var version: String
  /// When it started, milliseconds since 1970.
  public var startedAtMilliseconds: Int64

  /// Facts of a daemon.
  public init(pid: Int32, pidNamespace: UInt64?, version: String, startedAtMilliseconds: Int64) {
    self.pid = pid
    self.pidNamespace = pidNamespace
    self.version = version
    self.startedAtMilliseconds = startedAtMilliseconds
  }
}

/// Facts of the spool.
public struct SpoolStatus: Sendable, Hashable {
  /// Where it is.
  public var path: String
  /// Captures whose bytes lie in the spool.
  public var captures: Int
  /// Bytes that can still be written.
  public var freeBytes: UInt64
  /// Bytes that are kept free (docs/semantics.md, S27).
  public var reserveBytes: UInt64
  /// Why its folders are not where they were when the mount began; nil when they are.
  public var trouble: FileStatus.Failure?
  /// That a receiver knew another start of it, in this run.
  public var renewal: SpoolIdentity.Renewal?

  /// Facts of a spool.
  public init(
    path: String, captures: Int, freeBytes: UInt64, reserveBytes: UInt64, trouble: FileStatus.Failure? = nil,
    renewal: SpoolIdentity.Renewal? = nil
  ) {
    self.path = path
    self.renewal = renewal
    self.trouble = trouble
    self.captures = captures
    self.freeBytes = freeBytes
    self.reserveBytes = reserveBytes
  }
}

/// Facts of captures that the kernel reads and writes past the daemon.
public struct PassthroughStatus: Sendable, Hashable {
  /// What is set.
  public var mode: Passthrough
  /// Open files for which it is in use.
  public var handles: Int

  /// Facts of a mount.
  public init(mode: Passthrough, handles: Int) {
    self.mode = mode
    self.handles = handles
  }
}

/// Whether the certificates of a destination's servers need timestamps of certificate logs.
public struct TransparencyStatus: Hashable, Sendable {
  /// What rules call the destination.
  public var destination: String
  /// What is set with --transparency.
  public var policy: String
  /// `enforced`, or why it is not.
  public var state: String

  /// A destination's.
  public init(destination: String, policy: String, state: String) {
    self.destination = destination
    self.policy = policy
    self.state = state
  }
}

/// Which version of HTTP a destination is sent, and why.
public struct HTTPVersionStatus: Hashable, Sendable {
  /// A server of the destination, where the version follows from what was measured.
  public struct Server: Hashable, Sendable {
    /// Scheme, host and port.
    public var server: String
    /// What was found out.
    public var finding: String
    /// What HTTP/1.1 carried; nil where it was not measured.
    public var http1BytesPerSecond: Double?
    /// Likewise.
    public var http2BytesPerSecond: Double?

    /// A server's.
    public init(server: String, finding: String, http1BytesPerSecond: Double?, http2BytesPerSecond: Double?) {
      self.server = server
      self.finding = finding
      self.http1BytesPerSecond = http1BytesPerSecond
      self.http2BytesPerSecond = http2BytesPerSecond
    }
  }

  /// What rules call the destination.
  public var destination: String
  /// What is set with --http.
  public var policy: String
  /// `measured`, or why it is not.
  public var state: String
  /// Those that something was sent to.
  public var servers: [Server]

  /// A destination's.
  public init(destination: String, policy: String, state: String, servers: [Server] = []) {
    self.destination = destination
    self.policy = policy
    self.state = state
    self.servers = servers
  }
}

/// What the files of `.uploadfs/` are made of, taken at one moment.
public struct MountSnapshot: Sendable {
  /// What the engine says.
  public var summary: MountSummary
  /// What the engine's reading side has done.
  public var pipeline: PipelineStatistics
  /// The daemon.
  public var process: DaemonProcess
  /// The spool.
  public var spool: SpoolStatus
  /// What passes the daemon.
  public var passthrough: PassthroughStatus
  /// For each destination.
  public var transparency: [TransparencyStatus]
  /// Likewise.
  public var httpVersions: [HTTPVersionStatus]
  /// Settings for experts that are not the usual ones.
  public var expertSettings: [String]
  /// The machine's heat and power.
  public var telemetry: TelemetryReading

  /// Puts the facts together.
  public init(
    summary: MountSummary, pipeline: PipelineStatistics, process: DaemonProcess, spool: SpoolStatus,
    passthrough: PassthroughStatus, transparency: [TransparencyStatus] = [],
    httpVersions: [HTTPVersionStatus] = [], expertSettings: [String] = [], telemetry: TelemetryReading
  ) {
    self.transparency = transparency
    self.httpVersions = httpVersions
    self.expertSettings = expertSettings
    self.summary = summary
    self.pipeline = pipeline
    self.process = process
    self.spool = spool
    self.passthrough = passthrough
    self.telemetry = telemetry
  }

  /// The files of `.uploadfs/` that show the facts of the moment in which they are read.
  public static func files(_ facts: @escaping @Sendable () -> MountSnapshot) -> [ControlFile] {
    [
      ControlFile("summary.json") { SummaryDocument.render(facts()) },
      ControlFile("metrics") { MetricsDocument.render(facts()) },
    ]
  }
}

public import Destinations
public import FileModel
public import Threads
public import TransferModel

/// The settings of one mount, understood and checked: a value of this type can be used as it is.
public struct MountConfiguration: Hashable, Sendable {
  /// Which HTTP versions may be used.
  public enum HTTPVersion: String, CaseIterable, Sendable {
    /// HTTP/1.1, and HTTP/2 where that was seen to carry more.
    case automatic = "auto"
    /// HTTP/1.1, one connection for each stream.
    case http1 = "1.1"
    case http2 = "2"
  }

  /// How fast connections send into the network.
  public enum Congestion: String, CaseIterable, Sendable {
    /// The system's, and BBR where packets are lost although the queue is empty.
    case automatic = "auto"
    /// The system's.
    case system
    case bbr
    case cubic
  }

  /// How much is logged; the names are swift-log's.
  public enum LogLevel: String, CaseIterable, Sendable {
    case trace, debug, info, notice, warning, error, critical
  }

  /// How captures are read for their upload (docs/design/reading.md#reading).
  public enum Reading: String, CaseIterable, Sendable {
    /// What costs least as measured: at present plain reads, on every filesystem (docs/design/reading.md).
    case automatic = "auto"
    /// Mappings, in windows.
    case mapped
    /// pread(2).
    case plain
  }

  /// Where captures go, as it was given, without its query, which may hold a secret.
  public let address: String
  /// What is to be known of where captures go.
  public let settings: DestinationSettings
  /// Holds captures until they are delivered; as given, not empty.
  public let spool: String
  /// A file whose first line is the bearer token; nil when the destination asks for none.
  public let tokenFile: String?
  /// A file whose first line is `user:password`; nil when the destination asks for none.
  public let basicAuthFile: String?
  /// A command that prints the bearer token; nil when there is none.
  public let tokenCommand: String?
  /// The way to the servers: a proxy's address, nil for what the environment says.
  public let proxy: String?
  /// Hosts that are reached without it; nil for what the environment says.
  public let proxyExceptions: String?
  /// A file whose first line is the proxy's `user:password`.
  public let proxyAuthFile: String?
  /// PEM file with the certificate that is shown to servers that ask for one.
  public let clientCertificateFile: String?
  /// PEM file with its key; nil when it lies with the certificate.
  public let clientKeyFile: String?
  /// PEM file with the certification authorities to trust instead of the system's.
  public let authorityFile: String?
  /// What servers' certificates must show beyond that.
  public let trust: ServerTrust
  /// Further destinations, to which files go by rule; each is set up as if it were the only one.
  public let further: [FurtherDestination]
  /// How each file is treated, by its path.
  public let rules: FileRules
  /// Names that are temporary beside those that always are.
  public let temporaryNames: [Glob]
  /// Bytes of a chunk, within the specification's bounds and a multiple of 4 KiB.
  public let chunkBytes: Int
  /// False when the chunk size was not given, and follows from the speed of the link and the size of each file.
  public let isChunkSizeFixed: Bool
  /// What becomes of a file whose name is another capture's at the destination; nil for what is usual there.
  public let ifExists: FileSettings.IfExists?
  /// Chunk requests in flight over all files.
  public let parallel: Int
  /// Free space that is kept on the spool's filesystem.
  public let reserveBytes: UInt64
  /// How long a delivered file is kept in the spool; nil: until its space is needed.
  public let keepDelivered: Duration?
  /// A file cannot grow beyond this.
  public let fileBytesMax: UInt64
  /// HTTP versions that may be used.
  public let httpVersion: HTTPVersion
  /// How fast connections send into the network.
  public let congestion: Congestion
  /// Threads that answer what the disk of the spool can hold up; two more answer the rest.
  public let threadCount: Int
  /// What all uploads together may send.
  public let rate: RateTimetable
  /// How far behind the writers and the other programs of the machine the upload comes.
  public let uploadPriority: UploadPriority
  /// Which files the kernel may read and write past the daemon.
  public let passthrough: Passthrough
  /// How captures are read for their upload.
  public let reading: Reading
  /// Other users may use the mount.
  public let allowOther: Bool
  /// Plain http is accepted beyond loopback.
  public let allowPlainHTTP: Bool
  /// Times and counts for experts.
  public let timing: UploadTiming
  /// How long stopping may wait for deliveries; nil: until everything is delivered.
  public let drainTimeout: Duration?
  /// How much is logged.
  public let logLevel: LogLevel

  /// Space that is kept free unless configured otherwise.
  public static let reserveBytesDefault = UploadConstants.diskHeadroomBytes + UploadConstants.diskMarginBytes

  /// Each has buffers and connections of its own.
  static let destinationsMax = 4

  /// Understands and checks every setting; the first that is wrong is the error.
  public init(_ sources: SettingSources) throws(ConfigurationError) {
    let read = SettingReader(sources)
    allowPlainHTTP = try read.boolean(.allowPlainHTTP) ?? false
    fileBytesMax = try read.bytes(.maxFileSize, atLeast: 1) ?? UploadConstants.fileBytesMax
    let texts = DestinationTexts(read, allowPlainHTTP: allowPlainHTTP)
    settings = try read.destinationSettings(texts)
    address = String((sources[.to]?.text ?? "").prefix { $0 != "?" })
    spool = try read.required(.spool, because: "captures need a folder to lie in until they are delivered")
    tokenFile = try read.path(.tokenFile)
    basicAuthFile = try read.path(.basicAuthFile)
    tokenCommand = try read.path(.tokenCommand)
    proxy = try read.proxy()
    proxyExceptions = read.text(.noProxy)
    proxyAuthFile = try read.path(.proxyAuthFile)
    clientCertificateFile = try read.path(.clientCert)
    clientKeyFile = try read.path(.clientKey)
    try read.checkCredentials(of: settings)
    ifExists = try read.ifExists(at: settings, texts)
    authorityFile = try read.path(.ca)
    trust = try read.serverTrust(of: [settings.endpoint] + settings.alternatives)
    further = try read.furtherDestinations()
    rules = try read.rules(
      destinations: [.main] + further.map(\.name),
      tellingOwners: (settings.tellsOwners ? [.main] : [])
        + further.filter(\.configuration.settings.tellsOwners).map(\.name))
    temporaryNames = try read.temporaryNames()
    chunkBytes = try read.chunkBytes(of: settings, fileBytesMax: fileBytesMax, texts)
    isChunkSizeFixed = sources[.chunkSize] != nil || settings.fixesChunkSize
    parallel =
      try read.integer(.parallel, in: 1...UploadConstants.maxParallelChunkUploads)
      ?? UploadConstants.maxParallelChunkUploads
    reserveBytes = try read.bytes(.reserve) ?? MountConfiguration.reserveBytesDefault
    httpVersion = try read.choice(.http) ?? .automatic
    congestion = try read.choice(.congestion) ?? .automatic
    threadCount = try read.integer(.threads, in: 1...64) ?? 6
    rate = try read.timetable(.limitRate)
    uploadPriority = try read.choice(.uploadPriority) ?? .low
    passthrough = try read.choice(.passthrough) ?? .off
    reading = try read.choice(.reading) ?? .automatic
    allowOther = try read.boolean(.allowOther) ?? false
    timing = try read.timing()
    drainTimeout = try read.duration(.drainTimeout)
    keepDelivered = try read.duration(.keep)
    logLevel = try read.choice(.logLevel) ?? .info
  }
}

extension MountConfiguration {
  /// The server that captures go to.
  public var destination: EndpointURL { settings.endpoint }

  /// Further addresses of the same server.
  public var alternatives: [EndpointURL] { settings.alternatives }
}

/// A destination besides that of `--to`.
public struct FurtherDestination: Hashable, Sendable {
  /// What rules call it.
  public var name: DestinationName
  /// The mount's settings with those of this destination in their place.
  public var configuration: MountConfiguration
}

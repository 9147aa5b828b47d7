import CCurl
import Glibc
public import Threads
public import TransferModel

/// How a ``CurlTransport`` connects. Checked once, when the transport is made.
public struct CurlTransportConfiguration: Hashable, Sendable {
  /// Which version of HTTP is spoken.
  public enum ProtocolChoice: String, Sendable, CaseIterable {
    /// HTTP/1.1, one connection for each request in flight: each has a congestion window of its own. Where HTTP/2 was seen to carry
    /// more, that; see ``ProtocolTrial``. With a libcurl whose HTTP/2 stalls it is never tried.
    case automatic
    /// HTTP/1.1 alone.
    case http1
    /// HTTP/2, requests share connections. A server that only speaks HTTP/1.1 is still served. Uploads stall or burn the
    /// processor before libcurl 8.10 (curl 35bf766280 closed the series of fixes that began with 7.88).
    case http2
  }

  /// A PEM file with the certificates of the authorities to trust, instead of the system's; nil for the system's.
  public var caFile: String?
  /// What servers' certificates must show beyond a chain to one of those.
  public var trust = ServerTrust()
  /// What is shown to servers that ask for a certificate.
  public var clientCertificate: ClientCertificate?
  /// The proxy to the servers.
  public var proxy = CurlProxy()
  /// Which version of HTTP is spoken.
  public var protocolChoice: ProtocolChoice
  /// When HTTP/2 is tried; others for tests.
  var trialTimes = ProtocolTrial.Times()
  /// HTTP/2 is spoken with a libcurl of this kind; with another one no transport is made.
  public var http2Library = HTTP2Library.repaired
  /// Connections to one host, and with HTTP/1.1 the requests in flight: 12, as many whole files that wait for
  /// their answers, and room for control requests.
  public var maxConnections: Int
  /// Requests that may wait for their turn; a further one is refused as overloaded.
  public var inboxCapacity: Int
  /// The User-Agent header.
  public var userAgent: String
  /// True: `http` is spoken where a URL says so. False: such a request fails.
  public var allowPlainHTTP: Bool

  /// How far behind the other programs of the machine it comes.
  public var priority = UploadPriority.normal
  /// How fast connections send into the network.
  public var congestionControl = CongestionControl.system
  /// TLS sessions older than this are not resumed.
  public var tlsSessionMaxAge = UploadConstants.tlsSessionMaxAge

  /// A configuration; the defaults are those of the specification.
  public init(
    caFile: String? = nil, protocolChoice: ProtocolChoice = .http1, maxConnections: Int = 32,
    inboxCapacity: Int = 256, userAgent: String = "uploadfs", allowPlainHTTP: Bool = false
  ) {
    self.caFile = caFile
    self.protocolChoice = protocolChoice
    self.maxConnections = maxConnections
    self.inboxCapacity = inboxCapacity
    self.userAgent = userAgent
    self.allowPlainHTTP = allowPlainHTTP
  }
}

/// Why a transport cannot be made.
public enum TransportConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The file of certificate authorities cannot be read.
  case unreadableCAFile(path: String, reason: String)
  /// The file of certificate authorities holds no PEM certificate.
  case noCertificate(path: String)
  /// A file lacks what it should hold.
  case unusableFile(path: String, problem: String)
  /// A value is outside its range or malformed.
  case invalidValue(name: String, requirement: String)
  /// The installed libcurl lacks something.
  case unsuitableLibrary(version: String, missing: String)
  /// A policy is set that the installed libcurl cannot keep.
  case unkeepablePolicy(setting: String, library: String)
  /// HTTP/2 stalls with the installed libcurl.
  case stallingHTTP2(version: String)
  /// The kernel gives no socket of this process the congestion control.
  case unavailableCongestionControl(name: String, CongestionControl.Refusal)
  /// A call that cannot reasonably fail has failed.
  case callFailed(String)

  /// One sentence for people: what is wrong and what to do.
  public var description: String {
    switch self {
    case .unreadableCAFile(let path, let reason):
      "cannot read the file \(path): \(reason)"
    case .noCertificate(let path):
      "the CA file \(path) holds no PEM certificate (-----BEGIN CERTIFICATE-----)"
    case .unusableFile(let path, let problem):
      "the file \(path) \(problem)"
    case .invalidValue(let name, let requirement):
      "\(name) must be \(requirement)"
    case .unsuitableLibrary(let version, let missing):
      "the installed libcurl \(version) lacks \(missing); install libcurl4 (the OpenSSL flavour), 7.85 or later"
    case .unkeepablePolicy(let setting, let library):
      "\(setting) is not possible with the installed libcurl, whose TLS is \(library): it needs the OpenSSL flavour (libcurl4), built for "
        + "the OpenSSL that is installed"
    case .stallingHTTP2(let version):
      "uploads over HTTP/2 stall with the installed libcurl \(version); leave --http out, or install libcurl 8.10 or later (Debian 13 "
        + "has it). One that was repaired by its distribution is used with --expert http2-library=any"
    case .unavailableCongestionControl(let name, let refusal):
      "the congestion control \(name) cannot be used: \(refusal.words(for: name)); or use --congestion auto"
    case .callFailed(let call):
      "\(call) failed: out of memory, threads or file descriptors?"
    }
  }
}

/// Why the installed libcurl is not used for HTTP/2.
public enum HTTP2Hindrance: Hashable, Sendable {
  /// It was built without.
  case lacking(version: String)
  /// Uploads stall.
  case stalls(version: String)
}

extension CurlTransportConfiguration {
  /// CURLOPT_PROTOCOLS_STR.
  static let oldestVersion: UInt32 = 0x07_55_00
  /// The first one whose HTTP/2 neither stalls nor burns the processor (curl 35bf766280, the last of those that began with 7.88).
  static let repairedHTTP2Version: UInt32 = 0x08_0a_00

  /// Whether HTTP/2 may be spoken with a libcurl of this number.
  func mayMultiplex(with version: UInt32) -> Bool { http2Library == .any || version >= Self.repairedHTTP2Version }

  /// With HTTP/2, requests share connections; servers commonly allow this many streams on one.
  static let maxMultiplexedRequests = 100

  /// Whether all requests share connections.
  var multiplexes: Bool { protocolChoice == .http2 }

  /// Whether HTTP/2 may be used where it is better.
  var triesHTTP2: Bool { protocolChoice == .automatic && hindranceOfHTTP2 == nil }

  /// Why HTTP/2 is never tried; nil where it may be.
  public var hindranceOfHTTP2: HTTP2Hindrance? {
    guard let about = uploadfs_curl_version() else { return .lacking(version: "of unknown version") }
    let version = about.pointee.version.map { String(cString: $0) } ?? "of unknown version"
    guard about.pointee.features & CURL_VERSION_HTTP2 != 0 else { return .lacking(version: version) }
    return mayMultiplex(with: about.pointee.version_num) ? nil : .stalls(version: version)
  }

  /// Checks everything that can be checked before the first request.
  func validate() throws(TransportConfigurationError) {
    guard (1...1024).contains(maxConnections) else {
      throw .invalidValue(name: "maxConnections", requirement: "between 1 and 1024")
    }
    guard (1...65536).contains(inboxCapacity) else {
      throw .invalidValue(name: "inboxCapacity", requirement: "between 1 and 65536")
    }
    guard userAgent.isSafeHeaderText else {
      throw .invalidValue(name: "userAgent", requirement: "free of control characters")
    }
    try validateLibrary()
    try validateCongestionControl()
    if let caFile, try !Self.holds("-----BEGIN CERTIFICATE-----", caFile) { throw .noCertificate(path: caFile) }
    try proxy.validate()
    try clientCertificate?.validate()
  }

  private func validateLibrary() throws(TransportConfigurationError) {
    guard let about = uploadfs_curl_version() else { throw .callFailed("curl_version_info") }
    let version = about.pointee.version.map { String(cString: $0) } ?? "of unknown version"
    func require(_ feature: String, _ isPresent: Bool) throws(TransportConfigurationError) {
      guard isPresent else { throw .unsuitableLibrary(version: version, missing: feature) }
    }
    try require("CURLOPT_PROTOCOLS_STR", about.pointee.version_num >= Self.oldestVersion)
    try require("TLS", about.pointee.features & CURL_VERSION_SSL != 0)
    if uploadfs_curl_shares_openssl() != 1, let setting = trust.settingOfHandshakes {
      let library = about.pointee.ssl_version.map { String(cString: $0) } ?? "unknown"
      throw .unkeepablePolicy(setting: setting, library: library)
    }
    if multiplexes {
      try require("HTTP/2", about.pointee.features & CURL_VERSION_HTTP2 != 0)
      guard mayMultiplex(with: about.pointee.version_num) else {
        throw .stallingHTTP2(version: version)
      }
    }
  }

  private func validateCongestionControl() throws(TransportConfigurationError) {
    guard let name = congestionControl.fixedName, let refusal = CongestionControl.refusal(of: name) else { return }
    throw .unavailableCongestionControl(name: name, refusal)
  }

  /// Whether a PEM file has a line that begins so.
  fileprivate static func holds(_ text: String, _ path: String) throws(TransportConfigurationError) -> Bool {
    guard let file = fopen(path, "re") else {
      throw .unreadableCAFile(path: path, reason: String(cString: strerror(errno)))
    }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while getline(&line, &capacity, file) >= 0 {
      if let line, strncmp(line, text, text.utf8.count) == 0 { return true }
    }
    guard ferror(file) == 0 else { throw .unreadableCAFile(path: path, reason: "it is not a readable file") }
    return false
  }
}

extension ServerTrust {
  /// What was set that can only be kept inside a handshake; nil where nothing was.
  var settingOfHandshakes: String? {
    if !pins.isEmpty { return "--pin" }
    if transparency == .always { return "--transparency always" }
    return transparency == .publicOnly && logListFile != nil ? "--transparency-logs" : nil
  }
}

extension ClientCertificate {
  private static let keys = [
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN EC PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----",
  ]

  /// Checks what can be checked before the first handshake.
  func validate() throws(TransportConfigurationError) {
    guard try CurlTransportConfiguration.holds("-----BEGIN CERTIFICATE-----", certificateFile) else {
      throw .unusableFile(path: certificateFile, problem: "holds no PEM certificate (-----BEGIN CERTIFICATE-----)")
    }
    let file = keyFile ?? certificateFile
    for key in Self.keys { if try CurlTransportConfiguration.holds(key, file) { return } }
    throw .unusableFile(
      path: file, problem: "holds no PEM key without a passphrase, which the client certificate needs")
  }
}

extension String {
  /// True when the text cannot end a header field and begin another.
  var isSafeHeaderText: Bool { utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7f) || $0 == 0x09 } }
}

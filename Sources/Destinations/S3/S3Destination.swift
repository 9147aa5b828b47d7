import ChunkProtocol
public import FileModel
import Integrity
public import TransferModel

/// What can be chosen about an S3 destination.
public struct S3Options: Hashable, Sendable {
  /// A checksum that the server keeps with each part and each object. What is sent is signed with its SHA-256 in any case.
  public enum Checksum: String, CaseIterable, Sendable {
    /// CRC32C where the server turns out to keep it, else none.
    case auto
    /// None, also where the server would keep one.
    case none
    case crc32c
    case sha256
  }

  /// What to do when the key is another capture's.
  public typealias IfExists = FileSettings.IfExists

  /// The region that requests are signed for; nil for what the address says.
  public var region: String?
  /// How requests name the bucket; nil for what is usual at the address.
  public var style: S3Address.Style?
  /// A checksum that the server keeps.
  public var checksum = Checksum.auto
  /// What to do when the key is another capture's.
  public var ifExists = IfExists.number
  /// Expired credentials are replaced without a user's help.
  public var renewsCredentials = false
  /// Part requests in flight for one upload.
  public var parallelChunks = UploadConstants.maxParallelChunkUploads
  /// A file of at most this size goes in one request.
  public var wholeFileBytesMax = S3Limits.partBytesMin
  /// The largest file.
  public var fileBytesMax = UploadConstants.fileBytesMax

  /// The defaults.
  public init() {}
}

/// Bounds that S3 sets.
public enum S3Limits {
  /// Every part but the last is at least so long.
  public static let partBytesMin = 5 << 20
  /// A multipart upload has no more parts.
  public static let partCountMax = 10_000
  /// A key has at most so many bytes of UTF-8.
  static let keyBytesMax = 1024
  /// What a shortened key leaves free, for the number of a further capture of the name.
  static let numberBytesMax = 12
  /// A prefix leaves room for a shortened path before the last part of one, which may have 255 bytes, and for its number.
  static let prefixBytesMax = keyBytesMax - numberBytesMax - 300
}

/// An S3 bucket (docs/destinations.md#s3): one multipart upload for each session, one PUT for a small file, everything signed.
///
/// A session's id is what a request needs to name it: the key and the server's id of the upload, both percent-encoded,
/// with a `?` between them; and behind another one the checksum with which it was begun, if it was.
public struct S3Destination: Destination {
  /// What S3 can do.
  public let abilities: DestinationAbilities
  /// The bucket's address, without credentials.
  public var displayURL: String { address.text }

  let address: S3Address
  private(set) var options: S3Options
  let signature: SignatureV4
  let credentials: @Sendable () -> S3Credentials
  let secondsSince1970: @Sendable () -> Int64
  let whenExpired: @Sendable () -> Void
  let whenConditionsFail: @Sendable (_ text: String) -> Void
  /// In front of a percent-encoded key: the URL's start, and the path's start, which is signed.
  let urlStart: String
  let pathStart: String
  /// As the transport sends it.
  let host: String
  let checksums = S3ChecksumMemory()
  let names: S3NameMemory
  let publishedParts = S3PublishedParts()
  /// Probes whose a key is before it publishes one that must not be another one's.
  private(set) var probesFirst = true

  /// A destination whose credentials and time are asked for at each request; both must be quick. `whenExpired` is told, from
  /// any thread, whenever the server says that the credentials have ended; `whenConditionsFail` likewise, in words for people,
  /// once for each kind of object whose condition the server turns out not to keep.
  public init(
    address: S3Address, options: S3Options = S3Options(),
    credentials: @escaping @Sendable () -> S3Credentials, secondsSince1970: @escaping @Sendable () -> Int64,
    whenExpired: @escaping @Sendable () -> Void = {},
    whenConditionsFail: @escaping @Sendable (_ text: String) -> Void = { _ in }
  ) throws(DestinationError) {
    self.address = address
    self.options = options
    names = S3NameMemory(keepsConditions: address.keepsConditions)
    self.credentials = credentials
    self.secondsSince1970 = secondsSince1970
    self.whenExpired = whenExpired
    self.whenConditionsFail = whenConditionsFail
    let region = options.region ?? address.regionOfHost ?? S3Address.regionDefault
    let isRegion = region.utf8.allSatisfy {
      PercentCoding.encode(String(UnicodeScalar($0))).utf8.count == 1
    }
    guard !region.isEmpty, isRegion, options.parallelChunks > 0, options.wholeFileBytesMax > 0 else {
      throw DestinationError(
        .invalidOption, "The S3 region holds other characters than letters, digits and hyphens, or a limit is 0.")
    }
    signature = SignatureV4(region: region)
    let base = address.endpoint.text
    let schemeEnd = base.unicodeScalars.firstRange(of: "://".unicodeScalars)?.upperBound ?? base.startIndex
    var authority = String(base[schemeEnd...])
    for suffix in address.endpoint.isEncrypted ? [":443"] : [":80"] where authority.hasSuffix(suffix) {
      authority.removeLast(suffix.count)
    }
    switch options.style ?? address.usualStyle {
    case .path:
      host = authority
      pathStart = "/\(PercentCoding.encode(address.bucket))"
    case .virtualHost:
      host = "\(address.bucket).\(authority)"
      pathStart = ""
    }
    urlStart = "\(base[..<schemeEnd])\(host)"
    var abilities = DestinationAbilities(
      parallelChunks: options.parallelChunks, replaceableChunks: true, unknownLength: true,
      wholeFileBytesMax: options.wholeFileBytesMax, fileBytesMax: options.fileBytesMax)
    abilities.bindsNameAtOpening = true
    abilities.commitListsChunks = true
    abilities.needsChunks = true
    abilities.chunkBytesMin = S3Limits.partBytesMin
    abilities.chunkCountMax = S3Limits.partCountMax
    abilities.sessionsStay = true
    abilities.ifExists = options.ifExists
    abilities.comparesObjects = true
    abilities.copiesChunks = true
    self.abilities = abilities
  }

  /// A part of what this run has published of the capture before.
  public func source(of sending: ChunkSending) -> ChunkSource? { publishedParts.source(of: sending) }

  /// Without the probe before.
  public var underConditionsAlone: (any Destination)? {
    guard probesFirst, options.ifExists != .replace else { return nil }
    var destination = self
    destination.probesFirst = false
    destination.options.ifExists = .refuse
    return destination
  }

  /// Names the setting that has each name looked for.
  public var advice: DestinationAdvice {
    var advice = DestinationAdvice()
    advice.unclearConditions =
      "Each name is looked for before. With \(SettingKey.s3IfExists.flag) refuse, a server that does not know the condition "
      + "may refuse every file."
    return advice
  }

  /// The key: the prefix and the path, with bytes that a key should not have written as %XX.
  public func publishedName(for path: RelativePath) -> String { address.prefix + name(of: path) }

  /// The key without the prefix. A path that is too long for one keeps its first folders and its last part.
  func name(of path: RelativePath) -> String {
    let room = S3Limits.keyBytesMax - address.prefix.utf8.count
    let whole = PublishedName.encode(path.bytes)
    guard whole.utf8.count > room else { return whole }
    return PublishedName.encode(path.bytes, bytesMax: room - S3Limits.numberBytesMax)
  }
}

/// What a session's id says.
struct S3Upload: Hashable {
  var key: String
  var uploadID: String
  /// What its parts and its end have to carry; `none` or a real one.
  var checksum: S3Options.Checksum

  private static let uploadIDBytesMax = 4096

  init?(key: String, uploadID: String, checksum: S3Options.Checksum = .none) {
    guard !uploadID.isEmpty, uploadID.utf8.count <= Self.uploadIDBytesMax else { return nil }
    self.key = key
    self.uploadID = uploadID
    self.checksum = checksum
  }

  init?(sessionID: String) {
    let parts = sessionID.split(separator: "?", omittingEmptySubsequences: false)
    guard (2...3).contains(parts.count), let key = PercentCoding.decode(parts[0]),
      let id = PercentCoding.decode(parts[1])
    else { return nil }
    guard parts.count == 3 else {
      self.init(key: key, uploadID: id)
      return
    }
    guard let checksum = S3Options.Checksum(rawValue: String(parts[2])), checksum != .auto else { return nil }
    self.init(key: key, uploadID: id, checksum: checksum)
  }

  /// Its name without what only this client knows of it.
  var listedID: String {
    "\(PercentCoding.encode(key, keepsSlashes: true))?\(PercentCoding.encode(uploadID))"
  }

  var sessionID: String { checksum == .none ? listedID : "\(listedID)?\(checksum.rawValue)" }
}

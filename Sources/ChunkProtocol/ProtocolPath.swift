/// A resource of the protocol, and its path.
public enum ProtocolPath: Hashable, Sendable {
  /// `/v1/`
  case root
  /// `/v1/capabilities`
  case capabilities
  /// `/v1/uploads`
  case uploads
  /// `/v1/uploads/{id}`
  case upload(id: String)
  /// `/v1/uploads/{id}/chunks`: runs of chunks.
  case chunks(id: String)
  /// `/v1/uploads/{id}/chunks/{n}`
  case chunk(id: String, index: UInt32)
  /// `/v1/uploads/{id}/zeros`: chunks that are zeros.
  case zeros(id: String)
  /// `/v1/uploads/{id}/commit`
  case commit(id: String)
  /// `/v1/files`: bundles.
  case files
  /// `/v1/files/{name}`; the name is a ``PublishedName``.
  case file(name: String)
  /// `/v1/stats`
  case stats
  /// `/metrics`
  case metrics

  /// Asks `GET /v1/uploads/{id}` for digests.
  public static let digestsQuery = "digests=1"

  /// Has `GET /v1/uploads/{id}` answer for what is on the server's disk, once it is there.
  public static let durableQuery = "durable=1"

  /// The path, percent-encoded.
  public var text: String {
    switch self {
    case .root: "/v1/"
    case .capabilities: "/v1/capabilities"
    case .uploads: "/v1/uploads"
    case .upload(let id): "/v1/uploads/\(id)"
    case .chunks(let id): "/v1/uploads/\(id)/chunks"
    case .chunk(let id, let index): "/v1/uploads/\(id)/chunks/\(index)"
    case .zeros(let id): "/v1/uploads/\(id)/zeros"
    case .commit(let id): "/v1/uploads/\(id)/commit"
    case .files: "/v1/files"
    case .file(let name): "/v1/files/\(PercentCoding.encode(name, keepsSlashes: true))"
    case .stats: "/v1/stats"
    case .metrics: "/metrics"
    }
  }

  /// Reads the path of a request target, which may have a query; nil when there is no such resource.
  ///
  /// The name of a file is only decoded, not checked: an unacceptable one is an error of its own. One that is no UTF-8
  /// after decoding has no resource.
  public init?(target: String) {
    let path = Substring(target.utf8.prefix { $0 != UInt8(ascii: "?") })
    switch path {
    case "/v1/", "/v1": self = .root
    case "/v1/capabilities": self = .capabilities
    case "/v1/uploads": self = .uploads
    case "/v1/files": self = .files
    case "/v1/stats": self = .stats
    case "/metrics": self = .metrics
    default:
      if Self.isFile(target: target) {
        guard let name = PercentCoding.decode(Substring(path.utf8.dropFirst(Self.filesPrefix.utf8.count))) else {
          return nil
        }
        self = .file(name: name)
      } else {
        self.init(uploadPath: path)
      }
    }
  }

  private init?(uploadPath path: Substring) {
    let parts = path.unicodeScalars.split(separator: "/", omittingEmptySubsequences: false).map { Substring($0) }
    guard parts.count >= 4, parts[0].isEmpty, parts[1] == "v1", parts[2] == "uploads" else { return nil }
    let id = String(parts[3])
    guard ProtocolPath.isSessionID(id) else { return nil }
    switch parts.count {
    case 4: self = .upload(id: id)
    case 5 where parts[4] == "commit": self = .commit(id: id)
    case 5 where parts[4] == "zeros": self = .zeros(id: id)
    case 5 where parts[4] == "chunks": self = .chunks(id: id)
    case 6 where parts[4] == "chunks":
      guard let index = DecimalText.unsigned(parts[5], as: UInt32.self) else { return nil }
      self = .chunk(id: id, index: index)
    default: return nil
    }
  }

  /// Whether a request target is meant for a file, whether its name can be decoded or not.
  public static func isFile(target: String) -> Bool { target.utf8.starts(with: filesPrefix.utf8) }

  private static let filesPrefix = "/v1/files/"

  /// Whether a request target asks for digests.
  public static func wantsDigests(target: String) -> Bool { asks(digestsQuery, target) }

  /// Whether a request target asks for what outlives a power cut.
  public static func wantsDurability(target: String) -> Bool { asks(durableQuery, target) }

  private static func asks(_ word: String, _ target: String) -> Bool {
    guard let mark = target.firstIndex(of: "?") else { return false }
    return target[target.index(after: mark)...].split(separator: "&").contains { $0 == word }
  }

  /// Session ids are 1 to 128 letters, digits, `-` and `_`: they stand in paths as they are.
  public static func isSessionID(_ text: String) -> Bool {
    let bytes = text.utf8
    return !bytes.isEmpty && bytes.count <= ProtocolLimits.sessionIDBytesMax
      && bytes.allSatisfy {
        switch $0 {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "_"): true
        default: false
        }
      }
  }
}

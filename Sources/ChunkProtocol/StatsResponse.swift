/// The answer to `GET /v1/stats`: what this process of the receiver has counted for the credential's files. Counts of
/// connections and requests are those of the whole process.
public struct StatsResponse: Hashable, Sendable, Codable {
  /// One upload.
  public struct Upload: Hashable, Sendable, Codable {
    /// The session's id, or the receipt's for a whole file.
    public var id: String
    /// The name at the last request that gave one.
    public var name: String
    /// `open`, `committed` or `ended`.
    public var state: String
    /// Chunk requests whose body arrived in full; a chunk that was sent twice counts twice.
    public var chunksReceived: UInt64
    /// Bytes of bodies that arrived, also of those that were refused afterwards.
    public var bytesReceived: UInt64

    enum CodingKeys: String, CodingKey {
      case id
      case name
      case state
      case chunksReceived = "chunks_received"
      case bytesReceived = "bytes_received"
    }

    /// What was counted for one upload.
    public init(id: String, name: String, state: String, chunksReceived: UInt64, bytesReceived: UInt64) {
      self.id = id
      self.name = name
      self.state = state
      self.chunksReceived = chunksReceived
      self.bytesReceived = bytesReceived
    }
  }

  /// When the process started, milliseconds since 1970.
  public var startedAtMilliseconds: Int64
  /// TCP connections accepted.
  public var connections: UInt64
  /// TLS handshakes completed.
  public var handshakes: UInt64
  /// Requests of any kind.
  public var requests: UInt64
  /// Chunk requests whose body arrived in full.
  public var chunksReceived: UInt64
  /// Bytes of bodies that arrived in chunk and whole-file requests.
  public var bytesReceived: UInt64
  /// Files published.
  public var filesPublished: UInt64
  /// Chunk requests in flight now.
  public var chunksInFlight: UInt64
  /// The most chunk requests of one upload that were in flight at once.
  public var chunksInFlightMax: UInt64
  /// The latest 1000 uploads, newest first.
  public var uploads: [Upload]

  enum CodingKeys: String, CodingKey {
    case startedAtMilliseconds = "started_at_ms"
    case connections
    case handshakes
    case requests
    case chunksReceived = "chunks_received"
    case bytesReceived = "bytes_received"
    case filesPublished = "files_published"
    case chunksInFlight = "chunks_in_flight"
    case chunksInFlightMax = "chunks_in_flight_max"
    case uploads
  }

  /// What was counted.
  public init(
    startedAtMilliseconds: Int64, connections: UInt64, handshakes: UInt64, requests: UInt64, chunksReceived: UInt64,
    bytesReceived: UInt64, filesPublished: UInt64, chunksInFlight: UInt64, chunksInFlightMax: UInt64,
    uploads: [Upload]
  ) {
    self.startedAtMilliseconds = startedAtMilliseconds
    self.connections = connections
    self.handshakes = handshakes
    self.requests = requests
    self.chunksReceived = chunksReceived
    self.bytesReceived = bytesReceived
    self.filesPublished = filesPublished
    self.chunksInFlight = chunksInFlight
    self.chunksInFlightMax = chunksInFlightMax
    self.uploads = uploads
  }
}

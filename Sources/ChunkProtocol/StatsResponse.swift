/// The answer to `GET /v1/stats`: what this process of the receiver has counted since it started.
public struct StatsResponse: Hashable, Sendable, Codable {
  /// One upload session.
  public struct Upload: Hashable, Sendable, Codable {
    /// The session's id.
    public var id: String
    /// The name at the last request that gave one.
    public var name: String
    /// Requests that concerned it.
    public var requests: UInt64
    /// Connections that carried its chunks.
    public var connections: UInt64
    /// Chunks whose body arrived in full, alone or in a run.
    public var chunksReceived: UInt64
    /// Chunks that were verified and stored, without those that had been stored already.
    public var chunksStored: UInt64
    /// Chunks that had been stored already when they arrived.
    public var duplicateChunks: UInt64
    /// Plain bytes of chunks whose body arrived in full.
    public var bytesReceived: UInt64
    /// The same bytes as they were sent: fewer where they were compressed.
    public var encodedBytesReceived: UInt64
    /// The most chunk requests that were in flight at once.
    public var streamsMax: UInt64
    /// How long after the first chunk request so many were first in flight at once; nil before the first one.
    public var streamsMaxAfterMilliseconds: Int64?
    /// When its first chunk began to arrive, milliseconds since 1970; nil before.
    public var firstChunkAtMilliseconds: Int64?
    /// How long after that twelve chunk requests were first in flight at once; nil when they never were.
    public var twelveActiveAfterMilliseconds: Int64?

    enum CodingKeys: String, CodingKey {
      case id
      case name
      case requests
      case connections
      case chunksReceived = "chunks_received"
      case chunksStored = "chunks_stored"
      case duplicateChunks = "duplicate_chunks"
      case bytesReceived = "bytes_received"
      case encodedBytesReceived = "encoded_bytes_received"
      case streamsMax = "streams_max"
      case streamsMaxAfterMilliseconds = "streams_max_after_ms"
      case firstChunkAtMilliseconds = "first_chunk_at_ms"
      case twelveActiveAfterMilliseconds = "twelve_active_after_ms"
    }

    /// What was counted.
    public init(
      id: String, name: String, requests: UInt64, connections: UInt64, chunksReceived: UInt64, chunksStored: UInt64,
      duplicateChunks: UInt64, bytesReceived: UInt64, encodedBytesReceived: UInt64, streamsMax: UInt64,
      streamsMaxAfterMilliseconds: Int64? = nil, firstChunkAtMilliseconds: Int64? = nil,
      twelveActiveAfterMilliseconds: Int64? = nil
    ) {
      self.id = id
      self.name = name
      self.requests = requests
      self.connections = connections
      self.chunksReceived = chunksReceived
      self.chunksStored = chunksStored
      self.duplicateChunks = duplicateChunks
      self.bytesReceived = bytesReceived
      self.encodedBytesReceived = encodedBytesReceived
      self.streamsMax = streamsMax
      self.streamsMaxAfterMilliseconds = streamsMaxAfterMilliseconds
      self.firstChunkAtMilliseconds = firstChunkAtMilliseconds
      self.twelveActiveAfterMilliseconds = twelveActiveAfterMilliseconds
    }
  }

  /// When the process started, milliseconds since 1970.
  public var startedAtMilliseconds: Int64
  /// Requests of any kind.
  public var requests: UInt64
  /// TCP connections accepted.
  public var connectionsAccepted: UInt64
  /// TLS handshakes completed.
  public var handshakes: UInt64
  /// Chunks whose body arrived in full, alone or in a run; a chunk that was sent twice counts twice.
  public var chunksReceived: UInt64
  /// Chunks that were verified and stored, without those that had been stored already.
  public var chunksStored: UInt64
  /// Chunks that had been stored already when they arrived.
  public var duplicateChunks: UInt64
  /// Bytes of the bodies of chunk and whole-file requests that arrived in full.
  public var bytesReceived: UInt64
  /// Files published, in sessions, in single requests and in bundles.
  public var filesPublished: UInt64
  /// Bundles whose body arrived in full.
  public var bundlesReceived: UInt64
  /// Runs of chunks whose body arrived in full.
  public var runsReceived: UInt64
  /// The most chunk requests that were in flight at once.
  public var chunkRequestsInFlightMax: UInt64
  /// The latest 1000 sessions, newest first.
  public var uploads: [Upload]

  enum CodingKeys: String, CodingKey {
    case startedAtMilliseconds = "started_at_ms"
    case requests
    case connectionsAccepted = "connections_accepted"
    case handshakes = "tls_handshakes"
    case chunksReceived = "chunks_received"
    case chunksStored = "chunks_stored"
    case duplicateChunks = "duplicate_chunks"
    case bytesReceived = "bytes_received"
    case filesPublished = "files_published"
    case bundlesReceived = "bundles_received"
    case runsReceived = "runs_received"
    case chunkRequestsInFlightMax = "chunk_requests_in_flight_max"
    case uploads
  }

  /// What was counted.
  public init(
    startedAtMilliseconds: Int64, requests: UInt64, connectionsAccepted: UInt64, handshakes: UInt64,
    chunksReceived: UInt64, chunksStored: UInt64, duplicateChunks: UInt64, bytesReceived: UInt64,
    filesPublished: UInt64, bundlesReceived: UInt64 = 0, runsReceived: UInt64 = 0, chunkRequestsInFlightMax: UInt64,
    uploads: [Upload]
  ) {
    self.startedAtMilliseconds = startedAtMilliseconds
    self.requests = requests
    self.connectionsAccepted = connectionsAccepted
    self.handshakes = handshakes
    self.chunksReceived = chunksReceived
    self.chunksStored = chunksStored
    self.duplicateChunks = duplicateChunks
    self.bytesReceived = bytesReceived
    self.filesPublished = filesPublished
    self.bundlesReceived = bundlesReceived
    self.runsReceived = runsReceived
    self.chunkRequestsInFlightMax = chunkRequestsInFlightMax
    self.uploads = uploads
  }
}

import ReceiverCore
import ChunkProtocol
import NIOCore
import Quantities
import Synchronization

/// Counts what happens. Tests of the whole system rely on it: how often something was sent, and over how many
/// connections.
final class ReceiverStatistics: Sendable {
  /// How many chunk requests of an upload ran at once at most, and how long after the first one that was so first.
  struct StreamPeak: Hashable, Sendable {
    var count = 0
    var after: Milliseconds?
  }

  /// One upload's numbers.
  struct Upload: Sendable {
    var id: String
    var owner: CredentialID
    /// Counts up; the newest has the highest.
    var number: Int
    var name: String
    var requests = 0
    var chunksReceived = 0
    var chunksStored = 0
    var duplicateChunks = 0
    var bytes: UInt64 = 0
    var encodedBytes: UInt64 = 0
    var concurrentChunks = 0
    var streams = StreamPeak()
    var firstChunkAt: Milliseconds?
    var twelveActiveAfter: Milliseconds?
    var connections: Set<UInt64> = []
  }

  /// What all have done, or one credential.
  private struct Counts {
    var requests = 0
    var connections = 0
    var chunksReceived = 0
    var chunksStored = 0
    var duplicateChunks = 0
    var bytes: UInt64 = 0
    var concurrentChunks = 0
    var concurrentChunksMax = 0
    var filesPublished = 0
    var bundlesReceived = 0
    var runsReceived = 0
    /// Its uploads, the oldest first. One credential's many do not displace another's.
    var uploads: [String] = []
  }

  private struct Connection {
    var number: UInt64
    /// Whose requests it has carried.
    var owners: Set<CredentialID> = []
  }

  private struct State {
    var total = Counts()
    var owners: [CredentialID: Counts] = [:]
    var openConnections: [ObjectIdentifier: Connection] = [:]
    var handshakes = 0
    var refusals = 0
    var spoolsTold = 0
    var uploads: [String: Upload] = [:]
    var uploadNumber = 0

    mutating func count(of owner: CredentialID?, _ change: (inout Counts) -> Void) {
      change(&total)
      if let owner { change(&owners[owner, default: Counts()]) }
    }
  }

  static let uploadsMax = 1000
  /// Connections that are told apart in one upload; beyond, the count stands still.
  private static let connectionsMax = 1000

  private let state = Mutex(State())
  private let clock: ReceiverClock
  private let startedAt: Milliseconds

  init(clock: ReceiverClock) {
    self.clock = clock
    startedAt = clock.now
  }

  func connectionOpened(_ connection: ObjectIdentifier) {
    state.withLock { state in
      state.total.connections += 1
      state.openConnections[connection] = Connection(number: UInt64(state.total.connections))
    }
  }

  func connectionClosed(_ connection: ObjectIdentifier) {
    _ = state.withLock { $0.openConnections.removeValue(forKey: connection) }
  }

  /// Connections that have been accepted and are closed.
  var closedConnections: Int { state.withLock { $0.total.connections - $0.openConnections.count } }

  /// The number of a connection, or of the connection of a stream of HTTP/2: that is the stream's parent, while the
  /// parent of a connection is the listening socket, which has no number.
  func connectionNumber(of channel: any Channel) -> UInt64? {
    state.withLock { state in
      ReceiverStatistics.connection(of: channel, state).flatMap { state.openConnections[$0]?.number }
    }
  }

  private static func connection(of channel: any Channel, _ state: State) -> ObjectIdentifier? {
    [channel, channel.parent].lazy.compactMap { $0.map { ObjectIdentifier($0) } }
      .first { state.openConnections[$0] != nil }
  }

  func handshakeCompleted() { state.withLock { $0.handshakes += 1 } }

  func requestBegan() { state.withLock { $0.total.requests += 1 } }

  /// It is known whose request has begun.
  func requestRecognised(of owner: CredentialID, on channel: any Channel) {
    state.withLock { state in
      state.owners[owner, default: Counts()].requests += 1
      guard let connection = ReceiverStatistics.connection(of: channel, state),
        state.openConnections[connection]?.owners.insert(owner).inserted == true
      else { return }
      state.owners[owner]?.connections += 1
    }
  }

  func spoolTold() { state.withLock { $0.spoolsTold += 1 } }

  func requestRefused() { state.withLock { $0.refusals += 1 } }

  func filePublished(of owner: CredentialID) { state.withLock { $0.count(of: owner) { $0.filesPublished += 1 } } }

  /// A bundle's body is complete.
  func bundleReceived(of owner: CredentialID) { state.withLock { $0.count(of: owner) { $0.bundlesReceived += 1 } } }

  /// A run's body is complete.
  func runReceived(of owner: CredentialID) { state.withLock { $0.count(of: owner) { $0.runsReceived += 1 } } }

  /// A request that concerns an upload; makes it known when it is new.
  func uploadRequested(_ id: String, of owner: CredentialID, name: String) {
    state.withLock { state in
      if state.uploads[id] == nil {
        state.uploadNumber += 1
        state.uploads[id] = Upload(id: id, owner: owner, number: state.uploadNumber, name: name)
        var counts = state.owners[owner] ?? Counts()
        counts.uploads.append(id)
        if counts.uploads.count > ReceiverStatistics.uploadsMax { state.uploads[counts.uploads.removeFirst()] = nil }
        state.owners[owner] = counts
      }
      if !name.isEmpty { state.uploads[id]?.name = name }
      state.uploads[id]?.requests += 1
    }
  }

  /// The header of a chunk, or of a run of them, was accepted.
  func chunkRequestBegan(_ upload: String, of owner: CredentialID, on connection: UInt64?) {
    let now = clock.now
    state.withLock { state in
      state.count(of: owner) { counts in
        counts.concurrentChunks += 1
        counts.concurrentChunksMax = max(counts.concurrentChunksMax, counts.concurrentChunks)
      }
      state.uploads[upload]?.chunkBegan(
        at: now, connection: connection, connectionsMax: ReceiverStatistics.connectionsMax)
    }
  }

  /// An upload's most streams; nil when none of its chunks came while this process has run.
  func streams(of upload: String) -> StreamPeak? {
    state.withLock { $0.uploads[upload]?.streams }.flatMap { $0.count > 0 ? $0 : nil }
  }

  /// A chunk's body is complete.
  func chunkReceived(_ upload: String, of owner: CredentialID, bytes: Int, encodedBytes: Int) {
    state.withLock { state in
      state.count(of: owner) { counts in
        counts.chunksReceived += 1
        counts.bytes += UInt64(bytes)
      }
      state.uploads[upload]?.chunksReceived += 1
      state.uploads[upload]?.bytes += UInt64(bytes)
      state.uploads[upload]?.encodedBytes += UInt64(encodedBytes)
    }
  }

  /// A whole file's body is complete.
  func fileReceived(of owner: CredentialID, bytes: Int) {
    state.withLock { $0.count(of: owner) { $0.bytes += UInt64(bytes) } }
  }

  /// That request was answered.
  func chunkRequestEnded(_ upload: String, of owner: CredentialID) {
    state.withLock { state in
      state.count(of: owner) { $0.concurrentChunks -= 1 }
      state.uploads[upload]?.concurrentChunks -= 1
    }
  }

  /// A chunk was answered; nil when it was refused.
  func chunkAnswered(_ upload: String, of owner: CredentialID, wasHeld: Bool?) {
    state.withLock { state in
      state.count(of: owner) { counts in
        if wasHeld == true { counts.duplicateChunks += 1 }
        if wasHeld == false { counts.chunksStored += 1 }
      }
      if wasHeld == true { state.uploads[upload]?.duplicateChunks += 1 }
      if wasHeld == false { state.uploads[upload]?.chunksStored += 1 }
    }
  }

  /// `GET /v1/stats`: of a credential, whose connections are those that have carried its requests, or of all.
  func response(of owner: CredentialID?) -> StatsResponse {
    state.withLock { state in
      let counts = owner.map { state.owners[$0] ?? Counts() } ?? state.total
      let uploads = state.uploads.values.filter { owner == nil || $0.owner == owner }
        .sorted { $0.number > $1.number }
      return StatsResponse(
        startedAtMilliseconds: startedAt, requests: UInt64(counts.requests),
        connectionsAccepted: UInt64(counts.connections),
        handshakes: UInt64(owner == nil ? state.handshakes : counts.connections),
        chunksReceived: UInt64(counts.chunksReceived), chunksStored: UInt64(counts.chunksStored),
        duplicateChunks: UInt64(counts.duplicateChunks), bytesReceived: counts.bytes,
        filesPublished: UInt64(counts.filesPublished),
        bundlesReceived: UInt64(counts.bundlesReceived), runsReceived: UInt64(counts.runsReceived),
        chunkRequestsInFlightMax: UInt64(counts.concurrentChunksMax),
        uploads: uploads.prefix(ReceiverStatistics.uploadsMax).map(\.response))
    }
  }

  /// `GET /metrics`, in Prometheus' text format.
  func metrics(
    freeBytes: UInt64?, foldersAway: Int, sessionsQuarantined: Int, filesNumbered: Int, budgetFreeBytes: Int,
    certificateEndsAt: Int64
  ) -> [UInt8] {
    let state = state.withLock { $0 }
    var text = PrometheusText()
    Self.writeRequests(state, filesNumbered: filesNumbered, &text)
    Self.writeConnections(state, &text)
    text.family(
      "uploadfs_receiver_folders_away", .gauge, "Folders that are not where the configuration says.", foldersAway)
    text.family(
      "uploadfs_receiver_sessions_set_aside", .gauge,
      "Upload sessions that cannot be read, or are damaged, and are kept.", sessionsQuarantined)
    text.family(
      "uploadfs_receiver_certificate_end_timestamp_seconds", .gauge,
      "When the certificate, or one above it, ends: seconds since 1970.", max(0, certificateEndsAt))
    text.family(
      "uploadfs_receiver_body_memory_free_bytes", .gauge, "Memory left for request bodies.", max(0, budgetFreeBytes))
    if let freeBytes {
      text.family("uploadfs_receiver_disk_free_bytes", .gauge, "Free on the disk of the root.", freeBytes)
    }
    return text.bytes
  }

  private static func writeRequests(_ state: State, filesNumbered: Int, _ text: inout PrometheusText) {
    let total = state.total
    text.family("uploadfs_receiver_requests_total", .counter, "Requests.", total.requests)
    text.family("uploadfs_receiver_refusals_total", .counter, "Requests that were refused.", state.refusals)
    text.family(
      "uploadfs_receiver_chunks_received_total", .counter, "Chunk bodies received completely.", total.chunksReceived)
    text.family(
      "uploadfs_receiver_chunks_stored_total", .counter, "Chunks verified and stored.", total.chunksStored)
    text.family(
      "uploadfs_receiver_bytes_received_total", .counter, "Bytes of bodies received completely.", total.bytes)
    text.family(
      "uploadfs_receiver_duplicate_chunks_total", .counter, "Chunks that were held already.", total.duplicateChunks)
    text.family("uploadfs_receiver_files_published_total", .counter, "Files published.", total.filesPublished)
    text.family(
      "uploadfs_receiver_files_numbered_total", .counter,
      "Files published under a number, because their name is another capture's.", filesNumbered)
    text.family(
      "uploadfs_receiver_bundles_received_total", .counter, "Bundles of whole files received completely.",
      total.bundlesReceived)
    text.family(
      "uploadfs_receiver_runs_received_total", .counter, "Runs of chunks received completely.", total.runsReceived)
    text.family(
      "uploadfs_receiver_spools_told_total", .counter, "Requests of spools that were restored, or run twice.",
      state.spoolsTold)
  }

  private static func writeConnections(_ state: State, _ text: inout PrometheusText) {
    let total = state.total
    text.family("uploadfs_receiver_connections_total", .counter, "Connections accepted.", total.connections)
    text.family("uploadfs_receiver_handshakes_total", .counter, "TLS handshakes completed.", state.handshakes)
    text.family("uploadfs_receiver_connections", .gauge, "Connections open.", state.openConnections.count)
    text.family(
      "uploadfs_receiver_concurrent_chunks", .gauge, "Chunk requests running.", max(0, total.concurrentChunks))
    text.family(
      "uploadfs_receiver_concurrent_chunks_max", .gauge, "Most chunk requests at once.", total.concurrentChunksMax)
  }
}

extension ReceiverStatistics.Upload {
  fileprivate mutating func chunkBegan(at now: Milliseconds, connection: UInt64?, connectionsMax: Int) {
    let first = firstChunkAt ?? now
    firstChunkAt = first
    concurrentChunks += 1
    if concurrentChunks > streams.count { streams = .init(count: concurrentChunks, after: now - first) }
    if concurrentChunks >= 12, twelveActiveAfter == nil { twelveActiveAfter = now - first }
    if let connection, connections.count < connectionsMax { connections.insert(connection) }
  }

  fileprivate var response: StatsResponse.Upload {
    StatsResponse.Upload(
      id: id, name: name, requests: UInt64(requests), connections: UInt64(connections.count),
      chunksReceived: UInt64(chunksReceived), chunksStored: UInt64(chunksStored),
      duplicateChunks: UInt64(duplicateChunks), bytesReceived: bytes,
      encodedBytesReceived: encodedBytes, streamsMax: UInt64(streams.count),
      streamsMaxAfterMilliseconds: streams.after, firstChunkAtMilliseconds: firstChunkAt,
      twelveActiveAfterMilliseconds: twelveActiveAfter)
  }
}

import ReceiverCore
import ChunkProtocol
import NIOCore
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

  private struct State {
    var requests = 0
    var chunksReceived = 0
    var chunksStored = 0
    var duplicateChunks = 0
    var bytes: UInt64 = 0
    var connections = 0
    var openConnections: [ObjectIdentifier: UInt64] = [:]
    var handshakes = 0
    var concurrentChunks = 0
    var concurrentChunksMax = 0
    var filesPublished = 0
    var bundlesReceived = 0
    var refusals = 0
    var uploads: [String: Upload] = [:]
    var order: [String] = []
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
      state.connections += 1
      state.openConnections[connection] = UInt64(state.connections)
    }
  }

  func connectionClosed(_ connection: ObjectIdentifier) {
    _ = state.withLock { $0.openConnections.removeValue(forKey: connection) }
  }

  /// Connections that have been accepted and are closed.
  var closedConnections: Int { state.withLock { $0.connections - $0.openConnections.count } }

  /// The number of a connection, or of the connection of a stream of HTTP/2: that is the stream's parent, while the
  /// parent of a connection is the listening socket, which has no number.
  func connectionNumber(of channel: any Channel) -> UInt64? {
    state.withLock { state in
      state.openConnections[ObjectIdentifier(channel)]
        ?? channel.parent.flatMap { state.openConnections[ObjectIdentifier($0)] }
    }
  }

  func handshakeCompleted() { state.withLock { $0.handshakes += 1 } }

  func requestBegan() { state.withLock { $0.requests += 1 } }

  func requestRefused() { state.withLock { $0.refusals += 1 } }

  func filePublished() { state.withLock { $0.filesPublished += 1 } }

  /// A bundle's body is complete.
  func bundleReceived() { state.withLock { $0.bundlesReceived += 1 } }

  /// A request that concerns an upload; makes it known when it is new.
  func uploadRequested(_ id: String, name: String) {
    state.withLock { state in
      if state.uploads[id] == nil {
        state.uploads[id] = Upload(id: id, name: name)
        state.order.append(id)
        if state.order.count > ReceiverStatistics.uploadsMax { state.uploads[state.order.removeFirst()] = nil }
      }
      if !name.isEmpty { state.uploads[id]?.name = name }
      state.uploads[id]?.requests += 1
    }
  }

  /// A chunk's header was accepted.
  func chunkBegan(_ upload: String, on connection: UInt64?) {
    let now = clock.now
    state.withLock { state in
      state.concurrentChunks += 1
      state.concurrentChunksMax = max(state.concurrentChunksMax, state.concurrentChunks)
      state.uploads[upload]?.chunkBegan(
        at: now, connection: connection, connectionsMax: ReceiverStatistics.connectionsMax)
    }
  }

  /// An upload's most streams; nil when none of its chunks came while this process has run.
  func streams(of upload: String) -> StreamPeak? {
    state.withLock { $0.uploads[upload]?.streams }.flatMap { $0.count > 0 ? $0 : nil }
  }

  /// A chunk's body is complete.
  func chunkReceived(_ upload: String, bytes: Int, encodedBytes: Int) {
    state.withLock { state in
      state.chunksReceived += 1
      state.bytes += UInt64(bytes)
      state.uploads[upload]?.chunksReceived += 1
      state.uploads[upload]?.bytes += UInt64(bytes)
      state.uploads[upload]?.encodedBytes += UInt64(encodedBytes)
    }
  }

  /// A whole file's body is complete.
  func fileReceived(bytes: Int) { state.withLock { $0.bytes += UInt64(bytes) } }

  /// A chunk request was answered; nil when it was refused.
  func chunkEnded(_ upload: String, wasHeld: Bool?) {
    state.withLock { state in
      state.concurrentChunks -= 1
      state.uploads[upload]?.concurrentChunks -= 1
      switch wasHeld {
      case true?:
        state.duplicateChunks += 1
        state.uploads[upload]?.duplicateChunks += 1
      case false?:
        state.chunksStored += 1
        state.uploads[upload]?.chunksStored += 1
      case nil: break
      }
    }
  }

  /// `GET /v1/stats`.
  var response: StatsResponse {
    state.withLock { state in
      StatsResponse(
        startedAtMilliseconds: startedAt, requests: UInt64(state.requests),
        connectionsAccepted: UInt64(state.connections), handshakes: UInt64(state.handshakes),
        chunksReceived: UInt64(state.chunksReceived), chunksStored: UInt64(state.chunksStored),
        duplicateChunks: UInt64(state.duplicateChunks), bytesReceived: state.bytes,
        filesPublished: UInt64(state.filesPublished),
        bundlesReceived: UInt64(state.bundlesReceived), chunkRequestsInFlightMax: UInt64(state.concurrentChunksMax),
        uploads: state.order.reversed().compactMap { state.uploads[$0]?.response })
    }
  }

  /// `GET /metrics`, in Prometheus' text format.
  func metrics(freeBytes: UInt64, budgetFreeBytes: Int) -> String {
    let state = state.withLock { $0 }
    let values: [(String, String, String, UInt64)] = [
      ("requests_total", "counter", "Requests.", UInt64(state.requests)),
      ("refusals_total", "counter", "Requests that were refused.", UInt64(state.refusals)),
      ("chunks_received_total", "counter", "Chunk bodies received completely.", UInt64(state.chunksReceived)),
      ("chunks_stored_total", "counter", "Chunks verified and stored.", UInt64(state.chunksStored)),
      ("bytes_received_total", "counter", "Bytes of bodies received completely.", state.bytes),
      ("duplicate_chunks_total", "counter", "Chunks that were held already.", UInt64(state.duplicateChunks)),
      ("files_published_total", "counter", "Files published.", UInt64(state.filesPublished)),
      (
        "bundles_received_total", "counter", "Bundles of whole files received completely.",
        UInt64(state.bundlesReceived)
      ),
      ("connections_total", "counter", "Connections accepted.", UInt64(state.connections)),
      ("handshakes_total", "counter", "TLS handshakes completed.", UInt64(state.handshakes)),
      ("connections", "gauge", "Connections open.", UInt64(state.openConnections.count)),
      ("concurrent_chunks", "gauge", "Chunk requests running.", UInt64(max(0, state.concurrentChunks))),
      ("concurrent_chunks_max", "gauge", "Most chunk requests at once.", UInt64(state.concurrentChunksMax)),
      ("disk_free_bytes", "gauge", "Free on the disk of the root.", freeBytes),
      ("body_memory_free_bytes", "gauge", "Memory left for request bodies.", UInt64(max(0, budgetFreeBytes))),
    ]
    return values.map { name, kind, help, value in
      "# HELP uploadfs_receiver_\(name) \(help)\n# TYPE uploadfs_receiver_\(name) \(kind)\nuploadfs_receiver_\(name) \(value)\n"
    }.joined()
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

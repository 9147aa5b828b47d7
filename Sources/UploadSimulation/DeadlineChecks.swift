import FileModel
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

/// Checks the watchdogs. What does not move is ended in time, what moves is left alone, and a file that is stuck
/// connects anew. The simulated network reports how far bodies have really come.
struct DeadlineChecks {
  private struct Body {
    var file: FileID
    var place: Place
    var sentAt: Int64
    var attempts: Int
  }

  private struct Place: Hashable {
    var file: FileID
    var index: Int?
  }

  /// Progress checks are a second apart, and so are these.
  private static let actingTime: Int64 = 2_000_000
  private static let slack: Int64 = 2_500_000_000
  /// The age from which a request can be slow at its file's end.
  private static let stragglerPatience: Int64 = 2_000_000_000
  /// A chosen chunk is missing because its file has just changed, which does not happen so often in a row.
  private static let unsentMax = 10

  private unowned let world: World
  private unowned let network: SimulatedNetwork
  private var files: LookupTable<[UInt8], FileID> = [:]
  private var bodies: OrderedDictionary<HTTPRequestID, Body> = [:]
  private var failures: LookupTable<Place, Int> = [:]
  /// How often in a row each was chosen and could not be sent.
  private var unsent: LookupTable<Place, Int> = [:]
  /// When some of a file was acknowledged, or its first body was sent.
  private var progress: LookupTable<FileID, Int64> = [:]
  /// When anything was acknowledged while more was in flight, or the first body was sent after nothing was; nil without one.
  private var acknowledgedAt: Int64?
  /// When a file last got further than since its latest acknowledgement, or reacted to not getting further.
  private var stillSince: LookupTable<FileID, (at: Int64, sent: Int)> = [:]
  private var lastEnd: LookupTable<FileID, Int64> = [:]
  private var mustReconnect: LookupSet<FileID> = []
  private var straggling: LookupSet<FileID> = []

  init(_ world: World, _ network: SimulatedNetwork) {
    self.world = world
    self.network = network
  }

  mutating func forget() {
    files = [:]
    bodies = [:]
    failures = [:]
    unsent = [:]
    progress = [:]
    acknowledgedAt = nil
    stillSince = [:]
    lastEnd = [:]
    mustReconnect = []
    straggling = []
  }

  /// No progress is expected while the destination is unavailable.
  mutating func destinationIsUnavailable() {
    stillSince = [:]
    acknowledgedAt = nil
  }

  mutating func know(nonce: [UInt8], of file: FileID) { files[nonce] = file }

  mutating func sent(_ order: RequestOrder, attempts: (FileID) -> Int) {
    if case .openSession(let opening) = order.order { files[opening.nonce] = opening.fileID }
    let places = places(of: order.order)
    for place in places { unsent[place] = nil }
    for place in places where order.opensConnection || !order.order.isWatched { stillSince[place.file] = nil }
    for place in places where mustReconnect.remove(place.file) != nil && !order.opensConnection {
      world.fail(.reconnection, "\(place.file) is stuck and goes on over the connections that it has")
    }
    guard let first = places.first, order.order.isWatched else { return }
    let now = world.time.nanoseconds
    acknowledgedAt = acknowledgedAt ?? now
    for place in places {
      forgetIdleTime(of: place.file)
      progress[place.file] = progress[place.file] ?? now
      stillSince[place.file] = stillSince[place.file] ?? (now, 0)
    }
    let attempts = places.map { max(failures[$0] ?? 0, attempts($0.file)) }.max() ?? 0
    bodies[order.id] = Body(file: first.file, place: first, sentAt: now, attempts: attempts)
  }

  mutating func couldNotBeSent(_ order: SendOrder) {
    for place in places(of: order) {
      unsent[place, default: 0] += 1
      if let count = unsent[place], count > Self.unsentMax {
        world.fail(.standstill, "what cannot be sent of \(place.file) is chosen for the \(count)th time in a row")
      }
    }
  }

  mutating func ended(_ order: RequestOrder, _ outcome: StepOutcome) {
    bodies[order.id] = nil
    for (index, place) in places(of: order.order).enumerated() {
      lastEnd[place.file] = world.time.nanoseconds
      switch outcome.ofMember(index) {
      case .chunkStored, .chunkStoredAs, .published:
        acknowledgedAt = bodies.isEmpty ? nil : world.time.nanoseconds
        failures[place] = nil
        progress[place.file] = world.time.nanoseconds
        stillSince[place.file] = (world.time.nanoseconds, 0)
        mustReconnect.remove(place.file)
      default: failures[place, default: 0] += 1
      }
    }
  }

  /// A file that has rested for longer than after a failure had nothing to send.
  private mutating func forgetIdleTime(of file: FileID) {
    let idle = world.time.nanoseconds - (lastEnd[file] ?? 0)
    let rest = UploadConstants.retryMaxDelay.nanoseconds + Self.slack
    if idle > rest, !bodies.values.contains(where: { $0.file == file }) { stillSince[file] = nil }
  }

  /// The file has made no progress for a minute.
  mutating func stuck(_ file: FileID) { mustReconnect.insert(file) }

  /// One request of the file is ended because others have nothing left to send.
  mutating func straggles(_ file: FileID) { straggling.insert(file) }

  /// A body that moved lately is only cancelled with its file, or when the file, or everything, has stalled. At its
  /// file's end it may be, when it has had two seconds.
  mutating func cancelled(_ request: HTTPRequestID, isWanted: (FileID) -> Bool) {
    guard let body = bodies[request], isWanted(body.file), let moved = network.progress(request)?.movedAt else {
      return
    }
    let now = world.time.nanoseconds
    if straggling.remove(body.file) != nil, now - body.sentAt >= Self.stragglerPatience { return }
    // The client does not know what was sent since its latest progress check, and acts upon a check a millisecond
    // later.
    let isKnown = now - moved > Self.actingTime
    let hasMoved = isKnown && now - max(moved, body.sentAt) < UploadConstants.chunkTimeoutMin.nanoseconds - Self.slack
    let sessionTime = UploadConstants.watchdogSession.nanoseconds - Self.slack
    let globalTime = UploadConstants.watchdogGlobal.nanoseconds - Self.slack
    if hasMoved, now - (progress[body.file] ?? now) < sessionTime, now - (acknowledgedAt ?? now) < globalTime {
      world.fail(.patience, "request \(request.value) is cancelled although it moves")
    }
  }

  /// No request outlives its deadline: 30 seconds without a byte, and a minute once it has failed; longer only where
  /// the link is known to be so slow. A file without progress has asked the server, or connected anew, long before the
  /// five minutes after which everything does.
  mutating func check() {
    let now = world.time.nanoseconds
    // Where requests hang on a slow line, the measured rate is below the line's.
    let streamBuffers = world.scenario.slowTimes > 0 ? 96 : 24
    let slowest = streamBuffers * world.scenario.limits.bufferBytes / network.slowestBytesPerSecond
    for (request, body) in bodies {
      guard let (sent, movedAt) = network.progress(request) else { continue }
      let patience = max(
        body.attempts == 0 ? UploadConstants.chunkTimeoutBase : UploadConstants.watchdogSession, .seconds(slowest))
      let stood = now - max(movedAt, body.sentAt)
      if stood > patience.nanoseconds + Self.slack {
        world.fail(.deadline, "request \(request.value) has not moved for \(stood / 1_000_000_000) s")
      }
      if sent > stillSince[body.file]?.sent ?? .max { stillSince[body.file] = (now, sent) }
      let still = now - (stillSince[body.file]?.at ?? now)
      // A watchdog alarm during a file's rest takes effect with the next one.
      let stillMax = (max(UploadConstants.watchdogSession, .seconds(slowest)) + UploadConstants.retryMaxDelay) * 2
      if still > stillMax.nanoseconds + Self.slack {
        world.fail(.standstill, "\(body.file) has come no further for \(still / 1_000_000_000) s")
      }
    }
  }

  private func places(of order: SendOrder) -> [Place] {
    switch order {
    case .chunk, .run:
      order.chunks.flatMap { session, chunks in
        files[session.nonce].map { file in chunks.map { Place(file: file, index: $0.index) } }
      } ?? []
    case .querySession(let session): files[session.nonce].map { [Place(file: $0, index: nil)] } ?? []
    case .wholeFile, .bundle: order.wholeFiles.map { Place(file: $0.file, index: nil) }
    case .prewarm, .openSession, .secureSession, .zeros, .commit, .abort: []
    }
  }
}

extension SendOrder {
  /// Its progress is that of its files. An empty file has no body, and can hang like any other: its first attempt
  /// starts their time.
  fileprivate var isWatched: Bool {
    switch self {
    case .wholeFile, .bundle: true
    default: isBody
    }
  }
}

extension StepOutcome {
  /// The outcome of one file of a request.
  fileprivate func ofMember(_ index: Int) -> StepOutcome {
    guard case .each(let outcomes) = self else { return self }
    return outcomes.indices.contains(index) ? outcomes[index] : self
  }
}

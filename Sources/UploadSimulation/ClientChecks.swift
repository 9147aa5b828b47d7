import FileModel
import Lookup
import OrderedCollections
import TransferModel
import UploadEngine

/// Checks the client's requests: how many at once, which twice, how fast while it fails, to which addresses, and for
/// how long.
final class ClientChecks {
  private struct ChunkKey: Hashable {
    var session: String
    var index: Int
  }

  /// With more failures than these within a virtual second there is no back-off.
  private static let failuresPerSecondMax = 150

  private unowned let world: World
  private var inFlight: OrderedDictionary<HTTPRequestID, SendOrder> = [:]
  private var deadlines: DeadlineChecks
  private var addresses = AddressChecks()
  private var costs: CostChecks
  private var bytes: ByteCosts
  /// The budget that memory allows now.
  var budget = MemoryBudget.full
  /// The encodings that the server has announced …
  private var takes: LookupSet<OfferedEncoding> = []
  /// … and whether it takes files that are compressed together.
  private var takesFrames = false
  /// Chunks that the client knows to be stored.
  private var acknowledged: LookupTable<ChunkKey, ChunkDigest> = [:]
  private var failureTimes: [Int64] = []
  private var resting = RestingConnections()

  init(_ world: World, _ network: SimulatedNetwork) {
    self.world = world
    deadlines = DeadlineChecks(world, network)
    costs = CostChecks(world)
    bytes = ByteCosts(world)
  }

  /// The process has ended, with all its state.
  func forget() {
    inFlight = [:]
    acknowledged = [:]
    failureTimes = []
    resting.renew()
    deadlines.forget()
    costs.forget()
    bytes.forget()
    addresses = AddressChecks()
    budget = .full
    takes = []
    takesFrames = false
  }

  /// One more buffer is taken; so many of its kind are in use now, including those that are being read into.
  ///
  /// Large ones that were in use when the budget fell stay until their requests are over: only no other may be added.
  func bufferIsTaken(isSmall: Bool, inUse count: Int, bytes: Int) {
    let limits = world.scenario.limits
    if isSmall, count > limits.smallBuffers {
      world.fail(.buffers, "\(count) small buffers are in use, \(limits.smallBuffers) are allowed")
    }
    let bytesMax = min(limits.buffers, budget.buffers) * limits.bufferBytes
    if !isSmall, count > 1, bytes > bytesMax {
      world.fail(.buffers, "\(bytes) bytes of buffers are in use, \(bytesMax) are allowed")
    }
  }

  /// After a sleep the earlier health of an address is unknown.
  func awoke() {
    addresses.forget()
    resting.renew()
  }

  func decided(_ order: RequestOrder) {
    if let wrong = addresses.chosen(order.endpoint, of: world.scenario.addresses) { world.fail(.address, wrong) }
  }

  func sent(_ order: RequestOrder, carrying members: [CarriedBytes?], attempts: (FileID) -> Int) {
    checkAlone(order.order)
    if !order.opensConnection, !resting.take(asleep: world.time.clockReading.asleep) {
      world.fail(.reconnection, "request \(order.id.value) goes over a connection that rested while the machine slept")
    }
    deadlines.sent(order, attempts: attempts)
    costs.sent(order.order)
    costs.sent(order.id, order.order)
    bytes.sent(order.id, members)
    inFlight[order.id] = order.order
    checkCount(order.order)
    guard let (session, chunks) = order.order.chunks else { return }
    for chunk in chunks where acknowledged[ChunkKey(session: session.id, index: chunk.index)] == chunk.digest {
      world.fail(.resending, "chunk \(chunk.index) of \(session.id) is sent again although it was acknowledged")
    }
  }

  /// A chosen chunk or file is not there to be sent.
  func couldNotBeSent(_ order: SendOrder) { deadlines.couldNotBeSent(order) }

  private func checkCount(_ order: SendOrder) {
    let bodies = inFlight.values.filter { $0.isBody }.count
    let controls = inFlight.values.filter { $0.isControl }.count
    let streams = min(world.scenario.limits.parallelChunks, budget.chunksInFlight)
    let awaited = streams < UploadConstants.maxParallelChunkUploads ? 0 : UploadLimits.awaitedFilesMax
    if order.isBody, bodies > streams + awaited {
      world.fail(.parallelism, "\(bodies) requests with bodies are under way")
    }
    if controls > world.scenario.limits.controlRequests {
      world.fail(.parallelism, "\(controls) requests without bodies are under way")
    }
  }

  /// One revision is published by one request at a time.
  private func checkAlone(_ order: SendOrder) {
    for other in inFlight.values {
      for mine in order.wholeFiles where other.wholeFiles.contains(where: { $0.file == mine.file }) {
        world.fail(.singlePublication, "two requests publish \(mine.path.displayText) at once")
      }
      switch (order, other) {
      case (.commit(let mine), .commit(let others)) where mine.session.id == others.session.id:
        world.fail(.singlePublication, "two commits of session \(mine.session.id) are under way")
      default: break
      }
      // A server that lies may give two files the same session.
      if let mine = order.chunks, let others = other.chunks, mine.session == others.session,
        let both = mine.chunks.first(where: { chunk in others.chunks.contains { $0.index == chunk.index } })
      {
        world.fail(.singleChunk, "two requests for chunk \(both.index) of \(mine.session.id) are under way")
      }
    }
  }

  func offered(_ offers: DestinationOffers) {
    takes = offers.encodings ?? takes
    if let isOffered = offers.takesSharedFrames {
      takesFrames = isOffered
    } else if offers.encodings != nil || offers.filesPerRequest != nil {
      takesFrames = false
    }
  }

  func ended(_ order: RequestOrder, _ outcome: StepOutcome) {
    if inFlight.removeValue(forKey: order.id) != nil, !outcome.hasLostItsConnection {
      resting.rests(asleep: world.time.clockReading.asleep)
    }
    costs.ended(order.id)
    bytes.ended(order.id, outcome)
    deadlines.ended(order, outcome)
    addresses.ended(order.endpoint, outcome)
    switch outcome {
    case .sessionOpened(_, _, _, let encodings, _, _), .held(_, _, _, let encodings, _, _):
      takes = encodings
    default: break
    }
    switch (order.order, outcome) {
    case (.chunk, .chunkStored), (.run, .each):
      guard let (session, chunks) = order.order.chunks else { break }
      for (position, chunk) in chunks.enumerated()
      where outcome.ofMember(position, of: chunks.count) == .chunkStored {
        acknowledged[ChunkKey(session: session.id, index: chunk.index)] = chunk.digest
      }
    case (.zeros(let zeros), .chunkStored):
      for index in zeros.ranges.joined() {
        acknowledged[ChunkKey(session: zeros.session.id, index: index)] = zeros.digest
      }
    case (.commit(let commit), .published):
      costs.published(commit)
      if let file = commit.fileID { bytes.published(file, at: commit.path, as: commit.merkleRoot) }
    case (.commit(let commit), .incomplete(let missing)):
      for index in missing { acknowledged[ChunkKey(session: commit.session.id, index: index)] = nil }
    case (.querySession(let session), .held(let digests, _, _, _, _, _)):
      acknowledged = acknowledged.filter { place, digest in
        place.session != session.id || digests[place.index] == digest.sha256
      }
    case (_, .refused(let failure)):
      if [.transport(.connectFailed), .transport(.unknownHost)].contains(failure.kind) {
        costs.foundNoServer(order.order)
      }
      failed(failure)
    default: break
    }
  }

  private func failed(_ failure: StepFailure) {
    if failure.kind == .transport(.cancelled) { return }
    let now = world.time.nanoseconds
    failureTimes.append(now)
    failureTimes.removeAll { $0 < now - 1_000_000_000 }
    if failureTimes.count > Self.failuresPerSecondMax {
      world.fail(.pace, "\(failureTimes.count) requests have failed within a second")
    }
  }

  /// A body is compressed: only allowed where the receiver has announced that encoding.
  func compressed(_ request: HTTPRequestID, _ encodings: LookupSet<OfferedEncoding>) {
    guard !encodings.subtracting(takes).isEmpty else { return }
    world.fail(.encoding, "request \(request.value) is compressed, and the server did not offer that")
  }

  /// The files of a request are compressed together.
  func framed(_ request: HTTPRequestID) {
    guard !takesFrames else { return }
    world.fail(.encoding, "request \(request.value) is one frame, and the server did not offer that")
  }

  func setBack(_ file: FileID, _ failure: FileStatus.Failure, count: Int) {
    costs.setBack(file, failure, count: count)
  }

  /// A file has another content, or a user wants it: its setbacks are counted anew.
  func beginsAnew(_ file: FileID?) { if let file { costs.beginsAnew(file) } else { costs.beginAnew() } }

  /// A file has other bytes or names, or a user has asked for it: all of it may be sent again.
  func mayGoOutAnew(_ file: FileID) { bytes.beginsAnew(file) }

  func know(_ record: ResumeRecord) {
    deadlines.know(nonce: record.nonce, of: record.fileID)
    costs.know(nonce: record.nonce, of: record.fileID)
  }
  func destinationIsUnavailable() { deadlines.destinationIsUnavailable() }
  func stuck(_ id: FileID) { deadlines.stuck(id) }
  func straggles(_ id: FileID) { deadlines.straggles(id) }
  func cancelled(_ request: HTTPRequestID, isWanted: (FileID) -> Bool) {
    deadlines.cancelled(request, isWanted: isWanted)
  }
  func checkDeadlines() { deadlines.check() }

  func checkIdle() {
    if !inFlight.isEmpty { world.fail(.leaks, "\(inFlight.count) requests were never answered") }
  }
}

extension StepOutcome {
  fileprivate var hasLostItsConnection: Bool {
    if case .refused(let failure) = self, case .transport = failure.kind { true } else { false }
  }
}

extension SendOrder {
  var isBody: Bool {
    chunks != nil || wholeFiles.contains { $0.read != nil }
  }

  fileprivate var isControl: Bool {
    switch self {
    case .openSession, .querySession, .secureSession, .zeros, .commit: true
    default: false
    }
  }
}

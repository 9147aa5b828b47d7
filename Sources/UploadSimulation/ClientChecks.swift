import FileModel
import UploadEngine

/// Watches what the client asks for: how much at once, what twice, and how fast while it fails.
final class ClientChecks {
  private struct ChunkPlace: Hashable {
    var session: String
    var index: Int
  }

  /// More failures than these within a virtual second are no back-off.
  private static let failuresPerSecondMax = 150

  private unowned let world: World
  private var inFlight: [HTTPRequestID: SendOrder] = [:]
  /// What the client was told is stored.
  private var acknowledged: [ChunkPlace: ChunkDigest] = [:]
  private var failureTimes: [Int64] = []

  init(_ world: World) { self.world = world }

  /// The process has ended; what it knew is not known any more.
  func forget() {
    inFlight = [:]
    acknowledged = [:]
    failureTimes = []
  }

  func buffers(_ count: Int) {
    let limit = world.scenario.limits.buffers
    if count > limit { world.fail("buffers", "\(count) buffers are in use, \(limit) are allowed") }
  }

  func sent(_ order: RequestOrder) {
    checkAlone(order.order)
    inFlight[order.id] = order.order
    let limits = world.scenario.limits
    let bodies = inFlight.values.filter { $0.isBody }.count
    let controls = inFlight.values.filter { $0.isControl }.count
    if bodies > limits.parallelChunks + limits.controlRequests || controls > limits.controlRequests {
      world.fail("parallelism", "\(bodies) requests with bodies and \(controls) others are under way")
    }
    guard case .chunk(let session, let index, let digest, _) = order.order else { return }
    if acknowledged[ChunkPlace(session: session.id, index: index)] == digest {
      world.fail("resent", "chunk \(index) of \(session.id) is sent again although it was acknowledged")
    }
  }

  /// One revision is published by one request at a time.
  private func checkAlone(_ order: SendOrder) {
    for other in inFlight.values {
      switch (order, other) {
      case (.commit(let mine), .commit(let others)) where mine.session.id == others.session.id:
        world.fail("double commit", "two commits of session \(mine.session.id) are under way")
      case (.wholeFile(let mine), .wholeFile(let others)) where mine.file == others.file:
        world.fail("double commit", "two requests publish \(mine.path.displayText) at once")
      case (.chunk(let mine, let index, _, _), .chunk(let others, let otherIndex, _, _))
      where mine.id == others.id && index == otherIndex:
        world.fail("double chunk", "two requests for chunk \(index) of \(mine.id) are under way")
      default: break
      }
    }
  }

  func ended(_ order: RequestOrder, _ outcome: StepOutcome) {
    inFlight[order.id] = nil
    switch (order.order, outcome) {
    case (.chunk(let session, let index, let digest, _), .chunkStored):
      acknowledged[ChunkPlace(session: session.id, index: index)] = digest
    case (.commit(let commit), .incomplete(let missing)):
      for index in missing { acknowledged[ChunkPlace(session: commit.session.id, index: index)] = nil }
    case (.querySession(let session), .held(let digests, _, _, _)):
      acknowledged = acknowledged.filter { place, digest in
        place.session != session.id || digests[place.index] == digest.sha256
      }
    case (_, .refused(let failure)): failed(failure)
    default: break
    }
  }

  private func failed(_ failure: StepFailure) {
    if failure.kind == .transport(.cancelled) { return }
    let now = world.time.nanoseconds
    failureTimes.append(now)
    failureTimes.removeAll { $0 < now - 1_000_000_000 }
    if failureTimes.count > Self.failuresPerSecondMax {
      world.fail("pace", "\(failureTimes.count) requests have failed within a second")
    }
  }

  func checkIdle() {
    if !inFlight.isEmpty { world.fail("leak", "\(inFlight.count) requests were never answered") }
  }
}

extension SendOrder {
  fileprivate var isBody: Bool {
    switch self {
    case .chunk, .wholeFile: true
    default: false
    }
  }

  fileprivate var isControl: Bool {
    switch self {
    case .openSession, .querySession, .commit: true
    default: false
    }
  }
}

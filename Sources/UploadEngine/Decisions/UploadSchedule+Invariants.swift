import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Invariants that hold after every event. Tests check them after each; nothing is decided by them.
extension UploadSchedule {
  /// The violated invariants, in words; empty where all hold. Goes over all files.
  package var brokenInvariants: [String] {
    files.contradictions + brokenCounts + brokenSlots + brokenReads
      + files.values.flatMap { brokenFacts(of: $0) + brokenRequests(of: $0) }
  }

  /// The counts that each machine keeps match the state.
  private var brokenCounts: [String] {
    let bodies = requests.values.count { $0.order.carriesBytes }
    return broken([
      (link.inFlight == bodies, "the link counts \(link.inFlight) requests with bodies, of \(bodies)"),
      (
        requests.chunkCount == requests.values.count { $0.order.chunks != nil },
        "requests with chunks are miscounted"
      ),
      (
        requests.controlCount <= limits.controlRequests,
        "\(requests.controlCount) control requests, of at most \(limits.controlRequests)"
      ),
      (isProbeUnderWay, "the gate waits for a probe that is not under way"),
    ])
  }

  private var isProbeUnderWay: Bool {
    guard case .probing(let request) = destination.gate.state else { return true }
    return requests[request] != nil
  }

  /// Each file has one slot, and no more have slots than allowed.
  private var brokenSlots: [String] {
    let unloadedToo = files.values.filter { memory.unloaded[$0.id] != nil }.map(\.id)
    return queues.brokenInvariants + openFiles.brokenInvariants + destination.prewarmer.sessions.brokenInvariants
      + broken([
        (unloadedToo.isEmpty, "in memory, and known to the catalog alone: \(unloadedToo)")
      ])
  }

  /// Every buffer belongs to a chunk, or to a request of a file that is sent by other means by now.
  private var brokenReads: [String] {
    var known = LookupSet(requests.values.flatMap(\.order.reads))
    var missing: [String] = []
    for file in files.values {
      for (index, state) in (file.transfer?.states ?? []).enumerated() {
        guard let read = state.read else { continue }
        known.insert(read)
        if !memory.buffers.holds(read) { missing.append("\(file.id), chunk \(index): \(state) without a buffer") }
      }
    }
    let lost = memory.buffers.ended.subtracting(known)
    return missing + broken([(lost.isEmpty, "\(lost.count) buffers that no chunk and no request has")])
  }

  /// The state of a file belongs to its phase.
  private func brokenFacts(of file: FileUpload) -> [String] {
    let isDelivered = file.phase == .finishing || file.phase == .complete
    return broken([
      (!isDelivered || file.receipt != nil, "has no receipt"),
      (file.growth == nil || file.phase == .writing, "grows, and is not written"),
      (file.growth == nil || file.transfer != nil, "grows, and has no chunks"),
      (!file.phase.isRemoved || file.transfer == nil, "has chunks, and is removed"),
      (!file.phase.isRemoved || !file.isOpen || file.snapshot.names.isEmpty, "is open under a name, and removed"),
    ]).map { "\(file.id), \(file.phase.kind): \($0)" }
  }

  /// A file's requests are in flight.
  private func brokenRequests(of file: FileUpload) -> [String] {
    var broken: [String] = []
    if let request = file.publishing?.request, requests[request] == nil {
      broken.append("\(file.id) waits for a publication that is not under way")
    }
    for (index, state) in (file.transfer?.states ?? []).enumerated() {
      guard let request = state.request, requests[request] == nil else { continue }
      broken.append("\(file.id), chunk \(index): \(state), which is not under way")
    }
    return broken
  }

  private func broken(_ rules: [(holds: Bool, otherwise: String)]) -> [String] {
    rules.filter { !$0.holds }.map(\.otherwise)
  }
}

extension ChunkTransfer.State {
  fileprivate var read: ReadID? {
    switch self {
    case .reading(let read), .read(let read, _), .sending(_, let read, _): read
    case .unsealed, .pending, .resting, .hole, .sendingHole, .streaming, .done: nil
    }
  }

  fileprivate var request: HTTPRequestID? {
    switch self {
    case .sending(let request, _, _), .sendingHole(let request, _), .streaming(let request): request
    case .unsealed, .pending, .resting, .reading, .hole, .read, .done: nil
    }
  }
}

import ChunkProtocol
import Integrity
import Lookup
import ProtocolReference
import ReceiverCore

/// Drives a core as the HTTP side and a store would, and keeps what it answered.
final class CoreHarness {
  static let token = "a-token"
  static let otherToken = "another-token"

  let limits: CoreLimits
  var core: ReceiverCore
  var now: Milliseconds = 1_700_000_000_000
  var replies: [RequestID: [Reply]] = [:]
  /// Effects that were not carried out yet; replies are not among them.
  var pending: [CoreEffect] = []
  /// What the store was to publish.
  private(set) var publications: [Publication] = []
  /// How often a root was to be counted.
  private(set) var measurements = 0
  /// What the store says of new sessions.
  var reservation = SpaceReservation.none
  /// What it says to be published of the file of a new session.
  var published: PublishedContent?
  private var lastRequest: UInt64 = 0
  private var lastID = 0

  let credential = Credential(token: CoreHarness.token, root: "/files")
  let other = Credential(token: CoreHarness.otherToken, root: "/other")

  init(quota: UInt64? = nil, adjust: (inout CoreLimits) -> Void = { _ in }) {
    var limits = CoreLimits()
    limits.chunkBytesMin = 4
    limits.headroomBytes = 1000
    adjust(&limits)
    self.limits = limits
    core = ReceiverCore(
      limits: limits,
      credentials: [credential, other].map {
        var credential = $0.core
        credential.quotaBytes = quota
        return credential
      })
  }

  func makeRequest() -> RequestID {
    lastRequest += 1
    return RequestID(lastRequest)
  }

  func send(_ event: CoreEvent) {
    for effect in core.handle(event, now: now) {
      if case .reply(let request, let reply) = effect {
        replies[request, default: []].append(reply)
      } else {
        switch effect {
        case .measureUsage: measurements += 1
        case .publish(_, let publication), .publishWholeFile(_, _, let publication): publications.append(publication)
        default: break
        }
        pending.append(effect)
      }
    }
  }

  /// Carries out everything that is pending, successfully.
  func runEffects() {
    while !pending.isEmpty { run(pending.removeFirst()) }
  }

  func run(_ effect: CoreEffect) {
    switch effect {
    case .createSession(let facts):
      send(.sessionCreated(facts.sessionID, .success(reservation), published: published))
    case .writeChunk(let request, _, _, _, _): send(.chunkWritten(request, nil))
    case .writeZeros(let request, _, _, _): send(.zerosWritten(request, nil))
    case .checkCommit(let check): send(.commitChecked(check.session, generation: check.generation, check.verdict))
    case .publish(let id, _): send(.published(id, .success(PublicationResult())))
    case .publishWholeFile(let request, _, _): send(.wholeFilePublished(request, .success(PublicationResult())))
    case .secureSession(let request, let id): send(.sessionSecured(request, id, nil))
    case .verifySession(let id, _): send(.sessionVerified(id, .success([:])))
    case .reply, .removeSession, .clearSession, .forgetReceipts, .measureUsage, .recheck, .note: break
    }
  }

  /// The session's files are to go.
  func removes(_ id: SessionID) -> Bool {
    pending.contains { effect in
      switch effect {
      case .removeSession(id), .clearSession(id): true
      default: false
      }
    }
  }

  // MARK: Requests

  func open(
    name: String = "scan.mov", size: UInt64? = nil, chunk: Int = 4, key: String = "key", nonce: UInt8 = 7,
    by credential: Credential? = nil, free: UInt64 = 1_000_000, takesBase: Bool? = nil
  ) -> RequestID {
    lastID += 1
    let request = makeRequest()
    send(
      .openSession(
        request,
        SessionOpeningRequest(
          credential: (credential ?? self.credential).id, idempotencyKey: key,
          opening: SessionParameters(
            name: name, sizeBytes: size, chunkBytes: chunk, nonce: [UInt8](repeating: nonce, count: 32),
            modifiedNanoseconds: 0, mode: 0o644, takesBase: takesBase),
          candidateID: SessionID("session-\(lastID)"), freeBytes: free)))
    return request
  }

  /// Opens a session and says its id.
  func opened(
    size: UInt64? = nil, chunk: Int = 4, key: String = "key", by credential: Credential? = nil
  ) -> SessionID {
    let request = open(size: size, chunk: chunk, key: key, by: credential)
    runEffects()
    guard case .sessionOpened(let facts, _, _, _, _)? = replies[request]?.last else { return SessionID("not opened") }
    return facts.sessionID
  }

  /// Chunks of these sizes, as they are found at a start.
  static func recorded(_ sizes: [Int]) -> ChunkTable {
    var chunks = ChunkTable()
    for (index, size) in sizes.enumerated() {
      chunks.insert(facts([UInt8](repeating: 1, count: size)), at: UInt32(index))
    }
    return chunks
  }

  static func facts(_ bytes: [UInt8]) -> ChunkChecksums {
    ChunkChecksums(of: bytes)
  }

  func mac(_ bytes: [UInt8], index: UInt32, session: String, nonce: UInt8 = 7, token: String) -> [UInt8] {
    ProtocolReference.mac(
      secret: token, nonce: [UInt8](repeating: nonce, count: 32), sessionID: session, index: index, bytes)
  }

  func begin(
    _ id: SessionID, _ index: UInt32, _ bytes: [UInt8], mac: [UInt8]? = nil, length: UInt64? = nil,
    encoding: ChunkEncoding = .identity, by credential: Credential? = nil, free: UInt64 = 1_000_000
  ) -> RequestID {
    let request = makeRequest()
    let sender = credential ?? self.credential
    let mac = mac ?? self.mac(bytes, index: index, session: id.text, token: sender.token ?? "")
    send(
      .beginChunk(
        request,
        ChunkHead(
          credential: sender.id, session: id, index: index,
          announced: AnnouncedBytes(
            facts: CoreHarness.facts(bytes), mac: mac, contentLength: length, encoding: encoding),
          freeBytes: free)))
    return request
  }

  func put(_ id: SessionID, _ index: UInt32, _ bytes: [UInt8]) -> RequestID {
    let request = begin(id, index, bytes)
    send(.chunkArrived(request, CoreHarness.facts(bytes)))
    return request
  }

  /// Puts all chunks of a file and lets them be stored.
  func putAll(_ id: SessionID, _ file: [UInt8], chunk: Int = 4) {
    for (index, piece) in CoreHarness.chunks(file, chunk).enumerated() { _ = put(id, UInt32(index), piece) }
    runEffects()
  }

  /// Likewise, with other bytes in the first place before: what was taken back has to be proved anew.
  func putAllReplacingOne(_ id: SessionID, _ file: [UInt8], chunk: Int = 4) {
    _ = put(id, 0, file[..<min(chunk, file.count)].map { ~$0 })
    runEffects()
    putAll(id, file, chunk: chunk)
  }

  static func chunks(_ file: [UInt8], _ size: Int) -> [[UInt8]] {
    stride(from: 0, to: file.count, by: size).map { Array(file[$0..<min($0 + size, file.count)]) }
  }

  static func commitParameters(
    _ id: SessionID, _ file: [UInt8], chunk: Int = 4, name: String = "scan.mov", ifExists: IfExists = .replace,
    owning ownership: NameOwnership? = nil
  ) -> CommitParameters {
    let digests = chunks(file, chunk).map(ProtocolReference.sha256)
    return CommitParameters(
      name: name, sizeBytes: UInt64(file.count), chunkCount: UInt32(digests.count),
      merkleRoot: digest(ProtocolReference.merkleRoot(digests)),
      chainTip: digest(ProtocolReference.chainTip(sessionID: id.text, digests)), modifiedNanoseconds: 0, mode: 0o644,
      ifExists: ifExists, ownership: ownership)
  }

  private static func digest(_ bytes: [UInt8]) -> Digest32 {
    guard let digest = Digest32(bytes) else { preconditionFailure("a digest of the reference has 32 bytes") }
    return digest
  }

  func zeros(
    _ id: SessionID, _ ranges: [ChunkIndexRange], mac: [UInt8]? = nil, by credential: Credential? = nil,
    free: UInt64 = 1_000_000
  ) -> RequestID {
    let request = makeRequest()
    send(
      .storeZeros(
        request,
        ZerosHead(
          credential: (credential ?? self.credential).id, session: id, ranges: ranges, mac: mac ?? zerosMAC(id, ranges),
          freeBytes: free)))
    return request
  }

  func zerosMAC(_ id: SessionID, _ ranges: [ChunkIndexRange], chunk: Int = 4) -> [UInt8] {
    ProtocolReference.zerosMAC(
      secret: CoreHarness.token, nonce: [UInt8](repeating: 7, count: 32), sessionID: id.text, chunkBytes: chunk,
      ranges: ranges.map { ($0.first, $0.last) })
  }

  /// Before the store has done anything more.
  func heldNow(_ id: SessionID) -> [UInt32]? {
    guard case .held(let held)? = replies[query(id)]?.last else { return nil }
    return held.chunks.keys.sorted()
  }

  func facts(of id: SessionID) -> SessionRecord? {
    guard case .held(let held)? = replies[query(id)]?.last else { return nil }
    return held.facts
  }

  func commit(
    _ id: SessionID, _ facts: CommitParameters, receipt: String = "receipt", by credential: Credential? = nil
  ) -> RequestID {
    let request = makeRequest()
    send(.commit(request, (credential ?? self.credential).id, id, facts, receiptID: receipt))
    return request
  }

  func query(_ id: SessionID, by credential: Credential? = nil) -> RequestID {
    let request = makeRequest()
    send(.querySession(request, (credential ?? self.credential).id, id))
    return request
  }

  func secure(_ id: SessionID) -> RequestID {
    let request = makeRequest()
    send(.secureSession(request, credential.id, id))
    return request
  }

  /// What was said to be on the disk.
  func secured(_ request: RequestID) -> [UInt32]? {
    guard case .held(let held)? = replies[request]?.last, held.isDurable else { return nil }
    return held.chunks.keys.sorted()
  }

  func beginFile(
    _ bytes: [UInt8], name: String = "small.txt", key: String = "file-key", ifExists: IfExists = .replace,
    owning ownership: NameOwnership? = nil, by credential: Credential? = nil
  ) -> RequestID {
    let request = makeRequest()
    let sender = credential ?? self.credential
    send(
      .beginWholeFile(
        request,
        WholeFileHead(
          credential: sender.id, idempotencyKey: key, name: name,
          announced: AnnouncedBytes(
            facts: CoreHarness.facts(bytes),
            mac: mac(bytes, index: 0, session: key, token: sender.token ?? ""), contentLength: UInt64(bytes.count)),
          nonce: [UInt8](repeating: 7, count: 32), modifiedNanoseconds: 0, mode: 0o644, ifExists: ifExists,
          ownership: ownership, receiptID: "receipt-\(request.value)", freeBytes: 1_000_000)))
    return request
  }

  func tick(after milliseconds: Milliseconds) {
    now += milliseconds
    send(.tick)
  }

  // MARK: Answers

  func refusal(_ request: RequestID) -> Refusal.Kind? {
    guard case .refused(let refusal)? = replies[request]?.last else { return nil }
    return refusal.kind
  }

  func receipt(_ request: RequestID) -> PublicationReceipt? {
    guard case .receipt(let receipt)? = replies[request]?.last else { return nil }
    return receipt
  }

  /// nil when the chunk is not stored; otherwise whether it was held already.
  func wasHeld(_ request: RequestID) -> Bool? {
    guard case .chunkStored(let wasHeld)? = replies[request]?.last else { return nil }
    return wasHeld
  }

  func isAdmitted(_ request: RequestID) -> Bool {
    guard case .bodyAdmitted? = replies[request]?.first else { return false }
    return true
  }

  func heldIndices(_ id: SessionID) -> [UInt32]? {
    let request = query(id)
    runEffects()
    guard case .held(let held)? = replies[request]?.last else { return nil }
    return held.chunks.keys.sorted()
  }

  var isPublishing: Bool {
    pending.contains {
      switch $0 {
      case .publish, .publishWholeFile: true
      default: false
      }
    }
  }
}

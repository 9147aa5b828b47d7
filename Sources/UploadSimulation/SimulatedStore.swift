import ChunkProtocol
import Integrity
import Lookup
import ReceiverCore

/// The receiver's files on a simulated disk, step by step as `FileStore` makes them: data, then the record; data on the disk,
/// then the intent, then the rename, then the names on the disk, then “published”.
final class SimulatedStore {
  /// Throws a ``DiskFailure``.
  typealias Step = () throws -> Void

  private enum Record: Codable {
    case session(SessionFacts)
    case chunk(index: UInt32, sha256: [UInt8], crc32c: UInt32, sizeBytes: UInt32)
    case committing(ReceiptFacts, node: UInt64)
    case published
    case wholeFile(WholeFileRecord, ReceiptFacts, node: UInt64)
    case wholeFilePublished(receiptID: String)
  }

  private static let receipts = "receipts"

  private unowned let world: World
  let disk = SimulatedDisk()

  /// Sessions with chunks that are not on the disk yet.
  private var written: LookupSet<SessionID> = []

  init(_ world: World) {
    self.world = world
    disk.clock = { [unowned world] in world.time.receiverMilliseconds }
    world.oracle.look = { [unowned self] in shown($0) }
  }

  /// What lies under the credential's root.
  var publishedBytes: UInt64 {
    disk.paths(below: "published/").reduce(0) { $0 + UInt64(disk.bytes($1)?.count ?? 0) }
  }

  /// What belongs to no published file.
  var leftovers: [String] { disk.paths(below: "sessions/") + disk.paths(below: "incoming/") }

  // MARK: Sessions

  func create(_ facts: SessionFacts) -> [Step] {
    let (data, journal) = Self.paths(facts.sessionID)
    return [
      { try self.disk.create(data) },
      {
        try self.disk.create(journal)
        try self.append(.session(facts), to: journal)
      },
    ]
  }

  func write(_ body: [UInt8], _ session: SessionID, _ index: UInt32, _ offset: Int, _ facts: ChunkFacts) -> [Step] {
    let (data, journal) = Self.paths(session)
    let record = Record.chunk(
      index: index, sha256: facts.sha256.bytes, crc32c: facts.crc32c, sizeBytes: facts.sizeBytes)
    return [
      {
        // Where the session was removed meanwhile, its folder is gone.
        guard self.disk.node(journal) != nil else { throw DiskFailure.broken }
        if self.disk.node(data) == nil { try self.disk.create(data) }
        try self.disk.write(data, body, at: offset)
      },
      {
        try self.append(record, to: journal)
        self.written.insert(session)
      },
    ]
  }

  /// Brings what was written to the disk, the data before what tells of it. Chunks go on being written meanwhile.
  func syncWritten() -> [Step] {
    let sessions = written.sorted()
    written = []
    let files = sessions.flatMap { [Self.paths($0).data, Self.paths($0).journal] }
    var steps: [Step] = files.map { path in { if self.disk.node(path) != nil { try self.disk.sync(path) } } }
    if !steps.isEmpty { steps.append { try self.disk.syncNames() } }
    return steps
  }

  func secure(_ session: SessionID) -> [Step] {
    [Self.paths(session).data, Self.paths(session).journal].map { path in { try self.disk.sync(path) } }
      + [{ try self.disk.syncNames() }]
  }

  /// The recorded chunks whose bytes are really there.
  func verify(_ session: SessionID) -> LookupTable<UInt32, ChunkFacts> {
    let (data, journal) = Self.paths(session)
    guard let bytes = disk.bytes(data), let facts = facts(of: session) else { return [:] }
    var chunks: LookupTable<UInt32, ChunkFacts> = [:]
    for record in records(in: journal) {
      guard case .chunk(let index, let sha256, let crc32c, let size) = record, let digest = Digest32(sha256)
      else { continue }
      chunks[index] = ChunkFacts(sha256: digest, crc32c: crc32c, sizeBytes: size)
    }
    if world.bug == .believeChunkJournal { return chunks }
    return chunks.filter { index, chunk in
      Self.piece(of: bytes, at: Int(index) * facts.opening.chunkBytes, chunk.sizeBytes)
        .map { sha256($0) == chunk.sha256.bytes } ?? false
    }
  }

  func holds(_ chunk: ChunkFacts, at index: UInt32, of session: SessionID) -> Bool {
    guard let bytes = disk.bytes(Self.paths(session).data), let facts = facts(of: session),
      let piece = Self.piece(of: bytes, at: Int(index) * facts.opening.chunkBytes, chunk.sizeBytes)
    else { return false }
    return sha256(piece) == chunk.sha256.bytes
  }

  func remove(_ session: SessionID) {
    let (data, journal) = Self.paths(session)
    disk.unlink(journal)
    disk.unlink(data)
  }

  // MARK: Publication

  func publish(_ session: SessionID, _ publication: Publication) -> [Step] {
    let (data, journal) = Self.paths(session)
    let receipt = publication.receipt
    let names: [Step] = [
      { if self.world.bug != .skipNameSync { try self.disk.syncNames() } },
      { try self.appendIfPossible(.published, to: journal) },
    ]
    if isRenamed(session, receipt) { return names }
    // It had the name before this was known to be on the disk, and another file has taken it: what is read again is not there.
    if isRenamed(session, receipt, orWasOnce: true) { return [{ throw DiskFailure.broken }] }
    return [
      {
        if self.disk.node(data) == nil { try self.disk.create(data) }
        try self.disk.truncate(data, to: Int(clamping: receipt.sizeBytes))
      },
      { if self.world.bug != .skipDataSync { try self.disk.sync(data) } },
      {
        try self.append(.committing(receipt, node: self.disk.node(data)?.number ?? 0), to: journal)
      },
      { try self.disk.sync(journal) },
      { try self.take(data, receipt) },
    ] + names
  }

  /// The session's data has this receipt's name, as far as memory knows, or had it before another file took it.
  func isRenamed(_ session: SessionID, _ receipt: ReceiptFacts, orWasOnce: Bool = false) -> Bool {
    let (data, journal) = Self.paths(session)
    guard disk.node(data) == nil else { return false }
    return records(in: journal).contains { record in
      guard case .committing(let found, let node) = record else { return false }
      return found.id == receipt.id && (orWasOnce || disk.node(Self.target(found.name))?.number == node)
    }
  }

  func publish(_ body: [UInt8], _ record: WholeFileRecord, _ publication: Publication) -> [Step] {
    let receipt = publication.receipt
    let data = "incoming/\(receipt.id)"
    let steps: [Step] = [
      {
        try self.disk.create(data)
        try self.disk.write(data, body, at: 0)
      },
      { if self.world.bug != .skipDataSync { try self.disk.sync(data) } },
      {
        if self.disk.node(Self.receipts) == nil {
          try self.disk.create(Self.receipts)
          try self.disk.syncNames()
        }
        try self.append(.wholeFile(record, receipt, node: self.disk.node(data)?.number ?? 0), to: Self.receipts)
      },
      { try self.disk.sync(Self.receipts) },
      { try self.take(data, receipt) },
      { if self.world.bug != .skipNameSync { try self.disk.syncNames() } },
      {
        try self.appendIfPossible(.wholeFilePublished(receiptID: receipt.id), to: Self.receipts)
      },
    ]
    return steps.map { step in
      {
        do {
          try step()
        } catch {
          if error as? DiskFailure != .crashed { self.disk.unlink(data) }
          throw error
        }
      }
    }
  }

  private func take(_ data: String, _ receipt: ReceiptFacts) throws(DiskFailure) {
    let target = Self.target(receipt.name)
    try disk.rename(data, to: target)
    world.trace("receiver: publishes \(receipt.name), \(receipt.sizeBytes) bytes, receipt \(receipt.id)")
    world.oracle.published(disk.bytes(target) ?? [], name: receipt.name, receipt: receipt.id)
    if let quota = world.scenario.quotaBytes, !world.isHealed, publishedBytes > quota {
      world.fail(.quota, "\(publishedBytes) bytes are published, \(quota) are allowed")
    }
  }

  /// A full disk must not undo a publication.
  private func appendIfPossible(_ record: Record, to journal: String) throws(DiskFailure) {
    do throws(DiskFailure) {
      try append(record, to: journal)
    } catch {
      if error == .crashed { throw error }
    }
  }

  /// What is shown under a name.
  func shown(_ name: String) -> [UInt8]? { disk.bytes(Self.target(name)) }

  /// What is shown is what it was, also after the power was gone.
  func checkPublished() {
    for path in disk.paths(below: "published/") {
      world.oracle.shown(disk.bytes(path) ?? [], name: String(path.dropFirst("published/".count)))
    }
  }

  private static func target(_ name: String) -> String { "published/\(name)" }
  private static func paths(_ session: SessionID) -> (data: String, journal: String) {
    ("sessions/\(session.text)/data", "sessions/\(session.text)/journal")
  }

  private static func piece(of bytes: [UInt8], at offset: Int, _ count: UInt32) -> [UInt8]? {
    let end = offset + Int(count)
    return end <= bytes.count ? Array(bytes[offset..<end]) : nil
  }
}

// MARK: After a start

extension SimulatedStore {
  /// Finds everything again, as `FileStore.recover` does.
  func recover() -> RecoveredState {
    var state = RecoveredState()
    let sessions = LookupSet(disk.paths(below: "sessions/").compactMap { $0.split(separator: "/").dropFirst().first })
    for name in sessions.sorted() { recover(SessionID(String(name)), into: &state) }
    recoverWholeFiles(into: &state)
    return state
  }

  private func recover(_ session: SessionID, into state: inout RecoveredState) {
    let (data, journal) = Self.paths(session)
    guard let facts = facts(of: session) else { return remove(session) }
    let records = records(in: journal)
    var committing: (ReceiptFacts, UInt64)?
    var isPublished = false
    var chunks: LookupTable<UInt32, UInt32> = [:]
    for record in records {
      switch record {
      case .committing(let receipt, let node): committing = (receipt, node)
      case .published: isPublished = true
      case .chunk(let index, _, _, let size): chunks[index] = size
      default: break
      }
    }
    if isPublished, let committing {
      state.published.append((facts, committing.0))
    } else if disk.node(data) != nil {
      state.open.append((facts, disk.node(journal)?.modifiedMilliseconds ?? 0, chunks))
    } else if let committing, isShown(committing.0, node: committing.1) {
      try? append(.published, to: journal)
      state.published.append((facts, committing.0))
    } else {
      remove(session)
    }
  }

  private func recoverWholeFiles(into state: inout RecoveredState) {
    var intents: [(record: WholeFileRecord, receipt: ReceiptFacts, node: UInt64)] = []
    for record in records(in: Self.receipts) {
      switch record {
      case .wholeFile(let file, let receipt, let node): intents.append((file, receipt, node))
      case .wholeFilePublished(let id):
        guard let index = intents.firstIndex(where: { $0.receipt.id == id }) else { break }
        state.wholeFiles.append((intents[index].record, intents[index].receipt))
        intents.remove(at: index)
      default: break
      }
    }
    let unfinished = disk.paths(below: "incoming/")
    for intent in intents where !unfinished.contains("incoming/\(intent.receipt.id)") {
      guard isShown(intent.receipt, node: intent.node) else { continue }
      try? append(.wholeFilePublished(receiptID: intent.receipt.id), to: Self.receipts)
      state.wholeFiles.append((intent.record, intent.receipt))
    }
    for path in unfinished { disk.unlink(path) }
    state.wholeFiles.sort { $0.receipt.publishedAt < $1.receipt.publishedAt }
  }

  /// If so, the name is on the disk afterwards.
  private func isShown(_ receipt: ReceiptFacts, node: UInt64) -> Bool {
    guard let found = disk.node(Self.target(receipt.name)), found.number == node,
      found.bytes.count == Int(clamping: receipt.sizeBytes)
    else { return false }
    return world.bug == .skipNameSync || (try? disk.syncNames()) != nil
  }

  private func facts(of session: SessionID) -> SessionFacts? {
    for record in records(in: Self.paths(session).journal) { if case .session(let facts) = record { return facts } }
    return nil
  }

  // MARK: Journals

  private func append(_ record: Record, to path: String) throws(DiskFailure) {
    let payload = WireJSON.encode(record)
    let checksum = payload.withUnsafeBytes { CRC32C.checksum($0) }
    var bytes: [UInt8] = []
    withUnsafeBytes(of: UInt32(payload.count).littleEndian) { bytes.append(contentsOf: $0) }
    withUnsafeBytes(of: checksum.littleEndian) { bytes.append(contentsOf: $0) }
    try disk.append(path, bytes + payload)
  }

  /// The complete records; a torn tail is cut off.
  private func records(in path: String) -> [Record] {
    let all = disk.bytes(path) ?? []
    var rest = all[...]
    var records: [Record] = []
    func number(_ bytes: ArraySlice<UInt8>) -> UInt32 { bytes.reversed().reduce(0) { $0 << 8 | UInt32($1) } }
    while rest.count >= 8 {
      let count = Int(number(rest.prefix(4)))
      let checksum = number(rest.dropFirst(4).prefix(4))
      let payload = Array(rest.dropFirst(8).prefix(count))
      guard payload.count == count, payload.withUnsafeBytes({ CRC32C.checksum($0) }) == checksum,
        let record = try? WireJSON.decode(Record.self, from: payload)
      else { break }
      records.append(record)
      rest = rest.dropFirst(8 + count)
    }
    if !rest.isEmpty { disk.cut(path, to: all.count - rest.count) }
    return records
  }
}

import ChunkProtocol
import FileModel
import Integrity
import Lookup
import ReceiverCore

/// The receiver's files on a simulated disk, step by step as `FileStore` makes them: data, then the record; data on the disk,
/// then the intent, then the rename, then the names on the disk, then “published”.
final class SimulatedStore {
  /// Throws a ``DiskFailure``, or ``Waits``: then the step is tried again.
  typealias Step = () throws -> Void

  /// Another sync of the same session is in progress.
  struct Waits: Error {}

  private enum Record: Codable {
    case session(SessionRecord)
    case chunk(index: UInt32, sha256: [UInt8], crc32c: UInt32, sizeBytes: UInt32)
    case zeros([UInt32])
    case reliedUpon
    case committing(PublicationReceipt, node: UInt64)
    case published
    case wholeFile(WholeFileRecord, PublicationReceipt, node: UInt64)
    case wholeFilePublished(receiptID: String)
  }

  private static let receipts = "receipts"

  private unowned let world: World
  let disk = SimulatedDisk()

  /// Sessions with chunks that are not on the disk yet.
  private var written: LookupSet<SessionID> = []
  /// Sessions whose sync has failed: the disk may not have what memory shows of them.
  private var failed: LookupSet<SessionID> = []
  /// Sessions with a sync in progress. One at a time, because a failure is reported once.
  private var syncing: LookupSet<SessionID> = []
  /// Sessions with a failed sync that has not returned yet: it has the one report of the kernel.
  private var refused: LookupSet<SessionID> = []
  /// Up to where syncs of the receipts have failed, and how many there are.
  private var lostReceipts = 0
  private var receiptCount = 0
  /// The publication of each receipt, and the location of its intent.
  private var publications: LookupTable<String, (node: SimulatedDisk.Node, journal: SimulatedDisk.Node?)> = [:]
  /// The publication of each file, by its attribute.
  private var marks: LookupTable<UInt64, PublicationMark> = [:]
  /// Journals with a record that was whole on the disk once, and no longer is.
  private var rotten: LookupSet<UInt64> = []
  /// Earlier reads: decoding the same records again is half of what some scenarios cost.
  private var decodedRecords: LookupTable<[UInt8], Record> = [:]
  /// The latest reads of records, with the bytes that they were read from: most queries come while nothing has changed.
  private var readRecords: LookupTable<String, (bytes: [UInt8], records: [Record])> = [:]

  init(_ world: World) {
    self.world = world
    disk.clock = { [unowned world] in world.time.receiverMilliseconds }
    world.oracle.look = { [unowned self] in shown($0) }
  }

  /// The bytes under the credential's root.
  var publishedBytes: UInt64 {
    disk.paths(below: "published/").reduce(0) { $0 + UInt64(disk.bytes($1)?.count ?? 0) }
  }

  /// Data that belongs to no published file, and is not kept until it is delivered or the operator ends it.
  var leftovers: [String] {
    sessions.filter { !isKept($0) && !keepsReceipt($0) }.flatMap { disk.paths(below: "sessions/\($0.text)/") }
      + disk.paths(below: "incoming/")
  }

  /// A client relies upon the session, or what it holds cannot be determined.
  func isKept(_ session: SessionID) -> Bool {
    let (data, journal) = Self.paths(session)
    let records = records(in: journal)
    if facts(of: session) == nil { return disk.bytes(data)?.isEmpty == false }
    return records.contains { if case .reliedUpon = $0 { true } else { false } }
      && !records.contains { if case .published = $0 { true } else { false } }
  }

  /// A client relied upon the session: its publication stays known.
  private func keepsReceipt(_ session: SessionID) -> Bool {
    let (data, journal) = Self.paths(session)
    let records = records(in: journal)
    return disk.node(data) == nil && records.contains { if case .reliedUpon = $0 { true } else { false } }
      && records.contains { if case .published = $0 { true } else { false } }
  }

  /// The process is gone, with its state.
  func forgetMemory() {
    written = []
    failed = []
    syncing = []
    refused = []
    lostReceipts = 0
    receiptCount = 0
  }

  /// The kernel's work meanwhile: it writes back, and evicts clean pages.
  func letKernelWork(isPressed: Bool) {
    for path in disk.paths where world.random.happens(0.3) {
      let fails = world.fails(.writeBack, of: .receiver)
      disk.writeBack(path) { fails && world.random.happens(0.7) }
    }
    guard isPressed else { return }
    for path in disk.paths { disk.drop(path) { world.random.happens(0.5) } }
  }

  /// One record of a journal can no longer be read. The first one describes the session, and is left alone.
  func rot() {
    guard
      let path = disk.paths(below: "sessions/").filter({ $0.hasSuffix("/journal") }).randomElement(using: &world.random)
    else { return }
    let first = JournalFraming.read(disk.bytes(path) ?? []).payloads.first?.endIndex ?? .max
    world.trace("receiver: a record of \(path) rots")
    disk.damage(path, from: first, using: &world.random)
    if let journal = disk.node(path) { rotten.insert(journal.number) }
  }

  /// A receipt is about to be given: its content and its record are on the disk.
  func checkReceipt(_ id: String) {
    guard let (node, journal) = publications[id], let bytes = world.oracle.bytes(ofReceipt: id) else { return }
    if node.durable != bytes {
      world.fail(.stableStorage, "receipt \(id) is given for what the disk does not have")
    }
    guard let journal, !rotten.contains(journal.number) else { return }
    let isRecorded = JournalFraming.read(journal.durable).payloads.reversed().contains { payload in
      switch decoded(Array(payload)) {
      case .committing(let receipt, _), .wholeFile(_, let receipt, _): receipt.id == id
      default: false
      }
    }
    if !isRecorded { world.fail(.stableStorage, "receipt \(id) is given, and its record is not on the disk") }
  }

  // MARK: Sessions

  func create(_ facts: SessionRecord) -> [Step] {
    let (data, journal) = Self.paths(facts.sessionID)
    return [
      { try self.disk.create(data) },
      {
        try self.disk.create(journal)
        try self.append(.session(facts), to: journal)
      },
    ]
  }

  func write(_ body: [UInt8], _ session: SessionID, _ index: UInt32, _ offset: Int, _ facts: ChunkChecksums) -> [Step] {
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

  /// Holes of a simulated disk are zeros.
  func writeZeros(_ session: SessionID, _ chunks: IndexRanges, _ chunkBytes: Int) -> [Step] {
    let (data, journal) = Self.paths(session)
    let zeros = chunks.ranges.map { range -> Step in
      {
        guard self.disk.node(journal) != nil else { throw DiskFailure.broken }
        if self.disk.node(data) == nil { try self.disk.create(data) }
        try self.disk.write(
          data, [UInt8](repeating: 0, count: range.count * chunkBytes), at: Int(range.lowerBound) * chunkBytes)
      }
    }
    return zeros + [
      {
        try self.append(.zeros(chunks.ranges.flatMap { [$0.lowerBound, $0.upperBound - 1] }), to: journal)
        self.written.insert(session)
      }
    ]
  }

  /// Syncs what was written to the disk, the data before its records: the steps of each session. Chunks continue to be
  /// written meanwhile.
  func syncWritten() -> [[Step]] {
    let sessions = written.sorted()
    written = []
    return sessions.map(synced)
  }

  func secure(_ session: SessionID) -> [Step] {
    let journal = Self.paths(session).journal
    return [{ try self.recordReliance(session, in: journal) }] + synced(session)
  }

  /// Recorded before the sync that brings it to the disk.
  private func recordReliance(_ session: SessionID, in journal: String) throws(DiskFailure) {
    guard disk.node(journal) != nil else { throw .broken }
    let isRecorded = records(in: journal).contains { if case .reliedUpon = $0 { true } else { false } }
    if !isRecorded { try append(.reliedUpon, to: journal) }
  }

  private func synced(_ session: SessionID) -> [Step] {
    let (data, journal) = Self.paths(session)
    return synced(session) { if self.disk.node(data) != nil { try self.disk.sync(data) } }
      + synced(session) { if self.disk.node(journal) != nil { try self.disk.sync(journal) } }
      + [
        {
          do {
            try self.disk.syncNames()
          } catch {
            if error as? DiskFailure == .broken { self.failed.insert(session) }
            throw error
          }
          if self.failed.contains(session) { throw DiskFailure.broken }
        }
      ]
  }

  /// Chunks that are recorded and present: a record may name data that a power cut has lost.
  func presentChunks(of session: SessionID) -> LookupTable<UInt32, ChunkChecksums> {
    guard let data = disk.node(Self.paths(session).data), let facts = facts(of: session) else { return [:] }
    return LookupTable(recordedChunks(of: session).sorted().map { ($0.key, $0.value) }).filter { index, chunk in
      Self.piece(of: data.bytes, at: Int(index) * facts.opening.chunkBytes, chunk.sizeBytes).map { sha256($0) }
        == chunk.sha256
    }
  }

  private func recordedChunks(of session: SessionID) -> ChunkTable {
    Self.chunks(of: records(in: Self.paths(session).journal), facts(of: session))
  }

  private static func chunks(of records: [Record], _ facts: SessionRecord?) -> ChunkTable {
    var chunks = ChunkTable()
    for record in records {
      switch record {
      case .chunk(let index, let sha256, let crc32c, let size):
        guard let digest = Digest32(sha256) else { continue }
        chunks.insert(ChunkChecksums(sha256: digest, crc32c: crc32c, sizeBytes: size), at: index)
      case .zeros(let bounds):
        for pair in stride(from: 0, to: bounds.count - 1, by: 2) {
          chunks.insertZeros(bounds[pair]..<(bounds[pair + 1] + 1), of: .zeros(facts?.opening.chunkBytes ?? 0))
        }
      default: continue
      }
    }
    return chunks
  }

  /// The client learns that these chunks outlive everything. A chunk that another write replaces meanwhile does not.
  func checkSecured(_ chunks: LookupTable<UInt32, ChunkChecksums>, of session: SessionID) {
    let (data, journal) = Self.paths(session)
    guard let data = disk.node(data), let journal = disk.node(journal), let facts = facts(of: session) else { return }
    let now = recordedChunks(of: session)
    let durableRecords = JournalFraming.read(journal.durable).payloads.compactMap { decoded(Array($0)) }
    let durable = LookupSet(
      durableRecords.compactMap { record -> [UInt8]? in
        guard case .chunk(_, let sha256, _, _) = record else { return nil }
        return sha256
      })
    let durableZeros = Self.chunks(of: durableRecords, facts).zeros
    func holds(_ bytes: [UInt8], _ chunk: ChunkChecksums, at index: UInt32) -> Bool {
      Self.piece(of: bytes, at: Int(index) * facts.opening.chunkBytes, chunk.sizeBytes).map { sha256($0) }
        == chunk.sha256
    }
    for (index, chunk) in chunks.sorted() where now[index] == chunk && holds(data.bytes, chunk, at: index) {
      let isRecorded = durable.contains(chunk.sha256.bytes) || durableZeros.contains(index)
      if !isRecorded || !holds(data.durable, chunk, at: index) {
        world.fail(.stableStorage, "chunk \(index) of \(session.text) is said to be on the disk, and is not")
      }
    }
  }

  /// A sync, and a moment later its result. Until then no other sync of the session begins.
  private func synced(_ session: SessionID, _ sync: @escaping Step) -> [Step] {
    var failure: DiskFailure?
    return [
      {
        if self.syncing.contains(session), self.world.bug != .shareSyncReports { throw Waits() }
        do {
          try sync()
        } catch let error as DiskFailure {
          if error == .crashed { throw error }
          failure = error
          if error == .broken { self.refused.insert(session) }
        }
        self.syncing.insert(session)
      },
      {
        self.syncing.remove(session)
        self.refused.remove(session)
        guard let failure else { return }
        if failure == .broken { self.failed.insert(session) }
        throw failure
      },
    ]
  }

  /// The recorded chunks whose bytes are really there. Only the disk's bytes count, as in `FileStore`.
  func verify(_ session: SessionID, takesBase: Bool) throws(DiskFailure) -> ChunkTable {
    let (data, journal) = Self.paths(session)
    for path in [data, journal] where disk.node(path) != nil && world.bug != .verifyInMemory {
      try disk.sync(path)
      disk.drop(path)
    }
    failed.remove(session)
    guard let bytes = disk.bytes(data), let facts = facts(of: session) else { return ChunkTable() }
    try look()
    var chunks = Self.chunks(of: records(in: journal), facts)
    if takesBase, chunks.isEmpty, let base = try takeBase(of: facts) { return base }
    if world.bug == .believeChunkJournal { return chunks }
    for (index, chunk) in chunks.sorted() {
      let isPresent =
        Self.piece(of: bytes, at: Int(index) * facts.opening.chunkBytes, chunk.sizeBytes)
        .map { sha256($0) == chunk.sha256 } ?? false
      if !isPresent { chunks.removeValue(forKey: index) }
    }
    return chunks
  }

  /// The published file under the name of a session that is to begin with it, if it is a publication of the same file.
  func published(before facts: SessionRecord) -> PublishedContent? {
    let path = "published/\(facts.opening.name)"
    guard facts.opening.takesBase == true, let node = disk.node(path), let mark = marks[node.number],
      mark.fileID.utf8.elementsEqual(facts.opening.fileID.utf8), let bytes = disk.bytes(path)
    else { return nil }
    return PublishedContent(
      fileID: mark.fileID, sizeBytes: UInt64(bytes.count), merkleRoot: Hex.encode(mark.merkleRoot),
      chunkBytes: Int(mark.chunkBytes), modifiedNanoseconds: 0)
  }

  /// The chunks of an empty session that is to begin with what is published; nil where it does not.
  private func takeBase(of facts: SessionRecord) throws(DiskFailure) -> ChunkTable? {
    guard let content = published(before: facts), let bytes = disk.bytes("published/\(facts.opening.name)") else {
      return nil
    }
    let (data, journal) = Self.paths(facts.sessionID)
    let count = Int(min(content.sizeBytes, facts.opening.sizeBytes ?? content.sizeBytes))
    if world.bug != .recordUncopied { try disk.write(data, Array(bytes.prefix(count)), at: 0) }
    var chunks = ChunkTable()
    let chunkBytes = facts.opening.chunkBytes
    for index in 0..<count / chunkBytes {
      let chunk = ChunkChecksums(of: Array(bytes[index * chunkBytes..<(index + 1) * chunkBytes]))
      let record = Record.chunk(
        index: UInt32(index), sha256: chunk.sha256.bytes, crc32c: chunk.crc32c, sizeBytes: chunk.sizeBytes)
      try append(record, to: journal)
      chunks.insert(chunk, at: UInt32(index))
    }
    written.insert(facts.sessionID)
    return chunks.isEmpty ? nil : chunks
  }

  private func look() throws(DiskFailure) {
    if world.mayRefuse, world.fails(.look, of: .receiver) { throw .broken }
  }

  func holds(_ chunk: ChunkChecksums, at index: UInt32, of session: SessionID) -> Bool {
    // What the disk has refused is written again before it is published.
    let isRefused = failed.contains(session) || refused.contains(session)
    if isRefused || disk.node(Self.paths(session).data)?.isInDoubt == true { return true }
    guard let facts = facts(of: session) else { return true }
    guard let bytes = disk.bytes(Self.paths(session).data),
      let piece = Self.piece(of: bytes, at: Int(index) * facts.opening.chunkBytes, chunk.sizeBytes)
    else { return false }
    return sha256(piece) == chunk.sha256
  }

  func holdsZeros(at index: UInt32, of session: SessionID) -> Bool {
    guard let facts = facts(of: session) else { return true }
    return holds(.zeros(facts.opening.chunkBytes), at: index, of: session)
  }

  func remove(_ session: SessionID) {
    let (data, journal) = Self.paths(session)
    failed.remove(session)
    disk.unlink(data)
    disk.unlink(journal)
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
    // The data had the name before this was known to be on the disk, and another file has taken it: what is read again
    // is not there.
    if isRenamed(session, receipt, orWasOnce: true) { return [{ throw DiskFailure.broken }] }
    return
      (synced(session) {
        guard !self.failed.contains(session) else { throw DiskFailure.broken }
        if self.disk.node(data) == nil { try self.disk.create(data) }
        try self.disk.truncate(data, to: Int(clamping: receipt.sizeBytes))
        if self.world.bug != .skipDataSync { try self.disk.sync(data) }
      } + [
        { try self.append(.committing(receipt, node: self.disk.node(data)?.number ?? 0), to: journal) }
      ]
      + synced(session) {
        try self.disk.sync(journal)
        if self.failed.contains(session), self.world.bug != .shareSyncReports { throw DiskFailure.broken }
      }
      + [{ try self.take(data, publication, intent: journal) }]).map { step in
        {
          do {
            try step()
          } catch {
            if error as? DiskFailure == .broken { self.failed.insert(session) }
            throw error
          }
        }
      } + names
  }

  /// The session's data has this receipt's name, as far as memory knows, or had it before another file took it.
  func isRenamed(_ session: SessionID, _ receipt: PublicationReceipt, orWasOnce: Bool = false) -> Bool {
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
    var position = 0
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
        self.receiptCount += 1
        position = self.receiptCount
      },
      { try self.syncReceipts(to: position) },
      { try self.take(data, publication, intent: Self.receipts) },
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

  /// A failed sync is the failure of all whose records it was to bring to the disk.
  private func syncReceipts(to position: Int) throws(DiskFailure) {
    do throws(DiskFailure) {
      guard position > lostReceipts else { throw .broken }
      try disk.sync(Self.receipts)
    } catch {
      if error == .broken { lostReceipts = receiptCount }
      throw error
    }
  }

  private func take(_ data: String, _ publication: Publication, intent: String) throws(DiskFailure) {
    let receipt = publication.receipt
    let target = Self.target(receipt.name)
    checkStrangers(publication)
    checkOwner(of: target, publication, from: data)
    try disk.rename(data, to: target)
    if let node = disk.node(target) {
      publications[receipt.id] = (node, disk.node(intent))
      marks[node.number] = PublicationMark(publication)
    }
    world.trace("receiver: publishes \(receipt.name), \(receipt.sizeBytes) bytes, receipt \(receipt.id)")
    world.oracle.published(disk.bytes(target) ?? [], name: receipt.name, receipt: receipt.id)
    if let quota = world.scenario.quotaBytes, !world.isHealed, publishedBytes > quota {
      world.fail(.quota, "\(publishedBytes) bytes are published, \(quota) are allowed")
    }
  }

  /// Every client here is of one spool, so that no capture gets a number. In a spool that has lost its record, the
  /// capture that would get one takes the name.
  private func checkOwner(of target: String, _ publication: Publication, from data: String) {
    // A publication that was given up may arrive when another capture has the name, and gets one beside that.
    let isLate = world.lateTargets.contains { data.contains($0.split(separator: "/").dropLast().last ?? "/") }
    guard world.knowsOwners, !isLate, let node = disk.node(target), let mark = marks[node.number] else { return }
    let holder = NameRights.Holder(
      words: .mark(mark), sizeBytes: UInt64(node.bytes.count), modifiedNanoseconds: PublicationMark.time)
    switch NameRights(publication).answer(to: holder) {
    case .yes, .taken: return
    case .ifContent(let claims, _) where claims.contains(where: { isContent(node.bytes, of: $0) }): return
    case .no(let words), .ifContent(_, let words):
      if mayHaveHadNumber(publication, mark) { return }
      world.fail(.owners, "\(publication.receipt.name) gets a number: \(words)")
    }
  }

  private func mayHaveHadNumber(_ publication: Publication, _ mark: PublicationMark) -> Bool {
    guard let holder = FileID(mark.fileID), let claimant = PublicationMark(publication).flatMap({ FileID($0.fileID) })
    else { return false }
    return world.publicationRecords.contains {
      $0.mayHaveHadNumber(publication.receipt.name, holder, claimedBy: claimant)
    }
  }

  /// No other machine is there to have the name. If it had one, its capture would not be replaced.
  private func checkStrangers(_ publication: Publication) {
    guard var mark = PublicationMark(publication) else { return }
    mark.fileID = "another machine's"
    let holder = NameRights.Holder(
      words: .mark(mark), sizeBytes: publication.receipt.sizeBytes, modifiedNanoseconds: PublicationMark.time)
    switch NameRights(publication).answer(to: holder) {
    case .no, .ifContent: return
    case .yes, .taken: world.fail(.owners, "\(publication.receipt.name) would replace another machine's capture")
    }
  }

  private func isContent(_ bytes: [UInt8], of claim: PublicationClaim) -> Bool {
    var tree = MerkleTree()
    let chunkBytes = max(1, Int(clamping: claim.chunkBytes ?? .max))
    for start in stride(from: 0, to: bytes.count, by: chunkBytes) {
      tree.append(sha256(Array(bytes[start..<min(start + chunkBytes, bytes.count)])))
    }
    return tree.root == claim.merkleRoot
  }

  /// A full disk must not undo a publication.
  private func appendIfPossible(_ record: Record, to journal: String) throws(DiskFailure) {
    do throws(DiskFailure) {
      try append(record, to: journal)
    } catch {
      if error == .crashed { throw error }
    }
  }

  /// The content shown under a name.
  func shown(_ name: String) -> [UInt8]? { disk.bytes(Self.target(name)) }

  /// What is shown is unchanged, also after a power cut.
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
  /// Finds everything again, as `FileStore.recover` does. What could not be read is neither there nor gone.
  func recover() throws(DiskFailure) -> RecoveredState {
    try look()
    var state = RecoveredState()
    for session in sessions {
      do throws(DiskFailure) {
        try recover(session, into: &state)
      } catch {
        guard world.bug != .deleteUnreadSessions else {
          remove(session)
          continue
        }
        world.trace("receiver: \(session.text) cannot be read")
        state.quarantined.append(.init(id: session, why: "the simulated disk fails", isDamaged: false))
      }
    }
    try recoverWholeFiles(into: &state)
    return state
  }

  /// Reads again what was set aside.
  func recover(_ ids: [SessionID]) -> RecoveredState {
    var state = RecoveredState()
    for session in ids {
      do throws(DiskFailure) {
        try recover(session, into: &state)
      } catch {
        state.quarantined.append(.init(id: session, why: "the simulated disk fails", isDamaged: false))
      }
    }
    return state
  }

  /// Sessions with any files.
  private var sessions: [SessionID] {
    LookupSet(disk.paths(below: "sessions/").compactMap { $0.split(separator: "/").dropFirst().first }).sorted().map {
      SessionID(String($0))
    }
  }

  /// Sessions that can be continued, whatever can be read at present.
  var openSessions: [SessionID] {
    sessions.filter { session in
      let (data, journal) = Self.paths(session)
      return facts(of: session) != nil && disk.node(data) != nil
        && !records(in: journal).contains { if case .published = $0 { true } else { false } }
    }
  }

  private func recover(_ session: SessionID, into state: inout RecoveredState) throws(DiskFailure) {
    let (data, journal) = Self.paths(session)
    // The session's kind, its journal and its data.
    for _ in 0..<3 { try look() }
    guard let facts = facts(of: session) else {
      if disk.bytes(data)?.isEmpty ?? true { return remove(session) }
      return state.quarantined.append(.init(id: session, why: "its journal is gone", isDamaged: true))
    }
    let records = records(in: journal)
    var committing: (PublicationReceipt, UInt64)?
    var (isPublished, mayHoldOnlyCopy) = (false, false)
    let chunks = Self.chunks(of: records, facts)
    for record in records {
      switch record {
      case .committing(let receipt, let node): committing = (receipt, node)
      case .published: isPublished = true
      case .reliedUpon: mayHoldOnlyCopy = true
      default: break
      }
    }
    // The data is under its name, or another file has taken that.
    if committing != nil, disk.node(data) == nil { world.wasPublished(session.text) }
    if isPublished, let committing {
      state.published.append((facts, committing.0, mayHoldOnlyCopy))
    } else if disk.node(data) != nil {
      state.open.append(
        .init(
          facts: facts, lastChange: disk.node(journal)?.modifiedMilliseconds ?? 0, recordedChunks: chunks,
          mayHoldOnlyCopy: mayHoldOnlyCopy))
    } else if let committing, try isShown(committing.0, node: committing.1) {
      try? append(.published, to: journal)
      state.published.append((facts, committing.0, mayHoldOnlyCopy))
    } else {
      remove(session)
    }
  }

  private func recoverWholeFiles(into state: inout RecoveredState) throws(DiskFailure) {
    try look()
    var intents: [(record: WholeFileRecord, receipt: PublicationReceipt, node: UInt64)] = []
    for record in records(in: Self.receipts) {
      switch record {
      case .wholeFile(let file, let receipt, let node): intents.append((file, receipt, node))
      case .wholeFilePublished(let id):
        guard let index = intents.firstIndex(where: { $0.receipt.id == id }) else { break }
        state.wholeFiles.append(RecoveredWholeFile(intents[index].record, intents[index].receipt))
        intents.remove(at: index)
      default: break
      }
    }
    let unfinished = disk.paths(below: "incoming/")
    for intent in intents where !unfinished.contains("incoming/\(intent.receipt.id)") {
      guard try isShown(intent.receipt, node: intent.node) else { continue }
      try? append(.wholeFilePublished(receiptID: intent.receipt.id), to: Self.receipts)
      state.wholeFiles.append(RecoveredWholeFile(intent.record, intent.receipt))
    }
    for path in unfinished { disk.unlink(path) }
    state.wholeFiles.sort { $0.publishedAt < $1.publishedAt }
  }

  /// If so, the name is on the disk afterwards.
  private func isShown(_ receipt: PublicationReceipt, node: UInt64) throws(DiskFailure) -> Bool {
    try look()
    guard let found = disk.node(Self.target(receipt.name)), found.number == node,
      found.bytes.count == Int(clamping: receipt.sizeBytes)
    else { return false }
    if world.bug != .skipNameSync { try disk.syncNames() }
    return true
  }

  private func facts(of session: SessionID) -> SessionRecord? {
    for record in records(in: Self.paths(session).journal) { if case .session(let facts) = record { return facts } }
    return nil
  }

  // MARK: Journals

  private func append(_ record: Record, to path: String) throws(DiskFailure) {
    try disk.append(path, JournalFraming.bytes(of: [WireJSON.encode(record)]))
  }

  /// The whole records; a torn tail is cut off.
  private func records(in path: String) -> [Record] {
    let all = disk.bytes(path) ?? []
    if let known = readRecords[path], known.bytes == all { return known.records }
    let contents = JournalFraming.read(all)
    if contents.validBytes < all.count, contents.validBytes > 0 { disk.cut(path, to: contents.validBytes) }
    let records = contents.payloads.compactMap { decoded(Array($0)) }
    if contents.validBytes == all.count { readRecords[path] = (all, records) }
    return records
  }

  private func decoded(_ payload: [UInt8]) -> Record? {
    if let known = decodedRecords[payload] { return known }
    guard let record = try? WireJSON.decode(Record.self, from: payload) else { return nil }
    decodedRecords[payload] = record
    return record
  }
}

extension PublicationMark {
  /// Files of the simulation keep no time.
  fileprivate static let time: Int64 = 0

  fileprivate init?(_ publication: Publication) {
    let receipt = publication.receipt
    guard let fileID = receipt.fileID else { return nil }
    self.init(
      fileID: fileID, merkleRoot: receipt.merkleRoot, chunkBytes: publication.chunkBytes, sizeBytes: receipt.sizeBytes,
      modifiedNanoseconds: Self.time)
  }
}

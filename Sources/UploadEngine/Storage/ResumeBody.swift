import FileModel
import Integrity
import TransferModel

/// One sealed body of a resume record: the upload's state, and chunks.
struct ResumeBody {
  /// The state, without chunks.
  let record: ResumeRecord
  let changes: [ResumeSnapshot.Change]

  /// An index, and whether there is a digest; then the digest.
  private static let changeBytesMin = 4 + 1
  private static let digestBytes = 32 + 4
  private static let nodeBytes = 1 + 4 + 32

  /// What there is of a chunk in a change.
  private enum Presence: UInt8 {
    case absent = 0
    case digest = 1
    case digestAndToken = 2
  }

  // MARK: - Writing

  static func encode(_ record: ResumeRecord, _ changes: [ResumeSnapshot.Change]) throws(StorageError) -> [UInt8] {
    var writer = ByteWriter(
      capacity: 256 + record.path.bytes.count + record.merkle.nodeCount * nodeBytes
        + changes.count * (changeBytesMin + digestBytes))
    try encodeFacts(of: record, &writer)
    try encodeOwner(record.owner, &writer)
    try encodeProgress(of: record, &writer)
    try writer.append(count: changes.count, as: UInt32.self)
    for change in changes {
      try writer.append(count: change.index, as: UInt32.self)
      let presence: Presence =
        change.digest == nil ? .absent : change.token == nil ? .digest : .digestAndToken
      writer.append(presence.rawValue)
      guard let digest = change.digest else { continue }
      writer.append(digest.sha256)
      writer.append(digest.crc32c)
      if let token = change.token { try writer.appendCounted(Array(token.utf8), as: UInt16.self) }
    }
    return writer.bytes
  }

  private static func encodeFacts(of record: ResumeRecord, _ writer: inout ByteWriter) throws(StorageError) {
    writer.append(record.fileID.high)
    writer.append(record.fileID.low)
    try writer.appendCounted(record.nonce, as: UInt16.self)
    writer.append(Int64(record.chunkBytes))
    writer.append(record.epochRevision)
    try writer.appendCounted(record.path.bytes, as: UInt32.self)
    writer.append(record.sizeBytes)
    writer.append(record.openedAtSeconds)
    writer.append(UInt8(record.expiresAtSeconds == nil ? 0 : 1))
    writer.append(record.expiresAtSeconds ?? 0)
  }

  private static func encodeOwner(_ owner: SessionOwner?, _ writer: inout ByteWriter) throws(StorageError) {
    writer.append(UInt8(owner == nil ? 0 : owner?.credentialMark == nil ? 1 : 2))
    guard let owner else { return }
    try writer.appendCounted(Array(owner.address.utf8), as: UInt16.self)
    if let mark = owner.credentialMark { try writer.appendCounted(Array(mark.utf8), as: UInt16.self) }
  }

  private static func encodeProgress(of record: ResumeRecord, _ writer: inout ByteWriter) throws(StorageError) {
    try writer.appendCounted(record.chainTip?.bytes ?? [], as: UInt16.self)
    writer.append(Int64(record.contiguousCount))
    let nodes = record.merkle.nodesInOrder
    try writer.append(count: nodes.count, as: UInt32.self)
    for node in nodes {
      try writer.append(count: node.level, as: UInt8.self)
      try writer.append(count: node.position, as: UInt32.self)
      writer.append(node.hash)
    }
    writer.append(UInt8(record.estimator == nil ? 0 : 1))
    writer.append(record.estimator?.bytesPerSecond.bitPattern ?? 0)
    writer.append(record.estimator?.variance.bitPattern ?? 0)
    writer.append(Int64(record.estimator?.sampleCount ?? 0))
  }

  // MARK: - Reading

  /// Nil when the bytes do not fit together. They are authentic, so this is a mistake of a version of this software; it
  /// costs the resumption and nothing else. `namesOwner` is false for bodies of version 2.
  init?(_ bytes: [UInt8], sessionID: String, namesOwner: Bool = true) {
    var reader = ByteReader(bytes)
    guard var record = Self.facts(&reader, sessionID: sessionID),
      let owner = namesOwner ? Self.owner(&reader) : .some(nil),
      let chainTip = Self.chainTip(&reader),
      let contiguousCount = reader.take(Int64.self).flatMap({ Int(exactly: $0) }), contiguousCount >= 0,
      let merkle = Self.merkle(&reader), let estimator = Self.estimator(&reader),
      let changes = Self.changes(&reader), reader.remaining == 0
    else { return nil }
    record.owner = owner
    record.chainTip = chainTip
    record.contiguousCount = contiguousCount
    record.merkle = merkle
    record.estimator = estimator
    self.record = record
    self.changes = changes
  }

  /// What is acknowledged after some changes.
  static func applying(
    _ changes: [ResumeSnapshot.Change], to chunks: [Int: ResumeRecord.AcknowledgedChunk]
  ) -> [Int: ResumeRecord.AcknowledgedChunk] {
    var chunks = chunks
    for change in changes {
      chunks[change.index] = change.digest.map { .init(index: change.index, digest: $0, token: change.token) }
    }
    return chunks
  }

  private static func facts(_ reader: inout ByteReader, sessionID: String) -> ResumeRecord? {
    guard let high = reader.take(UInt64.self), let low = reader.take(UInt64.self),
      let nonce = reader.takeCounted(as: UInt16.self),
      let chunkBytes = reader.take(Int64.self).flatMap({ Int(exactly: $0) }), chunkBytes > 0,
      let epochRevision = reader.take(UInt64.self), let path = reader.takeCounted(as: UInt32.self),
      let sizeBytes = reader.take(UInt64.self), let openedAtSeconds = reader.take(Int64.self),
      let hasExpiry = reader.take(UInt8.self), hasExpiry <= 1, let expiry = reader.take(Int64.self)
    else { return nil }
    return ResumeRecord(
      fileID: FileID(high: high, low: low), sessionID: sessionID, nonce: nonce, chunkBytes: chunkBytes,
      epochRevision: epochRevision, path: RelativePath(bytes: path), sizeBytes: sizeBytes,
      openedAtSeconds: openedAtSeconds, expiresAtSeconds: hasExpiry == 1 ? expiry : nil, acknowledged: [])
  }

  /// The outer nil is for bytes that do not fit together, the inner one for an owner that is not known.
  private static func owner(_ reader: inout ByteReader) -> SessionOwner?? {
    guard let kind = reader.take(UInt8.self), kind <= 2 else { return nil }
    guard kind > 0 else { return .some(nil) }
    guard let address = text(&reader) else { return nil }
    guard kind == 2 else { return SessionOwner(address: address, credentialMark: nil) }
    return text(&reader).map { SessionOwner(address: address, credentialMark: $0) }
  }

  private static func text(_ reader: inout ByteReader) -> String? {
    reader.takeCounted(as: UInt16.self).flatMap { String(validating: $0, as: UTF8.self) }
  }

  private static func merkle(_ reader: inout ByteReader) -> MerkleAccumulator? {
    guard let count = reader.take(UInt32.self), Int(count) <= reader.remaining / nodeBytes else { return nil }
    var nodes: [MerkleAccumulator.Node] = []
    nodes.reserveCapacity(Int(count))
    for _ in 0..<count {
      guard let level = reader.take(UInt8.self), let position = reader.take(UInt32.self),
        let hash = reader.take(32).flatMap({ Digest32($0) })
      else { return nil }
      nodes.append(.init(level: Int(level), position: Int(position), hash: hash))
    }
    return MerkleAccumulator(nodes: nodes)
  }

  /// The outer nil is for bytes that do not fit together, the inner one for an estimate that there was not.
  private static func estimator(_ reader: inout ByteReader) -> SpeedEstimate.State?? {
    guard let isThere = reader.take(UInt8.self), isThere <= 1, let rate = reader.take(UInt64.self),
      let variance = reader.take(UInt64.self),
      let sampleCount = reader.take(Int64.self).flatMap({ Int(exactly: $0) })
    else { return nil }
    guard isThere == 1 else { return .some(nil) }
    return SpeedEstimate.State(
      bytesPerSecond: Double(bitPattern: rate), variance: Double(bitPattern: variance), sampleCount: sampleCount)
  }

  private static func changes(_ reader: inout ByteReader) -> [ResumeSnapshot.Change]? {
    guard let count = reader.take(UInt32.self), Int(count) <= reader.remaining / changeBytesMin else { return nil }
    var changes: [ResumeSnapshot.Change] = []
    changes.reserveCapacity(Int(count))
    for _ in 0..<count {
      guard let index = reader.take(UInt32.self),
        let presence = reader.take(UInt8.self).flatMap({ Presence(rawValue: $0) })
      else { return nil }
      var change = ResumeSnapshot.Change(index: Int(index), digest: nil)
      if presence != .absent {
        change.digest = Self.digest(&reader)
        guard change.digest != nil else { return nil }
      }
      if presence == .digestAndToken {
        change.token = text(&reader)
        guard change.token != nil else { return nil }
      }
      changes.append(change)
    }
    return changes
  }

  /// No bytes are the tip that was not kept; nil for a tip of another length.
  private static func chainTip(_ reader: inout ByteReader) -> Digest32?? {
    guard let bytes = reader.takeCounted(as: UInt16.self) else { return nil }
    if bytes.isEmpty { return .some(nil) }
    return Digest32(bytes).map { .some($0) }
  }

  private static func digest(_ reader: inout ByteReader) -> ChunkDigest? {
    guard let sha256 = reader.take(32).flatMap({ Digest32($0) }), let crc32c = reader.take(UInt32.self) else {
      return nil
    }
    return ChunkDigest(sha256: sha256, crc32c: crc32c)
  }

  // MARK: - Version 1

  /// The body of version 1: facts, chain tip, contiguous count, and every chunk.
  static func recordOfVersion1(_ bytes: [UInt8], sessionID: String) -> ResumeRecord? {
    var reader = ByteReader(bytes)
    guard var record = facts(&reader, sessionID: sessionID), let chainTip = chainTip(&reader),
      let contiguousCount = reader.take(Int64.self).flatMap({ Int(exactly: $0) }), contiguousCount >= 0,
      let count = reader.take(UInt32.self), Int(count) == reader.remaining / (4 + digestBytes),
      reader.remaining.isMultiple(of: 4 + digestBytes)
    else { return nil }
    record.chainTip = chainTip
    record.contiguousCount = contiguousCount
    record.acknowledged.reserveCapacity(Int(count))
    for _ in 0..<count {
      guard let index = reader.take(UInt32.self), let digest = digest(&reader) else { return nil }
      record.acknowledged.append(.init(index: Int(index), digest: digest))
      record.merkle.insert(digest.sha256, at: Int(index))
    }
    return record
  }
}

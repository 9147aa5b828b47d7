import FileModel
import Glibc
import Integrity
import TransferModel

@testable import UploadEngine

/// Resume records to try things with.
enum ResumeFixture {
  static let id = FileID(high: 1, low: 2)
  static let masterKey = [UInt8](repeating: 3, count: 32)
  static let hash = sha256Digest(0)

  static func digest(_ number: Int) -> ChunkDigest {
    ChunkDigest(sha256: sha256Digest(number), crc32c: UInt32(truncatingIfNeeded: number))
  }

  static func sha256Digest(_ number: Int) -> Digest32 {
    var hasher = SHA256Hasher()
    withUnsafeBytes(of: number.littleEndian) { hasher.update($0) }
    return hasher.finalize()
  }

  /// Every field is set to something.
  static func record(chunks: Int = 3, session: String = "s-1") -> ResumeRecord {
    var merkle = MerkleAccumulator()
    for index in 0..<chunks { merkle.insert(sha256Digest(index), at: index * 2) }
    return ResumeRecord(
      fileID: id, sessionID: session, nonce: Array(0..<32), chunkBytes: 4 << 20, epochRevision: 9,
      path: RelativePath(bytes: [0xff, 0x2f, 0x41]), sizeBytes: .max, openedAtSeconds: 1_700_000_000,
      expiresAtSeconds: 1_700_604_800,
      owner: SessionOwner(address: "https://vault:8443", credentialMark: "00ff"),
      acknowledged: (0..<chunks).map { .init(index: $0 * 2, digest: digest($0)) }, merkle: merkle,
      chainTip: sha256Digest(5), contiguousCount: 1,
      estimator: .init(bytesPerSecond: 1e8, variance: 0.25, sampleCount: 7))
  }

  /// The state of a record, and chunks that changed.
  static func snapshot(
    _ record: ResumeRecord, changes: [ResumeSnapshot.Change], changeCount: UInt64 = 0
  ) -> ResumeSnapshot {
    var state = record
    state.acknowledged = []
    return ResumeSnapshot(
      record: state, changes: changes, mark: .init(sessionID: record.sessionID, changeCount: changeCount))
  }
}

/// A folder for resume records and their key. Opening it again is what a restart does.
struct ResumeFolder {
  let folder: ScratchFolder
  /// Where the record of ``ResumeFixture/id`` lies.
  let fileName = "resume/\(ResumeFixture.id).resume"

  init() throws {
    folder = try ScratchFolder()
    mkdir(folder("resume"), 0o700)
  }

  func open(_ effects: FileEffects = .system) throws -> ResumeStore {
    try ResumeStore(directory: folder("resume"), masterKeyFile: folder("master.key"), effects: effects)
  }
}

public import FileModel
import Glibc
import Integrity
import Synchronization

/// What ``ResumeStore/load(_:)`` found.
public enum ResumeLoad: Sendable, Hashable {
  /// There is no record.
  case none
  case record(ResumeRecord)
  /// The record as it was before its last changes, which cannot be read, as after a power cut; which file, for people.
  case cutShort(ResumeRecord, String)
  /// There is one that cannot be used; why, for people. The capture is uploaded as if there were none.
  case damaged(String)
  /// The disk could not say; why, for people. There may be one, and it may be read later.
  case unreadable(StorageError)
}

/// Everything that there was to read of earlier runs' uploads.
public struct ResumeReading: Sendable {
  /// The records that can be used.
  public var records: [ResumeRecord] = []
  /// What is wrong with others, for people.
  public var warnings: [String] = []
  /// What the disk could not say: there may be more records.
  public var failure: StorageError?
}

/// One encrypted file for each upload that can be resumed (docs/design/durability.md#resume-records). Blocking; called
/// from the storage thread.
///
/// A file is replaced atomically when a session begins, and then grows by a sealed segment for each save. A save costs
/// one fsync and a few kilobytes, however many chunks the upload has. Once the segments take as much space as the state
/// itself, the file is replaced again. After a crash there is the record as it was before the save, or as it was after.
///
/// A record that cannot be read never stops anything: it is put aside and reported, and its upload starts again from
/// what the server still has.
public final class ResumeStore: Sendable {
  private static let suffix = ".resume"
  private static let damagedSuffix = ".damaged"
  private static let damagedCountMax = 100
  private static let masterKeyBytes = 32
  /// A file of 100 GB in chunks of 256 KiB needs 16 MB, and as much for segments.
  private static let recordBytesMax = 256 << 20
  /// Segments that are worth replacing a small file for.
  private static let segmentBytesMin = 256 << 10

  /// A file that this process has written: segments can be appended to it.
  private struct Log {
    var mark: ResumeSnapshot.Mark
    var envelope: ResumeRecordCoding.Envelope
    var segmentCount: UInt64
    var wholeBytes: Int
    var segmentBytes: Int
  }

  private let directory: String
  private let masterKey: [UInt8]
  private let effects: FileEffects
  /// One save at a time: two of the same file would get into each other's way.
  private let logs = Mutex<[FileID: Log]>([:])
  private let initialWarning: String?

  /// Opens the folder, which exists, and reads the key or makes one.
  public convenience init(directory: String, masterKeyFile: String) throws(StorageError) {
    try self.init(directory: directory, masterKeyFile: masterKeyFile, effects: .system)
  }

  init(directory: String, masterKeyFile: String, effects: FileEffects) throws(StorageError) {
    self.directory = directory
    self.effects = effects
    (masterKey, initialWarning) = try Self.openMasterKey(masterKeyFile, effects)
  }

  // MARK: - Saving

  /// The state that is on disk: what has changed since is enough for the next ``save(_:)``. Nil when a whole record is
  /// needed.
  public func mark(of id: FileID) -> ResumeSnapshot.Mark? { logs.withLock { $0[id]?.mark } }

  /// Makes a file's record durable. Changes that do not continue what is on disk are refused; then, as after any failure,
  /// the next snapshot has to be whole.
  public func save(_ snapshot: ResumeSnapshot) throws(StorageError) {
    let id = snapshot.record.fileID
    try logs.withLock { logs throws(StorageError) in
      let log = logs.removeValue(forKey: id)
      guard let changes = snapshot.changes else {
        logs[id] = try replace(snapshot.record, mark: snapshot.mark)
        return
      }
      guard var log, log.mark.sessionID == snapshot.mark.sessionID else {
        throw StorageError(.invalid, "the resume record of file \(id) has to be written as a whole")
      }
      log.segmentBytes += try append(snapshot.record, changes, to: log)
      log.segmentCount += 1
      log.mark = snapshot.mark
      logs[id] = log
      if log.segmentBytes > max(Self.segmentBytesMin, log.wholeBytes) { logs[id] = compacted(id, log) }
    }
  }

  /// Replaces a file's record; durable on return.
  public func save(_ record: ResumeRecord) throws(StorageError) {
    try save(ResumeSnapshot(record: record, changes: nil, mark: .init(sessionID: record.sessionID, changeCount: 0)))
  }

  private func replace(_ record: ResumeRecord, mark: ResumeSnapshot.Mark) throws(StorageError) -> Log {
    let envelope = try ResumeRecordCoding.makeEnvelope(sessionID: record.sessionID, masterKey: masterKey)
    let bytes = try ResumeRecordCoding.encode(record, in: envelope)
    try AtomicFile.replace(path(of: record.fileID), with: bytes, effects: effects)
    return Log(mark: mark, envelope: envelope, segmentCount: 1, wholeBytes: bytes.count, segmentBytes: 0)
  }

  /// Appends a segment; its length.
  private func append(
    _ record: ResumeRecord, _ changes: [ResumeSnapshot.Change], to log: Log
  ) throws(StorageError) -> Int {
    let bytes = try ResumeRecordCoding.segment(log.segmentCount, of: record, changes, in: log.envelope)
    try AtomicFile.append(
      bytes, to: path(of: record.fileID), of: log.wholeBytes + log.segmentBytes, effects: effects)
    return bytes.count
  }

  /// The same state in a file without segments. When that fails, the longer one stays.
  private func compacted(_ id: FileID, _ log: Log) -> Log? {
    guard case .record(let record) = load(id) else { return nil }
    do throws(StorageError) {
      return try replace(record, mark: log.mark)
    } catch {
      return log
    }
  }

  // MARK: - Loading

  /// A file's record. One that is damaged has been put aside on return.
  public func load(_ id: FileID) -> ResumeLoad {
    let path = path(of: id)
    let bytes: [UInt8]
    do {
      guard let content = try AtomicFile.read(path, bytesMax: Self.recordBytesMax) else { return .none }
      bytes = content
    } catch {
      // A failing disk or a lack of descriptors may pass: only what was read and is wrong is put aside.
      guard error.kind == .damaged else { return .unreadable(error) }
      putAside(path)
      return .damaged("the resume record of file \(id) cannot be used: \(error.message); \(Self.consequence)")
    }
    do {
      let reading = try ResumeRecordCoding.decode(bytes, masterKey: masterKey)
      guard reading.record.fileID == id else {
        putAside(path)
        return .damaged(
          "the resume record \(quoted(path)) is put aside: it is of another file, \(reading.record.fileID); "
            + Self.consequence)
      }
      guard reading.unreadableBytes > 0 else { return .record(reading.record) }
      return .cutShort(
        reading.record,
        "the last \(reading.unreadableBytes) bytes of the resume record \(quoted(path)) cannot be read, as after a "
          + "power cut; what comes before them is used")
    } catch {
      putAside(path)
      return .damaged("the resume record \(quoted(path)) is put aside: \(error.reason); \(Self.consequence)")
    }
  }

  private static let consequence = "the file is kept, and its upload starts again"

  /// Every record.
  public func loadAll() -> ResumeReading {
    var reading = ResumeReading(warnings: initialWarning.map { [$0] } ?? [])
    let names: [String]
    do {
      names = try AtomicFile.names(in: directory)
    } catch {
      reading.failure = error
      return reading
    }
    for name in names {
      if name.hasSuffix(AtomicFile.temporarySuffix) {
        // Of a crash; one that stays is met again.
        unlink("\(directory)/\(name)")
      } else if name.hasSuffix(Self.suffix), let id = FileID(String(name.dropLast(Self.suffix.count))) {
        switch load(id) {
        case .none: break
        case .record(let record): reading.records.append(record)
        case .cutShort(let record, let reason):
          reading.records.append(record)
          reading.warnings.append(reason)
        case .damaged(let reason): reading.warnings.append(reason)
        case .unreadable(let error): reading.failure = reading.failure ?? error
        }
      }
    }
    return reading
  }

  /// Drops a file's record. Not made durable: one that comes back after a power cut names a session that the server has
  /// ended, or chunks that are compared with the spool before they count.
  public func remove(_ id: FileID) {
    logs.withLock { logs in
      logs[id] = nil
      // One that stays is of a file that is delivered or gone, which the next start knows.
      unlink(path(of: id))
    }
  }

  private func path(of id: FileID) -> String { "\(directory)/\(id)\(Self.suffix)" }

  /// Keeps a damaged record, so that what happened can be found out, within a bound.
  private func putAside(_ path: String) {
    // One that stays where it is is found damaged again.
    _ = rename(path, path + Self.damagedSuffix)
    let names: [String]
    do throws(StorageError) {
      names = try AtomicFile.names(in: directory)
    } catch {
      // What lies there is counted the next time.
      return
    }
    let damaged = names.filter { $0.hasSuffix(Self.damagedSuffix) }.map { "\(directory)/\($0)" }
    guard damaged.count > Self.damagedCountMax else { return }
    let oldestFirst = damaged.map { (path: $0, changed: Self.changeTime(of: $0)) }.sorted { $0.changed < $1.changed }
    for (path, _) in oldestFirst.dropLast(Self.damagedCountMax) { unlink(path) }
  }

  private static func changeTime(of path: String) -> Int64 {
    var status = stat()
    guard lstat(path, &status) == 0 else { return 0 }
    return Int64(status.st_ctim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_ctim.tv_nsec)
  }

  /// A key that is lost or damaged costs the resumption of what is in progress, and nothing else.
  private static func openMasterKey(_ path: String, _ effects: FileEffects) throws(StorageError) -> ([UInt8], String?) {
    var warning: String?
    do {
      if let key = try AtomicFile.read(path, bytesMax: 4096) {
        if key.count == masterKeyBytes { return (key, nil) }
        warning = "the key \(quoted(path)) has \(key.count) bytes instead of \(masterKeyBytes)"
      }
    } catch {
      guard error.kind == .damaged else { throw error }
      warning = error.message
    }
    if let reason = warning {
      guard rename(path, path + damagedSuffix) == 0 else { throw .system(errno, cannot: "move \(quoted(path)) away") }
      warning = "\(reason); it is put aside and a new one made: uploads under way start again"
    }
    let key: [UInt8]
    do throws(IntegrityError) {
      key = try SecureRandom.bytes(masterKeyBytes)
    } catch {
      throw StorageError(.invalid, "no key can be made for resume records: \(error)")
    }
    try AtomicFile.replace(path, with: key, effects: effects)
    return (key, warning)
  }
}

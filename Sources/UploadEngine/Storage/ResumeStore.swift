public import FileModel
import Glibc
import Integrity
import Synchronization

/// What ``ResumeStore/load(_:)`` found.
public enum ResumeLoad: Sendable, Hashable {
  /// There is no record.
  case none
  /// The record.
  case record(ResumeRecord)
  /// There is one that cannot be used; why, for people. The capture is uploaded as if there were none.
  case damaged(String)
}

/// One encrypted file for each upload that can be resumed (spec D5). Blocking; called from the storage thread.
///
/// A record that cannot be read never stops anything: it is put aside and reported, and its upload starts again from
/// what the server still has.
public final class ResumeStore: Sendable {
  private static let suffix = ".resume"
  private static let damagedSuffix = ".damaged"
  private static let damagedCountMax = 100
  private static let masterKeyBytes = 32
  /// A file of 100 GB in chunks of 256 KiB needs 16 MB.
  private static let recordBytesMax = 256 << 20

  private let directory: String
  private let masterKey: [UInt8]
  private let effects: FileEffects
  /// One save at a time: two of the same file would share a temporary file.
  private let saving = Mutex(())
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

  /// Replaces a file's record; durable on return.
  public func save(_ record: ResumeRecord) throws(StorageError) {
    let bytes = try ResumeRecordCoding.encode(record, masterKey: masterKey)
    try saving.withLock { _ throws(StorageError) in
      try AtomicFile.replace(path(of: record.fileID), with: bytes, effects: effects)
    }
  }

  /// A file's record. One that is damaged has been put aside on return.
  public func load(_ id: FileID) -> ResumeLoad {
    let path = path(of: id)
    let bytes: [UInt8]
    do {
      guard let content = try AtomicFile.read(path, bytesMax: Self.recordBytesMax) else { return .none }
      bytes = content
    } catch {
      // A failing disk or a lack of descriptors may pass: only what was read and is wrong is put aside.
      if error.kind == .damaged { putAside(path) }
      return .damaged("the resume record of file \(id) cannot be used: \(error.message)")
    }
    do {
      let record = try ResumeRecordCoding.decode(bytes, masterKey: masterKey)
      if record.fileID == id { return .record(record) }
      putAside(path)
      return .damaged("the resume record \(quoted(path)) is put aside: it is of another file, \(record.fileID)")
    } catch {
      putAside(path)
      return .damaged("the resume record \(quoted(path)) is put aside: \(error.reason)")
    }
  }

  /// Every record that can be used, and what is wrong with the others.
  public func loadAll() -> (records: [ResumeRecord], warnings: [String]) {
    var records: [ResumeRecord] = []
    var warnings = initialWarning.map { [$0] } ?? []
    let names: [String]
    do {
      names = try AtomicFile.names(in: directory)
    } catch {
      return ([], warnings + ["no upload can be resumed: \(error.message)"])
    }
    for name in names {
      if name.hasSuffix(AtomicFile.temporarySuffix) {
        unlink("\(directory)/\(name)")
      } else if name.hasSuffix(Self.suffix), let id = FileID(String(name.dropLast(Self.suffix.count))) {
        switch load(id) {
        case .none: break
        case .record(let record): records.append(record)
        case .damaged(let reason): warnings.append(reason)
        }
      }
    }
    return (records, warnings)
  }

  /// Drops a file's record. Not made durable: one that comes back after a power cut names a session that the server has
  /// ended, or chunks that are compared with the spool before they count.
  public func remove(_ id: FileID) {
    unlink(path(of: id))
  }

  private func path(of id: FileID) -> String { "\(directory)/\(id)\(Self.suffix)" }

  /// Keeps a damaged record for whoever wants to know what happened, within a bound.
  private func putAside(_ path: String) {
    _ = rename(path, path + Self.damagedSuffix)
    guard let names = try? AtomicFile.names(in: directory) else { return }
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

  /// A key that is lost or damaged costs the resumption of what is under way, and nothing else.
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
    let key = SecureRandom.bytes(masterKeyBytes)
    try AtomicFile.replace(path, with: key, effects: effects)
    return (key, warning)
  }
}

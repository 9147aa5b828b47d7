public import Logging
import Glibc
import Integrity
import Synchronization
import Threads
public import TransferModel

/// Which spool this is, and which of its starts: what a server needs to tell it that it is a copy. It lies with the spool, in
/// `.state/spool`, and is copied, backed up and restored with it; that is the point.
///
/// A start is counted on the disk before anything is said of it: two starts with one number would look like two spools. Where that
/// cannot be done, and where what was there cannot be read, nothing is said in this run.
public final class SpoolIdentity: SpoolPresence {
  /// That a server knew another start, and the spool has had another id since.
  public struct Renewal: Hashable, Sendable {
    /// Who said it.
    public var server: String
    /// The start that was told.
    public var count: UInt64
    /// The last one that the server knew.
    public var knownCount: UInt64
    /// Milliseconds since 1970.
    public var atMilliseconds: Int64

    /// What happened, for people.
    public var message: String {
      "\(server) knows start \(knownCount) of this spool, and this is another start \(count) of it: the spool was restored from a backup, "
        + "or a copy of it runs elsewhere. It goes on under a new identity; its uploads go on, too."
    }
  }

  private struct State {
    var record: SpoolIdentityRecord?
    var renewal: Renewal?
    var isRenewing = false
    var nextTry: Int64 = 0
    var worker: NamedThread?
  }

  /// When it is tried again to put another id on the disk.
  static let retrySeconds: Int64 = 30
  private static let bytesMax = 16 << 10

  private let path: String
  private let effects: FileEffects
  private let logger: Logger
  private let retrySeconds: Int64
  private let startThread: ThreadStart
  private let state = Mutex(State())

  /// Counts a start of the spool whose state lies in the folder.
  public convenience init(in directory: StateDirectory, logger: Logger) {
    self.init(path: directory.spoolPath, effects: .system, logger: logger)
  }

  /// `retrySeconds` and `startThread` are others in tests.
  init(
    path: String, effects: FileEffects, logger: Logger, retrySeconds: Int64 = SpoolIdentity.retrySeconds,
    startThread: @escaping ThreadStart = { NamedThread($0, $1, $2) }
  ) {
    self.path = path
    self.effects = effects
    self.logger = logger
    self.retrySeconds = retrySeconds
    self.startThread = startThread
    do throws(StorageError) {
      var record = try Self.read(path, logger) ?? SpoolIdentityRecord.fresh()
      record.beginStart()
      try AtomicFile.replace(path, with: record.bytes, effects: effects)
      state.withLock { $0.record = record }
    } catch {
      logger.warning(
        "this start of the spool could not be counted: if the spool is a copy, no receiver can say so",
        metadata: ["reason": "\(error.message)"])
    }
  }

  /// Nil where there is none. One that is damaged is none: the spool gets another id. What cannot be read is neither.
  private static func read(_ path: String, _ logger: Logger) throws(StorageError) -> SpoolIdentityRecord? {
    guard let bytes = try AtomicFile.read(path, bytesMax: bytesMax) else { return nil }
    if let record = SpoolIdentityRecord(bytes) { return record }
    logger.warning("the spool's identity is damaged: it gets a new one", metadata: ["file": "\(path)"])
    return nil
  }

  /// This start; nil where nothing is to be said of it.
  public var start: SpoolStartID? { state.withLock { $0.record?.start } }

  /// What a server has said in this run.
  public var renewal: Renewal? { state.withLock { $0.renewal } }

  /// A server knows another start as the last one of a spool. Returns at once; another id is taken as soon as it is on the disk,
  /// and once in a run: a server that says it again has not heard of the new id.
  public func told(ofSpool spool: [UInt8], knownCount: UInt64, by server: String) {
    let now = Self.seconds(CLOCK_MONOTONIC)
    let told = state.withLock { state -> (record: SpoolIdentityRecord, earlier: NamedThread?)? in
      guard let record = state.record, record.spool == spool, state.renewal == nil, !state.isRenewing,
        now >= state.nextTry
      else { return nil }
      state.isRenewing = true
      return (record, state.worker.take())
    }
    guard let told else { return }
    let worker = startThread("spool-identity", .answering) { [self] in
      // It has ended but for its last instructions.
      told.earlier?.join()
      renew(told.record, knownCount: knownCount, by: server)
    }
    guard let worker else {
      logger.warning(
        "\(server) knows start \(knownCount) of this spool, and this is another start \(told.record.count) of it: the spool needs a new identity, and the system has no thread left to write one; it is tried again"
      )
      return state.withLock { state in
        state.worker = told.earlier
        state.isRenewing = false
        state.nextTry = now + retrySeconds
      }
    }
    state.withLock { $0.worker = worker }
  }

  private func renew(_ earlier: SpoolIdentityRecord, knownCount: UInt64, by server: String) {
    let renewal = Renewal(
      server: server, count: earlier.count, knownCount: knownCount,
      atMilliseconds: Self.seconds(CLOCK_REALTIME) * 1000)
    var record = earlier.renewed()
    record.beginStart()
    do throws(StorageError) {
      try AtomicFile.replace(path, with: record.bytes, effects: effects)
      logger.warning("\(renewal.message)", metadata: ["spool": "\(Hex.encode(record.spool))"])
      state.withLock { state in
        (state.record, state.renewal, state.isRenewing) = (record, renewal, false)
      }
    } catch {
      logger.warning("\(renewal.message) It could not be written yet", metadata: ["reason": "\(error.message)"])
      state.withLock { state in
        state.isRenewing = false
        state.nextTry = Self.seconds(CLOCK_MONOTONIC) + retrySeconds
      }
    }
  }

  /// Waits for what is in progress.
  public func close() {
    state.withLock { $0.worker.take() }?.join()
  }

  private static func seconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec)
  }
}

/// What stands in `.state/spool`.
struct SpoolIdentityRecord: Hashable, Sendable {
  private static let head = "uploadfs spool 1"
  private static let idBytes = 16
  private static let formerMax = 16

  /// The spool's id.
  private(set) var spool: [UInt8]
  /// Of the last start; 0 before the first.
  private(set) var count: UInt64
  private(set) var mark: [UInt8]
  /// The ids that the spool had, the latest first.
  private(set) var former: [[UInt8]] = []

  var start: SpoolStartID { SpoolStartID(spool: spool, count: count, mark: mark) }

  /// A spool that was never started.
  static func fresh() -> SpoolIdentityRecord {
    SpoolIdentityRecord(spool: random(), count: 0, mark: random(), former: [])
  }

  /// The same spool under another id.
  func renewed() -> SpoolIdentityRecord {
    var record = Self.fresh()
    record.former = Array(([spool] + former).prefix(Self.formerMax))
    return record
  }

  mutating func beginStart() {
    count += 1
    mark = Self.random()
  }

  private static func random() -> [UInt8] {
    var generator = SystemRandomNumberGenerator()
    return (0..<idBytes).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
  }

  /// Lines of a word and a value, and a checksum: what a disk has made of them is none.
  var bytes: [UInt8] {
    var text = "\(Self.head)\nid \(Hex.encode(spool))\nstart \(count)\nmark \(Hex.encode(mark))\n"
    for id in former { text += "was \(Hex.encode(id))\n" }
    return Array(text.utf8) + Array("crc \(Self.checksum(Array(text.utf8)))\n".utf8)
  }

  private static func checksum(_ bytes: [UInt8]) -> String {
    String(bytes.withUnsafeBytes { CRC32C.checksum($0) }, radix: 16)
  }

  private init(spool: [UInt8], count: UInt64, mark: [UInt8], former: [[UInt8]]) {
    self.spool = spool
    self.count = count
    self.mark = mark
    self.former = former
  }

  /// Words that a later version has added are not for this one.
  init?(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
    guard lines.first == Substring(Self.head), let last = lines.last, last.hasPrefix("crc "),
      last.dropFirst(4) == Self.checksum(Array((lines.dropLast().joined(separator: "\n") + "\n").utf8))
    else { return nil }
    var values: [Substring: [Substring]] = [:]
    for line in lines.dropFirst().dropLast() {
      guard let space = line.firstIndex(of: " ") else { continue }
      values[line[..<space], default: []].append(line[line.index(after: space)...])
    }
    let ids = { (word: Substring) in
      (values[word] ?? []).compactMap { Hex.decode(String($0)) }.filter { $0.count == Self.idBytes }
    }
    guard let spool = ids("id").first, let mark = ids("mark").first,
      let count = values["start"]?.first.flatMap({ UInt64($0) }), count < .max
    else { return nil }
    self.init(spool: spool, count: count, mark: mark, former: Array(ids("was").prefix(Self.formerMax)))
  }
}

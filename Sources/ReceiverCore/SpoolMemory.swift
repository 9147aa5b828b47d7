public import ChunkProtocol
public import Lookup
import Integrity

/// The last start of a spool, as it is on the disk.
public struct SpoolRecord: Hashable, Sendable, Codable {
  /// Whose spool it is.
  public var credential: String
  /// The start, as it travels.
  public var start: String
  /// When it was heard of last, to a day.
  public var heardAt: Milliseconds

  /// Collects what is remembered of a spool.
  public init(credential: String, start: String, heardAt: Milliseconds) {
    self.credential = credential
    self.start = start
    self.heardAt = heardAt
  }
}

/// The last start of each spool that a credential's clients have sent from. A spool that comes with an earlier one was restored from
/// a backup, or a copy of it runs elsewhere; it cannot know that by itself, because all that it knows came with the copy.
///
/// Where the memory is full, the spool goes of which nothing was heard for longest. Of one that is not remembered nothing can be
/// said, and nothing is: it is taken as it comes.
public struct SpoolMemory: Sendable {
  /// Something that a spool is told.
  public struct Notice: Hashable, Sendable {
    /// The last start that is known of it.
    public var known: KnownSpoolStart
    /// This start of it has not been told before, as far as that is remembered.
    public var isFirst: Bool
  }

  private struct Entry {
    var start: SpoolStart
    var heardAt: Milliseconds
    /// As it is on the disk.
    var savedAt: Milliseconds
    /// The last start that was told.
    var told: SpoolStart?
  }

  /// How old what is on the disk may be.
  private static let saveAge: Milliseconds = 86_400_000

  private let spoolsMax: Int
  /// By the names of credentials, and the ids of spools as they travel.
  private var credentials: LookupTable<String, LookupTable<String, Entry>> = [:]
  /// The names that credentials have on the disk, where those are others.
  public var recordedIDs: LookupTable<CredentialID, CredentialID> = [:]
  /// There is something that is not on the disk.
  public private(set) var isChanged = false

  /// Knows nothing, and remembers so many spools of a credential.
  public init(spoolsMax: Int = ProtocolLimits.spoolsMax) {
    self.spoolsMax = max(1, spoolsMax)
  }

  /// Knows what was on the disk. `owners` are the credentials of today by the names that they had.
  public init(
    _ records: [SpoolRecord], owners: LookupTable<CredentialID, CredentialID> = [:],
    spoolsMax: Int = ProtocolLimits.spoolsMax
  ) {
    self.init(spoolsMax: spoolsMax)
    for record in records {
      guard let start = SpoolStart(headerValue: record.start) else { continue }
      let name = CredentialID(record.credential)
      let (credential, spool) = ((owners[name] ?? name).text, Hex.encode(start.spool))
      // Two names of one user may have had the same spool.
      if let known = credentials[credential]?[spool], known.start.count >= start.count { continue }
      makePlace(for: spool, of: credential)
      credentials[credential, default: [:]][spool] = Entry(
        start: start, heardAt: record.heardAt, savedAt: record.heardAt)
    }
  }

  /// Takes note of a start; what it is to be told, if it is not the last one.
  public mutating func hear(_ start: SpoolStart, of credential: CredentialID, at now: Milliseconds) -> Notice? {
    let (credential, spool) = (credential.text, Hex.encode(start.spool))
    guard var entry = credentials[credential]?[spool] else {
      makePlace(for: spool, of: credential)
      credentials[credential, default: [:]][spool] = Entry(start: start, heardAt: now, savedAt: now)
      isChanged = true
      return nil
    }
    defer { credentials[credential, default: [:]][spool] = entry }
    if start.count > entry.start.count {
      entry = Entry(start: start, heardAt: now, savedAt: now)
      isChanged = true
    } else if start == entry.start {
      entry.heardAt = max(entry.heardAt, now)
      if entry.heardAt - entry.savedAt >= SpoolMemory.saveAge { isChanged = true }
    } else {
      defer { entry.told = start }
      return Notice(
        known: KnownSpoolStart(spool: start.spool, count: entry.start.count), isFirst: entry.told != start)
    }
    return nil
  }

  private mutating func makePlace(for spool: String, of credential: String) {
    guard let known = credentials[credential], known.count >= spoolsMax, known[spool] == nil else { return }
    let oldest = known.sorted().min { ($0.value.heardAt, $0.key) < ($1.value.heardAt, $1.key) }
    if let oldest { credentials[credential]?[oldest.key] = nil }
  }

  /// All of it, for the disk, where something has changed. Where that fails, say so by ``saveFailed()``.
  public mutating func takeChanges() -> [SpoolRecord]? {
    guard isChanged else { return nil }
    isChanged = false
    var records: [SpoolRecord] = []
    for (credential, spools) in credentials.sorted() {
      for (spool, entry) in spools.sorted() {
        credentials[credential]?[spool]?.savedAt = entry.heardAt
        records.append(
          SpoolRecord(
            credential: recordedIDs[CredentialID(credential)]?.text ?? credential, start: entry.start.headerValue,
            heardAt: entry.heardAt))
      }
    }
    return records
  }

  /// What was taken is not on the disk.
  public mutating func saveFailed() { isChanged = true }
}

public import FileModel
public import Logging
import Lookup
import Synchronization

/// What the engines of a spool keep on its disk: opened together, and closed together once they have ended.
public final class SpoolState: Sendable {
  /// How long a disk is asked again at the start before the mount is refused.
  private static let patienceLimit = Duration.seconds(5)

  /// Where it lies.
  public let directory: StateDirectory
  /// Room on the disk that is its own.
  public let room: StateRoom
  /// The names that templates give, the same for every destination; nil where there are none.
  public let ledger: NameLedger?
  /// Which spool this is, and which of its starts.
  public let identity: SpoolIdentity
  private let patience: StartupTimeout
  private let logger: Logger
  private let catalogs = Mutex<[Catalog]>([])
  private let copies: StateCopies
  private let anew = LostCatalogs()

  /// The paths of catalogs of which an opening of this start found that what they knew is lost; a later one meets what took their place.
  private final class LostCatalogs: Sendable {
    private let paths = Mutex<LookupSet<String>>([])

    func note(_ path: String) { paths.withLock { _ = $0.insert(path) } }
    func contains(_ path: String) -> Bool { paths.withLock { $0.contains(path) } }
  }

  /// Opens what all engines share, and keeps another mount away. `reserveBytes` of the disk stay free of copies for backups. `pause`
  /// waits between two tries to open something; false ends the start.
  public init(
    spool: String, rules: FileRules, reserveBytes: UInt64, logger: Logger,
    pause: @escaping @Sendable (Duration) -> Bool
  ) throws(StorageError) {
    self.logger = logger
    patience = StartupTimeout(limit: Self.patienceLimit, pause: pause)
    directory = try StateDirectory(spool: spool)
    identity = SpoolIdentity(in: directory, logger: logger)
    room = StateRoom(in: directory.path, logger: logger)
    ledger = try NameLedger.open(at: directory.namesPath, for: rules, room: room, patience: patience) {
      [directory, room, patience, anew] take in
      for path in try directory.catalogPaths() {
        let catalog = try Catalog(path: path, room: room, patience: patience)
        defer { catalog.close() }
        if catalog.isAnew { anew.note(path) }
        if let damage = catalog.openedDamaged { logger.warning("\(damage)") }
        try catalog.forEachPage(take)
      }
    }
    if let lost = ledger?.lostPast { logger.warning("\(lost)") }
    copies = StateCopies(reserveBytes: reserveBytes, logger: logger)
    if let ledger { copy(ledger) }
  }

  /// Opens the catalog of a destination; once for each.
  public func catalog(of destination: DestinationName) throws(StorageError) -> Catalog {
    let path = try directory.place(of: destination).catalogPath
    let catalog = try Catalog(path: path, room: room, patience: patience, wasAnew: anew.contains(path))
    catalogs.withLock { $0.append(catalog) }
    if let ledger { learn(from: catalog, ledger) }
    copy(catalog)
    return catalog
  }

  /// What is recorded from now on is of contents in this instance of the spool's filesystem.
  public func begin(in instance: String?) {
    for catalog in catalogs.withLock({ $0 }) {
      do throws(StorageError) {
        try catalog.begin(in: instance)
      } catch {
        // It is tried again with each round. Until then more is doubted in a copy without attributes.
        logger.debug("cannot record the instance of the spool's filesystem", metadata: ["error": "\(error)"])
      }
    }
  }

  /// What cannot be learned costs numbers and no capture.
  private func learn(from catalog: Catalog, _ ledger: NameLedger) {
    do throws(StorageError) {
      if let lost = try ledger.learn(from: catalog) { logger.warning("\(lost)") }
    } catch {
      logger.warning("names of earlier captures cannot be learned: \(error.message)")
    }
  }

  /// Opens the resume records of a destination; once for each.
  public func resumeStore(of destination: DestinationName) throws(StorageError) -> ResumeStore {
    try ResumeStore(
      directory: directory.place(of: destination).resumeDirectory, masterKeyFile: directory.masterKeyFile)
  }

  private func copy(_ database: some CopiedDatabase) {
    copies.add(database)
    room.letGo(StateCopies.path(of: database.path))
  }

  /// Copies and closes everything: from then on other programs can read the databases.
  public func close() {
    copies.stop()
    identity.close()
    ledger?.close()
    for catalog in catalogs.withLock({ $0 }) { catalog.close() }
  }
}

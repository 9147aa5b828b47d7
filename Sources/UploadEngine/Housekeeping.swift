import FileModel
import Lookup
import Synchronization
import TransferModel

/// What an engine does once a second beside its deliveries, in this order: delivered copies that were kept long enough go, and others for
/// what has to be recorded; what could not be asked is asked again; users' orders are obeyed; pages and memory are given back; sessions
/// that no upload uses are ended.
///
/// The journal's thread runs it between what it records, because it may wait for the disk. Nothing of it is the journal's, and nothing
/// else touches what it keeps.
final class Housekeeping: Sendable {
  private let engine: UploadEngine
  private let contents: any FileContents
  private let io: HybridIOEngine
  /// What the machine leaves to this engine; nil where it does not say so.
  private let availableMemory: @Sendable () -> UInt64?
  private let sweep: SessionSweep
  /// Of delivered files that have been kept long enough, those that have had their turn to go.
  private let expiryTurns = Mutex(EvictionTurns())

  private static let expiredTogether = 256

  init(
    of engine: UploadEngine, contents: any FileContents, io: HybridIOEngine,
    availableMemory: @escaping @Sendable () -> UInt64?
  ) {
    self.engine = engine
    self.contents = contents
    self.io = io
    self.availableMemory = availableMemory
    sweep = SessionSweep(
      destination: engine.destination, transport: engine.transport, catalog: engine.catalog, logger: engine.logger,
      sessionAge: engine.configuration.limits.timing.sessionAge)
  }

  /// Once a second.
  func run() {
    evictExpired()
    keepRoom()
    askAgain()
    engine.obeySpoolOrders(contents)
    io.sweep()
    watchMemory()
    sweepSessions()
    engine.tellOfManyChanges()
  }

  private func evictExpired() {
    let clocks = engine.configuration.clock.now()
    // A round over many goes on a second later: those that stay, at its beginning, do not take up each one.
    expiryTurns.withLock { turns in
      for _ in 0..<Self.expiredTogether {
        let next = turns.next { countMax in
          engine.state.withLock { $0.schedule.expired(at: $0.time.shown(clocks), countMax: countMax) }
        }
        guard let next else {
          turns = EvictionTurns()
          break
        }
        if !contents.evict(next) { turns.stays() }
      }
      turns.rest()
    }
    if engine.isBeyondMemory { engine.apply { $0.wantExpired(at: $1) } }
  }

  /// Delivered copies go for what has to be recorded, as they go for writers.
  private func keepRoom() {
    engine.room?.restore { bytes in
      var removedBytes: UInt64 = 0
      var turns = EvictionTurns()
      while removedBytes < bytes, let candidate = turns.next(among: { engine.evictionCandidates(countMax: $0) }) {
        let sizeBytes = contents.snapshot(of: candidate.id)?.sizeBytes ?? 0
        if contents.evict(candidate) { removedBytes += sizeBytes } else { turns.stays() }
      }
      if removedBytes < bytes { _ = engine.loadCandidates() }
      return removedBytes > 0
    }
  }

  /// Asks again what was published in the place of files that were met, and are as they were.
  private func askAgain() {
    for id in engine.metUnread.withLock({ $0.sorted() }) {
      if let snapshot = contents.snapshot(of: id), snapshot.wasFound, snapshot.epoch == 0, snapshot.writableOpens == 0 {
        do throws(StorageError) {
          let former = try engine.former(of: snapshot)
          engine.apply { $0.handle(.settled(snapshot), after: former, at: $1) }
        } catch {
          return
        }
      }
      engine.metUnread.withLock { _ = $0.remove(id) }
    }
  }

  /// Fewer buffers when memory is short, more when there is enough again (docs/design/reading.md#memory).
  private func watchMemory() {
    let budget = engine.state.withLock { $0.schedule.memory.budget }
      .next(availableBytes: availableMemory(), bufferBytes: engine.configuration.limits.bufferBytes)
    io.setSavesMemory(budget.readsPlainly)
    engine.apply { $0.memoryChanged(to: budget, at: $1) }
  }

  private func sweepSessions() {
    // Before that it is not known which of them are resumed.
    guard engine.state.withLock({ $0.early == nil && $0.schedule.spool.isScanned && !$0.isStopped }) else { return }
    let now = engine.configuration.clock.now()
    sweep.tick(
      SessionSweep.Source(
        sessionsInUse: { [engine] in engine.state.withLock { $0.schedule.sessionsInUse } },
        endSessions: { [engine] ids in engine.apply { $0.endSessions(ids, at: $1) } },
        makeRequestID: { [engine] in engine.state.withLock { $0.schedule.makeRequestID() } }),
      nanoseconds: now.monotonic.nanoseconds, secondsSince1970: now.wallMilliseconds / 1000)
  }
}

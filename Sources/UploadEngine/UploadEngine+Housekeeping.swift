import FileModel
import Logging
import Lookup
import Synchronization
import SystemMemory
import Threads

/// What is done once a second, on the journal's thread.
extension UploadEngine {
  /// Fewer buffers when memory is short, more when there is enough again (docs/design/reading.md#memory).
  func watchMemory(_ io: HybridIOEngine, _ availableMemory: () -> UInt64?) {
    let budget = state.withLock { $0.schedule.memory.budget }
      .next(availableBytes: availableMemory(), bufferBytes: configuration.limits.bufferBytes)
    io.setSavesMemory(budget.readsPlainly)
    apply { $0.memoryChanged(to: budget, at: $1) }
  }

  /// Links, addresses or routes of this machine have changed. Called on any thread; does not wait.
  public func networkChanged() { apply { $0.networkChanged(at: $1) } }

  func sweepSessions() {
    // Before that it is not known which of them are resumed.
    guard state.withLock({ $0.early == nil && $0.schedule.spool.isScanned && !$0.isStopped }) else { return }
    let now = configuration.clock.now()
    sweep.tick(
      SessionSweep.Source(
        sessionsInUse: { [self] in state.withLock { $0.schedule.sessionsInUse } },
        endSessions: { [self] ids in apply { $0.endSessions(ids, at: $1) } },
        makeRequestID: { [self] in state.withLock { $0.schedule.makeRequestID() } }),
      nanoseconds: now.monotonic.nanoseconds, secondsSince1970: now.wallMilliseconds / 1000)
  }

  func evictExpired(_ contents: any FileContents) {
    let clocks = configuration.clock.now()
    // A round over many goes on at the next tick: those that stay, at its beginning, do not take up each tick.
    expiryTurns.withLock { turns in
      for _ in 0..<Self.expiredTogether {
        let next = turns.next { countMax in
          state.withLock { $0.schedule.expired(at: $0.time.shown(clocks), countMax: countMax) }
        }
        guard let next else {
          turns = EvictionTurns()
          break
        }
        if !contents.evict(next) { turns.stays() }
      }
      turns.rest()
    }
    if isBeyondMemory { apply { $0.wantExpired(at: $1) } }
  }

  private static let expiredTogether = 256

  /// Delivered copies go for what has to be recorded, as they go for writers.
  func keepRoom(_ contents: any FileContents) {
    room?.restore { bytes in
      var removedBytes: UInt64 = 0
      var turns = EvictionTurns()
      while removedBytes < bytes, let candidate = turns.next(among: { evictionCandidates(countMax: $0) }) {
        let sizeBytes = contents.snapshot(of: candidate.id)?.sizeBytes ?? 0
        if contents.evict(candidate) { removedBytes += sizeBytes } else { turns.stays() }
      }
      if removedBytes < bytes { _ = loadCandidates() }
      return removedBytes > 0
    }
  }

  func obeySpoolOrders(_ contents: any FileContents) {
    for order in state.withLock({ $0.schedule.takeSpoolOrders() }) {
      switch order {
      case .discard(let file):
        if contents.evict(file) { continue }
        state.withLock { $0.schedule.notDiscarded(file) }
      case .accept(let file, let interruption):
        contents.accept(file.id, interruption, ifUnchangedSince: file.epoch)
      }
    }
  }

  /// Asks again what was published in the place of files that were met, and are as they were.
  func askAgain(_ contents: any FileContents) {
    for id in metUnread.withLock({ $0.sorted() }) {
      if let snapshot = contents.snapshot(of: id), snapshot.wasFound, snapshot.epoch == 0, snapshot.writableOpens == 0 {
        do throws(StorageError) {
          let former = try former(of: snapshot)
          apply { $0.handle(.settled(snapshot), after: former, at: $1) }
        } catch {
          return
        }
      }
      metUnread.withLock { _ = $0.remove(id) }
    }
  }
}

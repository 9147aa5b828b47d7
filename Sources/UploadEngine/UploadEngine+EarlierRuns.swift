import Logging
import Synchronization

/// What earlier runs have left, and what is reported before that is known.
extension UploadEngine {
  /// Returns once what earlier runs left is known: from then on files that they knew may be reported as found, however many
  /// there are.
  public func waitUntilLoaded() { isLoaded.wait { $0 ? .done(()) : .again } }

  func setLoaded() {
    isLoaded.withLock { isLoaded, signal in
      isLoaded = true
      signal.broadcast()
    }
  }

  /// True when an event is kept until earlier runs are known. Where too many are kept already, the caller waits.
  func waitsForEarlierRuns(_ event: EarlyEvents.Event) -> Bool {
    switch state.withLock({ $0.isStopped ? nil : $0.early?.keep(event) }) {
    case nil: return false
    case true?: return true
    case false?:
      waitUntilLoaded()
      return false
    }
  }

  /// Reading takes time for every file of the catalog, and the mount is there meanwhile.
  func loadEarlierRuns() {
    let (records, warnings) = resumeStore.loadAll()
    for warning in warnings { logger.warning("\(warning)") }
    var entries: [CatalogEntry] = []
    do throws(StorageError) {
      entries = try catalog.loadAll()
    } catch {
      // Nothing is lost by it: what is not known to be delivered is delivered again.
      logger.error("cannot read the catalog; what is in the spool is delivered again", metadata: ["error": "\(error)"])
    }
    do throws(StorageError) {
      try names.recall(entries.filter { !$0.state.isHistory }.map(\.id))
    } catch {
      // Each name is asked for again before it is used.
      logger.error("\(error.message)")
    }
    let inheritance = Inheritance(catalog: entries, records: records)
    // Nothing is read before earlier runs are known.
    pool.enlarge(to: inheritance.chunkBytesMax)
    change { state, now in
      state.schedule.inherit(inheritance)
      if configuration.triesCredentials { state.schedule.tryCredentials(at: now) }
      state.schedule.askForLimits(at: now)
      for event in state.early.take()?.events ?? [] {
        switch event {
        case .reported(let event): state.schedule.handle(event, at: now)
        case .contentWillChange(let id): _ = state.schedule.contentWillChange(id)
        }
      }
    }
    setLoaded()
  }
}

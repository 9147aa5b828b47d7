import FileModel
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
    let reading = readRepeatedly("upload records") { () throws(StorageError) in
      let reading = resumeStore.loadAll()
      return (reading, reading.failure)
    }
    for warning in reading?.warnings ?? [] { logger.warning("\(warning)") }
    if let failure = reading?.failure {
      logger.error(
        "not all upload records can be read: what they are of is sent from its beginning, and what lacks parts waits",
        metadata: ["error": "\(failure.message)"])
    }
    let catalogReading = readRepeatedly("the catalog") { () throws(StorageError) in (try catalog.loadAll(), nil) }
    if catalogReading == nil {
      // Nothing is lost by it: what is not known to be delivered is delivered again.
      logger.error("cannot read the catalog; what is in the spool is delivered again")
    }
    let entries = catalogReading ?? []
    do throws(StorageError) {
      try names.recall(entries.filter { !$0.state.isHistory }.map(\.id))
    } catch {
      // Each name is asked for again before it is used.
      logger.error("\(error.message)")
    }
    let inheritance = Inheritance(
      catalog: entries, records: reading?.records ?? [], lacksRecords: reading?.failure != nil)
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
        case .contentStays(let id): state.schedule.contentStays(id, at: now)
        }
      }
    }
    setLoaded()
  }

  /// Reads until the disk has said everything, with growing pauses, for ten seconds at most: the spool's writers wait for what is
  /// read here once they have changed very many files. What was read last; nil when that was nothing.
  private func readRepeatedly<Reading>(
    _ what: String, _ read: () throws(StorageError) -> (Reading, failure: StorageError?)
  ) -> Reading? {
    let end = monotonicNanoseconds() + 10_000_000_000
    var pauseNanoseconds: Int64 = 100_000_000
    while true {
      var last: Reading?
      let failure: StorageError?
      do throws(StorageError) {
        (last, failure) = try read()
      } catch {
        failure = error
      }
      guard let failure else { return last }
      let due = monotonicNanoseconds() + pauseNanoseconds
      guard due < end else { return last }
      logger.warning("cannot read \(what); it is tried again", metadata: ["error": "\(failure.message)"])
      let isStopped = isLoaded.wait { isLoaded in
        isLoaded ? .done(true) : monotonicNanoseconds() >= due ? .done(false) : .againBy(nanoseconds: due)
      }
      if isStopped { return last }
      pauseNanoseconds *= 2
    }
  }
}

extension KnownCaptures {
  /// Those that are doubtful at once, the others when they are asked for.
  init(_ catalog: Catalog) throws(StorageError) {
    self.init()
    doubtful = try catalog.known(onlyDoubtful: true)
    all = {
      do throws(StorageError) {
        return try catalog.known(onlyDoubtful: false)
      } catch {
        return nil
      }
    }
    capture = { id in
      do throws(StorageError) {
        return try catalog.known(id)
      } catch {
        return nil
      }
    }
    areLost = catalog.isAnew
  }
}

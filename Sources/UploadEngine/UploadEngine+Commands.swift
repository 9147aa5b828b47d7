public import FileModel
import Logging
import Synchronization

/// One file at a time.
extension UploadEngine {
  /// Obeys a word for a file. On return the decision is durable: a restart finds it. Waits for the local disk.
  public func execute(_ command: FileCommand, on id: FileID) throws(FileOrderRefusal) {
    let outcome = outcome(of: command, on: id)
    if let refusal = outcome.refusal { throw refusal }
    try keepDecision(about: id)
  }

  /// What the schedule makes of it.
  func outcome(of command: FileCommand, on id: FileID) -> FileCommandOutcome? {
    // Before that an earlier run's file looks like a new one.
    waitWhileLoading()
    var outcome: FileCommandOutcome?
    apply { outcome = $0.execute(command, id, at: $1) }
    return outcome
  }

  /// Carries out what users have ordered of files in the spool.
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

  /// Makes durable what was decided.
  func keepDecision(about id: FileID) throws(FileOrderRefusal) {
    // What was interrupted is no longer marked so.
    if let contents = parts.withLock({ $0.contents }) { obeySpoolOrders(contents) }
    do throws(StorageError) {
      try journal.recordNow {
        self.state.withLock { state in state.schedule.catalogEntry(of: id).map { [$0] } ?? [] }
      }
    } catch {
      logger.error("cannot record what is wanted of a file", metadata: ["error": "\(error)"])
      throw .notDurable(error)
    }
  }
}

extension FileCommandOutcome? {
  /// Why it was not obeyed; nil when it was.
  var refusal: FileOrderRefusal? {
    switch self {
    case .obeyed: nil
    case .doesNotApply, .goesElsewhere: .doesNotApply
    case .unknownFile: .unknownFile
    case nil: .ending
    }
  }
}

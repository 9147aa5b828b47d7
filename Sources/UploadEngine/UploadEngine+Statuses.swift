public import FileModel
import Logging
import Lookup
import Synchronization
import SystemMemory
import Threads
import TransferModel

/// What is said of files, and of the mount.
extension UploadEngine {
  /// Everything about one file, as it is now.
  public func status(of id: FileID) -> FileStatus? {
    let clocks = configuration.clock.now()
    guard
      var status = state.withLock({
        $0.schedule.status(
          of: id, publishedName: { destination.publishedName(for: names.shownName(of: id, at: $0)) },
          at: $0.time.shown(clocks))
      })
    else { return nil }
    if status.state == .writing, let sizeBytes = parts.withLock({ $0.contents })?.sizeBytesSoon(of: id) {
      status.writtenBytes = sizeBytes
      status.totalBytes = sizeBytes
    }
    if let receipt = status.receipt, status.state == .complete { nameByRecord(&status, receipt) }
    return status
  }

  /// The receipt is that of another of its names: of a file with hard links the one that was published last, of one that has a temporary
  /// name by now the one before. Where it lies under this one the record of names says.
  private func nameByRecord(_ status: inout FileStatus, _ receipt: Receipt) {
    let isOfThisName = [receipt.name, receipt.publishedAs].contains {
      $0?.utf8.elementsEqual(status.publishedName.utf8) == true
    }
    guard !isOfThisName else { return }
    status.publishedName =
      publications?.published(status.publishedName, by: status.id) ?? receipt.publishedAs ?? receipt.name
  }

  /// The destination's address, without credentials.
  var displayURL: String { destination.displayURL }

  /// Counts are to be taken together with those of other engines; before ``start()``. `whenMany` is called on the journal's thread, with
  /// no lock held, once a second while more than ``changedFilesMax`` changes wait to be taken.
  func rememberChanges(whenMany: @escaping @Sendable () -> Void) {
    whenManyHaveChanged.withLock { $0 = whenMany }
    state.withLock { $0.schedule.rememberChanges() }
  }

  /// Tells who takes the changes where too many wait.
  func tellOfManyChanges() {
    guard state.withLock({ $0.schedule.changedCount > Self.changedFilesMax }) else { return }
    whenManyHaveChanged.withLock { $0 }?()
  }

  /// What has changed since the last time.
  func takeCounted() -> CountedFiles { state.withLock { $0.schedule.takeCounted() } }

  /// The mount as a whole, as it is now.
  public func summary() -> MountSummary {
    let clocks = configuration.clock.now()
    var summary = state.withLock { $0.schedule.summary(at: $0.time.shown(clocks)) }
    summary.destination = destination.displayURL
    for index in summary.endpoints.indices {
      summary.endpoints[index].url = destination.displayURL(of: EndpointID(index))
    }
    return summary
  }
}

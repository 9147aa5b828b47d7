import Synchronization

/// The kernel's number for a file of the spool that it reads and writes by itself.
struct BackingID: Hashable, Sendable {
  let rawValue: Int32
}

/// Gives files of the spool to the kernel (passthrough). Called under a file's lock: never waits.
protocol BackingFiles: Sendable {
  /// The kernel's number for a file that is open for reading; nil where it does not take it.
  func openBacking(_ descriptor: FileDescriptor) -> BackingID?
  /// The file's last handle is gone.
  func closeBacking(_ id: BackingID)
}

/// Files that may change without the daemon's knowledge. Pure.
struct PassthroughWriters: Sendable {
  /// One for each handle that is open.
  private(set) var open: [NodeID: Int] = [:]
  /// Files that may have a writer although their handle is released, one entry for each such handle.
  private(set) var left: [Left] = []

  struct Left: Sendable {
    let file: CapturedFile
    /// Opened for reading only, so that it is no writer itself.
    let descriptor: FileDescriptor
  }

  var isEmpty: Bool { open.isEmpty && left.isEmpty }

  /// A handle is opened.
  mutating func opened(_ node: NodeID) { open[node, default: 0] += 1 }

  /// A handle is released; it may have left a mapping.
  mutating func released(_ node: NodeID, leaving mapping: Left?) {
    let count = (open[node] ?? 1) - 1
    open[node] = count == 0 ? nil : count
    if let mapping { left.append(mapping) }
  }

  /// A writer is found that another daemon has left.
  mutating func found(_ writer: Left) { left.append(writer) }

  /// Those of which nothing is left any more.
  mutating func takeLeft(where isGone: (Left) -> Bool) -> [Left] {
    let gone = left.filter(isGone)
    left.removeAll { left in gone.contains { $0.descriptor === left.descriptor } }
    return gone
  }
}

/// What the mount knows of handles that pass the daemon: whether the kernel takes files, whether the disk allows it, and who writes unseen.
///
/// The locks of `files` and `quotas` are taken below a file's `state`; the one of `writers` above it, while it is asked for mappings.
final class PassthroughStanding: Sendable {
  /// Nil where the system does not say it.
  typealias OpenForWriting = @Sendable (FileDescriptor) -> Bool?
  typealias QuotaQuestion = @Sendable (FileDescriptor) -> SpoolQuotas

  /// Whether any description of an open file can write to it.
  let isOpenForWriting: OpenForWriting
  /// What the spool's filesystem says of its quotas.
  private let askForQuotas: QuotaQuestion
  /// What it said last: at the start, and then as long as files are written past the daemon.
  private let quotas: Mutex<SpoolQuotas>
  /// Set once the kernel has said that it reads and writes files of the spool itself.
  private let files = Mutex<(any BackingFiles)?>(nil)
  /// This daemon, and so an earlier one, may have given files of the spool to the kernel.
  private let mayHaveLent = Atomic<Bool>(false)
  /// Files with writers of whose writes the daemon does not know, or with mappings that such writers may have left.
  let writers = Mutex(PassthroughWriters())
  /// Handles that pass the daemon.
  private let handleCount = Atomic<Int>(0)

  /// Over the spool whose folder this is.
  init(
    spool: FileDescriptor, isOpenForWriting: @escaping OpenForWriting, quotas: @escaping QuotaQuestion
  ) {
    self.isOpenForWriting = isOpenForWriting
    askForQuotas = quotas
    self.quotas = Mutex(quotas(spool))
  }

  // MARK: The kernel

  /// Who takes files; nil where the kernel does not.
  var backingFiles: (any BackingFiles)? { files.withLock { $0 } }

  /// The kernel reads and writes files of the spool itself from now on.
  func begin(with files: any BackingFiles) { self.files.withLock { $0 = files } }

  var mayHaveLentFiles: Bool { mayHaveLent.load(ordering: .relaxed) }

  /// The kernel may have files of the spool that another daemon has given to it.
  func mayFindLentFiles() { mayHaveLent.store(true, ordering: .relaxed) }

  // MARK: Quotas

  /// What the spool's filesystem said last of its quotas.
  var knownQuotas: SpoolQuotas { quotas.withLock { $0 } }

  /// Asks the spool's filesystem again.
  func lookAtQuotas(of spool: FileDescriptor) -> SpoolQuotas {
    let known = askForQuotas(spool)
    quotas.withLock { $0 = known }
    return known
  }

  // MARK: Handles

  /// Handles that pass the daemon now.
  var handles: Int { handleCount.load(ordering: .relaxed) }

  func handleOpened() { handleCount.add(1, ordering: .relaxed) }

  func handleReleased() { handleCount.subtract(1, ordering: .relaxed) }
}

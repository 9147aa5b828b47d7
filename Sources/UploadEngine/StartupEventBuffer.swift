package import FileModel
import Glibc
import Lookup

/// What the filesystem reports while the catalog is still being read, in order.
///
/// Where the disk does not let it be read, only what is reported of files of earlier runs goes on waiting.
struct StartupEventBuffer: Sendable {
  enum Event: Sendable {
    case reported(FileEvent)
    case contentWillChange(FileID)
    case contentStays(FileID)
  }

  /// That is far more than programs cause within the second that reading takes.
  static let countMax = 4096

  /// What became of an event.
  enum Place: Hashable, Sendable {
    case kept
    /// It is not of an earlier run.
    case notKept
    /// There are too many.
    case full
  }

  private(set) var events: [Event] = []
  /// Of these alone events are kept; nil: of all.
  private var waiting: LookupSet<FileID>?
  private var countMax = StartupEventBuffer.countMax

  /// What is new goes on without what earlier runs knew.
  var isForEarlierRunsOnly: Bool { waiting != nil }

  mutating func keep(_ event: Event) -> Place {
    // What was met, and not made, may be a content that was delivered before: the catalog alone knows.
    if event.isFound, let id = event.file { waiting?.insert(id) }
    if let waiting, let id = event.file, !waiting.contains(id) { return .notKept }
    if events.count >= countMax {
      guard waiting != nil else { return .full }
      forgetWhatWasOvertaken()
    }
    events.append(event)
    return .kept
  }

  /// From now on only what is of these files waits; returns what was reported of others so far.
  mutating func keepOnly(of files: LookupSet<FileID>) -> [Event] {
    var files = files
    files.formUnion(events.filter(\.isFound).compactMap(\.file))
    waiting = files
    let others = events.filter { $0.file.map { !files.contains($0) } ?? false }
    events = events.filter { $0.file.map { files.contains($0) } ?? true }
    return others
  }

  /// Each event says what is so from then on, so that of several of a kind the last one is enough. What is left has a bound: the
  /// files of earlier runs, all of which are known here, and the kinds.
  private mutating func forgetWhatWasOvertaken() {
    var seen: LookupSet<Kind> = []
    events = Array(events.reversed().filter { seen.insert(Kind($0)).inserted }.reversed())
    countMax = max(Self.countMax, 2 * events.count)
  }

  private struct Kind: Hashable {
    var file: FileID?
    var kind: Int

    init(_ event: Event) {
      file = event.file
      kind =
        switch event {
        case .contentWillChange: 0
        case .contentStays: 1
        case .reported(let event):
          switch event {
          case .opened: 2
          case .changed: 3
          case .grown: 4
          case .settled: 5
          case .unsettled: 6
          case .namesChanged: 7
          case .attributesChanged: 8
          case .onDisk: 9
          case .removed: 10
          case .vanished: 11
          case .writeFailed: 12
          case .evicted: 13
          case .found: 14
          case .scanFailing: 15
          case .scanEnded: 16
          }
        }
    }
  }
}

extension StartupEventBuffer.Event {
  /// The file that it is of; nil where it is of the spool.
  var file: FileID? {
    switch self {
    case .contentWillChange(let id), .contentStays(let id): id
    case .reported(let event): event.file
    }
  }
}

extension StartupEventBuffer.Event {
  /// A file is met that the mount has neither made nor changed.
  fileprivate var isFound: Bool { if case .reported(let event) = self { event.found != nil } else { false } }
}

extension FileEvent {
  /// The file that it is of; nil where it is of the spool.
  package var file: FileID? {
    switch self {
    case .opened(let snapshot), .changed(let snapshot), .settled(let snapshot), .unsettled(let snapshot),
      .namesChanged(let snapshot), .attributesChanged(let snapshot), .onDisk(let snapshot), .found(let snapshot):
      snapshot.id
    case .grown(let report): report.file
    case .removed(let id), .vanished(let id), .writeFailed(let id, _), .evicted(let id): id
    case .scanFailing, .scanEnded: nil
    }
  }

  /// It makes a file known that was not, or the end of it: what the catalog says of one that memory does not hold is read before.
  package var loads: Bool {
    switch self {
    case .opened, .changed, .settled, .namesChanged, .found, .removed, .vanished, .evicted: true
    case .grown, .unsettled, .attributesChanged, .onDisk, .writeFailed, .scanFailing, .scanEnded: false
    }
  }

  /// How a file is met that the mount has neither made nor changed: by the search, or by a program before that. One that is renamed
  /// before that is where its user wants it.
  package var found: FileSnapshot? {
    switch self {
    case .found(let snapshot): snapshot
    case .opened(let snapshot), .settled(let snapshot):
      snapshot.wasFound && snapshot.epoch == 0 ? snapshot : nil
    case .changed, .grown, .unsettled, .namesChanged, .attributesChanged, .onDisk, .removed, .vanished, .writeFailed,
      .evicted,
      .scanFailing, .scanEnded:
      nil
    }
  }
}

extension StartupEventBuffer {
  /// Files that were met so far.
  var found: [FileSnapshot] {
    events.compactMap { event in if case .reported(let event) = event { event.found } else { nil } }
  }
}

extension FileEvent {
  /// The same, of a file of which cannot be said at this moment what it is.
  var unread: FileEvent {
    switch self {
    case .found(let snapshot): .found(snapshot.unread)
    case .opened(let snapshot): .opened(snapshot.unread)
    case .settled(let snapshot): .settled(snapshot.unread)
    case .changed, .grown, .unsettled, .namesChanged, .attributesChanged, .onDisk, .removed, .vanished, .writeFailed,
      .evicted,
      .scanFailing, .scanEnded:
      self
    }
  }
}

extension FileSnapshot {
  fileprivate var unread: FileSnapshot {
    var snapshot = self
    snapshot.interruption = .spoolUnreadable(errno: EIO)
    return snapshot
  }
}

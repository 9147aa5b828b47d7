import DequeModule
import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// All files, with their sums. Programs poll the summary of a mount with a hundred thousand files, which must not walk
/// over them.
struct FileTable: Sendable {
  /// A file has hundreds of bytes of state. As a value it would lie in the dictionary itself, whose free slots are as
  /// large as its taken ones, and be moved whenever that grows. A reader of one field would copy all of them.
  ///
  /// `@unchecked Sendable` is sound because an entry is only reachable through the one table that made it, inside the one
  /// ``UploadSchedule``, which its driver keeps under one lock.
  final class Entry: @unchecked Sendable {
    fileprivate(set) var file: FileUpload

    fileprivate init(_ file: FileUpload) { self.file = file }
  }

  private var entries: OrderedDictionary<FileID, Entry> = [:]
  /// Files by phase.
  private(set) var counts = Counts()
  /// Sizes of the files that are still to be delivered.
  private(set) var pendingBytes: UInt64 = 0
  /// Files that need a user's action.
  private(set) var failed: OrderedSet<FileID> = []
  /// Changes whenever a file becomes ready or no longer is.
  private(set) var readyChanges: UInt64 = 0
  /// Files whose counted state has changed since the last query; nil where a single destination counts by itself.
  var changed: LookupSet<FileID>?
  /// Changes that are not acknowledged, lowest number first; entries whose file has moved on are dropped when they come
  /// to the top.
  private var sequences = MinimumHeap<UInt64, FileID>()

  /// Local copies of what was delivered, by the time of the delivery. Entries whose file has moved on are dropped when
  /// they come to the top, and all of them when they are the most.
  private var delivered = MinimumHeap<Int64, FileID>()
  /// Files that wait for a failure to pass, by the ends of their pauses, with some that do so no longer.
  private var turns = MinimumHeap<MonotonicTime, FileID>()
  private var deliveredCount = 0
  /// The first few impossible phase transitions, in words.
  private(set) var contradictions: [String] = []
  private static let contradictionsMax = 8
  private var contradictionsReported = 0
  /// The number of the latest content change, over all files.
  private(set) var changeSequence: UInt64 = 0
  /// Files that are shown although they are in the spool no longer, oldest first.
  var history: Deque<FileID> = []

  /// How many files are in each phase.
  struct Counts: Hashable, Sendable {
    var writing = 0
    var held = 0
    var ignored = 0
    var interrupted = 0
    /// Of those that are interrupted.
    var awaitingDisk = 0
    var ready = 0
    var waiting = 0
    var finishing = 0
    var complete = 0
    var failed = 0
    var cancelled = 0
    /// Of those that are interrupted.
    var unproven = 0
    /// Of those that are ready or wait: their copies cannot be read, so the drain and calls do not wait for them.
    var unreadable = 0
    /// Of those that are ready.
    var smallAtWork = 0

    var pending: Int { writing + ready + waiting + finishing + awaitingDisk - unreadable }
  }

  /// A copy of a file's state, and the setter for a changed one.
  subscript(id: FileID) -> FileUpload? {
    get { entries[id]?.file }
    set {
      let entry = entries[id]
      let before = entry.map { CounterKey($0.file) }
      if let newValue {
        if let entry { entry.file = newValue } else { entries[id] = Entry(newValue) }
      } else {
        entries.takeOut(id)
      }
      note(id, before, newValue.map { CounterKey($0) })
    }
  }

  /// Changes a file in place.
  mutating func update(_ id: FileID, _ change: (inout FileUpload) -> Void) {
    guard let entry = entries[id] else { return }
    let before = CounterKey(entry.file)
    change(&entry.file)
    note(id, before, CounterKey(entry.file))
  }

  /// The file itself, for reading single fields.
  func entry(_ id: FileID) -> Entry? { entries[id] }

  /// Every file, mostly in the order of their insertion.
  var values: some Sequence<FileUpload> { entries.values.lazy.map(\.file) }

  var count: Int { entries.count }

  /// Up to so many files from a position on towards the first one, continued from the last one, each once.
  func files(from place: Int, countMax: Int) -> some Sequence<FileUpload> {
    let entries = entries.values.elements
    let start = min(place, entries.count - 1)
    return (0..<min(countMax, entries.count)).lazy.map { step in
      entries[start >= step ? start - step : start - step + entries.count].file
    }
  }

  /// The lowest number of a change that is not yet acknowledged.
  mutating func oldestPendingSequence() -> UInt64? {
    while let first = sequences.first {
      if let file = entries[first.value]?.file, file.isPending, file.changeSequence == first.key { return first.key }
      sequences.removeFirst()
    }
    return nil
  }

  /// Of the files that wait for a failure to pass, the one whose turn comes first, and that time.
  mutating func firstWaiting() -> (file: FileUpload, until: MonotonicTime)? {
    while let first = turns.first {
      if let file = entries[first.value]?.file, file.phase == .waiting(until: first.key) { return (file, first.key) }
      turns.removeFirst()
    }
    return nil
  }

  private mutating func noteWaiting(_ id: FileID, _ phase: FileUpload.Phase) {
    guard case .waiting(let until) = phase, entries[id]?.file.isInSuccession == false else { return }
    turns.insert(id, at: until)
    guard turns.count > 2 * counts.waiting + 64 else { return }
    turns = MinimumHeap()
    for (id, entry) in entries {
      if case .waiting(let until) = entry.file.phase, !entry.file.isInSuccession { turns.insert(id, at: until) }
    }
  }

  /// Files that no program has open and whose local copy is not needed any more, oldest delivery first: those that were
  /// delivered by then, as ``FileUpload/deliveredAt`` counts. Takes time for each of these only.
  mutating func oldestDelivered(countMax: Int, by time: Int64 = .max) -> [EvictionCandidate] {
    var found: [EvictionCandidate] = []
    var kept: OrderedDictionary<FileID, Int64> = [:]
    while found.count < countMax, let first = delivered.first, first.key <= time {
      delivered.removeFirst()
      guard let file = entries[first.value]?.file, CounterKey.evictionOrder(file) == first.key,
        kept.updateValue(first.key, forKey: first.value) == nil
      else { continue }
      if !file.isOpen, file.deliveredAt <= time { found.append(EvictionCandidate(file.snapshot)) }
    }
    for (id, time) in kept { delivered.insert(id, at: time) }
    return found
  }

  private mutating func noteDelivered(_ id: FileID, _ before: Int64?, _ after: Int64?) {
    guard before != after else { return }
    deliveredCount += (after == nil ? 0 : 1) - (before == nil ? 0 : 1)
    guard let after else { return }
    delivered.insert(id, at: after)
    guard delivered.count > 2 * deliveredCount + 64 else { return }
    delivered = MinimumHeap()
    for (id, entry) in entries {
      if let order = CounterKey.evictionOrder(entry.file) { delivered.insert(id, at: order) }
    }
  }

  /// The fields that the sums are made of.
  private struct CounterKey: Equatable {
    let phase: FileUpload.Phase
    let isWholeFile: Bool
    let isSmallAtWork: Bool
    let isPending: Bool
    let isUnproven: Bool
    let sizeBytes: UInt64
    let changeSequence: UInt64
    let evictionOrder: Int64?

    init(_ file: FileUpload) {
      phase = file.phase
      isWholeFile = file.isWholeFile
      isSmallAtWork = file.turn.isSmallAtWork
      isPending = file.isPending
      isUnproven = file.snapshot.interruption == .unproven
      sizeBytes = file.snapshot.sizeBytes
      changeSequence = file.changeSequence
      evictionOrder = Self.evictionOrder(file)
    }

    /// The time at which the content that lies here was delivered. Nil when it was not, lies here no longer, or may
    /// exist nowhere else by now. A copy that may lack something since, as after a power cut, comes before all others.
    static func evictionOrder(_ file: FileUpload) -> Int64? {
      guard file.phase == .complete, file.isLocal, file.isShown else { return nil }
      let time = file.deliveredAt
      return file.snapshot.interruption == nil ? time : .min / 2 &+ time / 2
    }
  }

  /// Contradictions that are not in the log yet.
  mutating func takeContradictionsToSay() -> ArraySlice<String> {
    defer { contradictionsReported = contradictions.count }
    return contradictions.dropFirst(contradictionsReported)
  }

  mutating func makeChangeSequence() -> UInt64 {
    changeSequence += 1
    return changeSequence
  }

  private mutating func note(_ id: FileID, _ before: CounterKey?, _ after: CounterKey?) {
    guard before != after else { return }
    _ = changed?.insert(id)
    if let before { count(before, of: id, by: -1) }
    if let after { count(after, of: id, by: 1) }
    noteDelivered(id, before?.evictionOrder, after?.evictionOrder)
    if let after, after.phase != before?.phase {
      if let before { checkChange(of: id, from: before.phase, to: after.phase) }
      noteWaiting(id, after.phase)
    }
    if (before?.phase == .ready) != (after?.phase == .ready) || before?.isWholeFile != after?.isWholeFile {
      readyChanges += 1
    }
    guard let after, after.isPending else { return }
    if before.map({ !$0.isPending || $0.changeSequence != after.changeSequence }) ?? true {
      sequences.insert(id, at: after.changeSequence)
      dropStaleSequences()
    }
  }

  private mutating func checkChange(of id: FileID, from before: FileUpload.Phase, to after: FileUpload.Phase) {
    guard !before.mayBecome(after.kind), contradictions.count < Self.contradictionsMax else { return }
    contradictions.append("\(id) was \(before.kind) and is \(after.kind)")
  }

  /// A file that comes and goes while the oldest one waits has an entry for each time.
  private mutating func dropStaleSequences() {
    guard sequences.count > 2 * entries.count + 64 else { return }
    sequences = MinimumHeap()
    for (id, entry) in entries where entry.file.isPending { sequences.insert(id, at: entry.file.changeSequence) }
  }

  private mutating func countUnreadable(_ counterKey: CounterKey, of id: FileID, by step: Int) {
    guard !counterKey.isPending else { return }
    counts.unreadable += step
    if step > 0 { failed.append(id) } else { failed.takeOut(id) }
  }

  private mutating func count(_ counterKey: CounterKey, of id: FileID, by step: Int) {
    switch counterKey.phase {
    case .writing: counts.writing += step
    case .held: counts.held += step
    case .ignored: counts.ignored += step
    case .routedElsewhere: break
    case .interrupted:
      counts.interrupted += step
      if counterKey.isUnproven { counts.unproven += step }
      if counterKey.isPending {
        counts.awaitingDisk += step
      } else if step > 0 {
        failed.append(id)
      } else {
        failed.takeOut(id)
      }
    case .ready:
      counts.ready += step
      if counterKey.isSmallAtWork { counts.smallAtWork += step }
      countUnreadable(counterKey, of: id, by: step)
    case .waiting:
      counts.waiting += step
      countUnreadable(counterKey, of: id, by: step)
    case .finishing: counts.finishing += step
    case .complete: counts.complete += step
    case .failed:
      counts.failed += step
      if step > 0 { failed.append(id) } else { failed.takeOut(id) }
    case .cancelled:
      counts.cancelled += step
      if step > 0 { failed.append(id) } else { failed.takeOut(id) }
    case .removed(let removal):
      // What was removed undelivered counts in no state.
      if removal == .delivered { counts.complete += step }
    }
    guard counterKey.isPending else { return }
    pendingBytes = step > 0 ? pendingBytes &+ counterKey.sizeBytes : pendingBytes &- counterKey.sizeBytes
  }
}

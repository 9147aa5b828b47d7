import FileModel
import Lookup

/// Files that only the catalog knows, because memory does not hold more: which these are, and of each only what the
/// sums and the order need.
struct UnloadedFiles: Sendable {
  /// What is kept of one file.
  struct Summary: Hashable, Sendable {
    enum State: Hashable, Sendable {
      case pending
      case delivered
      /// Delivered by this run, which counts how long the file is kept without regard to changes of the wall clock.
      case deliveredInThisRun
      /// An earlier run has recorded the file, and the scan has not found it yet.
      case unmet
    }

    /// Of a pending file ``FileUpload/changeSequence``: a program that waits for all changes until now waits for this
    /// one as well. Of a delivered file ``FileUpload/deliveredAt``.
    private var orderKey: Int64
    var sizeBytes: UInt64
    var state: State

    static let unmet = Summary(orderKey: 0, sizeBytes: 0, state: .unmet)

    private init(orderKey: Int64, sizeBytes: UInt64, state: State) {
      (self.orderKey, self.sizeBytes, self.state) = (orderKey, sizeBytes, state)
    }

    init(pending sequence: UInt64, sizeBytes: UInt64) {
      self.init(orderKey: Int64(bitPattern: sequence), sizeBytes: sizeBytes, state: .pending)
    }

    init(_ file: FileUpload) {
      if file.phase != .complete {
        self.init(pending: file.changeSequence, sizeBytes: file.snapshot.sizeBytes)
      } else {
        self.init(
          orderKey: file.deliveredAt, sizeBytes: file.snapshot.sizeBytes,
          state: file.publication.keptSince == nil ? .delivered : .deliveredInThisRun)
      }
    }

    var isPending: Bool { state == .pending }
    var isDelivered: Bool { state == .delivered || state == .deliveredInThisRun }
    var isMet: Bool { state != .unmet }
    var sequence: UInt64 { UInt64(bitPattern: orderKey) }
    var deliveredAt: Int64 { orderKey }
    var keptSince: Int64? { state == .deliveredInThisRun ? orderKey : nil }
  }

  private var facts: LookupTable<FileID, Summary> = [:]
  private(set) var pendingCount = 0
  private(set) var unmetCount = 0
  private(set) var pendingBytes: UInt64 = 0
  /// Pending files, the earliest change first; entries of files that are no longer here are dropped when they reach the top.
  private var order = MinimumHeap<UInt64, FileID>()
  private(set) var deliveredBytes: UInt64 = 0
  /// Delivered files, the oldest delivery first; with stale entries as well.
  private var deliveries = MinimumHeap<Int64, FileID>()

  var isEmpty: Bool { facts.isEmpty }
  /// The number of files that the scan has found.
  var count: Int { facts.count - unmetCount }
  var deliveredCount: Int { count - pendingCount }
  /// Files that the catalog may record as present in the spool, where they were not found.
  var unmet: [FileID] { unmetCount == 0 ? [] : facts.filter { !$1.isMet }.sorted().map(\.key) }

  subscript(id: FileID) -> Summary? { facts[id] }

  mutating func insert(_ id: FileID, _ new: Summary) {
    remove(id)
    facts[id] = new
    switch new.state {
    case .unmet: unmetCount += 1
    case .pending:
      pendingCount += 1
      pendingBytes &+= new.sizeBytes
      order.insert(id, at: new.sequence)
      guard order.count > 2 * pendingCount + 64 else { return }
      order = MinimumHeap()
      for (id, known) in facts.sorted() where known.isPending { order.insert(id, at: known.sequence) }
    case .delivered, .deliveredInThisRun:
      deliveredBytes &+= new.sizeBytes
      deliveries.insert(id, at: new.deliveredAt)
      guard deliveries.count > 2 * deliveredCount + 64 else { return }
      deliveries = MinimumHeap()
      for (id, known) in facts.sorted() where known.isDelivered { deliveries.insert(id, at: known.deliveredAt) }
    }
  }

  @discardableResult
  mutating func remove(_ id: FileID) -> Summary? {
    guard let known = facts.removeValue(forKey: id) else { return nil }
    if known.isPending {
      pendingCount -= 1
      pendingBytes &-= known.sizeBytes
    }
    if known.isDelivered { deliveredBytes &-= known.sizeBytes }
    if !known.isMet { unmetCount -= 1 }
    return known
  }

  /// The lowest number of a change that is not yet acknowledged.
  mutating func oldestSequence() -> UInt64? {
    dropStale()
    return order.first?.key
  }

  /// Pending files, the earliest change first.
  mutating func oldestPending(countMax: Int, besides others: LookupSet<FileID> = []) -> [FileID] {
    var found: [FileID] = []
    var passed: [(id: FileID, sequence: UInt64)] = []
    while found.count < countMax {
      dropStale()
      guard let first = order.first else { break }
      order.removeFirst()
      // A file that was here before may have two entries.
      if passed.last?.id == first.value { continue }
      passed.append((first.value, first.key))
      if !others.contains(first.value) { found.append(first.value) }
    }
    for (id, sequence) in passed { order.insert(id, at: sequence) }
    return found
  }

  /// Delivered files, the oldest delivery first, of those that were delivered by then.
  mutating func oldestDelivered(countMax: Int, by time: Int64, besides others: LookupSet<FileID>) -> [FileID] {
    var found: [FileID] = []
    var passed: [(id: FileID, time: Int64)] = []
    while found.count < countMax, let first = deliveries.first, first.key <= time {
      deliveries.removeFirst()
      guard let known = facts[first.value], known.isDelivered, known.deliveredAt == first.key,
        passed.last?.id != first.value
      else { continue }
      passed.append((first.value, first.key))
      if !others.contains(first.value) { found.append(first.value) }
    }
    for (id, time) in passed { deliveries.insert(id, at: time) }
    return found
  }

  private mutating func dropStale() {
    while let first = order.first {
      if let known = facts[first.value], known.isPending, known.sequence == first.key { return }
      order.removeFirst()
    }
  }
}

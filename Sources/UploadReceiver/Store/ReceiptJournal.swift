import Glibc
import ReceiverCore
import Synchronization

/// The journals of whole files. A new one is begun when the last has grown; one whose newest receipt is too old to be
/// asked for is deleted.
final class ReceiptJournal: Sendable {
  private struct Segment {
    var number: Int
    var newest: Milliseconds
  }

  private struct State {
    var segments: [Segment]
    var journal: Journal
    var recordCount = 0
  }

  /// Some 8 MiB.
  private static let recordsPerSegment = 16_384

  private let directory: FileDescriptor
  private let beforeSync: BeforeSync
  private let isGoneOnWith: Bool
  private let state: Mutex<State>
  /// What lies in the place of journals and is none.
  let strays = Mutex<[String]>([])

  /// Begins a new journal beside those that are there.
  init(_ directory: FileDescriptor, beforeSync: @escaping BeforeSync) throws(StoreFailure) {
    self.directory = directory
    self.beforeSync = beforeSync
    let numbers = try ReceiptJournal.numbers(in: directory)
    let (number, journal) = try ReceiptJournal.begin(after: numbers.last, in: directory, beforeSync)
    // The age of the older ones is learnt when they are read; until then they are not deleted.
    let others = numbers.filter { $0 != number }
    let segments = (others + [number]).map { Segment(number: $0, newest: .max) }
    state = Mutex(State(segments: segments, journal: journal))
    isGoneOnWith = others.count < numbers.count
  }

  /// A new journal; on a full disk the last one is continued: a receiver that cannot start can free nothing either.
  private static func begin(
    after last: Int?, in directory: FileDescriptor, _ beforeSync: @escaping BeforeSync
  ) throws(StoreFailure) -> (Int, Journal) {
    do throws(StoreFailure) {
      let number = (last ?? 0) + 1
      return (number, try open(number, in: directory, beforeSync))
    } catch .full {
      guard let last else { throw .full }
      return (last, try open(last, in: directory, beforeSync))
    }
  }

  private static func numbers(in directory: FileDescriptor) throws(StoreFailure) -> [Int] {
    try DirectoryListing.names(in: directory).compactMap { name in
      name.hasSuffix(".journal") ? Int(name.dropLast(".journal".count)) : nil
    }.sorted()
  }

  /// A receipt is only as durable as the name of the journal that holds it.
  private static func open(
    _ number: Int, in directory: FileDescriptor, _ beforeSync: @escaping BeforeSync
  ) throws(StoreFailure) -> Journal {
    let file = try FileDescriptor.openOwn(
      "\(number).journal", in: directory, O_RDWR | O_APPEND | O_CREAT, mode: 0o600)
    try beforeSync(.receiptsFolder)
    try directory.sync()
    return Journal(appendingTo: file, beforeSync: { () throws(StoreFailure) in try beforeSync(.receiptJournal) })
  }

  func record(_ records: [JournalRecord]) throws(StoreFailure) {
    _ = try append(records)
  }

  /// Appends records and returns when they are on the disk.
  func recordSynced(_ records: [JournalRecord]) throws(StoreFailure) {
    let (journal, position) = try append(records)
    try journal.sync(to: position)
  }

  private func append(_ records: [JournalRecord]) throws(StoreFailure) -> (Journal, UInt64) {
    let payloads = records.map(\.bytes)
    let newest = records.lazy.compactMap(\.publishedAt).max()
    return try state.withLock { (state) throws(StoreFailure) in
      if state.recordCount >= ReceiptJournal.recordsPerSegment, let last = state.segments.last {
        let number = last.number + 1
        state.journal = try ReceiptJournal.open(number, in: directory, beforeSync)
        state.segments.append(Segment(number: number, newest: .min))
        state.recordCount = 0
      }
      let position = try state.journal.append(payloads)
      state.recordCount += payloads.count
      if let newest, let last = state.segments.indices.last {
        let known = state.segments[last].newest
        state.segments[last].newest = known == .max ? newest : max(known, newest)
      }
      return (state.journal, position)
    }
  }

  /// Returns when everything that was recorded before the call is on the disk.
  func sync() throws(StoreFailure) {
    let journal = state.withLock { $0.journal }
    try journal.sync()
  }

  /// What the journals before this one say.
  struct Earlier {
    /// At least so many of the latest as were asked for, as far as there are any, in the order of the journals.
    var published: [RecoveredWholeFile] = []
    /// Files that were about to be renamed.
    var begun: [JournalRecord.WholeFile] = []
  }

  /// Reads the journals before this one, the latest first; called once, at the start. Those behind so many receipts are not read, and go
  /// with the next ones that are too old: each start has settled what the one before it had begun.
  func readEarlier(countMax: Int) throws(StoreFailure) -> Earlier {
    var earlier = Earlier()
    // Renamed ones whose beginning is in an earlier journal, and those that were recorded anew by a start.
    var (renamed, settled): (Set<String>, Set<String>) = ([], [])
    var credential: CredentialID?
    // The latest journal first.
    var published: [[RecoveredWholeFile]] = []
    var count = 0
    let numbers = state.withLock { $0.segments.dropLast(isGoneOnWith ? 0 : 1).map(\.number) }
    for number in numbers.reversed() {
      guard count < countMax else {
        setNewest(.min, of: number)
        continue
      }
      guard let file = try openEarlier("\(number).journal") else { continue }
      var newest: Milliseconds = .min
      var ofThis: [RecoveredWholeFile] = []
      var begun: [String: JournalRecord.WholeFile] = [:]
      func publish(_ file: JournalRecord.WholeFile) {
        guard settled.insert(file.receipt.id).inserted else { return }
        if credential?.text != file.record.credential { credential = CredentialID(file.record.credential) }
        ofThis.append(RecoveredWholeFile(file.record, file.receipt, credential: credential))
      }
      for payload in try Journal.recover(file) {
        switch JournalRecord(payload) {
        case .wholeFile(let file):
          newest = max(newest, file.receipt.publishedAt)
          begun[file.receipt.id] = file
        case .wholeFilePublished(let finished):
          if let file = begun.removeValue(forKey: finished.receiptID) {
            publish(file)
          } else {
            renamed.insert(finished.receiptID)
          }
        default: break
        }
      }
      for file in begun.values {
        if renamed.contains(file.receipt.id) {
          publish(file)
        } else if !settled.contains(file.receipt.id) {
          earlier.begun.append(file)
        }
      }
      published.append(ofThis)
      count += ofThis.count
      setNewest(newest, of: number)
    }
    earlier.published = Array(published.reversed().joined())
    return earlier
  }

  private func setNewest(_ newest: Milliseconds, of number: Int) {
    state.withLock { state in
      if let position = state.segments.firstIndex(where: { $0.number == number }) {
        state.segments[position].newest = newest
      }
    }
  }

  /// What cannot be one is left alone: its receipts are not known, and no new one is written into it.
  private func openEarlier(_ name: String) throws(StoreFailure) -> FileDescriptor? {
    do throws(StoreFailure) {
      guard try FileDescriptor.kind(of: name, in: directory) != nil else { return nil }
      return try FileDescriptor.openOwn(name, in: directory, O_RDWR)
    } catch .damaged(let why) {
      strays.withLock { $0.append(why) }
      return nil
    }
  }

  /// Deletes the journals that hold nothing newer.
  func forget(before: Milliseconds) {
    let old = state.withLock { state in
      let old = state.segments.dropLast().filter { $0.newest < before }
      state.segments.removeAll { segment in old.contains { $0.number == segment.number } }
      return old
    }
    for segment in old { unlinkat(directory.raw, "\(segment.number).journal", 0) }
  }
}

extension JournalRecord {
  /// When the whole file was published that it tells of.
  fileprivate var publishedAt: Milliseconds? {
    if case .wholeFile(let file) = self { file.receipt.publishedAt } else { nil }
  }
}

import FileModel
import Lookup
import OrderedCollections
import Synchronization
import TransferModel
import UploadEngine

/// Calls that wait for a delivery (`close=wait`), as `UploadEngine` answers them: each ends when its file's result is
/// known, with that result, and not before.
final class SimulatedWaits {
  private struct Wait {
    var file: FileID
    var wait: DeliveryWait
    /// The contents of its file when the wait began, and since.
    var contents: [[UInt8]]
  }

  /// Waiters are called as on any thread.
  private final class Answers: Sendable {
    private let all = Mutex<[(number: UInt64, outcome: DeliveryOutcome)]>([])

    func note(_ number: UInt64, _ outcome: DeliveryOutcome) { all.withLock { $0.append((number, outcome)) } }
    func take() -> [(number: UInt64, outcome: DeliveryOutcome)] {
      all.withLock { all in
        defer { all = [] }
        return all
      }
    }
  }

  private unowned let world: World
  private let answers = Answers()
  private var waiters = DeliveryWaiters()
  private var open: OrderedDictionary<UInt64, Wait> = [:]
  private var lastNumber: UInt64 = 0
  /// When reads of a file failed, the first and the latest since one succeeded.
  private var unread: LookupTable<FileID, (first: Int64, latest: Int64)> = [:]
  /// Contents of a file for which the catalog has had a receipt.
  private var durable: LookupTable<FileID, LookupSet<[UInt8]>> = [:]

  init(_ world: World) { self.world = world }

  var isEmpty: Bool { open.isEmpty }
  func isAwaited(_ id: FileID) -> Bool { waiters.isAwaited(id) }

  /// A program waits for the present content of a file.
  func begin(_ file: SimulatedCapture.File, _ client: SimulatedClient) {
    lastNumber += 1
    let (number, answers) = (lastNumber, answers)
    world.trace("wait \(number) for \(file.snapshot.brief)")
    let wait = waiters.add(file.id, epoch: file.activity.epoch) { answers.note(number, $0) }
    open[number] = Wait(file: file.id, wait: wait, contents: [file.bytes])
    tell(file.id, client)
    check(client)
  }

  /// A signal interrupts one of the waiting calls.
  func interruptOne() {
    guard let number = open.keys.randomElement(using: &world.random), let wait = open.removeValue(forKey: number) else {
      return
    }
    world.trace("wait \(number) is interrupted")
    waiters.remove(wait.wait, for: wait.file)
  }

  /// A file has another content, without writers.
  func settled(_ file: SimulatedCapture.File) {
    for number in open.keys where open[number]?.file == file.id { open[number]?.contents.append(file.bytes) }
  }

  /// The catalog has these entries.
  func recorded(_ entries: [CatalogEntry]) {
    for entry in entries {
      guard let receipt = entry.receipt, let bytes = world.oracle.bytes(ofReceipt: receipt.id) else { continue }
      durable[entry.id, default: []].insert(bytes)
    }
  }

  /// The known state of a file may have changed.
  func tell(_ id: FileID, _ client: SimulatedClient) {
    guard waiters.isAwaited(id), world.bug != .answerLate else { return }
    guard let known = client.schedule?.deliveryOutcome(of: id) else { return }
    waiters.tell(id, upTo: known.epoch, known.outcome)
    hear(client)
  }

  /// The scan has ended, or is no longer waited for.
  func tellAll(_ client: SimulatedClient) {
    for id in waiters.awaitedFiles { tell(id, client) }
  }

  /// The planted mistake `answerEarly`: the server's word is enough.
  func published(_ id: FileID, _ client: SimulatedClient) {
    guard world.bug == .answerEarly else { return }
    waiters.tell(id, upTo: .max, .delivered)
    hear(client)
  }

  /// The mount is gone, with its waiting calls.
  func die() {
    open = [:]
    unread = [:]
    waiters.endAll()
    waiters = DeliveryWaiters()
    _ = answers.take()
  }

  private func hear(_ client: SimulatedClient) {
    for (number, outcome) in answers.take() {
      guard let wait = open.removeValue(forKey: number) else {
        world.fail(.waits, "wait \(number) is answered although it is over")
        continue
      }
      world.trace("wait \(number) ends: \(outcome)")
      if !isJustified(outcome, of: wait, client) {
        world.fail(.waits, "wait \(number) for \(wait.file) ends too early: \(outcome)")
      }
    }
  }

  private func isJustified(_ outcome: DeliveryOutcome, of wait: Wait, _ client: SimulatedClient) -> Bool {
    let file = client.capture.file(wait.file)
    let isThere = file?.names.isEmpty == false
    let (state, code) = client.explanation(of: wait.file)
    switch outcome {
    case .delivered:
      let isDurable = wait.contents.contains { durable[wait.file]?.contains($0) == true }
      // Nothing more is recorded of a removed file.
      return isDurable || (!isThere && wait.contents.contains { world.oracle.haveReceipt($0) })
    case .failed:
      let isUnreadable = state == .waiting && code == "spool-unreadable" && couldNotBeRead(wait.file)
      // The scan has not found the file, and is given up for the waiting calls.
      let isUnfound = state == nil && client.capture.scanFailsSince.map { lasts(since: $0) } ?? false
      return !isThere || state == .failed || state == .interrupted || state == .cancelled || isUnreadable || isUnfound
    case .notToBeDelivered:
      return file?.names.allSatisfy { TemporaryNameRule.standard.matches($0.lastComponent) } ?? false
    }
  }

  /// A read of a file's copy in the spool has ended.
  func noteReading(of file: FileID, _ outcome: ReadOutcome) {
    guard case .failed(.system) = outcome else { return unread[file] = nil }
    unread[file] = (unread[file]?.first ?? world.time.nanoseconds, world.time.nanoseconds)
  }

  /// The read was repeated, and has failed for ten seconds.
  private func couldNotBeRead(_ file: FileID) -> Bool {
    guard let (first, latest) = unread[file] else { return false }
    return latest > first && lasts(since: first)
  }

  private func lasts(since time: Int64) -> Bool { world.time.nanoseconds - time >= 10_000_000_000 }

  /// No call waits for a known result.
  func check(_ client: SimulatedClient) {
    for (number, wait) in open {
      switch client.explanation(of: wait.file).state {
      case .writing, .queued, .uploading, .waiting: continue
      // The file's disk is queried again, for ten seconds.
      case .interrupted where client.schedule?.deliveryOutcome(of: wait.file) == nil: continue
      // The scan has not found the file.
      case nil where client.schedule?.deliveryOutcome(of: wait.file) == nil: continue
      case let state:
        world.fail(.waits, "wait \(number) for \(wait.file) goes on, which is \(state?.word ?? "unknown")")
      }
    }
  }
}

extension DeliveryOutcome: TraceWord {
  var word: String {
    switch self {
    case .delivered: "delivered"
    case .notToBeDelivered: "not to be delivered"
    case .failed: "failed"
    }
  }
}

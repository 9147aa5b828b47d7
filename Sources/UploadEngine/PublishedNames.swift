package import FileModel
import Glibc
import Synchronization
import Threads

/// What files are called where they are published, by the templates of their rules. A name is decided once, when a file is to
/// be sent for the first time under a path, and recorded before it is used; from then on it is the same for each
/// attempt, for the session that is opened early and for its commit, and after a restart.
///
/// Deciding waits for the disk, so it happens on a thread of its own, and requests wait for it there; without a template
/// no request waits, and nothing is recorded. As long as the system has no thread left, it happens on the calling thread.
package final class PublishedNames: Sendable {
  private struct Known {
    var names: [FileID: [RelativePath: RelativePath]] = [:]
    /// Files of which the ledger is to keep no more than that their names are taken.
    var gone: [FileID] = []
    var isTidying = false

    mutating func takeGone() -> [FileID] {
      defer { gone.removeFirst(min(gone.count, PublishedNames.goneBatch)) }
      return Array(gone.prefix(PublishedNames.goneBatch))
    }

    /// What finds no place stays in the ledger, where it does no harm.
    mutating func putGone(_ files: [FileID]) {
      gone += files.prefix(max(0, PublishedNames.goneMax - gone.count))
    }

    mutating func give(_ choice: NameLedger.Choice, to request: NameLedger.NameRequest) {
      // It has its own no more.
      if let owner = choice.formerOwner { names[owner] = names[owner]?.filter { $0.value != choice.name } }
      names[request.file, default: [:]][request.path] = choice.name
    }
  }

  private struct Queue {
    var jobs: [@Sendable () -> Void] = []
    var isStopping = false
  }

  /// Files that are gone which one transaction forgets: they must not hold up the names that are decided in it.
  private static let goneBatch = 128
  /// 1 MiB of identities.
  private static let goneMax = 65_536

  private let rules: FileRules
  private let host: String
  /// Nil when no rule has a template, and none ever had.
  private let ledger: NameLedger?
  private let known = Mutex(Known())
  private let queue = Monitor(Queue())
  private let start: ThreadStart
  private let thread = Mutex<NamedThread?>(nil)

  /// Names by these rules, recorded in `ledger`.
  package convenience init(rules: FileRules, host: String, ledger: NameLedger?) {
    self.init(rules: rules, host: host, ledger: ledger) { NamedThread($0, $1, $2) }
  }

  init(rules: FileRules, host: String, ledger: NameLedger?, start: @escaping ThreadStart) {
    self.rules = rules
    self.host = host
    self.ledger = ledger
    self.start = start
  }

  /// Some rule has a template, or had one: then names are decided and recorded, also of files that have none, which may be called
  /// like one that has. Otherwise every file is called as its path.
  package var areMade: Bool { ledger != nil }

  /// The name of a file under a path; nil while it has to be decided.
  package func name(of file: FileID, at path: RelativePath) -> RelativePath? {
    guard areMade else { return path }
    return known.withLock { $0.names[file]?[path] }
  }

  /// The paths of a file for which it was given this name.
  func paths(of file: FileID, called name: RelativePath) -> [RelativePath] {
    known.withLock { known in (known.names[file] ?? [:]).filter { $0.value == name }.map(\.key) }
  }

  /// The name for people: what it would be, while it is not decided.
  package func shownName(of file: FileID, at path: RelativePath) -> RelativePath {
    if let name = name(of: file, at: path) { return name }
    let request = request(file, path)
    return request.template?.name(of: request.facts) ?? path
  }

  /// Decides names that are wanted. Blocks until they are durable.
  package func decide(_ wanted: [(file: FileID, path: RelativePath)]) throws(StorageError) {
    guard let ledger else { return }
    let requests = wanted.filter { name(of: $0.file, at: $0.path) == nil }.map { request($0.file, $0.path) }
    guard !requests.isEmpty else { return }
    let gone = known.withLock { $0.takeGone() }
    let choices: [NameLedger.Choice]
    do throws(StorageError) {
      choices = try ledger.names(for: requests, forgetting: gone)
    } catch {
      known.withLock { $0.putGone(gone) }
      throw error
    }
    known.withLock { known in
      for (request, choice) in zip(requests, choices) { known.give(choice, to: request) }
    }
  }

  /// Recalls what earlier runs have decided for files that are still to be delivered. Blocks.
  package func recall(_ files: [FileID]) throws(StorageError) {
    guard let ledger, !files.isEmpty else { return }
    let names = try ledger.known(files)
    known.withLock { $0.names.merge(names) { present, _ in present } }
  }

  /// The engine does not hold the file, and asks of its names once they are recalled.
  package func unload(_ file: FileID) { known.withLock { $0.names[file] = nil } }

  /// The file is gone. The ledger forgets it, but for its names being taken, together with the next decision, which costs no
  /// sync of the disk, or on the thread once there are many.
  package func forget(_ file: FileID) {
    guard areMade else { return }
    let areMany = known.withLock { known in
      known.names[file] = nil
      known.putGone([file])
      guard known.gone.count >= Self.goneBatch, !known.isTidying else { return false }
      known.isTidying = true
      return true
    }
    if areMany { onThread { [self] in forgetGone(leaving: Self.goneBatch - 1) } }
  }

  private func forgetGone(leaving rest: Int) {
    while true {
      let gone = known.withLock { known -> [FileID] in
        known.isTidying = known.gone.count > rest
        return known.isTidying ? known.takeGone() : []
      }
      guard !gone.isEmpty else { return }
      do throws(StorageError) {
        _ = try ledger?.names(for: [], forgetting: gone)
      } catch {
        // Nothing is lost by it, and a file that wants a name is told what is wrong with the ledger.
        return known.withLock { known in
          known.putGone(gone)
          known.isTidying = false
        }
      }
    }
  }

  /// A file without a template is to be called as its path, which a template may have given to another one.
  private func request(_ file: FileID, _ path: RelativePath) -> NameLedger.NameRequest {
    let time = CaptureTime(of: file)
    return NameLedger.NameRequest(
      file: file, path: path, template: rules.settings(for: path).name,
      facts: NameTemplate.Values(
        path: path, id: file, date: time.date, time: time.time, host: host, sequence: nil))
  }

  // MARK: - The thread

  /// Does it on the thread that may wait for the disk, after what was asked for before. Where there is none, it is done when this returns,
  /// and the next one tries again to start it.
  func onThread(_ job: @escaping @Sendable () -> Void) {
    // First the thread: so it takes out all that is put in.
    guard hasThread(), put(job) else { return job() }
  }

  private func hasThread() -> Bool {
    thread.withLock { thread in
      // `stop()` joins the thread that is there; one that is started behind it would have no owner.
      guard !queue.withLock({ queue, _ in queue.isStopping }) else { return false }
      thread = thread ?? start("names", .answering) { [self] in run() }
      return thread != nil
    }
  }

  /// False where it takes no more. At most as many as requests may be in flight.
  private func put(_ job: @escaping @Sendable () -> Void) -> Bool {
    queue.withLock { queue, signal in
      guard !queue.isStopping else { return false }
      queue.jobs.append(job)
      signal.signal()
      return true
    }
  }

  private func run() {
    while true {
      let jobs = queue.wait { queue -> Monitor<Queue>.WaitDecision<[@Sendable () -> Void]> in
        if !queue.jobs.isEmpty {
          defer { queue.jobs = [] }
          return .done(queue.jobs)
        }
        return queue.isStopping ? .done([]) : .again
      }
      guard !jobs.isEmpty else { return }
      for job in jobs { job() }
    }
  }

  /// Ends the thread once what was asked for is done.
  func stop() {
    queue.withLock { queue, signal in
      queue.isStopping = true
      signal.broadcast()
    }
    thread.withLock { $0.take() }?.join()
    forgetGone(leaving: 0)
  }
}

/// When a file was made, by the clock on the machine's wall. Its identity holds the time, so it is always the same.
private struct CaptureTime {
  let date: String
  let time: String

  init(of file: FileID) {
    // Nanoseconds since 1970 (FileID.ordered).
    var seconds = time_t(Int64(bitPattern: file.high) / 1_000_000_000)
    var parts = tm()
    localtime_r(&seconds, &parts)
    let text = { (number: Int32, width: Int) in
      let digits = "\(number)"
      return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
    let year = Int32(clamping: Int64(parts.tm_year) + 1900)
    date = "\(text(year, 4))-\(text(parts.tm_mon + 1, 2))-\(text(parts.tm_mday, 2))"
    time = [parts.tm_hour, parts.tm_min, parts.tm_sec].map { text($0, 2) }.joined()
  }
}

import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Three watchdogs with three reactions (docs/design/scheduling.md#failures). A request without progress is sent again.
/// A file without progress gets new connections, and the server is asked. When nothing is acknowledged at all,
/// everything is restarted.
///
/// Progress of a request is a byte that the network took. Progress of a file, and of all together, is an
/// acknowledgement, or a request that has come further than any since the latest one: on a line that swallows bytes
/// every request begins, and none gets further than the one before.
struct TripleWatchdog: Sendable {
  enum Alarm: Hashable, Sendable {
    /// Cancel this request and send its chunk again.
    case chunk(HTTPRequestID)
    /// Cancel this file's requests, connect anew, ask the server, continue from what it has.
    case session(FileID)
    /// Nothing is acknowledged for any file: the same for all.
    case global
  }

  private struct Watched: Sendable {
    /// Nil when the request carries several files.
    var file: FileID?
    var patience: Duration
    var sentBytes: UInt64 = 0
    var answered = 0
    var movedAt: MonotonicTime
    var isReported = false
  }

  private struct Progress: Sendable {
    var movedAt: MonotonicTime
    var highWater: UInt64 = 0
    var patience: Duration
  }

  private let timing: UploadTiming
  private var watched: OrderedDictionary<HTTPRequestID, Watched> = [:]
  private var files: OrderedDictionary<FileID, Progress> = [:]
  private var all: Progress?
  /// When the latest request ended; nil while one is in flight.
  private var idleSince: MonotonicTime?

  init(_ timing: UploadTiming = UploadTiming()) {
    self.timing = timing
  }

  /// There is something to watch.
  var isWatching: Bool { !watched.isEmpty || !files.isEmpty }

  /// When a request last handed a byte to the network; nil for one that is not watched.
  func movedAt(_ request: HTTPRequestID) -> MonotonicTime? { watched[request]?.movedAt }

  /// How long a chunk request may make no progress: max(10 s, 2 × bytes / expected rate), 30 s while the rate is not
  /// known. Twice as long with each attempt, in case the expectation is wrong, up to the time after which its file is
  /// stuck.
  func patience(bytes: Int, bytesPerSecond: Double?, streams: Int, attempts: Int) -> Duration {
    var patience = UploadConstants.chunkTimeoutBase
    if let bytesPerSecond, bytesPerSecond > 0 {
      let seconds = 2 * Double(bytes) * Double(max(1, streams)) / bytesPerSecond
      patience = max(UploadConstants.chunkTimeoutMin, .seconds(min(seconds, 3600)))
    }
    return max(patience, min(patience * (1 << min(max(0, attempts), 6)), timing.fileWatchdog))
  }

  mutating func started(_ request: HTTPRequestID, of file: FileID?, patience: Duration, at now: MonotonicTime) {
    watched[request] = Watched(file: file, patience: patience, movedAt: now)
    let least = max(timing.fileWatchdog, patience)
    if let file { files[file] = files[file] ?? Progress(movedAt: now, patience: least) }
    // No body was in flight for so long, as while no session can be opened: nothing could be acknowledged.
    if let idleSince, now - idleSince > timing.fileWatchdog { all = nil }
    idleSince = nil
    all = all ?? Progress(movedAt: now, patience: max(timing.globalWatchdog, patience))
  }

  /// The network took so many bytes of a request's body. `answered`: how many requests of a step with several were
  /// answered before; each starts its count anew.
  mutating func sent(_ bytes: UInt64, after answered: Int = 0, by request: HTTPRequestID, at now: MonotonicTime) {
    guard let one = watched[request], bytes > one.sentBytes || answered > one.answered else { return }
    watched[request]?.sentBytes = bytes
    watched[request]?.answered = answered
    watched[request]?.movedAt = now
    if let id = one.file, let file = files[id], bytes > file.highWater {
      files[id]?.highWater = bytes
      files[id]?.movedAt = now
    }
    if let all, bytes > all.highWater {
      self.all?.highWater = bytes
      self.all?.movedAt = now
    }
  }

  mutating func ended(_ request: HTTPRequestID, isAcknowledged: Bool, at now: MonotonicTime) {
    guard let one = watched.removeValue(forKey: request) else { return }
    if watched.isEmpty { idleSince = now }
    if isAcknowledged { acknowledged(one.file, at: now) }
  }

  /// The server has some of the file, or has published it; nil for several files.
  mutating func acknowledged(_ file: FileID?, at now: MonotonicTime) {
    // Requests sent earlier are no progress of later ones.
    if let file {
      let highWater = watched.values.lazy.filter { $0.file == file }.map(\.sentBytes).max()
      files[file] = highWater.flatMap { highWater in
        files[file].map { Progress(movedAt: now, highWater: highWater, patience: $0.patience) }
      }
    }
    let highWater = watched.values.lazy.map(\.sentBytes).max()
    all = highWater.flatMap { highWater in
      all.map { Progress(movedAt: now, highWater: highWater, patience: $0.patience) }
    }
  }

  /// The file's upload is over, or restarts: the stalled time of this one does not count for the next.
  mutating func uploadEnded(_ file: FileID) { files[file] = nil }

  /// The file rests, or has ended: no progress is expected.
  mutating func forget(_ file: FileID) {
    files[file] = nil
    if files.isEmpty, !watched.values.contains(where: { $0.file == nil }) { all = nil }
  }

  /// The destination is unavailable, which differs from one that does not move.
  mutating func forgetAll() {
    files = [:]
    all = nil
  }

  /// Requests and files without progress for too long; each is returned once for each time that passes.
  mutating func alarms(at now: MonotonicTime) -> [Alarm] {
    if let all, now - all.movedAt >= all.patience {
      forgetAll()
      return [.global]
    }
    var alarms: [Alarm] = []
    for (file, progress) in files where now - progress.movedAt >= progress.patience {
      alarms.append(.session(file))
      files[file] = nil
    }
    for (request, one) in watched where !one.isReported && now - one.movedAt >= one.patience {
      alarms.append(.chunk(request))
      watched[request]?.isReported = true
    }
    return alarms
  }
}

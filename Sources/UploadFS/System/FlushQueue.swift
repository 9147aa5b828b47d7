import CLinux
import Glibc

/// Files that were closed without an fsync(2), until the one thread that makes them durable takes them.
///
/// Each is there once, however often it is closed, so that no more are there than the mount knows files. When the queue is full they
/// are taken at once, without waiting for the second to pass; none is left out.
final class FlushQueue: @unchecked Sendable {
  // Sound because everything below the lock is touched only while it is held, and the three C objects stay at one address
  // until no thread can reach this object any more.
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let arrival: UnsafeMutablePointer<pthread_cond_t>
  private let closing: UnsafeMutablePointer<pthread_cond_t>
  private var files: [ObjectIdentifier: CapturedFile] = [:]
  /// Open files that rest; those of one turn are taken each second.
  private var idle = [[ObjectIdentifier: CapturedFile]](repeating: [:], count: idleTurns)
  private var turn = 0
  private var due: timespec?
  private var isClosed = false
  private var isEmptied = false

  /// From the first close to the flush of all that were closed by then: as long as a power cut may cost what no call has
  /// synced.
  static let delaySeconds = 1
  /// So many seconds pass between two checks of a file that rests.
  static let idleTurns = 8
  static let capacity = 65_536
  private let capacity: Int

  init(capacity: Int = FlushQueue.capacity) {
    self.capacity = capacity
    lock = .allocate(capacity: 1)
    arrival = .allocate(capacity: 1)
    closing = .allocate(capacity: 1)
    pthread_mutex_init(lock, nil)
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(arrival, &attributes)
    pthread_cond_init(closing, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(closing)
    pthread_cond_destroy(arrival)
    pthread_mutex_destroy(lock)
    closing.deallocate()
    arrival.deallocate()
    lock.deallocate()
  }

  /// Called under a file's lock: never waits for the disk.
  func add(_ file: CapturedFile) {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    guard !isClosed else { return }
    let key = ObjectIdentifier(file)
    idle[Self.turn(of: key)][key] = nil
    files[key] = file
    if files.count == capacity { hurryLocked() }
    beDueLocked()
  }

  /// One that is open and rests: it is taken in its turn. Called under a file's lock.
  func addIdle(_ file: CapturedFile) {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    let key = ObjectIdentifier(file)
    guard !isClosed, files[key] == nil else { return }
    idle[Self.turn(of: key)][key] = file
    beDueLocked()
  }

  /// The same one each time, and about as many files in each.
  private static func turn(of key: ObjectIdentifier) -> Int { Int(key.hashValue.magnitude % UInt(idleTurns)) }

  private func beDueLocked() {
    guard due == nil else { return }
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    due = timespec(tv_sec: now.tv_sec + Self.delaySeconds, tv_nsec: now.tv_nsec)
    pthread_cond_signal(arrival)
  }

  /// What is there is taken at once, without waiting for the second to pass.
  func hurry() {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    if !files.isEmpty { hurryLocked() }
  }

  /// What is there does not wait for the second.
  var isHurried: Bool {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    return due.map { $0.tv_sec == 0 && $0.tv_nsec == 0 } ?? false
  }

  private func hurryLocked() {
    due = timespec()
    pthread_cond_signal(arrival)
  }

  /// The mount ends.
  var hasClosed: Bool {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    return isClosed
  }

  /// Ends the thread that waits in ``next()``.
  func close() {
    pthread_mutex_lock(lock)
    isClosed = true
    pthread_cond_signal(arrival)
    pthread_cond_broadcast(closing)
    pthread_mutex_unlock(lock)
  }

  /// What was there when the queue was closed is flushed.
  func noteEmptied() {
    pthread_mutex_lock(lock)
    isEmptied = true
    pthread_cond_broadcast(closing)
    pthread_mutex_unlock(lock)
  }

  /// Waits for that; false when the time is over.
  func waitUntilEmptied(seconds: Int) -> Bool {
    var end = timespec()
    clock_gettime(CLOCK_MONOTONIC, &end)
    end.tv_sec += seconds
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    while !isEmptied, pthread_cond_timedwait(closing, lock, &end) != ETIMEDOUT {}
    return isEmptied
  }

  /// Waits until the time of the first file has come, and takes all, and of those that rest the ones whose turn it is; nil once the
  /// queue is closed.
  func next() -> [CapturedFile]? {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    while !isClosed {
      if var due {
        guard pthread_cond_timedwait(arrival, lock, &due) == ETIMEDOUT else { continue }
        let taken = takeDueLocked()
        if !taken.isEmpty { return taken }
      } else {
        pthread_cond_wait(arrival, lock)
      }
    }
    return nil
  }

  /// Waits as long as that, for another thread that asks the disk again and again; false at once when the queue is closed.
  func waitUnlessClosed(seconds: Int) -> Bool {
    var end = timespec()
    clock_gettime(CLOCK_MONOTONIC, &end)
    end.tv_sec += seconds
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    while !isClosed, pthread_cond_timedwait(closing, lock, &end) != ETIMEDOUT {}
    return !isClosed
  }

  /// Takes all, whatever the time is.
  func takeAll() -> [CapturedFile] {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    return takeAllLocked()
  }

  /// Takes what a second takes: all that changes, and of those that rest the ones whose turn it is.
  func takeDue() -> [CapturedFile] {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    return takeDueLocked()
  }

  private func takeAllLocked() -> [CapturedFile] {
    defer {
      files = [:]
      for turn in idle.indices { idle[turn] = [:] }
      due = nil
    }
    return Array(files.values) + idle.flatMap(\.values)
  }

  private func takeDueLocked() -> [CapturedFile] {
    let taken = Array(files.values) + idle[turn].values
    files = [:]
    idle[turn] = [:]
    turn = (turn + 1) % Self.idleTurns
    due = nil
    if idle.contains(where: { !$0.isEmpty }) { beDueLocked() }
    return taken
  }
}

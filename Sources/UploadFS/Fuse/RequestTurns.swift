/// Which of the threads that answer the kernel does what.
///
/// All but two of them may be delayed by the spool's disk. What is beyond that waits here, and is done in its order by the first of
/// those that comes back. So a disk that hangs leaves threads for what needs none, as status does.
///
/// A pure value: ``RequestLoop`` has the threads.
struct RequestTurns<Request> {
  /// Threads that no disk holds up.
  static var spareThreads: Int { 2 }
  /// Requests that wait may take so much memory: writes carry a megabyte each. Beyond it the spare threads are used as well.
  static var waitingBytesMax: Int { 64 << 20 }
  /// Of each, besides its own bytes.
  private static var overheadBytes: Int { 256 }

  private let diskThreadsMax: Int
  private var threads = 1
  /// Threads that wait for a request.
  private var idle = 1
  private var atDisk = 0
  private var waiting: [(request: Request, bytes: Int)] = []
  private var waitingBytes = 0

  /// Begins with the thread that runs all this.
  init(diskThreadsMax: Int) {
    self.diskThreadsMax = max(1, diskThreadsMax)
  }

  /// As many threads as may are at the disk.
  var isHeldUp: Bool { atDisk >= diskThreadsMax }

  /// A thread has received a request. True where no other one is left to receive the next: then one more is to be started.
  mutating func received() -> Bool {
    idle -= 1
    guard idle == 0, threads < diskThreadsMax + Self.spareThreads else { return false }
    threads += 1
    idle += 1
    return true
  }

  /// It could not be started.
  mutating func hasNotStarted() {
    threads -= 1
    idle -= 1
  }

  /// A thread is done with what it had, and receives again.
  mutating func receives() { idle += 1 }

  /// A request may be delayed by the disk. False where it has to wait instead; then its thread hands it over.
  mutating func begins(bytes: Int) -> Bool {
    guard isHeldUp, waitingBytes + bytes + Self.overheadBytes <= Self.waitingBytesMax else {
      atDisk += 1
      return true
    }
    return false
  }

  /// One that has to wait, and cannot be handed over.
  mutating func beginsAnyway() { atDisk += 1 }

  /// It is handed over.
  mutating func waits(_ request: Request, bytes: Int) {
    waiting.append((request, bytes + Self.overheadBytes))
    waitingBytes += bytes + Self.overheadBytes
  }

  /// A thread has come back from the disk. It does the next request that waits; nil where there is none.
  mutating func ended() -> Request? {
    atDisk -= 1
    guard !isHeldUp, !waiting.isEmpty else { return nil }
    let next = waiting.removeFirst()
    waitingBytes -= next.bytes
    atDisk += 1
    return next.request
  }
}

import CLinux
import Glibc
import Synchronization

/// A fixed number of page-aligned buffers in which chunks are read, hashed and sent (spec C3).
///
/// Each buffer's memory is mapped when it is first needed and then used again and again: the upload loop allocates
/// nothing of a chunk's size. When memory is short the pool is made smaller: its free buffers go back to the system at
/// once, the others when they come back. A buffer keeps its pool alive, so it does not matter which of the two is dropped first.
public final class ChunkBufferPool: Sendable {
  private struct State {
    var free: [Region] = []
    /// Mapped now, free or handed out.
    var mappedCount = 0
    /// Buffers that there may be now.
    var limit: Int
    var bufferBytes: Int
    var onRelease: (@Sendable () -> Void)?
  }

  /// How many buffers there are.
  public let capacity: Int
  /// The size of each buffer, a whole number of pages.
  public var bufferBytes: Int { state.withLock { state, _ in state.bufferBytes } }
  private let counters: PipelineCounters
  private let state: Monitor<State>

  /// A pool of `capacity` buffers that hold at least `bufferBytes` each. Nothing is mapped yet.
  public convenience init(capacity: Int = UploadConstants.bufferPoolSize, bufferBytes: Int) {
    self.init(capacity: capacity, bufferBytes: bufferBytes, counters: PipelineCounters())
  }

  init(capacity: Int, bufferBytes: Int, counters: PipelineCounters) {
    precondition(capacity > 0 && bufferBytes > 0, "a pool needs at least one buffer of at least one byte")
    self.capacity = capacity
    self.counters = counters
    state = Monitor(State(limit: capacity, bufferBytes: Region.roundedToPages(bufferBytes)))
  }

  deinit {
    // Every buffer holds a reference to the pool: whatever was mapped has been given back by now.
    state.withLock { state, _ in
      for region in state.free { region.unmap() }
    }
  }

  /// A buffer, or nil when all are in use.
  public func tryAcquire() -> ChunkBuffer? {
    let region = state.withLock { state, _ in takeLocked(&state) }
    return region.map { ChunkBuffer(region: $0, pool: self) }
  }

  /// A buffer; waits without spinning until one is given back. Never call it on a filesystem thread.
  public func acquire() -> ChunkBuffer {
    let region = state.wait { state in
      if let region = takeLocked(&state) { return .done(region) }
      // The kernel may refuse to map another buffer, which may pass without any buffer being given back.
      return state.mappedCount < state.limit ? .againBy(nanoseconds: monotonicNanoseconds() + 100_000_000) : .again
    }
    return ChunkBuffer(region: region, pool: self)
  }

  /// Buffers that can be had at once.
  public var freeCount: Int {
    state.withLock { state, _ in state.free.count + max(0, state.limit - state.mappedCount) }
  }

  /// Buffers that take up memory now.
  public var mappedCount: Int { state.withLock { state, _ in state.mappedCount } }

  /// Allows this many buffers, at least 1 and at most ``capacity``, from now on (spec A2).
  public func resize(to count: Int) {
    let surplus = state.withLock { state, signal -> [Region] in
      state.limit = min(max(count, 1), capacity)
      signal.broadcast()
      let number = min(state.free.count, max(0, state.mappedCount - state.limit))
      let surplus = Array(state.free.suffix(number))
      state.free.removeLast(number)
      state.mappedCount -= number
      return surplus
    }
    for region in surplus { region.unmap() }
  }

  /// Makes each buffer that is mapped from now on at least so long. Called before any is handed out.
  func enlarge(to byteCount: Int) {
    let outgrown = state.withLock { state, _ -> [Region] in
      guard byteCount > state.bufferBytes else { return [] }
      state.bufferBytes = Region.roundedToPages(byteCount)
      defer { state.free = [] }
      state.mappedCount -= state.free.count
      return state.free
    }
    for region in outgrown { region.unmap() }
  }

  /// Sets what is called after each give-back, on the thread that gave back, with no lock held. It takes the place of an
  /// earlier one. Capture the pool's owner weakly: a buffer that outlives it still calls this.
  public func onRelease(_ handler: @escaping @Sendable () -> Void) {
    state.withLock { state, _ in state.onRelease = handler }
  }

  private func takeLocked(_ state: inout State) -> Region? {
    if let region = state.free.popLast() { return region }
    guard state.mappedCount < state.limit, let region = Region.map(byteCount: state.bufferBytes) else { return nil }
    state.mappedCount += 1
    counters.blocksMapped.add(1, ordering: .relaxed)
    return region
  }

  /// Takes back what a buffer held; called once for each buffer.
  fileprivate func giveBack(_ region: Region) {
    let (handler, isSurplus) = state.withLock { state, signal in
      let isSurplus = state.mappedCount > state.limit
      if isSurplus {
        state.mappedCount -= 1
      } else {
        // Last in, first out: the next chunk is read into memory that is still mapped, locked and perhaps cached.
        state.free.append(region)
        signal.signal()
      }
      return (state.onRelease, isSurplus)
    }
    if isSurplus { region.unmap() }
    handler?()
  }
}

/// One buffer of a ``ChunkBufferPool``, held by one owner at a time.
///
/// The owner fills it through ``mutableBytes(count:)``, sets ``count``, and from then on everybody may read ``bytes``.
/// It goes back with ``release()``, or by itself when the last reference is dropped.
public final class ChunkBuffer: PinnedBytes {
  private let region: Region
  private let pool: ChunkBufferPool
  private let filledCount = Atomic<Int>(0)
  /// The longest prefix that may hold a capture's bytes: what is wiped.
  private let touchedCount = Atomic<Int>(0)
  private let isReleased = Atomic<Bool>(false)

  fileprivate init(region: Region, pool: ChunkBufferPool) {
    self.region = region
    self.pool = pool
  }

  deinit { release() }

  /// How many bytes it can hold.
  public var capacity: Int { region.byteCount }

  /// How many bytes it holds; 0 until the owner has filled it. Values outside of 0…``capacity`` are brought into it.
  public var count: Int {
    get { filledCount.load(ordering: .acquiring) }
    set {
      let bounded = min(max(newValue, 0), capacity)
      touchedCount.store(max(bounded, touchedCount.load(ordering: .relaxed)), ordering: .relaxed)
      filledCount.store(bounded, ordering: .releasing)
    }
  }

  /// The bytes that were filled in; empty after ``release()``.
  public var bytes: UnsafeRawBufferPointer {
    guard !isReleased.load(ordering: .acquiring) else { return UnsafeRawBufferPointer(start: nil, count: 0) }
    return UnsafeRawBufferPointer(start: region.start, count: count)
  }

  /// The first `count` bytes (at most ``capacity``), for the single owner to fill; empty after ``release()``.
  public func mutableBytes(count: Int) -> UnsafeMutableRawBufferPointer {
    guard !isReleased.load(ordering: .acquiring) else { return UnsafeMutableRawBufferPointer(start: nil, count: 0) }
    let bounded = min(max(count, 0), capacity)
    touchedCount.store(max(bounded, touchedCount.load(ordering: .relaxed)), ordering: .relaxed)
    region.lockInMemory(prefix: bounded)
    return UnsafeMutableRawBufferPointer(start: region.start, count: bounded)
  }

  /// Wipes the used bytes and gives the memory back; only the first call does anything.
  ///
  /// - Important: nobody may still read ``bytes``: a request that sends from it has completed.
  public func release() {
    guard !isReleased.exchange(true, ordering: .acquiringAndReleasing) else { return }
    let touched = touchedCount.load(ordering: .relaxed)
    if touched > 0 { uploadfs_explicit_bzero(region.start, touched) }
    pool.giveBack(region)
  }
}

/// A mapped piece of memory that belongs to a pool and is lent to one ``ChunkBuffer`` after another.
///
/// - Note: `@unchecked Sendable` is sound because the address and size never change, the memory behind them is reached
///   by the one buffer that holds the region, and the pool's lock orders one holder after the other.
private final class Region: @unchecked Sendable {
  let start: UnsafeMutableRawPointer
  let byteCount: Int
  private let lockedCount = Atomic<Int>(0)

  private init(start: UnsafeMutableRawPointer, byteCount: Int) {
    self.start = start
    self.byteCount = byteCount
  }

  private static let pageBytes = max(sysconf(Int32(_SC_PAGESIZE)), 4096)

  static func roundedToPages(_ byteCount: Int) -> Int {
    (byteCount + pageBytes - 1) / pageBytes * pageBytes
  }

  static func map(byteCount: Int) -> Region? {
    guard let start = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      start != MAP_FAILED
    else { return nil }
    // A core dump must not carry captures.
    _ = madvise(start, byteCount, MADV_DONTDUMP)
    return Region(start: start, byteCount: byteCount)
  }

  func unmap() {
    munmap(start, byteCount)
  }

  /// Keeps the prefix out of swap as far as RLIMIT_MEMLOCK lets it, and only as far as it is used: locking touches every
  /// page, and a pool that carries small files shall stay small.
  func lockInMemory(prefix: Int) {
    let wanted = Self.roundedToPages(prefix)
    guard wanted > lockedCount.load(ordering: .relaxed) else { return }
    // Also noted when it fails: over the limit, the next attempt would fail too.
    lockedCount.store(wanted, ordering: .relaxed)
    _ = mlock(start, wanted)
  }
}

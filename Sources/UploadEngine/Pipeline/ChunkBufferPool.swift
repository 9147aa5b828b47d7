import CLinux
import Glibc
import Synchronization
import Threads
public import TransferModel

/// A bounded amount of memory in page-aligned buffers, in which chunks are read, hashed and sent.
///
/// Each buffer's memory is mapped when it is first needed and then used again and again for chunks of the same length: the upload loop
/// allocates nothing of a chunk's size. Where chunks of another length come, free buffers of the former one go back to the system. When
/// memory is short the pool is made smaller: its free buffers go back at once, the others when they come back. A buffer keeps its pool
/// alive, so it does not matter which of the two is dropped first.
public final class ChunkBufferPool: Sendable {
  private struct State {
    /// By their length.
    var free: [Int: [Region]] = [:]
    /// Of buffers that are mapped now, free or handed out.
    var mappedBytes = 0
    var mappedCount = 0
    /// Of those that are handed out.
    var lentBytes = 0
    /// Bytes that may be handed out now.
    var limitBytes: Int
    var onRelease: (@Sendable () -> Void)?

    /// A buffer of this length may be handed out; one always may, however long it is.
    func admits(_ byteCount: Int) -> Bool { lentBytes == 0 || lentBytes + byteCount <= limitBytes }

    /// Takes free buffers away until so many bytes are mapped at most, or none is free.
    mutating func shrink(to byteCount: Int) -> [Region] {
      var surplus: [Region] = []
      // In no order: whichever goes, the bound is kept.
      while mappedBytes > byteCount, let length = free.first(where: { !$0.value.isEmpty })?.key,
        let region = free[length]?.popLast()
      {
        surplus.append(region)
        mappedBytes -= length
        mappedCount -= 1
      }
      return surplus
    }
  }

  /// How many buffers of ``bufferBytes`` there are.
  public let capacity: Int
  /// The length of a buffer that is asked for without one, a whole number of pages.
  public let bufferBytes: Int
  private let counters: PipelineCounters
  private let state: Monitor<State>

  /// A pool for `capacity` buffers that hold at least `bufferBytes` each, or as many bytes of others. Nothing is mapped yet.
  public convenience init(capacity: Int = UploadConstants.bufferPoolSize, bufferBytes: Int) {
    self.init(capacity: capacity, bufferBytes: bufferBytes, counters: PipelineCounters())
  }

  init(capacity: Int, bufferBytes: Int, counters: PipelineCounters) {
    precondition(capacity > 0 && bufferBytes > 0, "a pool needs at least one buffer of at least one byte")
    self.capacity = capacity
    self.bufferBytes = Region.roundedToPages(bufferBytes)
    self.counters = counters
    state = Monitor(State(limitBytes: capacity * Region.roundedToPages(bufferBytes)))
  }

  deinit {
    // Every buffer holds a reference to the pool: whatever was mapped has been given back by now.
    state.withLock { state, _ in
      for region in state.shrink(to: 0) { region.unmap() }
    }
  }

  /// A buffer of this length, or nil when the memory is in use.
  public func tryAcquire(_ byteCount: Int? = nil) -> ChunkBuffer? {
    let length = Region.roundedToPages(byteCount ?? bufferBytes)
    let region = state.withLock { state, _ in takeLocked(length, &state) }
    return region.map { ChunkBuffer(region: $0, pool: self) }
  }

  /// A buffer; waits without spinning until one is given back. Never call it on a filesystem thread.
  public func acquire() -> ChunkBuffer {
    let region = state.wait { state in
      if let region = takeLocked(bufferBytes, &state) { return .done(region) }
      // The kernel may refuse to map another buffer, which may pass without any buffer being given back.
      return state.admits(bufferBytes) ? .againBy(nanoseconds: monotonicNanoseconds() + 100_000_000) : .again
    }
    return ChunkBuffer(region: region, pool: self)
  }

  /// Buffers of ``bufferBytes`` that can be had at once.
  public var freeCount: Int {
    state.withLock { state, _ in max(0, state.limitBytes - state.lentBytes) / bufferBytes }
  }

  /// Buffers that take up memory now.
  public var mappedCount: Int { state.withLock { state, _ in state.mappedCount } }

  /// Allows this many buffers of ``bufferBytes``, at least 1 and at most ``capacity``, from now on
  /// (docs/design/reading.md#memory).
  public func resize(to count: Int) {
    let surplus = state.withLock { state, signal -> [Region] in
      state.limitBytes = min(max(count, 1), capacity) * bufferBytes
      signal.broadcast()
      return state.shrink(to: state.limitBytes)
    }
    for region in surplus { region.unmap() }
  }

  /// Sets what is called after each give-back, on the thread that gave back, with no lock held. It takes the place of an
  /// earlier one. Capture the pool's owner weakly: a buffer that outlives it still calls this.
  public func onRelease(_ handler: @escaping @Sendable () -> Void) {
    state.withLock { state, _ in state.onRelease = handler }
  }

  private func takeLocked(_ length: Int, _ state: inout State) -> Region? {
    guard state.admits(length) else { return nil }
    if let region = state.free[length]?.popLast() {
      state.lentBytes += length
      return region
    }
    // Rare: chunks have another length than those before.
    for region in state.shrink(to: max(0, state.limitBytes - length)) { region.unmap() }
    guard let region = Region.map(byteCount: length) else { return nil }
    state.mappedBytes += length
    state.mappedCount += 1
    state.lentBytes += length
    counters.blocksMapped.add(1, ordering: .relaxed)
    return region
  }

  /// Takes back what a buffer held; called once for each buffer.
  fileprivate func giveBack(_ region: Region) {
    let (handler, isSurplus) = state.withLock { state, signal in
      state.lentBytes -= region.byteCount
      let isSurplus = state.mappedBytes > state.limitBytes
      if isSurplus {
        state.mappedBytes -= region.byteCount
        state.mappedCount -= 1
      } else {
        // Last in, first out: the next chunk is read into memory that is still mapped, locked and perhaps cached.
        state.free[region.byteCount, default: []].append(region)
      }
      // Also where it is not kept: another one may be mapped in its place.
      signal.broadcast()
      return (state.onRelease, isSurplus)
    }
    if isSurplus { region.unmap() }
    handler?()
  }
}

/// One buffer of a ``ChunkBufferPool``, held by one owner at a time.
///
/// The owner fills it through ``mutableBytes(count:)``, sets ``count``, and from then on every thread may read ``bytes``.
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
  /// - Important: no reader of ``bytes`` may be left: a request that sends from it has completed.
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

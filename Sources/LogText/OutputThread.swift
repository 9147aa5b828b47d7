public import Dispatch
import Glibc
import Synchronization
import Threads

/// A place to write to that never waits.
public protocol OutputTarget: Sendable {
  /// Writes of one text what the place takes at once.
  func write(_ bytes: ArraySlice<UInt8>) -> OutputStep
}

/// What became of a text.
public enum OutputStep: Hashable, Sendable {
  /// So many of its bytes are written.
  case wrote(Int)
  /// Nothing can be written at this moment.
  case blocked
  /// It will never be.
  case failed
}

/// Where texts are left for one target. A thread that leaves one waits for no reader, takes no lock, and may be any.
public final class OutputChannel: Sendable {
  /// What waits to be written is bounded; what is beyond it is left out, counted and spoken of.
  public static let bytesMax = 256 << 10

  fileprivate enum Order: Sendable {
    case put([UInt8])
    case show([UInt8], cost: Int)
    case endShowing
  }

  private let form: OutputForm
  private let waker: ThreadWaker
  fileprivate let orders = Inbox<Order>()
  /// What is in ``orders`` and in the queue behind it.
  private let usedBytes = Atomic<Int>(0)
  private let missing = Atomic<Int>(0)

  fileprivate init(_ form: OutputForm, _ waker: ThreadWaker) {
    self.form = form
    self.waker = waker
  }

  /// Leaves a text, with the end of its line.
  public func put(_ text: String) {
    let text = Array(text.utf8)
    // Once one is left out so are the next, until there is room for many: otherwise each second line would say that one is missing.
    guard missing.load(ordering: .relaxed) == 0, take(OutputQueue.cost(of: text)) else {
      missing.wrappingAdd(1, ordering: .relaxed)
      waker.ring()
      return
    }
    orders.put(.put(text))
    waker.ring()
  }

  /// Leaves a text of how far things are, without the end of its line; an earlier one that is not written yet is left out.
  public func show(_ text: String) {
    let text = Array(text.utf8)
    let cost = OutputQueue.cost(of: text)
    guard take(cost) else { return }
    orders.put(.show(text, cost: cost))
    waker.ring()
  }

  /// Nothing more is shown: what comes next has a line of its own.
  public func endShowing() {
    orders.put(.endShowing)
    waker.ring()
  }

  private func take(_ bytes: Int) -> Bool {
    let used = usedBytes.wrappingAdd(bytes, ordering: .relaxed).newValue
    guard used > Self.bytesMax else { return true }
    give(bytes)
    return false
  }

  fileprivate func give(_ bytes: Int) { usedBytes.wrappingSubtract(bytes, ordering: .relaxed) }

  fileprivate func makeQueue() -> OutputQueue { OutputQueue(form) }

  /// Nothing was left out that is not spoken of yet.
  fileprivate var isRead: Bool { missing.load(ordering: .relaxed) == 0 }

  /// How many were left out, once there is room for many again.
  fileprivate func takeMissing() -> Int {
    guard usedBytes.load(ordering: .relaxed) <= Self.bytesMax / 2 else { return 0 }
    return missing.exchange(0, ordering: .relaxed)
  }
}

/// The one thread that writes what people and service managers are told: a terminal that is stopped, or a pipe that is not read, holds up
/// nothing else.
public final class OutputThread: Sendable {
  /// One for each target.
  public let channels: [OutputChannel]
  private let waker: ThreadWaker
  private let desk: OutputDesk
  private let thread: NamedThread?

  /// Starts the thread. Where the system has none left, ``flush(within:)`` writes.
  public init(_ targets: [(target: any OutputTarget, form: OutputForm)]) {
    let waker = ThreadWaker()
    let channels = targets.map { OutputChannel($0.form, waker) }
    let places = zip(channels, targets).map { OutputPlace(channel: $0, target: $1.target, queue: $0.makeQueue()) }
    let desk = OutputDesk(places)
    self.waker = waker
    self.channels = channels
    self.desk = desk
    thread = NamedThread("output", .answering) { desk.serve(waker) }
  }

  deinit {
    desk.isOver.store(true, ordering: .releasing)
    waker.ring()
    thread?.join()
  }

  /// Waits until all that was left is written, but not longer than so: what is not read keeps no program from its end.
  public func flush(within limit: DispatchTimeInterval = .seconds(1)) {
    let isWritten = DispatchSemaphore(value: 0)
    desk.flushes.put(isWritten)
    if thread == nil { _ = desk.step() || desk.step() } else { waker.ring() }
    _ = isWritten.wait(timeout: .now() + limit)
  }
}

/// Where the thread works.
private final class OutputDesk: Sendable {
  let flushes = Inbox<DispatchSemaphore>()
  let isOver = Atomic<Bool>(false)
  /// The thread's; of those that flush where there is none.
  private let work: Mutex<Work>

  /// How much later a line may be written than one before it.
  private static let gatherNanoseconds = 2_000_000

  private struct Work: Sendable {
    var places: [OutputPlace]
    var flushes: [DispatchSemaphore] = []
  }

  init(_ places: [OutputPlace]) { work = Mutex(Work(places: places)) }

  func serve(_ waker: ThreadWaker) {
    var pause: Int64 = 0
    while !isOver.load(ordering: .acquiring) {
      if step() {
        pause = 0
        // Lines that come now are written together: a ring costs no system call while the thread does not wait for it.
        var gathering = timespec(tv_sec: 0, tv_nsec: Self.gatherNanoseconds)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &gathering, nil)
        waker.wait()
      } else {
        // Not every place can be waited for with poll(2), and a reader that reads on after minutes may wait a fifth of a second.
        pause = min(max(20_000_000, 2 * pause), 200_000_000)
        waker.wait(untilNanoseconds: Self.now + pause)
      }
    }
  }

  /// Writes what is taken at once; false where something is left.
  func step() -> Bool {
    work.withLock { work in
      work.flushes += flushes.takeAll()
      // From the last to the first, and written from the first to the last: what was logged before a line for a program was left is
      // in the log when that line is.
      for index in work.places.indices.reversed() { work.places[index].takeOrders() }
      var isDone = true
      for index in work.places.indices where !work.places[index].write() { isDone = false }
      guard isDone else { return false }
      for flush in work.flushes { flush.signal() }
      work.flushes = []
      return true
    }
  }

  private static var now: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}

/// A channel, what came out of it, and where it goes.
private struct OutputPlace: Sendable {
  let channel: OutputChannel
  let target: any OutputTarget
  var queue: OutputQueue

  /// False where something is left.
  mutating func write() -> Bool {
    while let text = queue.next() {
      switch target.write(text) {
      case .wrote(let count): channel.give(queue.wrote(count))
      case .blocked: return false
      case .failed: channel.give(queue.discard())
      }
    }
    return channel.isRead
  }

  mutating func takeOrders() {
    for order in channel.orders.takeAll() {
      switch order {
      case .put(let text): queue.put(text)
      case .show(let text, let cost):
        queue.show(text)
        channel.give(cost)
      case .endShowing: queue.endShowing()
      }
    }
    let missing = channel.takeMissing()
    if missing > 0 { queue.missed(missing) }
  }
}

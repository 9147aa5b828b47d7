import Synchronization

/// How many writable handles are open, and whether more may come. Needs no lock of the filesystem; what is told at the end is told with none
/// held.
final class OpenWriters: Sendable {
  private let isDraining = Atomic<Bool>(false)
  private let openCount = Atomic<Int>(0)
  private let lastIsGone = Mutex<@Sendable () -> Void>({})

  /// Writable handles that are open now.
  var count: Int { openCount.load(ordering: .sequentiallyConsistent) }

  /// From now on none is added. `whenLastIsGone` is called on the thread that ends the last of them.
  func drain(whenLastIsGone: @escaping @Sendable () -> Void) {
    lastIsGone.withLock { $0 = whenLastIsGone }
    isDraining.store(true, ordering: .sequentiallyConsistent)
  }

  /// Fails once the mount drains.
  func requireAccepting() throws(SystemError) {
    if isDraining.load(ordering: .relaxed) { throw .readOnly }
  }

  func opened() { openCount.add(1, ordering: .sequentiallyConsistent) }

  /// One is gone, and everything that follows from it is said.
  func ended() {
    let left = openCount.subtract(1, ordering: .sequentiallyConsistent).newValue
    guard left == 0, isDraining.load(ordering: .sequentiallyConsistent) else { return }
    lastIsGone.withLock { $0 }()
  }
}

import Synchronization

/// What lowered threads leave for an answering one, without a lock: any thread puts, one thread takes.
///
/// It has no bound of its own: each thing that is put is the one end of a request or job that its taker has ordered, and those are
/// bounded.
///
/// - Note: `@unchecked Sendable` is sound because a node is changed only by the thread that puts it, before others can reach it, and
///   the exchange of the head hands all nodes over to the one that takes them.
public final class Inbox<Element: Sendable>: @unchecked Sendable {
  private final class Node {
    let element: Element
    var next: UnsafeMutableRawPointer?

    init(_ element: Element) { self.element = element }
  }

  /// The node that was put last; each has a reference of its own.
  private let head = Atomic<UnsafeMutableRawPointer?>(nil)

  /// An empty one.
  public init() {}

  deinit { _ = takeAll() }

  /// Puts one, behind all that are there.
  public func put(_ element: Element) {
    let node = Node(element)
    let pointer = Unmanaged.passRetained(node).toOpaque()
    var known = head.load(ordering: .relaxed)
    while true {
      node.next = known
      let (isExchanged, original) = head.weakCompareExchange(
        expected: known, desired: pointer, successOrdering: .acquiringAndReleasing, failureOrdering: .relaxed)
      if isExchanged { return }
      known = original
    }
  }

  /// Takes all, in the order in which they were put.
  public func takeAll() -> [Element] {
    var elements: [Element] = []
    var next = head.exchange(nil, ordering: .acquiringAndReleasing)
    while let pointer = next {
      let node = Unmanaged<Node>.fromOpaque(pointer).takeRetainedValue()
      elements.append(node.element)
      next = node.next
    }
    return elements.reversed()
  }
}

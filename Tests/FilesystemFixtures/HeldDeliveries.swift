package import FileModel
import Foundation

/// Deliveries for which calls wait. Held, they end when a test says so; otherwise there is nothing to wait for.
package final class HeldDeliveries: @unchecked Sendable {
  // Sound because everything below is touched only while the condition's lock is held.
  private let condition = NSCondition()
  private var isHolding = false
  private var nextNumber: UInt64 = 1
  private var waiting: [(wait: DeliveryWait, whenKnown: @Sendable (DeliveryOutcome) -> Void)] = []

  package init() {}

  /// From now on each call waits.
  package func hold() { condition.withLock { isHolding = true } }

  /// Waits until so many calls wait, for 60 seconds at most.
  package func waits(for count: Int) -> Bool {
    let deadline = Date(timeIntervalSinceNow: 60)
    return condition.withLock {
      while waiting.count != count {
        guard condition.wait(until: deadline) else { return waiting.count == count }
      }
      return true
    }
  }

  package var count: Int { condition.withLock { waiting.count } }

  /// Ends the deliveries for which calls have waited longest, so many of them.
  package func deliver(_ count: Int = .max) {
    let delivered = condition.withLock {
      defer { waiting.removeFirst(min(count, waiting.count)) }
      return waiting.prefix(count)
    }
    for call in delivered { call.whenKnown(.delivered) }
  }

  /// Lets every call go, and those that come.
  package func letGo(_ outcome: DeliveryOutcome) {
    let held = condition.withLock {
      defer { waiting = [] }
      isHolding = false
      return waiting
    }
    for call in held { call.whenKnown(outcome) }
  }

  func keep(_ whenKnown: @escaping @Sendable (DeliveryOutcome) -> Void) -> DeliveryWait {
    let (wait, isHeld) = condition.withLock {
      let wait = DeliveryWait(number: nextNumber)
      nextNumber += 1
      if isHolding {
        waiting.append((wait, whenKnown))
        condition.broadcast()
      }
      return (wait, isHolding)
    }
    if !isHeld { whenKnown(.notToBeDelivered) }
    return wait
  }

  func end(_ wait: DeliveryWait) {
    condition.withLock {
      waiting.removeAll { $0.wait == wait }
      condition.broadcast()
    }
  }
}

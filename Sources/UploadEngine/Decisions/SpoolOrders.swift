import FileModel
import Lookup
import OrderedCollections

/// What is to be done with files in the spool, in order, and which of them are about to go by a rule.
struct SpoolOrders: Sendable {
  private var orders: [SpoolOrder] = []
  /// Interrupted files that are to be removed.
  private(set) var leaving: OrderedSet<FileID> = []

  var isEmpty: Bool { orders.isEmpty }

  mutating func append(_ order: SpoolOrder) { orders.append(order) }

  /// At most two for each file between two calls.
  mutating func takeAll() -> [SpoolOrder] {
    defer { orders.removeAll() }
    return orders
  }

  mutating func noteLeaving(_ id: FileID) { leaving.append(id) }

  /// It is to go no longer, or is gone.
  mutating func endLeaving(_ id: FileID) { leaving.takeOut(id) }
}

import FileModel
import Lookup
import OrderedCollections

/// Actions on files in the spool, in order, and the files that a rule is about to remove.
struct SpoolOrders: Sendable {
  private var orders: [SpoolOrder] = []
  /// Interrupted files that are to be removed.
  private(set) var leaving: OrderedSet<FileID> = []

  var isEmpty: Bool { orders.isEmpty }

  mutating func append(_ order: SpoolOrder) { orders.append(order) }

  /// Takes the orders. At most two for each file between two calls.
  mutating func takeAll() -> [SpoolOrder] {
    defer { orders.removeAll() }
    return orders
  }

  mutating func noteLeaving(_ id: FileID) { leaving.append(id) }

  /// The file is no longer to be removed, or is removed.
  mutating func endLeaving(_ id: FileID) { leaving.takeOut(id) }
}

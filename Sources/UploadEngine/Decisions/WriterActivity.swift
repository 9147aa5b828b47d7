/// When writers had the file open.
struct WriterActivity: Hashable, Sendable {
  private(set) var openedAt: Int64?
  /// True between `opened` and `settled`. It lies where the value before it leaves room.
  private(set) var isOpen: Bool
  private(set) var closedAt: Int64?

  init(isOpen: Bool) { self.isOpen = isOpen }

  /// The file is new.
  mutating func created(at time: Int64) { openedAt = time }

  mutating func opened() { isOpen = true }

  mutating func settled(at time: Int64) {
    isOpen = false
    closedAt = time
  }

  /// A change is reported of a file that writers have open, or of a settled one.
  mutating func changed(isOpen: Bool) { self.isOpen = isOpen }

  /// The file has left the spool; what its writers still do concerns nothing here.
  mutating func ended() { isOpen = false }

  /// What the catalog records of earlier runs.
  mutating func recall(openedAt: Int64?, closedAt: Int64?) {
    self.openedAt = openedAt
    self.closedAt = closedAt
  }
}

/// What memory allows and holds.
struct MemoryState: Sendable {
  /// What is read and sent at a time (docs/design/reading.md#memory).
  private(set) var budget = MemoryBudget.full
  var buffers = ReadBuffers()
  /// Files that memory does not hold.
  var unloaded = UnloadedFiles()
  /// The unloading and loading of files when there are too many.
  var fit: MemoryFit

  init(filesMax: Int, deliveredMax: Int) { fit = MemoryFit(filesMax: filesMax, deliveredMax: deliveredMax) }

  mutating func begin(within budget: MemoryBudget) { self.budget = budget }

  /// False where that is the present budget.
  mutating func changes(to budget: MemoryBudget) -> Bool {
    guard budget != self.budget else { return false }
    self.budget = budget
    return true
  }
}

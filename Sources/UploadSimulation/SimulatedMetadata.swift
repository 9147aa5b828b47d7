/// What a journaling filesystem keeps of one file beside its bytes: size and label. Their changes reach the disk in
/// their order and at any time, before or after the bytes that they belong to.
struct SimulatedMetadata {
  struct State {
    var mark = SimulatedCapture.Mark.none
    var count = 0
    var modifiedNanoseconds: Int64 = 0
    /// Of what the disk had at the last sync, the length that was not cut off since.
    var keptCount = 0
  }

  /// What the disk had as a whole.
  private(set) var synced: [UInt8] = []
  private var durable = State()
  private var later: [State] = []

  var last: State { later.last ?? durable }

  /// Something has changed, and may reach the disk.
  mutating func note(_ mark: SimulatedCapture.Mark, count: Int, modifiedNanoseconds: Int64) {
    later.append(
      State(
        mark: mark, count: count, modifiedNanoseconds: modifiedNanoseconds, keptCount: min(last.keptCount, count)))
  }

  /// The disk has all changes by now, but not necessarily the bytes.
  mutating func commit() {
    durable = last
    later = []
  }

  /// The disk has a name that the file got by now, and the earlier label; its size may still be an earlier one.
  mutating func commitMark() {
    let mark = last.mark
    durable.mark = mark
    for index in later.indices { later[index].mark = mark }
  }

  /// The disk has these bytes as well.
  mutating func sync(_ bytes: [UInt8]) {
    synced = bytes
    commit()
    durable.keptCount = bytes.count
  }

  /// What a power cut leaves.
  func remaining(using random: inout SeededGenerator) -> State {
    let number = Int.random(in: 0...later.count, using: &random)
    return number == 0 ? durable : later[number - 1]
  }
}

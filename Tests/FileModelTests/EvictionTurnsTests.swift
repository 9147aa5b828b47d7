import FileModel
import Testing

@Suite struct EvictionTurnsTests {
  private static func files(_ numbers: some Sequence<UInt64>) -> [EvictionCandidate] {
    numbers.map { number in
      EvictionCandidate(
        FileSnapshot(
          id: FileID(high: 0, low: number), epoch: 1, sizeBytes: 1, modifiedNanoseconds: 0, mode: 0, inode: number,
          names: [], writableOpens: 0, mutationsInFlight: 0))
    }
  }

  /// Regression: of many small files only 64 went for a write, and those that could not go kept all others from it.
  @Test(arguments: [0, 1, 2, 7]) func eachHasItsTurnOnce_oldestFirst_whetherItGoesOrStays(stayingOf7: UInt64) {
    var there = Self.files(1...500)
    var askedCount = 0
    func candidates(countMax: Int) -> [EvictionCandidate] {
      askedCount += 1
      return Array(there.prefix(countMax))
    }
    var turns = EvictionTurns()
    var seen: [UInt64] = []
    while let next = turns.next(among: candidates) {
      seen.append(next.id.low)
      if next.id.low % 7 < stayingOf7 { turns.stays() } else { there.removeAll { $0 == next } }
    }
    #expect(seen == Array(1...500))
    #expect(askedCount <= 10, "no look is taken at all of them for each one")
  }
}

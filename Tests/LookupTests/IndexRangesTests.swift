import Lookup
import Testing

@Suite struct IndexRangesTests {
  @Test func neighboursAndOverlaps_areOneRange() {
    var ranges = IndexRanges([5..<7, 9..<12])
    #expect(ranges.ranges == [5..<7, 9..<12] && ranges.count == 5)
    ranges.insert(7..<9)
    #expect(ranges.ranges == [5..<12] && ranges.count == 7)
    ranges.insert(0..<1)
    ranges.insert(3..<20)
    #expect(ranges.ranges == [0..<1, 3..<20] && ranges.count == 18)
    ranges.insert(4..<4)
    #expect(ranges.count == 18)
  }

  @Test func whatIsTakenOut_splitsItsRange() {
    var ranges = IndexRanges([0..<10, 20..<30])
    ranges.remove(3..<5)
    #expect(ranges.ranges == [0..<3, 5..<10, 20..<30] && ranges.count == 18)
    ranges.remove(2..<25)
    #expect(ranges.ranges == [0..<2, 25..<30] && ranges.count == 7)
    ranges.remove(10..<20)
    ranges.remove(0..<(.max))
    #expect(ranges.isEmpty && ranges.count == 0)
  }

  @Test func partsAndGaps_makeTheRange() {
    let ranges = IndexRanges([2..<4, 6..<8])
    #expect(ranges.parts(of: 3..<7) == [3..<4, 6..<7] && ranges.gaps(in: 3..<7) == [4..<6])
    #expect(ranges.parts(of: 4..<6).isEmpty && ranges.gaps(in: 0..<10) == [0..<2, 4..<6, 8..<10])
    #expect(ranges.intersection(IndexRanges([0..<3, 7..<9])).ranges == [2..<3, 7..<8])
    #expect(ranges.subtracting(IndexRanges([3..<7])).ranges == [2..<3, 7..<8])
    #expect(ranges.overlaps(IndexRanges([3..<4])) && !ranges.overlaps(IndexRanges([4..<6, 8..<9])))
  }

  /// The same operations on a set that keeps each index.
  @Test func drawnOperations_agreeWithASet() {
    var state: UInt32 = 7
    func draw(_ bound: UInt32) -> UInt32 {
      state = state &* 1_664_525 &+ 1_013_904_223
      return (state >> 8) % bound
    }
    var (ranges, known): (IndexRanges, Set<UInt32>) = (IndexRanges(), [])
    for _ in 0..<2000 {
      let start = draw(60)
      let range = start..<(start + draw(12))
      if draw(2) == 0 {
        ranges.insert(range)
        known.formUnion(range)
      } else {
        ranges.remove(range)
        known.subtract(range)
      }
      #expect(ranges.sorted() == known.sorted() && ranges.count == known.count)
      #expect((0..<75).allSatisfy { ranges.contains($0) == known.contains($0) })
      #expect(IndexRanges(ascending: known.sorted()) == ranges)
    }
  }
}

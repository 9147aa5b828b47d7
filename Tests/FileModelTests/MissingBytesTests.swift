import FileModel
import Promises
import Testing

@Suite struct MissingBytesTests {
  @Test func placesThatTouchAreOne_inWhateverOrderTheyCome() {
    #expect(MissingBytes([20..<30, 0..<5, 5..<7, 25..<40])?.ranges == [0..<7, 20..<40])
    #expect(MissingBytes([]) == nil && MissingBytes([4..<4]) == nil)
  }

  @Test func whatAServerHasIsNotMissing() throws {
    var released = ReleasedChunks(chunkBytes: 10)
    for index in [1, 2, 5] { #expect(released.insert(index) == true) }
    #expect(MissingBytes([5..<60], besides: released)?.ranges == [5..<10, 30..<50])
    #expect(MissingBytes([12..<28], besides: released) == nil)
    #expect(MissingBytes([25..<31, 55..<70], besides: released)?.ranges == [30..<31, 60..<70])
  }

  @Test(.promises("S40p")) func noMoreThanTheFirstAreListed_andTheOthersCounted() {
    let missing = MissingBytes((0..<40).map { 10 * $0..<10 * $0 + 5 })
    #expect(missing?.ranges.count == MissingBytes.rangesMax && missing?.ranges.last == 310..<315)
    #expect(missing?.furtherRanges == 40 - MissingBytes.rangesMax)
  }
}

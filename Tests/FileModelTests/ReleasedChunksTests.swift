import FileModel
import Testing

@Suite struct ReleasedChunksTests {
  private func released(_ indices: [Int]) -> ReleasedChunks {
    var released = ReleasedChunks(chunkBytes: 10)
    for index in indices { #expect(released.insert(index) == true) }
    return released
  }

  @Test func neighboursBecomeOneRun_inWhateverOrderTheyCome() {
    #expect(released([1, 2, 3]).text == "10 1-3")
    #expect(released([3, 1, 2, 2]).text == "10 1-3")
    #expect(released([7, 1, 5, 6]).text == "10 1-1 5-7")
  }

  @Test func tooManySeparateRunsAreRefused() {
    var released = ReleasedChunks(chunkBytes: 10)
    for run in 0..<ReleasedChunks.runsMax { #expect(released.insert(run * 2) == true) }
    #expect(released.insert(ReleasedChunks.runsMax * 2) == false)
    #expect(released.insert(1) == true, "one that joins two needs no further run")
    #expect(released.insert(-1) == false)
    #expect(released.insert(.max) == false)
  }

  @Test(arguments: [(0..<10, false), (0..<11, true), (39..<45, true), (40..<50, false), (25..<25, false)])
  func whatIsMissing(range: Range<UInt64>, isMissing: Bool) {
    #expect(released([1, 2, 3]).intersects(range) == isMissing)
  }

  @Test(arguments: [
    (ContentExtent.bytes(5..<10), false), (.bytes(15..<16), true), (.blocks(30..<60), true), (.size(0), false),
    (.size(20), false), (.size(21), true), (.size(40), false), (.size(1000), false), (.size(1001), false),
  ])
  func mutationsThatNeedIt(extent: ContentExtent, isNeeded: Bool) {
    #expect(released([1, 2, 3]).isNeeded(for: extent) == isNeeded)
  }

  @Test(arguments: [(0, "10"), (10, "10"), (20, "10 1-1"), (40, "10 1-3"), (1000, "10 1-3 8-8"), (80, "10 1-3")])
  func whatIsCutOffIsNotMissing(sizeBytes: UInt64, text: String) {
    var released = released([1, 2, 3, 8])
    released.cut(at: sizeBytes)
    #expect(released.text == text)
  }

  @Test(arguments: [(1, "10 2-3 8-8"), (2, "10 1-1 3-3 8-8"), (8, "10 1-3"), (5, "10 1-3 8-8")])
  func whatIsThereAfterAllIsNotMissing(index: UInt64, text: String) {
    var released = released([1, 2, 3, 8])
    released.remove(index)
    #expect(released.text == text)
  }

  @Test(arguments: ["10", "10 1-3", "4194304 1-57 60-60 99-1000"])
  func textIsUnderstood(text: String) {
    #expect(ReleasedChunks(text)?.text == text)
  }

  /// A text with more runs would not be read, and the file be taken for whole.
  @Test func moreRunsThanAreKeptTrackOf_areNotMadeByRemoving() {
    var released = ReleasedChunks(chunkBytes: 10)
    for run in 0..<ReleasedChunks.runsMax {
      for chunk in 0..<3 {
        let isKnown = released.insert(run * 4 + chunk)
        #expect(isKnown)
      }
    }
    released.remove(1)
    #expect(released.runs.count == ReleasedChunks.runsMax && ReleasedChunks(released.text) == released)
    released.remove(0)
    #expect(released.runs.first == 1..<3)
  }

  @Test(arguments: [
    "", "x", "0 1-2", "-1", "33554433 0-0", "9223372036854775807 0-0", "10 1", "10 2-1", "10 1-2 2-3", "10 1-3 2-5",
    "10 1-99999999999", "10 a-b",
  ])
  func anotherTextIsNot(text: String) {
    #expect(ReleasedChunks(text) == nil)
  }
}

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

  private static func digest(_ byte: UInt8) -> [UInt8] { Array(repeating: byte, count: 32) }

  /// Chunks that held their own number.
  private func filled(_ indices: [Int]) -> ReleasedChunks {
    var released = ReleasedChunks(chunkBytes: 10)
    for index in indices {
      #expect(released.insert(index, digest: Self.digest(UInt8(truncatingIfNeeded: index))) == true)
    }
    return released
  }

  /// The same through a label's text, which is as long for many chunks as for few.
  private func read(_ released: ReleasedChunks, as text: String? = nil) throws -> ReleasedChunks {
    var read = try #require(ReleasedChunks(text ?? released.text))
    if let contents = released.contentsText { read.takeContents(contents) }
    return read
  }

  @Test func whatTheyHeldIsTold_fromAnythingElse() throws {
    let released = try read(filled([3, 1, 2, 8]))
    #expect(released.held { Self.digest(UInt8($0)) } == true)
    #expect(released.held { $0 == 2 ? Self.digest(9) : Self.digest(UInt8($0)) } == false)
    #expect(released.held { Self.digest([1: 2, 2: 1][$0] ?? UInt8($0)) } == false, "exchanged")
    #expect(released.held { $0 == 8 ? nil : Self.digest(UInt8($0)) } == false)
    #expect((filled(Array(1...2000)).contentsText?.utf8.count ?? .max) <= 33)
  }

  @Test func whatChangesKeepsWhatTheRestHeld_whereThatIsKnown() throws {
    var released = filled([1, 2, 3])
    released.remove(2, digest: Self.digest(2))
    #expect(released == filled([1, 3]))
    released.remove(3)
    #expect(released.held { Self.digest(UInt8($0)) } == nil)
    _ = released.insert(5, digest: Self.digest(5))
    #expect(released.contentsText == nil)
    released.cut(at: 0)
    _ = released.insert(5, digest: Self.digest(5))
    #expect(released == filled([5]))
    released.cut(at: 1000)
    #expect(released == filled([5]))
    #expect(filled([1]).withoutContents.contentsText == nil)
  }

  /// A version before this one has given up more, and left what it did not understand.
  @Test(arguments: ["10 1-4", "10 1-2", "20 1-3"]) func ofOtherChunksItSaysNothing(text: String) throws {
    #expect(try read(filled([1, 2, 3]), as: text).held { Self.digest(UInt8($0)) } == nil)
  }

  @Test(arguments: ["", " ", "x", "1", "1 2 3", "zz 0"]) func textsThatSayNothing(text: String) {
    var released = filled([1, 2, 3]).withoutContents
    released.takeContents(text)
    #expect(released.held { _ in nil } == nil)
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

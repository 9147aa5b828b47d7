import FileModel
import Promises
import Testing

struct RelativePathTests {
  @Test func componentsAndParentsFollowTheSlashes() {
    let path = RelativePath("a/b/c.mov")
    #expect(path.components.map { String(decoding: $0, as: UTF8.self) } == ["a", "b", "c.mov"])
    #expect(path.parent == RelativePath("a/b"))
    #expect(String(decoding: path.lastComponent, as: UTF8.self) == "c.mov")
    #expect(RelativePath("top").parent == .root)
    #expect(RelativePath.root.parent == .root)
    #expect(RelativePath.root.components.isEmpty)
    #expect(RelativePath.root.lastComponent.isEmpty)
  }

  @Test func appendingToTheRootAddsNoSlash() {
    #expect(RelativePath.root.appending(Array("a".utf8)) == RelativePath("a"))
    #expect(RelativePath("a").appending(Array("b".utf8)) == RelativePath("a/b"))
  }

  @Test func bytesThatAreNoTextStayWhatTheyAre() {
    let path = RelativePath(bytes: [0x61, 0xff, 0x0a])
    #expect(path.bytes == [0x61, 0xff, 0x0a])
    #expect(path.displayText == "a\u{fffd}\n")
    #expect(path != RelativePath(path.displayText))
  }

  @Test func orderIsThatOfTheBytes() {
    #expect(RelativePath("B") < RelativePath("a"))
    #expect(RelativePath("a") < RelativePath("a/b"))
    #expect(RelativePath(bytes: [0x7f]) < RelativePath(bytes: [0x80]))
  }
}

struct FileIDTests {
  @Test(arguments: [
    FileID(high: 0, low: 0), FileID(high: 1, low: .max),
    FileID(high: 0x0123_4567_89ab_cdef, low: 0xfedc_ba98_7654_3210),
  ])
  func descriptionIsReadBack(_ id: FileID) {
    #expect(id.description.utf8.count == 32)
    #expect(FileID(id.description) == id)
  }

  @Test(arguments: [
    "", "0", String(repeating: "0", count: 31), String(repeating: "0", count: 33), String(repeating: "g", count: 32),
    "+" + String(repeating: "0", count: 31),
    String(repeating: "0", count: 16) + "-" + String(repeating: "0", count: 15),
    String(repeating: "0", count: 16) + "+" + String(repeating: "0", count: 15),
  ])
  func otherTextIsRefused(_ text: String) {
    #expect(FileID(text) == nil)
  }

  @Test func identitiesComeFromTheGeneratorThatIsGiven() {
    struct Counting: RandomNumberGenerator {
      var next64: UInt64 = 0
      mutating func next() -> UInt64 {
        next64 += 1
        return next64
      }
    }
    var generator = Counting()
    #expect(FileID.random(using: &generator) == FileID(high: 1, low: 2))
    #expect(FileID.random(using: &generator) == FileID(high: 3, low: 4))
  }
}

struct FileSnapshotTests {
  @Test(.promises("S33a")) func settledMeansNoWriterNothingInFlightAndAName() {
    let settled = FileSnapshot(
      id: FileID(high: 0, low: 1), epoch: 3, sizeBytes: 1, modifiedNanoseconds: 0, mode: 0o600, inode: 9,
      names: [RelativePath("a")], writableOpens: 0, mutationsInFlight: 0)
    #expect(settled.isSettled)
    var other = settled
    other.writableOpens = 1
    #expect(!other.isSettled)
    other = settled
    other.mutationsInFlight = 1
    #expect(!other.isSettled)
    other = settled
    other.names = []
    #expect(!other.isSettled)
  }
}

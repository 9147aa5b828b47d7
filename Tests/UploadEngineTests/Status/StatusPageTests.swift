import FileModel
import SeededRandom
import Testing

@testable import UploadEngine

@Suite struct StatusPageTests {
  private func file(_ path: String, isLocal: Bool = true, size: UInt64 = 1) -> ListedFile {
    ListedFile(
      path: RelativePath(path), state: "queued", isLocal: isLocal, totalBytes: size, percent: 0, bytesPerSecond: 0,
      remark: "")
  }

  @Test func pageSaysWhatWasPutIn_whateverStandsInNames() throws {
    var page = StatusPage(after: FileID(high: 1, low: 2))
    page.files = [
      file("a\tb\n c.mov", size: .max), file("", isLocal: false),
      ListedFile(
        path: RelativePath(bytes: [0xff, 0x2f, 0x80]), state: "uploading", isLocal: true, totalBytes: 0, percent: 99,
        bytesPerSecond: 1_000_000, remark: "The server “waits”."),
    ]
    #expect(StatusPage(page.bytes) == page)
    #expect(StatusPage(StatusPage(after: nil).bytes) == StatusPage(after: nil))
  }

  @Test func whatIsNoWholePage_isNone() {
    var page = StatusPage(after: nil)
    page.files = [file("a.mov")]
    for count in 0..<page.bytes.count where count != StatusPage(after: nil).bytes.count {
      #expect(StatusPage(Array(page.bytes.prefix(count))) == nil, "\(count)")
    }
    #expect(StatusPage(Array("{\"schema\": 1}".utf8)) == nil && StatusPage(Array("uploadfs-files-2\0\0".utf8)) == nil)
    #expect(StatusPage(Array("uploadfs-files-1\0x\0".utf8)) == nil)
  }

  @Test func filesAreInTheOrderOfAWalkOverTheirDocuments() {
    let walked = ["a-b.mov", "a.mov", "z.mov", "day/a.mov", "day/1/a.mov", "day/2/a.mov", "day-1/a.mov"]
    #expect(ListedFile.inOrderOfNames(walked.reversed().map { file($0) }).map(\.path.displayText) == walked)
  }

  @Test func ofSeveralFilesOfOneName_theOneThatIsThereIsShown() {
    let gone = file("a.mov", isLocal: false), here = file("a.mov", size: 2)
    #expect(ListedFile.inOrderOfNames([gone, here]) == [here] && ListedFile.inOrderOfNames([here, gone]) == [here])
  }

  @Test func firstFilesAfterAnIdentity_areTheLowest() {
    var generator = SplitMix(seed: 7)
    var index = StatusIndex()
    let ids = (0..<5000).map { _ in FileID.random(using: &generator) }
    for (number, id) in ids.enumerated() { index.update(id, [RelativePath("\(number)")]) }
    let sorted = ids.sorted()
    for (start, count) in [(0, 1), (0, 700), (2500, 10), (4990, 100), (0, 5000), (0, 9000)] {
      let after = start == 0 ? StatusPage.first : sorted[start - 1]
      #expect(index.files(after: after, countMax: count) == Array(sorted[start...].prefix(count)), "\(start) \(count)")
    }
  }
}

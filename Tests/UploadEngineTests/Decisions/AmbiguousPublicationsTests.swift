import FileModel
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct AmbiguousPublicationsTests {
  private static let file = FileID(high: 0, low: 1)
  private static let other = FileID(high: 0, low: 2)
  private static let path = RelativePath("a.mov")
  private let start = MonotonicTime(nanoseconds: 0)

  /// A later try of one content takes the place of an earlier one; other contents keep their own time.
  @Test func eachContent_isExpectedOnce_untilItsTime() {
    var publications = AmbiguousPublications()
    #expect(!publications.mayCome(under: Self.path))
    publications.expect(Self.file, epoch: 1, under: Self.path, until: start + .seconds(1))
    publications.expect(Self.file, epoch: 1, under: Self.path, until: start + .seconds(3))
    #expect(publications.mayComeAlone(under: Self.path, Self.file, epoch: 1))
    #expect(!publications.mayComeAlone(under: Self.path, Self.file, epoch: 2))
    publications.expect(Self.other, epoch: 1, under: Self.path, until: start + .seconds(2))
    #expect(!publications.mayComeAlone(under: Self.path, Self.file, epoch: 1))
    publications.end(at: start + .seconds(2))
    #expect(publications.mayComeAlone(under: Self.path, Self.file, epoch: 1))
    publications.end(at: start + .seconds(3))
    #expect(!publications.mayCome(under: Self.path))
  }

  /// The time of an earlier run begins with the first of its files, and is the same for all.
  @Test func theEarlierRun_hasOneTime() {
    var publications = AmbiguousPublications()
    #expect(!publications.isEarlierRunInDoubt(at: start))
    #expect(publications.noteEarlierRun(patience: .seconds(5), at: start) == start + .seconds(5))
    #expect(publications.noteEarlierRun(patience: .seconds(5), at: start + .seconds(4)) == start + .seconds(5))
    #expect(publications.isEarlierRunInDoubt(at: start + .seconds(4)))
    #expect(!publications.isEarlierRunInDoubt(at: start + .seconds(5)))
  }
}

import FileModel
import Integrity
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// What the server says at an opening that it has published, where the catalog was lost.
@Suite struct PublishedAtServerTests {
  private let file: ImaginaryFile
  private let published: FormerPublication

  init() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    var file = ImaginaryFile(1, "a.mov", size: 3000)
    harness.write(file)
    harness.succeed()
    let receipt = try #require(harness.schedule.catalogEntry(of: file.id)?.receipt)
    let origin = PublicationOrigin(path: RelativePath("a.mov"), name: nil, modifiedNanoseconds: 5)
    published = FormerPublication(
      publication: EarlierPublication(
        fileID: file.id, merkleRoot: receipt.merkleRoot, sizeBytes: 3000, chunkBytes: receipt.chunkBytes,
        publishedAs: "a-2.mov"),
      origin: origin, name: "a.mov", publishedAtMilliseconds: 0)
    file.snapshot.wasFound = true
    self.file = file
  }

  /// A start with this catalog, and the server's answer to the opening.
  private func opened(
    _ catalog: [CatalogEntry] = [], _ change: (inout FileSnapshot) -> Void = { _ in },
    saying published: FormerPublication? = nil
  ) -> ScheduleHarness {
    var file = file
    change(&file.snapshot)
    var harness = ScheduleHarness(catalog: catalog)
    harness.handle(file.found)
    harness.handle(.scanEnded)
    harness.answer(
      .sessionOpened(
        id: "s", chunkBytes: ScheduleHarness.chunkBytes, expiresAtSeconds: nil, published: published ?? self.published)
    ) { $0.isOpenSession }
    return harness
  }

  private func isSent(_ harness: ScheduleHarness) -> Bool {
    harness.sent.contains { if case .chunk = $0.order { true } else { false } }
  }

  /// Regression: it was sent again, and published under a number.
  @Test(.promises("S80h"), arguments: [-1, 0, 1] as [Int64])
  func theSameContentIsComparedAndNotSent(timeDifference: Int64) {
    var harness = opened { $0.modifiedNanoseconds += timeDifference }
    harness.answerReads()
    #expect(!isSent(harness) && harness.state(file.id) != .complete, "it counts once it is recorded")
    harness.record()
    #expect(harness.state(file.id) == .complete && harness.buffers.isEmpty && !isSent(harness))
    let receipt = harness.schedule.catalogEntry(of: file.id)?.receipt
    #expect(receipt?.publishedAs == "a-2.mov" && receipt?.id.isEmpty == true)
  }

  @Test(.promises("S80h"), arguments: [(-1, false), (0, false), (1, true)] as [(Int64, Bool)])
  func anotherContentIsHeldUnlessItIsNewer(timeDifference: Int64, isSent: Bool) {
    // What is read has other digests.
    var harness = opened { ($0.modifiedNanoseconds, $0.epoch) = ($0.modifiedNanoseconds + timeDifference, 0) }
    harness.answerReads()
    harness.record()
    harness.answerReads()
    #expect(self.isSent(harness) == isSent)
    #expect((harness.status(file.id)?.lastFailure?.code == "older-than-delivered") == !isSent)
  }

  @Test(.promises("S80h"), arguments: [(-1, false), (1, true)] as [(Int64, Bool)])
  func anotherSizeIsHeldUnlessItIsNewer(timeDifference: Int64, isSent: Bool) {
    var harness = opened { ($0.modifiedNanoseconds, $0.sizeBytes) = ($0.modifiedNanoseconds + timeDifference, 2000) }
    harness.answerReads()
    #expect(self.isSent(harness) == isSent)
    #expect((harness.status(file.id)?.lastFailure?.code == "older-than-delivered") == !isSent)
  }

  /// A later content that was still to go is not what the server has, whatever its time.
  @Test(.promises("S80h"))
  func aLaterContentThatTheCatalogKnowsIsSent() {
    let known = CatalogEntry(
      id: file.id, path: RelativePath("a.mov"), inode: 1, sizeBytes: 3000, modifiedNanoseconds: 4, revision: 2,
      state: .pending, session: "")
    var harness = opened([known]) { ($0.modifiedNanoseconds, $0.epoch) = (4, 0) }
    harness.answerReads()
    #expect(isSent(harness))
  }

  @Test(.promises("S80h"))
  func anAnswerForAnotherCaptureOrNameSaysNothing() {
    let other = FormerPublication(
      publication: EarlierPublication(
        fileID: FileID(high: 0, low: 77), merkleRoot: published.publication.merkleRoot, sizeBytes: 3000,
        chunkBytes: published.publication.chunkBytes),
      origin: published.origin, name: "a.mov", publishedAtMilliseconds: 0)
    let elsewhere = FormerPublication(
      publication: published.publication,
      origin: PublicationOrigin(path: RelativePath("b.mov"), name: nil, modifiedNanoseconds: 5), name: "b.mov",
      publishedAtMilliseconds: 0)
    for answer in [other, elsewhere] {
      var harness = opened(saying: answer)
      harness.answerReads()
      #expect(isSent(harness))
    }
  }
}

import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// What is published of one file.
@Suite struct FilePublicationTests {
  private static let names = [RelativePath("a.mov"), RelativePath("b.mov")]

  private func receipt(chunkBytes: Int?, sizeBytes: UInt64 = 10_000) -> Receipt {
    var receipt = Receipt(
      id: "r", name: "a.mov", sizeBytes: sizeBytes, merkleRoot: "", chainTip: "", publishedAtMilliseconds: 5)
    receipt.chunkBytes = chunkBytes
    return receipt
  }

  private func delivered(chunkBytes: Int? = 1000) -> FilePublication {
    var publication = FilePublication()
    publication.succeed(receipt(chunkBytes: chunkBytes), under: Self.names[0])
    publication.complete(at: 70, keptSince: 7)
    return publication
  }

  @Test func aNameThatIsLost_showsTheContentNoLonger() {
    var publication = delivered()
    publication.succeed(receipt(chunkBytes: 1000), under: Self.names[1])
    #expect(publication.paths == Self.names)
    publication.keep([Self.names[1]])
    #expect(publication.paths == [Self.names[1]] && publication.receipt != nil)
  }

  @Test func contentThatWillChange_leavesTheTimeOfItsDelivery_andStays() {
    var publication = delivered()
    let known = publication
    publication.contentWillChange()
    #expect(publication.receipt == nil && publication.paths.isEmpty && publication.deliveredAt == 7)
    publication.contentStays(known.receipt, under: known.paths)
    #expect(publication.receipt == known.receipt && publication.paths == known.paths)
  }

  @Test func changedContent_keepsTheLengthOfChunksAlone() {
    var publication = delivered()
    publication.contentChanged()
    #expect(publication.receipt == nil && publication.completedAt == nil && publication.keptSince == nil)
    #expect(publication.chunkBytes == 1000)
    publication.contentChanged()
    #expect(publication.chunkBytes == 1000, "the latest delivery")
  }

  @Test func oneRequest_hasNoLengthOfChunks() {
    #expect(delivered(chunkBytes: 10_000).chunkBytes == 0 && delivered(chunkBytes: nil).chunkBytes == 0)
    #expect(FilePublication().chunkBytes == 0 && FilePublication().deliveredAt == 0)
  }

  @Test func whatIsDeliveredAgain_hasNeitherReceiptNorTimes() {
    var publication = delivered()
    publication.restart()
    #expect(publication.receipt == nil && publication.paths.isEmpty)
    #expect(publication.completedAt == nil && publication.keptSince == nil)
  }
}

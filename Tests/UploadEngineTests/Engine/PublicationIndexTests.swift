import FileModel
import Integrity
import Promises
import Testing

@testable import UploadEngine

@Suite struct PublicationIndexTests {
  private let folder: ScratchFolder
  private let catalog: Catalog
  private let index: PublicationIndex

  init() throws {
    folder = try ScratchFolder()
    catalog = try Catalog(path: folder("catalog.sqlite"))
    index = PublicationIndex(catalog: catalog)
  }

  private static func publication(_ number: UInt64, publishedAs: String? = nil) -> EarlierPublication {
    EarlierPublication(
      fileID: FileID(high: 1, low: number), merkleRoot: Hex.encode(sha256([UInt8(number)])), sizeBytes: number,
      chunkBytes: 4096, publishedAs: publishedAs)
  }

  private static func receipt(of publication: EarlierPublication, named name: String) -> StepOutcome {
    .published(
      Receipt(
        id: "r", name: name, sizeBytes: publication.sizeBytes, merkleRoot: publication.merkleRoot, chainTip: "",
        publishedAtMilliseconds: 0, publishedAs: publication.publishedAs, fileID: publication.fileID))
  }

  private func publish(_ number: UInt64, named name: String = "a", publishedAs: String? = nil) {
    let publication = Self.publication(number, publishedAs: publishedAs)
    let request = HTTPRequestID(number)
    index.begins(request, [(name, Self.publication(number))])
    index.ended(request, Self.receipt(of: publication, named: name))
  }

  @Test(.promises("DE138a")) func whatNobodyPublishedHere_mayReplaceNothing() throws {
    #expect(try index.right(to: "a", .number) == NameRight(ifExists: .number))
  }

  @Test(.promises("DE138a", "DE138c")) func theLastPublicationOfAName_isKnown_alsoAfterARestart() throws {
    publish(1)
    publish(2, publishedAs: "a-2")
    publish(3, named: "b")
    let wanted = NameRight(ifExists: .refuse, replaces: [Self.publication(2, publishedAs: "a-2")], publishedAs: "a-2")
    #expect(try index.right(to: "a", .refuse) == wanted)
    try catalog.write([], removing: [], publications: index.unsaved())
    index.saved(index.unsaved())
    #expect(index.unsaved().isEmpty)
    #expect(try index.right(to: "a", .refuse) == wanted)
    catalog.close()
    let next = PublicationIndex(catalog: try Catalog(path: folder("catalog.sqlite")))
    #expect(try next.right(to: "a", .refuse) == wanted)
  }

  @Test(.promises("DE138a")) func aNewerPublicationIsNotForgotten_withTheOneThatWasSaved() throws {
    publish(1)
    let saved = index.unsaved()
    publish(2)
    index.saved(saved)
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(2)])
  }

  @Test(.promises("DE138a")) func ofTwoAnswersThatCross_theLaterRequestsCounts() throws {
    index.begins(HTTPRequestID(1), [("a", Self.publication(1))])
    index.begins(HTTPRequestID(2), [("a", Self.publication(2))])
    index.ended(HTTPRequestID(2), Self.receipt(of: Self.publication(2), named: "a"))
    index.ended(HTTPRequestID(1), Self.receipt(of: Self.publication(1), named: "a"))
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(2)])
  }

  @Test(.promises("DE138a"), arguments: [StepFailure.Kind.transport(.connectionLost), .serverError, .conflict])
  func whatMayHaveBeenPublished_mayBeReplaced(failure: StepFailure.Kind) throws {
    index.begins(HTTPRequestID(1), [("a", Self.publication(1)), ("b", Self.publication(2))])
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(1)])
    index.ended(HTTPRequestID(1), .each([.refused(StepFailure(failure, "")), .refused(StepFailure(.nameRefused, ""))]))
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(1)])
    #expect(try index.right(to: "b", .number).replaces == [])
    publish(3)
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(3)])
  }

  @Test(.promises("DE138a")) func aSessionThatWasAskedFor_tellsWhatItPublished() throws {
    index.ended(HTTPRequestID(1), Self.receipt(of: Self.publication(1), named: "a"))
    var known = Self.publication(1)
    known.chunkBytes = nil
    #expect(try index.right(to: "a", .number).replaces == [known])
  }

  @Test(.promises("DE138b", "DE138d")) func withoutTheRecord_whatIsNumberedGoesOn_andWhatIsRefusedWaits() throws {
    publish(1)
    catalog.close()
    #expect(try index.right(to: "a", .number).replaces == [Self.publication(1)])
    #expect(try index.right(to: "b", .number) == NameRight(ifExists: .number))
    #expect(throws: StorageError.self) { try index.right(to: "b", .refuse) }
    #expect(try index.right(to: "a", .replace) == NameRight(ifExists: .replace))
  }

  @Test(.promises("DE138a")) func namesAreComparedByTheirBytes() throws {
    publish(1, named: "é")
    #expect(try index.right(to: "e\u{301}", .number).replaces.isEmpty)
    try catalog.write([], removing: [], publications: index.unsaved())
    index.saved(index.unsaved())
    #expect(try index.right(to: "e\u{301}", .number).replaces.isEmpty)
    #expect(try !index.right(to: "é", .number).replaces.isEmpty)
  }
}

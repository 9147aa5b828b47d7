import ChunkProtocol
import Integrity
import Promises
import Testing

@testable import ReceiverCore

/// Which files a publication may replace, as a decision.
@Suite struct NameRightsTests {
  private func claim(_ fileID: String, root: UInt8 = 1, size: UInt64 = 10, chunkBytes: UInt32? = 4) -> PublicationClaim
  {
    PublicationClaim(fileID: fileID, merkleRoot: sha256([root]), sizeBytes: size, chunkBytes: chunkBytes)
  }

  private func rights(_ fileID: String?, root: UInt8 = 9, owning ownership: NameOwnership?) -> NameRights {
    NameRights(
      Publication(
        receipt: PublicationReceipt(
          id: "r", name: "a", sizeBytes: 20, merkleRoot: sha256([root]), chainTip: sha256([]), publishedAt: 0,
          fileID: fileID),
        credential: CredentialID("c"), modifiedNanoseconds: 0, mode: 0, ifExists: .replace, chunkBytes: 4,
        ownership: ownership))
  }

  private func file(_ fileID: String?, root: UInt8 = 1, size: UInt64 = 10, at time: Int64 = 7) -> NameRights.Holder {
    guard let fileID else { return .init(words: .nothing, sizeBytes: size, modifiedNanoseconds: time) }
    let mark = PublicationMark(
      fileID: fileID, merkleRoot: sha256([root]), chunkBytes: 4, sizeBytes: 10, modifiedNanoseconds: 7)
    return .init(words: .mark(mark), sizeBytes: size, modifiedNanoseconds: time)
  }

  private func isNo(_ answer: NameRights.Answer) -> Bool {
    if case .no = answer { true } else { false }
  }

  @Test(.promises("P108")) func fileThatSaysWhatItIs_givesWayToThoseThatNameIt() {
    let rights = rights("b", owning: NameOwnership(ifTaken: .number, replaces: [claim("a"), claim("c", root: 2)]))
    #expect(rights.answer(to: file("a")) == .yes)
    #expect(rights.answer(to: file("c", root: 2)) == .yes)
    // The request's own; another content, and another capture with the same content.
    #expect(rights.answer(to: file("b", root: 9)) == .yes)
    #expect(rights.answer(to: file("a", root: 2)) == .no("it is the capture a"))
    #expect(rights.answer(to: file("d")) == .no("it is the capture d"))
    #expect(rights.answer(to: file("x\n\u{9b}1m")) == .no("it is the capture x\\n\\u{009B}1m"))
    #expect(
      rights.answer(to: file("b", root: 2)) == .no("it is a content of this capture that its client does not name"))
    // Changed since.
    #expect(isNo(rights.answer(to: file("a", size: 11))))
    #expect(isNo(rights.answer(to: file("a", at: 8))))
  }

  @Test(.promises("P108")) func fileThatSaysNothing_isReadOnlyWhereItMayBeOneThatIsNamed() {
    let claims = [
      claim("a"), claim("b", size: 11), claim("c", chunkBytes: nil), claim("d", root: 2, chunkBytes: 1 << 20),
    ]
    let rights = rights("e", owning: NameOwnership(ifTaken: .number, replaces: claims))
    #expect(
      rights.answer(to: file(nil)) == .ifContent(isOf: [claims[0], claims[3]], otherwise: NameRights.unknown))
    #expect(rights.answer(to: file(nil, size: 12)) == .no(NameRights.unknown))
    // The one that is asked for.
    #expect(
      rights.answer(to: file(nil, size: 20))
        == .ifContent(isOf: [claim("e", root: 9, size: 20)], otherwise: NameRights.unknown))
    let unreadable = NameRights.Holder(words: .unreadable, sizeBytes: 11, modifiedNanoseconds: 0)
    #expect(rights.answer(to: unreadable) == .ifContent(isOf: [claims[1]], otherwise: NameRights.unknown))
  }

  /// Regression: the same content, which a spool without its records sent in chunks of another length, got a number.
  @Test(.promises("P108")) func fileOfTheSameCapture_inChunksOfAnotherLength_isRead() {
    let other = claim("a", root: 2, chunkBytes: 8)
    let rights = rights("e", owning: NameOwnership(ifTaken: .number, replaces: [other]))
    let words = "it is the capture a"
    #expect(rights.answer(to: file("a")) == .ifContent(isOf: [other], otherwise: words))
    // Of another capture, of another size, changed since; and where only the content can differ.
    #expect(rights.answer(to: file("b")) == .no("it is the capture b"))
    #expect(isNo(rights.answer(to: file("a", size: 11))))
    #expect(rights.answer(to: file("a", at: 8)) == .no(words))
    let same = self.rights("e", owning: NameOwnership(ifTaken: .number, replaces: [claim("a", root: 2)]))
    #expect(same.answer(to: file("a")) == .no(words))
  }

  @Test(.promises("P112")) func olderClient_ownsItsCapture_andWhatSaysNothing() {
    let older = rights("a", owning: nil)
    #expect(older.replacesWhatIsNoFile)
    #expect(older.answer(to: file(nil)) == .yes)
    #expect(older.answer(to: file("a", root: 7)) == .yes)
    #expect(older.answer(to: file("b")) == .no("it is the capture b"))
    #expect(isNo(older.answer(to: .init(words: .unreadable, sizeBytes: 1, modifiedNanoseconds: 0))))
    #expect(rights(nil, owning: nil).answer(to: file("b")) == .no("it is the capture b"))
  }

  @Test(.promises("P109")) func whereItIsToReplace_anythingGivesWay_andItIsSaidWhoseItWas() {
    let rights = rights("a", owning: NameOwnership(ifTaken: .replace, replaces: [claim("a", size: 11)]))
    #expect(rights.replacesWhatIsNoFile)
    #expect(rights.answer(to: file("b")) == .taken(from: "it is the capture b"))
    for words in [PublicationMark.Found.nothing, .unreadable] {
      let holder = NameRights.Holder(words: words, sizeBytes: 1, modifiedNanoseconds: 0)
      #expect(rights.answer(to: holder) == .taken(from: NameRights.unknown))
    }
    // Its own, and what may be that.
    for root: UInt8 in [2, 9] { #expect(rights.answer(to: file("a", root: root)) == .yes) }
    #expect(rights.answer(to: file(nil, size: 11)) == .yes)
    #expect(rights.answer(to: file("a", root: 2, at: 8)) != .yes)
    #expect(!self.rights("a", owning: NameOwnership(ifTaken: .number)).replacesWhatIsNoFile)
  }

  @Test("A claim asks for no work without a bound") func chunksThatNoFileHas_areNotCounted() {
    let size: UInt64 = 200_001
    let rights = rights(
      nil, owning: NameOwnership(ifTaken: .number, replaces: [claim("a", size: size, chunkBytes: 1)]))
    #expect(rights.answer(to: file(nil, size: size)) == .no(NameRights.unknown))
    #expect(rights.answer(to: file(nil, size: size - 1)) == .no(NameRights.unknown))
    // An empty file has one root, whatever its chunks are.
    let empty = self.rights(
      nil, owning: NameOwnership(ifTaken: .number, replaces: [claim("a", size: 0, chunkBytes: nil)]))
    #expect(
      empty.answer(to: file(nil, size: 0))
        == .ifContent(isOf: [claim("a", size: 0, chunkBytes: nil)], otherwise: NameRights.unknown))
  }
}

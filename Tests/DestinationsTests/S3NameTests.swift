import FileModel
import Integrity
import Promises
import Testing
import TransferModel

@testable import Destinations

/// Whose a key is: what others have there is never replaced, at servers of every kind.
@Suite struct S3NameTests {
  private let bucket = FakeBucket()

  private static func destination(_ change: (inout S3Options) -> Void = { _ in }) throws -> S3Destination {
    try S3Fixture.destination("s3+https://s3.example.org:9000/captures", change)
  }

  private static func sending(
    _ path: String = "a.mov", _ content: [UInt8] = [1, 2], nonce: UInt8 = 1,
    _ right: NameRight = NameRight(ifExists: .number)
  ) -> WholeFileSending {
    var sending = Fixture.wholeFile(content, path: path)
    sending.nonce = [nonce]
    sending.right = right
    return sending
  }

  private func send(_ sending: WholeFileSending, at destination: S3Destination) throws -> Receipt {
    let outcome = bucket.run(.wholeFile(sending), at: destination)
    guard case .published(let receipt) = outcome else { throw Unpublished(outcome: outcome) }
    return receipt
  }

  private struct Unpublished: Error {
    var outcome: StepOutcome
  }

  private func earlier(_ sending: WholeFileSending, _ receipt: Receipt) -> NameRight {
    var publication = EarlierPublication.of(sending)
    (publication.receiptID, publication.publishedAs) = (receipt.id, receipt.publishedAs)
    return NameRight(ifExists: .number, replaces: [publication], publishedAs: receipt.publishedAs)
  }

  // MARK: - Whole files

  /// What it costs: a small file goes in one request, and the name is asked for only where it is taken.
  @Test(.promises("DE26c")) func aSmallFile_isOneRequest_onceTheServerIsKnownToKeepConditions() throws {
    let destination = try Self.destination()
    bucket.put("c")
    #expect(try send(Self.sending("a"), at: destination).publishedAs == nil)
    #expect(bucket.requests == ["HEAD a", "if-none-match PUT a", "if-none-match PUT a"])
    _ = try send(Self.sending("b", nonce: 2), at: destination)
    #expect(bucket.requests == ["if-none-match PUT b"])
    let receipt = try send(Self.sending("c", nonce: 3), at: destination)
    #expect(bucket.requests == ["if-none-match PUT c", "HEAD c", "HEAD c-2", "if-none-match PUT c-2"])
    #expect(receipt.name == "c" && receipt.publishedAs == "c-2" && bucket.objects["c"]?.bytes == 3)
  }

  @Test(.promises("DE26c")) func amazonKeepsConditions_andIsNotTried() throws {
    let destination = try S3Fixture.destination("s3+https://s3.eu-west-1.amazonaws.com/captures") { $0.style = .path }
    _ = try send(Self.sending("a"), at: destination)
    #expect(bucket.requests == ["if-none-match PUT a"])
  }

  /// Regression: the object of another machine was replaced where the server ignores conditions.
  @Test(.promises("DE26d"), arguments: [FakeBucket.Conditions.ignored, .refused])
  func aServerThatKeepsNoConditions_isAskedBeforeEachFile(conditions: FakeBucket.Conditions) throws {
    let destination = try Self.destination()
    bucket.conditions = conditions
    bucket.put("b")
    let known = bucket.objects["b"]
    _ = try send(Self.sending("a"), at: destination)
    for nonce in 2...3 as ClosedRange<UInt8> {
      let receipt = try send(Self.sending("b", nonce: nonce), at: destination)
      #expect(receipt.publishedAs == "b-\(nonce)" && bucket.objects["b"] == known)
    }
    #expect(!bucket.requests.contains { $0.hasSuffix("PUT b") || $0.hasSuffix("PUT b-2") })
    #expect(bucket.requests.filter { $0.contains("PUT") }.count == 1)
  }

  /// Regression: where the trial behind a publication did not reach the server, the file counted as unsent. It was sent again, and got
  /// a number.
  @Test(.promises("DE26d")) func whatWasPublished_isSo_whenItsTrialHasNoAnswer() throws {
    let outcome = bucket.run(.wholeFile(Self.sending("a")), at: try Self.destination(), answersMax: 2)
    #expect(bucket.requests == ["HEAD a", "if-none-match PUT a"])
    guard case .published(let receipt) = outcome else { throw Unpublished(outcome: outcome) }
    #expect(receipt.name == "a" && receipt.publishedAs == nil)
  }

  /// A key that cannot be looked at says nothing, and what was refused may have been published all the same.
  @Test(.promises("DE26d")) func whatMayHaveBeenPublished_isNotCalledUnsent_whenNoProbeIsAllowed() throws {
    let destination = try Self.destination()
    let step = DestinationStep.wholeFile(Self.sending("a"))
    let lost = TransportError(.connectFailed, "lost")
    let answers = [Fixture.answer(404), S3Fixture.error(412, "PreconditionFailed")]
    guard case .refused(let failure) = destination.outcome(of: step, lost: lost, after: answers),
      case .refused(let unsent) = destination.outcome(of: step, lost: lost, after: Array(answers[..<1]))
    else { throw Unpublished(outcome: destination.outcome(of: step, lost: lost, after: answers)) }
    #expect(failure.kind == .transport(.connectionLost) && unsent.kind == .transport(.connectFailed))
  }

  @Test(.promises("DE26e")) func withoutAProbe_theConditionAlonePublishes() throws {
    let destination = try Self.destination()
    bucket.mayLook = false
    bucket.put("a.mov")
    #expect(try send(Self.sending(), at: destination).publishedAs == "a-2.mov")
    #expect(try send(Self.sending(nonce: 2), at: destination).publishedAs == "a-3.mov")
    #expect(bucket.objects["a.mov"]?.bytes == 3)
  }

  @Test(.promises("DE25", "DE26c"), arguments: [FakeBucket.Conditions.kept, .ignored, .refused])
  func whatThisSpoolHasPublished_isReplaced(conditions: FakeBucket.Conditions) throws {
    let destination = try Self.destination()
    bucket.conditions = conditions
    bucket.put("a.mov")
    let first = Self.sending()
    let numbered = try send(first, at: destination)
    #expect(numbered.publishedAs == "a-2.mov")
    var later = Self.sending("a.mov", [7, 8, 9], nonce: 2, earlier(first, numbered))
    let again = try send(later, at: destination)
    #expect(again.publishedAs == "a-2.mov" && bucket.objects["a-2.mov"]?.bytes == 3)
    #expect(bucket.objects.count == 2)
    // Another one has taken its place since.
    bucket.put("a-2.mov", bytes: 77)
    later = Self.sending("a.mov", [5], nonce: 3, earlier(later, again))
    #expect(try send(later, at: destination).publishedAs == "a-3.mov")
    #expect(bucket.objects["a-2.mov"]?.bytes == 77)
  }

  @Test(.promises("DE25")) func whatHasChangedSinceTheLook_isLookedAtAgain() throws {
    let destination = try Self.destination()
    let first = Self.sending()
    let receipt = try send(first, at: destination)
    bucket.meanwhile = { [bucket] in bucket.put("a.mov", bytes: 77) }
    let later = Self.sending("a.mov", [7], nonce: 2, earlier(first, receipt))
    #expect(try send(later, at: destination).publishedAs == "a-2.mov")
    #expect(
      bucket.requests == [
        "HEAD a.mov", "if-match PUT a.mov", "HEAD a.mov", "HEAD a-2.mov", "if-none-match PUT a-2.mov",
      ])
    #expect(bucket.objects["a.mov"]?.bytes == 77)
    // Its own was taken away.
    bucket.objects["a-2.mov"] = nil
    let last = Self.sending("a.mov", [8], nonce: 3, NameRight(ifExists: .number, publishedAs: "a-2.mov"))
    #expect(try send(last, at: destination).publishedAs == "a-2.mov")
  }

  /// A copy of the spool knows the capture, and another content of it.
  @Test(.promises("DE25")) func theCaptureAloneIsNoProof() throws {
    let destination = try Self.destination()
    let common = Self.sending("a.mov", [1], nonce: 1)
    let right = earlier(common, try send(common, at: destination))
    _ = try send(Self.sending("a.mov", [2], nonce: 2, right), at: destination)
    #expect(try send(Self.sending("a.mov", [3], nonce: 3, right), at: destination).publishedAs == "a-2.mov")
    // What older versions published is known by its receipt or its digest.
    var old = EarlierPublication.of(Self.sending("old", [4], nonce: 4))
    _ = try send(Self.sending("old", [4], nonce: 4), at: destination)
    old.nonce = nil
    let receipt = try send(
      Self.sending("old", [5], nonce: 5, NameRight(ifExists: .number, replaces: [old])), at: destination)
    #expect(receipt.publishedAs == nil)
  }

  /// Regression: what a spool had delivered whose record was lost went a second time, under a number.
  @Test(.promises("DE26h"), arguments: ["a.mov", "b.mov"]) func whatLiesThereAlready_isNotSentAgain(name: String) throws
  {
    bucket.put("b.mov")
    let first = try send(Self.sending(name, [1], nonce: 1), at: try Self.destination())
    let again = try send(Self.sending(name, [1], nonce: 2), at: try Self.destination())
    #expect(again.id == first.id && again.publishedAs == (name == "b.mov" ? "b-2.mov" : nil))
    #expect(bucket.requests.allSatisfy { $0.hasPrefix("HEAD ") } && bucket.objects.count == 2)
    // Another capture with the same bytes is another one.
    var other = Self.sending(name, [1], nonce: 3)
    other.fileID = FileID(high: 9, low: 9)
    #expect(try send(other, at: try Self.destination()).publishedAs != again.publishedAs)
  }

  @Test(.promises("DE37")) func aLostAnswer_isFoundUnderItsNumber() throws {
    let destination = try Self.destination()
    bucket.put("a.mov")
    let sending = Self.sending()
    _ = bucket.run(.wholeFile(sending), at: destination, losesAnswer: true)
    #expect(try send(sending, at: destination).publishedAs == "a-2.mov")
    #expect(bucket.requests == ["HEAD a.mov", "HEAD a-2.mov"] && bucket.objects.count == 2)
  }

  @Test(.promises("DE26a")) func refuse_failsForOthers_andReplacesItsOwn() throws {
    let destination = try Self.destination { $0.ifExists = .refuse }
    bucket.put("a.mov")
    let refused = bucket.run(
      .wholeFile(Self.sending("a.mov", [1], nonce: 1, NameRight(ifExists: .refuse))), at: destination)
    #expect(refused.failure?.kind == .nameRefused && bucket.requests == ["HEAD a.mov"])
    let first = Self.sending("b", [1], nonce: 2, NameRight(ifExists: .refuse))
    var right = earlier(first, try send(first, at: destination))
    right.ifExists = .refuse
    #expect(try send(Self.sending("b", [2], nonce: 3, right), at: destination).publishedAs == nil)
  }

  @Test(.promises("DE26a")) func replace_asksForNothing() throws {
    let destination = try Self.destination { $0.ifExists = .replace }
    bucket.put("a.mov")
    _ = try send(Self.sending("a.mov", [1], nonce: 1, NameRight(ifExists: .replace)), at: destination)
    #expect(bucket.requests == ["PUT a.mov"] && bucket.objects["a.mov"]?.bytes == 1)
  }

  /// Regression: each capture of a name asked for all numbers before it.
  @Test(.promises("DE26f")) func manyCapturesOfOneName_costFewQuestions() throws {
    let destination = try Self.destination()
    for number in 1...5000 { bucket.put(number == 1 ? "a.mov" : "a-\(number).mov") }
    #expect(try send(Self.sending(), at: destination).publishedAs == "a-5001.mov")
    #expect(bucket.requests.count < 60)
    #expect(try send(Self.sending(nonce: 2), at: destination).publishedAs == "a-5002.mov")
    #expect(bucket.requests.count == 4)
  }

  /// A key and the keys below it do not exclude each other.
  @Test(.promises("DE26g")) func aNameAndWhatSeemsToLieInIt_areTwoKeys() throws {
    let destination = try Self.destination()
    for (index, path) in ["a", "a/b", "a/b/c"].enumerated() {
      #expect(try send(Self.sending(path, nonce: UInt8(index)), at: destination).publishedAs == nil)
    }
    #expect(bucket.objects.keys.sorted() == ["a", "a/b", "a/b/c"])
  }

  // MARK: - Uploads

  private func open(_ right: NameRight, nonce: UInt8 = 1, at destination: S3Destination) throws -> SessionCommit {
    var opening = Fixture.opening(path: "a.mov")
    (opening.right, opening.nonce) = (right, [nonce])
    let outcome = bucket.run(.openSession(opening), at: destination)
    guard case .sessionOpened(let id, _, _, _, _, _) = outcome else { throw Unpublished(outcome: outcome) }
    var commit = S3Fixture.commit(of: SessionIdentity(id: id, nonce: [nonce]))
    (commit.right, commit.fileID) = (right, opening.fileID)
    return commit
  }

  @Test(.promises("DE26c")) func anUpload_isBegunUnderTheNameThatIsFree() throws {
    let destination = try Self.destination()
    bucket.put("a.mov")
    let commit = try open(NameRight(ifExists: .number), at: destination)
    #expect(bucket.requests == ["HEAD a.mov", "HEAD a-2.mov", "POST a-2.mov"])
    // Another capture of that name does not wait for the first one's end.
    #expect(try open(NameRight(ifExists: .number), nonce: 2, at: destination).session.id.hasPrefix("a-3.mov?"))
    guard case .published(let receipt) = bucket.run(.commit(commit), at: destination) else {
      Issue.record("not published")
      return
    }
    #expect(receipt.name == "a.mov" && receipt.publishedAs == "a-2.mov")
    var publication = EarlierPublication.of(commit)
    publication.publishedAs = "a-2.mov"
    let right = NameRight(ifExists: .number, replaces: [publication], publishedAs: "a-2.mov")
    let next = try open(right, nonce: 3, at: destination)
    #expect(bucket.requests == ["HEAD a-2.mov", "POST a-2.mov"])
    _ = bucket.run(.commit(next), at: destination)
    #expect(bucket.requests == ["HEAD a-2.mov", "if-match POST a-2.mov"])
  }

  @Test(.promises("DE26c", "DE26d"), arguments: [FakeBucket.Conditions.kept, .ignoredAtCompletion, .refused])
  func aNameThatIsTakenMeanwhile_isLeft_andTheUploadBeginsAnew(conditions: FakeBucket.Conditions) throws {
    let destination = try Self.destination()
    bucket.conditions = conditions
    let commit = try open(NameRight(ifExists: .number), at: destination)
    bucket.put("a.mov")
    let known = bucket.objects["a.mov"]
    let failure = try #require(bucket.run(.commit(commit), at: destination).failure)
    #expect(failure.kind == .nameTaken && failure.message.contains("a.mov") && failure.message.contains("next number"))
    #expect(bucket.objects["a.mov"] == known)
    let again = try open(NameRight(ifExists: .number), nonce: 2, at: destination)
    guard case .published(let receipt) = bucket.run(.commit(again), at: destination) else {
      Issue.record("not published")
      return
    }
    #expect(receipt.publishedAs == "a-2.mov")
  }

  @Test(.promises("DE26c")) func aNameThatIsTakenInTheLastMoment_isLeft_whereConditionsAreKept() throws {
    let destination = try Self.destination()
    let commit = try open(NameRight(ifExists: .number), at: destination)
    bucket.meanwhile = { [bucket] in bucket.put("a.mov", bytes: 77) }
    #expect(bucket.run(.commit(commit), at: destination).failure?.kind == .nameTaken)
    #expect(bucket.requests == ["HEAD a.mov", "if-none-match POST a.mov", "HEAD a.mov"])
    #expect(bucket.objects["a.mov"]?.bytes == 77)
    // It is known now that the condition is kept.
    let again = try open(NameRight(ifExists: .number), nonce: 2, at: destination)
    _ = bucket.run(.commit(again), at: destination)
    #expect(bucket.requests == ["if-none-match POST a-2.mov"])
  }

  @Test(.promises("DE37")) func aCompletionWithoutAnAnswer_isFoundAgain() throws {
    let destination = try Self.destination()
    bucket.put("a.mov")
    let commit = try open(NameRight(ifExists: .number), at: destination)
    _ = bucket.run(.commit(commit), at: destination, losesAnswer: true)
    guard case .published(let receipt) = bucket.run(.commit(commit), at: destination) else {
      Issue.record("not published")
      return
    }
    #expect(receipt.publishedAs == "a-2.mov")
  }

  @Test(.promises("DE26e")) func anUploadOfOneWhoMayNotLook_goesUnderTheConditionAlone() throws {
    let destination = try Self.destination()
    bucket.mayLook = false
    let commit = try open(NameRight(ifExists: .number), at: destination)
    guard case .published = bucket.run(.commit(commit), at: destination) else {
      Issue.record("not published")
      return
    }
    #expect(bucket.requests == ["HEAD a.mov", "if-none-match POST a.mov"])
  }
}

import CLinux
import ChunkProtocol
import Dispatch
import Glibc
import Integrity
import Lookup
import Promises
import Synchronization
import Testing

@testable import ReceiverCore
@testable import UploadReceiver

/// Whose a published name is, and who gets it: on real folders, with the store that the receiver has.
@Suite struct NameOwnerTests {
  private let folder: TemporaryFolder
  private let credential = CredentialID("c0ffee")
  /// Publishes in the same folder.
  private let other = CredentialID("other")

  init() throws {
    folder = try TemporaryFolder()
  }

  private func makeStore(
    mayPass: @escaping @Sendable (StoreStep) -> Bool = { _ in true }, beforeSync: @escaping BeforeSync = { _ in }
  ) throws -> FileStore {
    try FileStore(
      root: folder.path, publishing: [credential: "\(folder.path)/files", other: "\(folder.path)/files"],
      mayPass: mayPass, beforeSync: beforeSync)
  }

  private static let chunkBytes = 4
  private let receipts = Counter()

  private final class Counter: Sendable {
    private let value = Atomic(0)
    func next() -> Int { value.wrappingAdd(1, ordering: .relaxed).newValue }
  }

  /// A capture's content as it is published in a session, or in one request.
  private struct Capture {
    var fileID: String?
    var bytes: [UInt8]

    init(_ fileID: String?, _ text: String) {
      self.fileID = fileID
      bytes = Array(text.utf8)
    }

    func root(chunkBytes: Int) -> Digest32 {
      var tree = MerkleTree()
      for start in stride(from: 0, to: bytes.count, by: max(1, chunkBytes)) {
        tree.append(sha256(Array(bytes[start..<min(start + chunkBytes, bytes.count)])))
      }
      return tree.root
    }

    func claim(isWholeFile: Bool) -> PublicationClaim {
      let chunkBytes = isWholeFile ? bytes.count : NameOwnerTests.chunkBytes
      return PublicationClaim(
        fileID: fileID ?? "none", merkleRoot: root(chunkBytes: chunkBytes), sizeBytes: UInt64(bytes.count),
        chunkBytes: UInt32(chunkBytes))
    }
  }

  private func publication(
    _ capture: Capture, _ name: String, mode: UInt32 = 0o640, isWholeFile: Bool, ifExists: IfExists = .replace,
    receipt: String = "receipt", credential: CredentialID? = nil, owning ownership: NameOwnership? = nil
  ) -> Publication {
    let claim = capture.claim(isWholeFile: isWholeFile)
    return Publication(
      receipt: PublicationReceipt(
        id: receipt, name: name, sizeBytes: claim.sizeBytes, merkleRoot: claim.merkleRoot,
        chainTip: sha256([2]), publishedAt: 5, fileID: capture.fileID),
      credential: credential ?? self.credential, modifiedNanoseconds: 1_700_000_000_123_456_789, mode: mode,
      ifExists: ifExists, chunkBytes: claim.chunkBytes ?? 0, ownership: ownership)
  }

  /// Publishes a capture under a name that may be that of these publications, and of no other.
  @discardableResult
  private func publish(
    _ capture: Capture, as name: String, by store: FileStore, isWholeFile: Bool, replacing: [Capture] = [],
    last publishedAs: String? = nil, _ ifTaken: IfTaken = .number, credential: CredentialID? = nil
  ) throws -> PublicationResult {
    let ownership = NameOwnership(
      ifTaken: ifTaken, replaces: replacing.map { $0.claim(isWholeFile: isWholeFile) }, publishedAs: publishedAs)
    let publication = publication(
      capture, name, isWholeFile: isWholeFile, receipt: "r\(receipts.next())",
      credential: credential, owning: ownership)
    return try publish(capture, publication, by: store, isWholeFile: isWholeFile)
  }

  /// Publishes a capture as an older client does.
  @discardableResult
  private func publishAsBefore(
    _ capture: Capture, as name: String, by store: FileStore, isWholeFile: Bool, _ ifExists: IfExists = .replace
  ) throws -> PublicationResult {
    let publication = publication(
      capture, name, isWholeFile: isWholeFile, ifExists: ifExists,
      receipt: "r\(receipts.next())")
    return try publish(capture, publication, by: store, isWholeFile: isWholeFile)
  }

  /// Publishes a capture; each session and receipt has a name of its own.
  private func publish(
    _ capture: Capture, _ publication: Publication, by store: FileStore, isWholeFile: Bool
  ) throws -> PublicationResult {
    guard !isWholeFile else {
      let record = WholeFileRecord(
        credential: publication.credential.text, idempotencyKey: publication.receipt.id, fingerprint: sha256([3]))
      let results = store.publish([
        WholeFilePublication(body: capture.bytes, record: record, publication: publication)
      ])
      return try #require(results.first).get()
    }
    let facts = SessionRecord(
      id: "session-\(publication.receipt.id)", credential: publication.credential.text, idempotencyKey: "key",
      opening: SessionParameters(
        name: "hint", sizeBytes: nil, chunkBytes: Self.chunkBytes, nonce: [UInt8](repeating: 1, count: 32),
        modifiedNanoseconds: 0, mode: 0o644, fileID: capture.fileID ?? ""),
      requestedChunkBytes: Self.chunkBytes, openedAt: 1)
    _ = try store.create(facts)
    for (index, start) in stride(from: 0, to: capture.bytes.count, by: Self.chunkBytes).enumerated() {
      let chunk = Array(capture.bytes[start..<min(start + Self.chunkBytes, capture.bytes.count)])
      try store.write(
        chunk, to: facts.sessionID, index: UInt32(index), offset: UInt64(start), facts: ChunkChecksums(of: chunk))
    }
    return try store.publish(facts.sessionID, publication)
  }

  /// What a published file says of itself; nil where the filesystem of the test's folder has no attributes.
  private func mark(_ name: String) throws -> PublicationMark.Found {
    try FileDescriptor.open("\(folder.path)/files/\(name)", O_RDONLY).publicationMark()
  }

  /// Without attributes nothing is known of what was published: a test of that fails there, as those of the attribute do.
  private func requireMark(_ name: String) throws {
    try #require(try mark(name) != .nothing, "the disk of the tests takes no attributes")
  }

  // MARK: What was published before

  private func asked(_ capture: Capture, _ name: String, by credential: CredentialID) -> SessionRecord {
    SessionRecord(
      id: "asks", credential: credential.text, idempotencyKey: "key",
      opening: SessionParameters(
        name: name, sizeBytes: nil, chunkBytes: Self.chunkBytes, nonce: [UInt8](repeating: 1, count: 32),
        modifiedNanoseconds: 0, mode: 0o644, fileID: capture.fileID ?? ""),
      requestedChunkBytes: Self.chunkBytes, openedAt: 1)
  }

  @Test(.promises("P113"), arguments: [false, true]) func anOpeningIsToldWhatWasPublished(isWholeFile: Bool) throws {
    let store = try makeStore()
    let (one, two) = (Capture("one", "0123456789"), Capture("two", "9876543210"))
    try publish(one, as: "d/a.mov", by: store, isWholeFile: isWholeFile)
    try publish(two, as: "d/a.mov", by: store, isWholeFile: isWholeFile)
    try requireMark("d/a.mov")
    for (capture, name) in [(one, nil), (two, "d/a-2.mov")] as [(Capture, String?)] {
      let found = store.published(before: asked(capture, "d/a.mov", by: credential))
      let claim = capture.claim(isWholeFile: isWholeFile)
      #expect(
        found
          == PublishedContent(
            fileID: capture.fileID ?? "", sizeBytes: 10, merkleRoot: Hex.encode(claim.merkleRoot),
            chunkBytes: Int(claim.chunkBytes ?? 0), modifiedNanoseconds: 1_700_000_000_123_456_789, publishedAs: name))
    }
    #expect(store.published(before: asked(Capture("three", ""), "d/a.mov", by: credential)) == nil)
    #expect(store.published(before: asked(Capture(nil, ""), "d/a.mov", by: credential)) == nil)
    #expect(store.published(before: asked(one, "e/a.mov", by: credential)) == nil, "no folder is made")
    // One that was changed is no publication any more.
    let file = try FileDescriptor.open("\(folder.path)/files/d/a.mov", O_RDWR)
    #expect(pwrite(file.raw, "x", 1, 20) == 1)
    #expect(store.published(before: asked(one, "d/a.mov", by: credential)) == nil)
  }

  @Test(.promises("P113")) func anotherFolderIsNotLookedInto() throws {
    let store = try FileStore(
      root: folder.path, publishing: [credential: "\(folder.path)/files", other: "\(folder.path)/others"],
      mayPass: { _ in true }, beforeSync: { _ in })
    let capture = Capture("one", "0123456789")
    try publish(capture, as: "a.mov", by: store, isWholeFile: false)
    #expect(store.published(before: asked(capture, "a.mov", by: other)) == nil)
  }

  // MARK: What a session begins with

  private func based(
    _ capture: Capture, _ name: String, sizeBytes: UInt64?, id: String = "based"
  ) -> SessionRecord {
    SessionRecord(
      id: id, credential: credential.text, idempotencyKey: id,
      opening: SessionParameters(
        name: name, sizeBytes: sizeBytes, chunkBytes: Self.chunkBytes, nonce: [UInt8](repeating: 1, count: 32),
        modifiedNanoseconds: 0, mode: 0o644, fileID: capture.fileID ?? "", takesBase: true),
      requestedChunkBytes: Self.chunkBytes, openedAt: 1)
  }

  private func data(of facts: SessionRecord) throws -> [UInt8] {
    try FileDescriptor.open("\(folder.path)/.uploads/sessions/\(facts.id)/data", O_RDONLY).readAll(limit: 1000)
  }

  @Test(.promises("P121"), arguments: [false, true]) func aSessionBeginsWithWhatIsPublished(isWholeFile: Bool) throws {
    let store = try makeStore()
    let capture = Capture("one", "0123456789")
    try publish(Capture("two", "abcdefghij"), as: "d/a.mov", by: store, isWholeFile: isWholeFile)
    try publish(capture, as: "d/a.mov", by: store, isWholeFile: isWholeFile)
    try requireMark("d/a.mov")
    let facts = based(capture, "d/a.mov", sizeBytes: 14)
    _ = try store.create(facts)
    let held = try store.verify(facts.sessionID, takesBase: true)
    #expect(held.keys.sorted() == [0, 1], "whole chunks alone")
    #expect(held[1] == ChunkChecksums(of: Array("4567".utf8)))
    #expect(try data(of: facts) == Array("0123456789".utf8))
    // It is on record, as what was sent is: after a crash it is what is there that counts.
    #expect(try store.verify(facts.sessionID, takesBase: true) == held)
    let file = try FileDescriptor.open("\(folder.path)/.uploads/sessions/based/data", O_RDWR)
    #expect(pwrite(file.raw, "x", 1, 5) == 1)
    #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == [0])
  }

  /// What is shorter now keeps no more than it is to have.
  @Test(.promises("P121")) func aSessionBeginsWithNoMoreThanItsSize() throws {
    let store = try makeStore()
    let capture = Capture("one", "0123456789")
    try publish(capture, as: "a.mov", by: store, isWholeFile: false)
    try requireMark("a.mov")
    for (size, indices) in [(6, [0]), (0, []), (nil, [0, 1])] as [(UInt64?, [UInt32])] {
      let facts = based(capture, "a.mov", sizeBytes: size, id: "based\(size ?? 99)")
      _ = try store.create(facts)
      #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == indices)
    }
  }

  @Test(
    "Regression: holes of what is published were written out as zeros where files share no blocks", .promises("P121"),
    arguments: [nil, 8 << 20] as [UInt64?])
  func aSessionBeginsWithTheHolesOfWhatIsPublished(sizeBytes: UInt64?) throws {
    let store = try makeStore()
    let (size, end) = (8 << 20, 4096)
    let hole = UInt64(end)..<UInt64(size - end)
    var capture = Capture("one", "")
    capture.bytes = [UInt8](repeating: 1, count: end) + [UInt8](repeating: 0, count: size - 2 * end)
    capture.bytes += [UInt8](repeating: 2, count: end)
    try publish(capture, as: "a.mov", by: store, isWholeFile: true)
    try requireMark("a.mov")
    // As a file that came with its holes, and at the time of its publication.
    let published = try FileDescriptor.open("\(folder.path)/files/a.mov", O_RDWR)
    try published.makeZeros([hole])
    try published.setModified(nanoseconds: 1_700_000_000_123_456_789)
    try #require(allocatedBytes("files/a.mov") < size / 4, "the disk of the tests keeps no holes")
    var facts = based(capture, "a.mov", sizeBytes: sizeBytes)
    facts.opening.chunkBytes = 1 << 20
    facts.requestedChunkBytes = 1 << 20
    _ = try store.create(facts)
    #expect(try store.verify(facts.sessionID, takesBase: true).keys.ranges == [0..<8])
    #expect(allocatedBytes(".uploads/sessions/based/data") < size / 4)
    let isSame = folder.contents(".uploads/sessions/based/data") == capture.bytes
    #expect(isSame)
  }

  private func allocatedBytes(_ name: String) -> Int { Int(folder.status(name).st_blocks) * 512 }

  @Test(.promises("P121")) func aSessionBeginsWithNoOtherFile() throws {
    let store = try makeStore()
    let capture = Capture("one", "0123456789")
    try publish(capture, as: "a.mov", by: store, isWholeFile: false)
    try requireMark("a.mov")
    let path = "\(folder.path)/files/a.mov"
    let others: [(id: String, facts: SessionRecord, change: () -> Void)] = [
      ("other", based(Capture("two", ""), "a.mov", sizeBytes: 10, id: "other"), {}),
      ("elsewhere", based(capture, "b.mov", sizeBytes: 10, id: "elsewhere"), {}),
      ("changed", based(capture, "a.mov", sizeBytes: 10, id: "changed"), { truncate(path, 9) }),
      (
        "link", based(capture, "a.mov", sizeBytes: 10, id: "link"),
        {
          rename(path, "\(path).away")
          symlink("a.mov.away", path)
        }
      ),
      ("gone", based(capture, "a.mov", sizeBytes: 10, id: "gone"), { unlink(path) }),
    ]
    for (id, facts, change) in others {
      _ = try store.create(facts)
      change()
      #expect(try store.verify(facts.sessionID, takesBase: true).isEmpty, "\(id)")
    }
  }

  // MARK: What a file says of itself

  @Test(arguments: [false, true]) func publishedFile_saysWhichCaptureItIs(isWholeFile: Bool) throws {
    let store = try makeStore()
    let capture = Capture("00112233445566778899aabbccddeeff", "0123456789")
    // Of one that its owner may not write, too.
    for (name, mode) in [("a", 0o640), ("b", 0o444)] as [(String, UInt32)] {
      let publication = publication(capture, name, mode: mode, isWholeFile: isWholeFile, receipt: name)
      _ = try publish(capture, publication, by: store, isWholeFile: isWholeFile)
      let root = capture.claim(isWholeFile: isWholeFile).merkleRoot
      #expect(
        try mark(name)
          == .mark(
            PublicationMark(
              fileID: "00112233445566778899aabbccddeeff", merkleRoot: root, chunkBytes: isWholeFile ? 10 : 4,
              sizeBytes: 10, modifiedNanoseconds: 1_700_000_000_123_456_789)))
      #expect(folder.status("files/\(name)").st_mode & 0o7777 == mode)
    }
  }

  @Test(arguments: [false, true]) func fileWithoutAnIdentity_saysNothing(isWholeFile: Bool) throws {
    let store = try makeStore()
    let capture = Capture(nil, "0123456789")
    _ = try publish(
      capture, publication(capture, "a", isWholeFile: isWholeFile), by: store, isWholeFile: isWholeFile)
    #expect(try mark("a") == .nothing)
  }

  @Test func attributeThatIsNotUnderstood_isNotTakenForNone() throws {
    let store = try makeStore()
    let capture = Capture("f", "0123456789")
    _ = try publish(capture, publication(capture, "a", isWholeFile: true), by: store, isWholeFile: true)
    let file = try FileDescriptor.open("\(folder.path)/files/a", O_RDWR)
    for value in ["\u{7f}later", String(repeating: "x", count: 400)] {
      #expect(uploadfs_set_attribute(file.raw, PublicationAttribute.name, value, value.utf8.count) == 0)
      #expect(try file.publicationMark() == .unreadable)
    }
  }

  // MARK: Who gets a name

  private let first = Capture("00112233445566778899aabbccddeeff", "the first one")
  private let second = Capture("11112233445566778899aabbccddeeff", "the second one")
  private let third = Capture("22112233445566778899aabbccddeeff", "the third")

  private func text(_ name: String) -> String? {
    folder.contents("files/\(name)").map { String(decoding: $0, as: UTF8.self) }
  }

  @Test(
    "Regression: of two captures with one name the later one replaced the other", .promises("P108", "P109"),
    arguments: [false, true])
  func anotherCaptureOfAName_getsTheNextNumber(isWholeFile: Bool) throws {
    let store = try makeStore()
    #expect(try publish(first, as: "day/a.mov", by: store, isWholeFile: isWholeFile) == PublicationResult())
    let result = try publish(second, as: "day/a.mov", by: store, isWholeFile: isWholeFile)
    #expect(result.publishedAs == "day/a-2.mov" && result.replacedBytes == 0)
    #expect(result.nameHolder == "it is the capture 00112233445566778899aabbccddeeff")
    let last = try publish(third, as: "day/a.mov", by: store, isWholeFile: isWholeFile, credential: other)
    #expect(last.publishedAs == "day/a-3.mov")
    #expect(text("day/a.mov") == "the first one" && text("day/a-2.mov") == "the second one")
    #expect(text("day/a-3.mov") == "the third" && folder.files().count == 3)
  }

  @Test(.promises("P108"), arguments: [false, true])
  func publicationsThatAreNamed_areReplaced(isWholeFile: Bool) throws {
    let store = try makeStore()
    try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
    // A later revision of the capture, and then another capture at its last path.
    let revision = Capture(first.fileID, "its next content")
    let result = try publish(revision, as: "a.mov", by: store, isWholeFile: isWholeFile, replacing: [first])
    #expect(result == PublicationResult(replacedBytes: UInt64(first.bytes.count)))
    try publish(second, as: "a.mov", by: store, isWholeFile: isWholeFile, replacing: [first, revision])
    #expect(text("a.mov") == "the second one" && folder.files().count == 1)
    // The one that is asked for itself: its receipt was lost.
    try publish(second, as: "a.mov", by: store, isWholeFile: isWholeFile)
    #expect(folder.files().count == 1)
    // What a restored spool knows is older.
    try publish(revision, as: "a.mov", by: store, isWholeFile: isWholeFile, replacing: [first])
    #expect(text("a.mov") == "the second one" && text("a-2.mov") == "its next content")
  }

  @Test(.promises("P109"), arguments: [false, true])
  func takenName_isRefused_whereThatIsAskedFor(isWholeFile: Bool) throws {
    let store = try makeStore()
    try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
    #expect(throws: StoreFailure.nameTaken("it is the capture 00112233445566778899aabbccddeeff")) {
      try publish(second, as: "a.mov", by: store, isWholeFile: isWholeFile, .refuse)
    }
    #expect(text("a.mov") == "the first one" && folder.files().count == 1)
    #expect(folder.files(below: ".uploads/incoming") == [])
    try publish(second, as: "b.mov", by: store, isWholeFile: isWholeFile, .refuse)
    #expect(text("b.mov") == "the second one")
  }

  /// Regression: nothing said that it was another capture's file.
  @Test(.promises("P109"), arguments: [false, true])
  func takenName_isTaken_whereThatIsAskedFor_andItIsSaidFromWhom(isWholeFile: Bool) throws {
    let store = try makeStore()
    try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
    let taken = try publish(second, as: "a.mov", by: store, isWholeFile: isWholeFile, .replace)
    #expect(
      taken
        == PublicationResult(
          replacedBytes: UInt64(first.bytes.count), takenFrom: "it is the capture 00112233445566778899aabbccddeeff"))
    #expect(text("a.mov") == "the second one" && folder.files().count == 1)
    // A later content of its own.
    let revision = Capture(second.fileID, "its next content")
    let result = try publish(revision, as: "a.mov", by: store, isWholeFile: isWholeFile, .replace)
    #expect(result == PublicationResult(replacedBytes: UInt64(second.bytes.count)))
    symlink("\(folder.path)/target", "\(folder.path)/files/b.mov")
    let link = try publish(second, as: "b.mov", by: store, isWholeFile: isWholeFile, .replace)
    #expect(link.takenFrom == "it is a symbolic link" && text("b.mov") == "the second one")
  }

  @Test(.promises("P108"), arguments: [false, true])
  func fileThatWasChanged_isNotThePublicationAnyMore(isWholeFile: Bool) throws {
    let store = try makeStore()
    // Of another size, and of the same.
    for (number, change) in ["edited", "THE FIRST ONE"].enumerated() {
      let name = "\(number).mov"
      try publish(first, as: name, by: store, isWholeFile: isWholeFile)
      folder.write(Array(change.utf8), to: "files/\(name)")
      let result = try publish(second, as: name, by: store, isWholeFile: isWholeFile, replacing: [first])
      #expect(result.publishedAs == "\(number)-2.mov")
      #expect(text(name) == change)
    }
  }

  /// Regression: what a spool without its records sent in chunks of another length got a number.
  @Test(.promises("P108"), arguments: [false, true])
  func contentThatIsThereAlready_isKnown_inChunksOfAnotherLength(isWholeFile: Bool) throws {
    let store = try makeStore()
    try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
    let again = try publish(first, as: "a.mov", by: store, isWholeFile: !isWholeFile)
    #expect(again.publishedAs == nil && folder.files().count == 1)
    // Another content of that size.
    let like = Capture(first.fileID, "THE FIRST ONE")
    let result = try publish(like, as: "a.mov", by: store, isWholeFile: isWholeFile)
    #expect(result.publishedAs == "a-2.mov" && result.nameHolder != NameRights.unknown)
    #expect(text("a.mov") == "the first one")
  }

  @Test(
    "What a receiver before this one published, or lies on a filesystem without attributes, is known by its content",
    .promises("P108"), arguments: [false, true])
  func fileThatSaysNothing_isKnownByItsContent(isWholeFile: Bool) throws {
    let store = try makeStore()
    let forget = { (name: String) in
      let file = try FileDescriptor.open("\(self.folder.path)/files/\(name)", O_RDWR)
      #expect(uploadfs_remove_attribute(file.raw, PublicationAttribute.name) == 0)
    }
    try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
    try forget("a.mov")
    try publish(second, as: "a.mov", by: store, isWholeFile: isWholeFile, replacing: [third, first])
    #expect(text("a.mov") == "the second one" && folder.files().count == 1)
    // Of the same size and with another content, and of which the size of the chunks is not known.
    try forget("a.mov")
    let like = Capture(second.fileID, "the SECOND one")
    let result = try publish(third, as: "a.mov", by: store, isWholeFile: isWholeFile, replacing: [like])
    #expect(result.publishedAs == "a-2.mov" && result.nameHolder == NameRights.unknown)
    var claim = second.claim(isWholeFile: isWholeFile)
    claim.chunkBytes = nil
    let publication = publication(
      first, "a.mov", isWholeFile: isWholeFile, owning: NameOwnership(ifTaken: .number, replaces: [claim]))
    #expect(
      try publish(first, publication, by: store, isWholeFile: isWholeFile).publishedAs == "a-3.mov")
    #expect(text("a.mov") == "the second one" && text("a-2.mov") == "the third")
  }

  @Test(.promises("P109"), arguments: [false, true])
  func nameOfTheLastPublication_isKept(isWholeFile: Bool) throws {
    let store = try makeStore()
    try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
    try publish(second, as: "a.mov", by: store, isWholeFile: isWholeFile)
    unlink("\(folder.path)/files/a.mov")
    let revision = Capture(second.fileID, "its next content")
    let result = try publish(
      revision, as: "a.mov", by: store, isWholeFile: isWholeFile, replacing: [second], last: "a-2.mov")
    #expect(result == PublicationResult(replacedBytes: UInt64(second.bytes.count), publishedAs: "a-2.mov"))
    #expect(text("a-2.mov") == "its next content" && folder.files().count == 1)
    // Also where it was taken away; and where another one has it by now, the name is chosen anew.
    unlink("\(folder.path)/files/a-2.mov")
    try publish(second, as: "a.mov", by: store, isWholeFile: isWholeFile, replacing: [revision], last: "a-2.mov")
    #expect(folder.files() == ["files/a-2.mov"])
    let next = try publish(third, as: "a.mov", by: store, isWholeFile: isWholeFile, last: "a-2.mov")
    #expect(next == PublicationResult() && text("a.mov") == "the third" && text("a-2.mov") == "the second one")
    // A folder, and what leads nowhere, are no place for it.
    folder.write([1], to: "files/file")
    folder.makeFolder("files/b-2.mov")
    folder.write([1], to: "files/b-2.mov/x")
    for (number, last) in ["b-2.mov", "file/b.mov"].enumerated() {
      let name = "\(number).mov"
      #expect(
        try publish(first, as: name, by: store, isWholeFile: isWholeFile, last: last) == PublicationResult())
    }
  }

  @Test(
    "Regression: a name that is a folder's is told from one that is another capture's",
    .promises("P75b", "P109"), arguments: [false, true])
  func nameOfAFolder_isNumberedBesideIt(isWholeFile: Bool) throws {
    let store = try makeStore()
    try publish(first, as: "d/x", by: store, isWholeFile: isWholeFile)
    #expect(try publish(second, as: "d", by: store, isWholeFile: isWholeFile).publishedAs == "d%~file")
    #expect(try publish(third, as: "d", by: store, isWholeFile: isWholeFile).publishedAs == "d%~file-2")
    let revision = Capture(second.fileID, "its next content")
    let result = try publish(revision, as: "d", by: store, isWholeFile: isWholeFile, replacing: [second])
    #expect(result.publishedAs == "d%~file" && result.replacedBytes == UInt64(second.bytes.count))
    #expect(throws: StoreFailure.self) {
      try publish(first, as: "d", by: store, isWholeFile: isWholeFile, .refuse)
    }
    #expect(folder.files().count == 3)
  }

  @Test(.promises("P109"), arguments: [false, true])
  func linkAndOtherThings_areNotReplaced(isWholeFile: Bool) throws {
    let store = try makeStore()
    folder.write(Array("kept".utf8), to: "target")
    symlink("\(folder.path)/target", "\(folder.path)/files/a.mov")
    mkfifo("\(folder.path)/files/a-2.mov", 0o600)
    #expect(try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile).publishedAs == "a-3.mov")
    #expect(folder.status("files/a.mov").st_mode & S_IFMT == S_IFLNK && folder.contents("target") == Array("kept".utf8))
  }

  @Test(.promises("P109"), arguments: [false, true])
  func nameWithoutRoomForANumber_isRefused(isWholeFile: Bool) throws {
    let store = try makeStore()
    let name = String(repeating: "n", count: 255)
    try publish(first, as: name, by: store, isWholeFile: isWholeFile)
    #expect {
      try publish(second, as: name, by: store, isWholeFile: isWholeFile)
    } throws: { error in
      if case .nameTaken? = error as? StoreFailure { true } else { false }
    }
    #expect(text(name) == "the first one" && folder.files().count == 1)
  }

  @Test(
    "Regression: of thousands of captures of one name each tried the numbers of all before it",
    .promises("P109"), arguments: [false, true])
  func numbers_goOnWhereTheLastOneStood(isWholeFile: Bool) throws {
    do {
      let store = try makeStore()
      for number in 1...20 {
        let result = try publish(
          Capture("capture \(number)", "content \(number)"), as: "a.mov", by: store, isWholeFile: isWholeFile)
        #expect(result.publishedAs == (number == 1 ? nil : "a-\(number).mov"))
      }
      // Numbers that were given are not looked at again: what became free below stays so.
      unlink("\(folder.path)/files/a-3.mov")
      #expect(try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile).publishedAs == "a-21.mov")
      // Another name, and the same one in another folder, have numbers of their own.
      for name in ["b.mov", "d/a.mov"] {
        try publish(first, as: name, by: store, isWholeFile: isWholeFile)
        let result = try publish(second, as: name, by: store, isWholeFile: isWholeFile)
        #expect(result.publishedAs == PublishedName.numbered(name, by: 2))
      }
    }
    // It is only a hint, and goes with the process.
    #expect(try publish(second, as: "a.mov", by: makeStore(), isWholeFile: isWholeFile).publishedAs == "a-3.mov")
  }

  @Test(
    "Regression: after a start the receiver looked at the number of each capture of a name", .promises("P109"),
    .timeLimit(.minutes(1)))
  func afterAStart_thousandsOfNumbersAreLeaptOver() throws {
    try publish(first, as: "a.mov", by: makeStore(), isWholeFile: true)
    for number in 2...5000 { folder.write([UInt8(number % 251)], to: "files/a-\(number).mov") }
    // Above the thousand that are looked at one by one.
    unlink("\(folder.path)/files/a-1500.mov")
    #expect(try publish(second, as: "a.mov", by: makeStore(), isWholeFile: true).publishedAs == "a-5001.mov")
    unlink("\(folder.path)/files/a-900.mov")
    #expect(
      try publish(Capture("third", "the third"), as: "a.mov", by: makeStore(), isWholeFile: true).publishedAs
        == "a-900.mov")
  }

  @Test(
    "Regression: an older client replaced the captures of others", .promises("P112"), arguments: [false, true])
  func olderClient_replacesItsOwnCapture_andWhatSaysNothing(isWholeFile: Bool) throws {
    let store = try makeStore()
    try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
    for capture in [second, Capture(nil, "of no identity")] {
      #expect(throws: StoreFailure.nameTaken("it is the capture 00112233445566778899aabbccddeeff")) {
        try publishAsBefore(capture, as: "a.mov", by: store, isWholeFile: isWholeFile)
      }
    }
    #expect(text("a.mov") == "the first one" && folder.files().count == 1)
    let revision = Capture(first.fileID, "its next content")
    try publishAsBefore(revision, as: "a.mov", by: store, isWholeFile: isWholeFile)
    #expect(text("a.mov") == "its next content")
    #expect(throws: StoreFailure.nameExists) {
      try publishAsBefore(first, as: "a.mov", by: store, isWholeFile: isWholeFile, .fail)
    }
    folder.write([1], to: "files/b.mov")
    try publishAsBefore(Capture(nil, "of no identity"), as: "b.mov", by: store, isWholeFile: isWholeFile)
    try publishAsBefore(second, as: "b.mov", by: store, isWholeFile: isWholeFile)
    #expect(text("b.mov") == "the second one" && folder.files().count == 2)
  }

  @Test("On a filesystem without attributes, a start must not have thousands of files read", .promises("P109"))
  func numbersWhoseFilesSayNothing_areReadUpToABound() throws {
    let content = { (number: Int) in "content \(number + 100)" }
    folder.makeFolder("files")
    for number in 1...30 {
      folder.write(Array(content(number).utf8), to: "files/\(number == 1 ? "a.mov" : "a-\(number).mov")")
    }
    let store = try makeStore()
    // Each is there already, and its receipt was lost.
    let early = try publish(Capture("f", content(9)), as: "a.mov", by: store, isWholeFile: false)
    #expect(early.publishedAs == "a-9.mov" && early.replacedBytes > 0)
    let late = try publish(Capture("f", content(29)), as: "a.mov", by: store, isWholeFile: false)
    #expect(late.publishedAs == "a-31.mov" && late.replacedBytes == 0)
  }

  // MARK: Two at once

  @Test(
    "Regression: two credentials of one folder, at the same moment", .promises("P110"),
    .timeLimit(.minutes(1)), arguments: [false, true])
  func twoCredentialsAtOnce_getANameEach(isWholeFile: Bool) throws {
    let arrived = Mutex(0)
    let both = DispatchSemaphore(value: 0)
    // Both have found the name free before either of them has it.
    let store = try makeStore(beforeSync: { subject in
      guard subject == .data else { return }
      let count = arrived.withLock { arrived in
        arrived += 1
        return arrived
      }
      if count == 2 { both.signal() } else if count == 1 { both.wait() }
    })
    let names = Mutex<[String?]>([])
    let group = DispatchGroup()
    for (capture, credential) in [(first, credential), (second, other)] {
      DispatchQueue.global().async(group: group) {
        let result = Result {
          try publish(capture, as: "a.mov", by: store, isWholeFile: isWholeFile, credential: credential)
        }
        guard case .success(let outcome) = result else {
          Issue.record("\(result)")
          return
        }
        names.withLock { $0.append(outcome.publishedAs) }
      }
    }
    group.wait()
    #expect(names.withLock { Set($0) } == [nil, "a-2.mov"])
    #expect(Set(["a.mov", "a-2.mov"].map { text($0) }) == ["the first one", "the second one"])
  }

  @Test(.promises("P110"), .timeLimit(.minutes(1)), arguments: [false, true])
  func oneFileThatTwoMayReplace_isReplacedByOne(isWholeFile: Bool) throws {
    let arrived = Mutex(0)
    let both = DispatchSemaphore(value: 0)
    let store = try makeStore(beforeSync: { subject in
      guard subject == .data else { return }
      let count = arrived.withLock { arrived in
        arrived += 1
        return arrived
      }
      if count == 3 { both.signal() } else if count == 2 { both.wait() }
    })
    try publish(third, as: "a.mov", by: store, isWholeFile: isWholeFile)
    let group = DispatchGroup()
    for (capture, credential) in [(first, credential), (second, other)] {
      DispatchQueue.global().async(group: group) {
        // As two clones of a spool.
        #expect(throws: Never.self) {
          try publish(
            capture, as: "a.mov", by: store, isWholeFile: isWholeFile, replacing: [third], credential: credential)
        }
      }
    }
    group.wait()
    #expect(Set(["a.mov", "a-2.mov"].map { text($0) }) == ["the first one", "the second one"])
  }

  // MARK: After a crash

  @Test(.promises("P110"), arguments: [false, true], StoreStep.allCases)
  func crashAfterTheNameWasTakenMeanwhile_isFollowedByWhatLiesThere(isWholeFile: Bool, step: StoreStep) throws {
    let steps = Mutex(0)
    let (path, foreign) = ("\(folder.path)/files/a.mov", Array("a curator's".utf8))
    do {
      let store = try makeStore(mayPass: { [folder] reached in
        guard reached == .intentRecorded else { return reached != step || steps.withLock { $0 } == 0 }
        let count = steps.withLock { steps in
          steps += 1
          return steps
        }
        // Another program takes the name after the first intent; the crash comes behind that.
        if count == 1 { folder.write(foreign, to: "files/a.mov") }
        return count == 1 || step != .intentRecorded
      })
      if step == .dataSynced {
        // There the name was not chosen for good.
        try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
      } else {
        #expect(throws: StoreFailure.self) {
          try publish(first, as: "a.mov", by: store, isWholeFile: isWholeFile)
        }
      }
    }
    let store = try makeStore()
    let found = try store.recover()
    let receipts = isWholeFile ? found.wholeFiles.map(\.receipt) : found.published.map(\.receipt)
    if step == .intentRecorded {
      #expect(receipts.isEmpty && folder.files() == ["files/a.mov"])
      #expect(found.open.count == (isWholeFile ? 0 : 1))
    } else {
      #expect(receipts.map(\.publishedAs) == ["a-2.mov"] && receipts.map(\.name) == ["a.mov"])
      #expect(text("a-2.mov") == "the first one")
    }
    #expect(TemporaryFolder.read(path) == foreign)
    #expect(folder.files(below: ".uploads/incoming") == [])
  }
}

import CLinux
import ChunkProtocol
import Glibc
import Integrity
import Promises
import Testing

@testable import ReceiverCore
@testable import UploadReceiver

/// Whose a published name is, and who gets it: on real folders, with the store that the receiver has.
@Suite struct NameOwnerTests {
  private let folder: TemporaryFolder
  private let credential = CredentialID("c0ffee")

  init() throws {
    folder = try TemporaryFolder()
  }

  private func makeStore(
    stoppingAt step: StoreStep? = nil, beforeSync: @escaping BeforeSync = { _ in }
  ) throws -> FileStore {
    try FileStore(
      root: folder.path,
      publishing: [credential: "\(folder.path)/files", CredentialID("other"): "\(folder.path)/files"],
      mayPass: { $0 != step }, beforeSync: beforeSync)
  }

  private static let chunkBytes = 4

  /// A capture's content as it is published in a session, or in one request.
  private struct Capture {
    var fileID: String?
    var bytes: [UInt8]

    init(_ fileID: String?, _ text: String) {
      self.fileID = fileID
      bytes = Array(text.utf8)
    }

    func root(chunkBytes: Int) -> [UInt8] {
      var tree = MerkleTree()
      for start in stride(from: 0, to: bytes.count, by: max(1, chunkBytes)) {
        tree.append(chunkSHA256: sha256(Array(bytes[start..<min(start + chunkBytes, bytes.count)])))
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
    receipt: String = "receipt", credential: CredentialID? = nil
  ) -> Publication {
    let claim = capture.claim(isWholeFile: isWholeFile)
    return Publication(
      receipt: ReceiptFacts(
        id: receipt, name: name, sizeBytes: claim.sizeBytes, merkleRoot: claim.merkleRoot, chainTip: [2],
        publishedAt: 5, fileID: capture.fileID),
      credential: credential ?? self.credential, modifiedNanoseconds: 1_700_000_000_123_456_789, mode: mode,
      ifExists: ifExists, chunkBytes: claim.chunkBytes ?? 0)
  }

  /// Publishes a capture; each session and receipt has a name of its own.
  private func publish(
    _ capture: Capture, _ publication: Publication, by store: FileStore, isWholeFile: Bool
  ) throws -> PublicationResult {
    guard !isWholeFile else {
      let record = WholeFileRecord(
        credential: publication.credential.text, idempotencyKey: publication.receipt.id, fingerprint: [3])
      let results = store.publish([
        WholeFilePublication(body: capture.bytes, record: record, publication: publication)
      ])
      return try #require(results.first).get()
    }
    let facts = SessionFacts(
      id: "session-\(publication.receipt.id)", credential: publication.credential.text, idempotencyKey: "key",
      opening: OpeningFacts(
        name: "hint", sizeBytes: nil, chunkBytes: Self.chunkBytes, nonce: [UInt8](repeating: 1, count: 32),
        modifiedNanoseconds: 0, mode: 0o644, fileID: capture.fileID ?? ""),
      requestedChunkBytes: Self.chunkBytes, openedAt: 1)
    _ = try store.create(facts)
    for (index, start) in stride(from: 0, to: capture.bytes.count, by: Self.chunkBytes).enumerated() {
      let chunk = Array(capture.bytes[start..<min(start + Self.chunkBytes, capture.bytes.count)])
      try store.write(
        chunk, to: facts.sessionID, index: UInt32(index), offset: UInt64(start), facts: ChunkFacts(of: chunk))
    }
    return try store.publish(facts.sessionID, publication)
  }

  /// What a published file says of itself; nil where the filesystem of the test's folder has no attributes.
  private func mark(_ name: String) throws -> PublicationAttribute.Found {
    try FileDescriptor.open("\(folder.path)/files/\(name)", O_RDONLY).publicationMark()
  }

  // MARK: What a file says of itself

  @Test(arguments: [false, true]) func publishedFile_saysWhichCaptureItIs(isWholeFile: Bool) throws {
    let store = try makeStore()
    let capture = Capture("00112233445566778899aabbccddeeff", "0123456789")
    // Of one that its owner may not write, too.
    for (name, mode) in [("a", 0o640), ("b", 0o444)] as [(String, UInt32)] {
      let publication = publication(capture, name, mode: mode, isWholeFile: isWholeFile, receipt: name)
      _ = try publish(capture, publication, by: store, isWholeFile: isWholeFile)
      let root = try #require(Digest32(capture.claim(isWholeFile: isWholeFile).merkleRoot))
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
}

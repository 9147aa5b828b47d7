import ChunkProtocol
import Destinations
import FileModel
import Integrity
import ProtocolReference
import Testing
import TransferModel

/// Bytes that live as long as this object does.
///
/// Sendable is unchecked because of the pointer: the memory is written once, before it is shared, and freed with
/// the last reference.
final class TestBytes: PinnedBytes, @unchecked Sendable {
  let bytes: UnsafeRawBufferPointer

  init(_ content: [UInt8]) {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: content.count, alignment: 1)
    memory.copyBytes(from: content)
    bytes = UnsafeRawBufferPointer(memory)
  }

  deinit { bytes.deallocate() }
}

enum Fixture {
  static let base = "https://upload.example.org:8443/in"
  static let token = "secret-token"
  static let nonce = (0..<32).map { UInt8($0) }
  static let session = SessionIdentity(id: "s-1_A", nonce: nonce)
  static let fileID = FileID(high: 1, low: 0xfe)

  static func destination(_ change: (inout ChunkProtocolOptions) -> Void = { _ in }) throws
    -> ChunkProtocolDestination
  {
    var options = ChunkProtocolOptions()
    change(&options)
    return try ChunkProtocolDestination(baseURL: base, credential: .bearer(token), options: options)
  }

  static func opening(size: UInt64? = 10_000_000, path: String = "day 1/scan%.mov") -> SessionOpening {
    SessionOpening(
      fileID: fileID, revision: 7, nonce: nonce, path: RelativePath(path), sizeBytes: size, chunkBytes: 4 << 20,
      modifiedNanoseconds: 1_700_000_000_000_000_001, mode: 0o100640)
  }

  /// What the receiver gives for a whole file.
  static func receipt(name: String, _ content: [UInt8], key: String) -> ReceiptBody {
    let digests = content.isEmpty ? [] : [ProtocolReference.sha256(content)]
    return ReceiptBody(
      id: "r", name: name, sizeBytes: UInt64(content.count),
      merkleRoot: ProtocolReference.hex(ProtocolReference.merkleRoot(digests)),
      chainTip: ProtocolReference.hex(ProtocolReference.chainTip(sessionID: key, digests)), publishedAtMilliseconds: 5)
  }

  static func digest(_ content: [UInt8]) -> ChunkDigest {
    content.withUnsafeBytes { bytes in
      ChunkDigest(sha256: sha256(bytes), crc32c: CRC32C.checksum(bytes))
    }
  }

  static func chunk(_ content: [UInt8] = Array("123456789".utf8), index: Int = 3) -> ChunkSending {
    ChunkSending(
      session: session, index: index, digest: digest(content), body: TestBytes(content), sentBytes: SentByteCounter())
  }

  /// A chunk of zeros that travels as something shorter; what exactly, only the receiver cares about.
  static func compressedChunk(_ content: [UInt8], body: [UInt8]) -> ChunkSending {
    ChunkSending(
      session: session, index: 3, digest: digest(content), plainBytes: content.count, encoding: .lz4,
      body: TestBytes(body), sentBytes: SentByteCounter())
  }

  static func commit() -> SessionCommit {
    SessionCommit(
      session: session, sizeBytes: 10_000_000, chunkCount: 3, merkleRoot: sha256([1]), chainTip: sha256([2]),
      path: RelativePath("a/b\n.mov"), modifiedNanoseconds: -5, mode: 0o100755)
  }

  static func wholeFile(
    _ content: [UInt8] = Array("123456789".utf8), path: String = "a b/c.txt", mode: UInt32 = 0o644
  ) -> WholeFileSending {
    WholeFileSending(
      fileID: fileID, revision: 7, nonce: nonce, path: RelativePath(path), digest: digest(content),
      body: content.isEmpty ? nil : TestBytes(content), modifiedNanoseconds: 42, mode: mode,
      sentBytes: SentByteCounter())
  }

  static func receipt(_ commit: SessionCommit = commit()) -> ReceiptBody {
    ReceiptBody(
      id: "r1", name: PublishedName.encode(commit.path.bytes), sizeBytes: commit.sizeBytes,
      merkleRoot: Hex.encode(commit.merkleRoot), chainTip: Hex.encode(commit.chainTip), publishedAtMilliseconds: 99)
  }

  static func answer(_ status: Int, _ body: some Encodable, headers: [HTTPHeader] = []) -> HTTPResponse {
    HTTPResponse(status: status, headers: headers, body: WireJSON.encode(body))
  }

  static func answer(_ status: Int, text: String = "", headers: [HTTPHeader] = []) -> HTTPResponse {
    HTTPResponse(status: status, headers: headers, body: Array(text.utf8))
  }

  /// One step of each kind.
  static var steps: [DestinationStep] {
    [
      .prewarm, .openSession(opening()), .querySession(session), .chunk(chunk()), .commit(commit()),
      .abort(session), .wholeFile(wholeFile()), .bundle([wholeFile(), wholeFile(path: "b")]),
      .run([chunk(), chunk(index: 4)]),
    ]
  }
}

extension HTTPRequest {
  func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }

  var content: [UInt8] { body.content }
}

extension StepOutcome {
  var failure: StepFailure? {
    if case .refused(let failure) = self { failure } else { nil }
  }
}

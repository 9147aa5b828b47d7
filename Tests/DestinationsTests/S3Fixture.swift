import FileModel
import Integrity
import Testing
import TransferModel

@testable import Destinations

/// An S3 destination whose time and credentials stand still.
enum S3Fixture {
  static let now: Int64 = 1_700_000_000

  static func destination(
    _ address: String = "s3+https://s3.example.org:9000/captures/day%201",
    token: String? = nil, _ change: (inout S3Options) -> Void = { _ in }
  ) throws -> S3Destination {
    var options = S3Options()
    options.checksum = .none
    change(&options)
    let credentials = try S3Credentials(
      accessKeyID: "AKID", secretAccessKey: "secret", sessionToken: token)
    return try S3Destination(
      address: try S3Address(address, allowPlainHTTP: false), options: options, credentials: { credentials },
      secondsSince1970: { now })
  }

  static let session = SessionIdentity(
    id: "day%201/a.mov?up%2Fload%2B1", nonce: Fixture.nonce)

  static func chunk(_ index: Int, token: String) -> CommittedChunk {
    CommittedChunk(digest: Fixture.digest([UInt8(index)]), token: token)
  }

  /// An upload that was begun with a checksum.
  static func session(with checksum: S3Options.Checksum) -> SessionIdentity {
    SessionIdentity(id: "\(session.id)?\(checksum.rawValue)", nonce: Fixture.nonce)
  }

  static func commit(of session: SessionIdentity = session) -> SessionCommit {
    SessionCommit(
      session: session, sizeBytes: 10_000_000, chunkCount: 2, merkleRoot: sha256([1]), chainTip: sha256([2]),
      path: RelativePath("a.mov"), modifiedNanoseconds: 5, mode: 0o644,
      chunks: [chunk(0, token: "\"aa&b\""), chunk(1, token: "\"cc\"")])
  }

  static func sending(
    _ index: Int = 0, _ content: [UInt8] = Array("123456789".utf8), of session: SessionIdentity = session
  ) -> ChunkSending {
    ChunkSending(
      session: session, index: index, digest: Fixture.digest(content), body: TestBytes(content),
      sentBytes: SentByteCounter())
  }

  static func error(_ status: Int, _ code: String, more: String = "", headers: [HTTPHeader] = []) -> HTTPResponse {
    Fixture.answer(
      status, text: "<?xml version=\"1.0\"?><Error><Code>\(code)</Code><Message>why\n</Message>\(more)</Error>",
      headers: headers)
  }

  static func published(_ headers: [HTTPHeader] = []) -> HTTPResponse {
    Fixture.answer(
      200,
      text: "\n \n<CompleteMultipartUploadResult><ETag>&quot;e-2&quot;</ETag></CompleteMultipartUploadResult>",
      headers: headers)
  }

  static func object(size: Int = 10_000_000, nonce: [UInt8] = Fixture.nonce) -> HTTPResponse {
    Fixture.answer(
      200,
      headers: [
        HTTPHeader("content-length", "\(size)"), HTTPHeader("etag", "\"o-2\""),
        HTTPHeader("x-amz-meta-uploadfs-session", Hex.encode(nonce)),
      ])
  }

  static func page(_ numbers: ClosedRange<Int>, isTruncated: Bool = false, next: Int? = nil) -> HTTPResponse {
    let parts = numbers.map {
      "<Part><PartNumber>\($0)</PartNumber><ETag>&#34;e\($0)&#34;</ETag><Size>5</Size></Part>"
    }
    return Fixture.answer(
      200,
      text: "<ListPartsResult>\(parts.joined())<IsTruncated>\(isTruncated)</IsTruncated>"
        + (next.map { "<NextPartNumberMarker>\($0)</NextPartNumberMarker>" } ?? "") + "</ListPartsResult>")
  }
}

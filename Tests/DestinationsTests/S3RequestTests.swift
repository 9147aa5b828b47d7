import FileModel
import Integrity
import Promises
import ProtocolReference
import Testing
import TransferModel

@testable import Destinations

@Suite struct S3RequestTests {
  private static let start = "https://s3.example.org:9000/captures/"

  @Test(.promises("DE27")) func opening_bindsTheKeyAndTellsWhatTheFileIs() throws {
    let request = try S3Fixture.destination().request(for: .openSession(Fixture.opening()))
    #expect(request.method == .post)
    #expect(request.url == Self.start + "day%201/day%201/scan%2525.mov?uploads=")
    #expect(request.header("x-amz-meta-mtime") == "1700000000.000000001")
    #expect(request.header("x-amz-meta-uploadfs-file") == Fixture.fileID.description)
    #expect(request.header("x-amz-meta-uploadfs-session") == Hex.encode(Fixture.nonce))
    #expect(request.header("x-amz-checksum-algorithm") == nil)
    #expect(request.header("x-amz-date") == "20231114T221320Z")
  }

  /// Regression: S3 refuses a key of more than 1,024 bytes, and such a file failed for good.
  @Test(.promises("DE147")) func aPathThatIsTooLongForAKey_isShortened_distinctly() throws {
    let destination = try S3Fixture.destination()
    let folders = (0..<8).map { "folder-\($0)-" + String(repeating: "x", count: 140) }.joined(separator: "/")
    let keys = ["a.mov", "b.mov", String(repeating: "é", count: 127)].map { name in
      destination.publishedName(for: RelativePath("\(folders)/\(name)"))
    }
    for key in keys {
      #expect(key.utf8.count + S3Limits.numberBytesMax <= 1024 && key.hasPrefix("day 1/folder-0-"), "\(key)")
    }
    #expect(Set(keys).count == 3 && keys[0].hasSuffix("/a.mov"))
    #expect(destination.publishedName(for: RelativePath("\(folders)y/a.mov")) != keys[0])
    // What fits is what it was, to the last byte.
    let fitting = String(repeating: "d/", count: 508) + "dd"
    let key = destination.publishedName(for: RelativePath(fitting))
    #expect(key == "day 1/\(fitting)" && key.utf8.count == 1024)
  }

  @Test(.promises("DE148")) func aPrefixThatLeavesNoRoomForAPath_isRefused() {
    let prefix = String(repeating: "p", count: 712)
    #expect(throws: DestinationError.self) {
      try S3Address("s3+https://s3.example.org/captures/\(prefix)", allowPlainHTTP: false)
    }
    #expect(throws: Never.self) {
      try S3Address("s3+https://s3.example.org/captures/\(prefix.dropLast())", allowPlainHTTP: false)
    }
  }

  @Test(.promises("DE21")) func part_isSignedWithTheDigestThatIsThere() throws {
    let sending = S3Fixture.sending(6)
    let request = try S3Fixture.destination().request(for: .chunk(sending))
    #expect(request.method == .put)
    #expect(request.url == Self.start + "day%201/a.mov?partNumber=7&uploadId=up%2Fload%2B1")
    #expect(request.header("x-amz-content-sha256") == Hex.encode(sending.digest.sha256))
    #expect(request.content == Array("123456789".utf8))
    #expect(request.sentBytes === sending.sentBytes)
  }

  /// What is in a header field and not signed could be changed on the way.
  @Test(.promises("DE21")) func everyField_isSigned_andTheTokenIsOneOfThem() throws {
    let destination = try S3Fixture.destination(token: "session-token")
    for step in Fixture.steps {
      let request = destination.request(for: step)
      let names = request.headers.map(\.name).filter { $0 != "authorization" } + ["host"]
      let authorization = try #require(request.header("authorization"))
      #expect(authorization.contains("SignedHeaders=\(names.sorted().joined(separator: ";")),"))
      #expect(request.header("x-amz-security-token") == "session-token")
      #expect(!authorization.contains("secret"))
      #expect(request.header("x-amz-content-sha256")?.utf8.count == 64)
    }
  }

  @Test func completion_namesEveryPartByItsTag() throws {
    let request = try S3Fixture.destination().request(for: .commit(S3Fixture.commit()))
    #expect(request.method == .post)
    #expect(request.url == Self.start + "day%201/a.mov?uploadId=up%2Fload%2B1")
    #expect(
      String(decoding: request.content, as: UTF8.self)
        == "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        + "<Part><ETag>&quot;aa&amp;b&quot;</ETag><PartNumber>1</PartNumber></Part>"
        + "<Part><ETag>&quot;cc&quot;</ETag><PartNumber>2</PartNumber></Part></CompleteMultipartUpload>")
    #expect(request.header("x-amz-mp-object-size") == "10000000")
    #expect(request.header("x-amz-content-sha256") == Hex.encode(sha256(request.content)))
    #expect(request.header("if-none-match") == nil)
  }

  @Test(arguments: [
    (S3Options.Checksum.crc32c, "CRC32C", "x-amz-checksum-crc32c", "4waSgw=="),
    (.sha256, "SHA256", "x-amz-checksum-sha256", "FeKw08M4kevPCP47fFvMVPRNA2sk1Eqx+RwLJQtMsiU="),
  ])
  func checksums_goWithTheOpening_eachPart_andTheCompletion(
    checksum: S3Options.Checksum, name: String, field: String, value: String
  ) throws {
    let destination = try S3Fixture.destination { $0.checksum = checksum }
    let opening = destination.request(for: .openSession(Fixture.opening()))
    #expect(opening.header("x-amz-checksum-algorithm") == name)
    let session = S3Fixture.session(with: checksum)
    let sending = S3Fixture.sending(of: session)
    let part = try #require(destination.request(for: .chunk(sending)).header(field))
    if checksum == .crc32c { #expect(part == value) } else { #expect(part == Base64.encode(sending.digest.sha256)) }
    let body = String(decoding: destination.request(for: .commit(S3Fixture.commit(of: session))).content, as: UTF8.self)
    #expect(body.components(of: "<Checksum\(name)>") == 2)
  }

  @Test(.promises("DE28", "DE29")) func wholeFile_isOnePutWithItsMerkleRoot() throws {
    let destination = try S3Fixture.destination { $0.ifExists = .refuse }
    let step = DestinationStep.wholeFile(Fixture.wholeFile())
    let request = try #require(destination.followUp(of: step, after: [Fixture.answer(404)], at: .first))
    #expect(request.method == .put)
    #expect(request.url == Self.start + "day%201/a%20b/c.txt")
    #expect(request.header("if-none-match") == "*")
    let root = ProtocolReference.merkleRoot([ProtocolReference.sha256(Array("123456789".utf8))])
    #expect(request.header("x-amz-meta-uploadfs-merkle-root") == ProtocolReference.hex(root))
    let empty = try S3Fixture.destination().request(for: .wholeFile(Fixture.wholeFile([])))
    #expect(empty.content == [])
    #expect(empty.header("x-amz-content-sha256") == Hex.encode(sha256([])))
  }

  @Test func list_abort_andWarming_haveNoBody() throws {
    let destination = try S3Fixture.destination()
    let upload = Self.start + "day%201/a.mov?uploadId=up%2Fload%2B1"
    let list = destination.request(for: .querySession(S3Fixture.session))
    #expect((list.method, list.url) == (.get, upload))
    let abort = destination.request(for: .abort(S3Fixture.session))
    #expect((abort.method, abort.url) == (.delete, upload))
    let warming = destination.request(for: .prewarm)
    #expect((warming.method, warming.url) == (.head, Self.start))
  }

  @Test(
    .promises("DE13", "DE18", "DE20"),
    arguments: [
      (
        "s3+https://s3.eu-central-1.amazonaws.com/captures", "https://captures.s3.eu-central-1.amazonaws.com/a",
        "eu-central-1"
      ),
      (
        "s3+https://s3.dualstack.us-west-2.amazonaws.com/captures",
        "https://captures.s3.dualstack.us-west-2.amazonaws.com/a", "us-west-2"
      ),
      ("s3+https://s3.amazonaws.com:443/cap.tures", "https://s3.amazonaws.com/cap.tures/a", "us-east-1"),
      ("s3+https://abc.r2.cloudflarestorage.com/captures/", "https://abc.r2.cloudflarestorage.com/captures/a", "auto"),
      ("s3+http://localhost:9000/captures/x", "http://localhost:9000/captures/x/a", "us-east-1"),
      ("S3+HTTPS://[::1]:9000/captures", "https://[::1]:9000/captures/a", "us-east-1"),
    ])
  func addresses_giveStyleAndRegion(address: String, url: String, region: String) throws {
    let destination = try S3Fixture.destination(address)
    let request = destination.request(for: .wholeFile(Fixture.wholeFile(path: "a")))
    #expect(request.url == url)
    #expect(request.header("authorization")?.contains("/20231114/\(region)/s3/aws4_request") == true)
  }

  @Test(.promises("DE18", "DE20")) func styleAndRegion_canBeChosen() throws {
    let destination = try S3Fixture.destination {
      $0.style = .virtualHost
      $0.region = "nl-1"
    }
    let request = destination.request(for: .prewarm)
    #expect(request.url == "https://captures.s3.example.org:9000/")
    #expect(request.header("authorization")?.contains("/nl-1/s3/") == true)
    #expect(throws: DestinationError.self) { try S3Fixture.destination { $0.region = "eu/west" } }
    #expect(throws: DestinationError.self) { try S3Fixture.destination { $0.region = "" } }
  }

  @Test(
    .promises("DE13"),
    arguments: [
      "s3+https://s3.example.org", "s3+https://s3.example.org/", "s3+https://s3.example.org/AB",
      "s3+https://s3.example.org/ab", "s3+https://s3.example.org/-abc", "s3+https://s3.example.org/a%2Fb",
      "s3+http://s3.example.org/captures", "s3+https://key:secret@s3.example.org/captures",
      "s3+https://s3.example.org/captures?x=y", "s3+https://s3.example.org/captures/%ff",
      "https://s3.example.org/captures",
      "s3+ftp://s3.example.org/captures", "s3+https://", "s3+", "+", "s3+https://s3.example.org/captures/../x",
      // Regression: these became other keys, silently.
      "s3+https://s3.example.org/captures/a//b", "s3+https://s3.example.org/captures//a",
      "s3+https://s3.example.org/captures/a%2Fb",
      "s3+https://s3.example.org/captures/a%2fb",
    ])
  func addressesThatNameNoBucket_areRefused(address: String) {
    #expect(throws: DestinationError.self) { try S3Address(address, allowPlainHTTP: false) }
  }
}

extension String {
  /// How often a text stands in it.
  fileprivate func components(of text: String) -> Int { ranges(of: text).count }
}

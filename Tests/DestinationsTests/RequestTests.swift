import ChunkProtocol
import Destinations
import FileModel
import Integrity
import Promises
import ProtocolReference
import Testing
import TransferModel

@Suite struct RequestTests {
  @Test func abilities_areThoseOfTheProtocol() throws {
    let destination = try Fixture.destination { $0.wholeFileBytesMax = 123 }
    var abilities = DestinationAbilities(
      parallelChunks: 12, replaceableChunks: true, unknownLength: true, wholeFileBytesMax: 123, fileBytesMax: nil,
      commitWaitsForChunks: true, durableChunks: true)
    abilities.ordersPublications = true
    abilities.ifExists = .number
    abilities.takesRuns = true
    abilities.takesZeros = true
    abilities.takesSharedFrames = true
    abilities.chunkCountMax = 200_000
    #expect(destination.abilities == abilities)
    #expect(try Fixture.destination().abilities.wholeFileBytesMax == 4 << 20)
    #expect(destination.displayURL == Fixture.base)
    #expect(destination.publishedName(for: RelativePath(bytes: [0x61, 0xff])) == "a%FF")
  }

  @Test(.promises("P3")) func everyRequest_carriesTheCredential() throws {
    let destination = try Fixture.destination()
    for step in Fixture.steps {
      let request = destination.request(for: step)
      #expect(request.header("Authorization") == "Bearer secret-token")
      #expect(request.url.hasPrefix(Fixture.base + "/v1/"))
      #expect(!request.url.contains("secret-token"))
    }
    let basic = try ChunkProtocolDestination(
      baseURL: Fixture.base, credential: .basic(user: "Aladdin", password: "open sesame"))
    #expect(basic.request(for: .prewarm).header("Authorization") == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    let open = try ChunkProtocolDestination(baseURL: Fixture.base, credential: nil)
    #expect(open.request(for: .prewarm).header("Authorization") == nil)
  }

  @Test func request_goesToTheAddressThatWasChosen() throws {
    let destination = try ChunkProtocolDestination(
      baseURL: "https://a.example.org", alternatives: ["https://b.example.org:8443/up/"], credential: nil)
    #expect(destination.endpointCount == 2)
    #expect(destination.displayURL == "https://a.example.org")
    let step = DestinationStep.querySession(SessionIdentity(id: "s", nonce: []))
    let urls = (0..<3).map { destination.request(for: step, at: EndpointID($0)).url }
    #expect(urls[0].hasPrefix("https://a.example.org/v1/uploads/s"))
    #expect(urls[1].hasPrefix("https://b.example.org:8443/up/v1/uploads/s"))
    #expect(urls[2] == urls[0], "an address that there is not must not end the process")
    #expect(throws: DestinationError.self) {
      try ChunkProtocolDestination(baseURL: "https://a", alternatives: ["ftp://b"], credential: nil)
    }
  }

  @Test func prewarm_isAHead() throws {
    let request = try Fixture.destination().request(for: .prewarm)
    #expect(request.method == .head)
    #expect(request.url == Fixture.base + "/v1/")
    #expect(request.content.isEmpty)
    #expect(request.limits.connect == .seconds(5))
  }

  @Test(.promises("P16")) func opening_isAPostWithAllFacts() throws {
    let request = try Fixture.destination().request(for: .openSession(Fixture.opening()))
    #expect(request.method == .post)
    #expect(request.url == Fixture.base + "/v1/uploads")
    #expect(request.header("Content-Type") == "application/json")
    let body = try WireJSON.decode(SessionRequest.self, from: request.content)
    #expect(
      body
        == SessionRequest(
          name: "day 1/scan%25.mov", sizeBytes: 10_000_000, chunkBytes: 4 << 20,
          modifiedNanoseconds: 1_700_000_000_000_000_001, mode: 0o640, contentType: nil,
          fileID: "000000000000000100000000000000fe", revision: 7, nonce: Hex.encode(Fixture.nonce)))
    let key = try #require(request.header("Idempotency-Key").flatMap(IdempotencyKey.init(headerValue:)))
    #expect(key.text.hasPrefix("000000000000000100000000000000fe-7-\(Hex.encode(Fixture.nonce))-"))
  }

  @Test(.promises("P16")) func opening_ofAFileBeingWritten_hasNoSize() throws {
    let request = try Fixture.destination().request(for: .openSession(Fixture.opening(size: nil)))
    #expect(try WireJSON.decode(SessionRequest.self, from: request.content).sizeBytes == nil)
  }

  @Test func idempotencyKey_isTheSameForTheSameRequestOnly() throws {
    let destination = try Fixture.destination()
    func key(_ step: DestinationStep) -> String? { destination.request(for: step).header("Idempotency-Key") }
    #expect(key(.openSession(Fixture.opening())) == key(.openSession(Fixture.opening())))
    #expect(key(.openSession(Fixture.opening())) != key(.openSession(Fixture.opening(size: 1))))
    #expect(key(.openSession(Fixture.opening())) != key(.openSession(Fixture.opening(path: "x"))))
    let file = key(.wholeFile(Fixture.wholeFile()))
    #expect(file == key(.wholeFile(Fixture.wholeFile())))
    #expect(file != key(.wholeFile(Fixture.wholeFile(path: "other"))))
    #expect(file != key(.wholeFile(Fixture.wholeFile(mode: 0o600))))
    #expect(file != key(.wholeFile(Fixture.wholeFile([1]))))
    #expect(key(.querySession(Fixture.session)) == nil)
  }

  @Test(.promises("P34")) func query_asksForDigests() throws {
    let request = try Fixture.destination().request(for: .querySession(Fixture.session))
    #expect(request.method == .get)
    #expect(request.url == Fixture.base + "/v1/uploads/s-1_A?digests=1")
  }

  @Test(.promises("P22")) func chunk_carriesDigestsAndTag() throws {
    let sending = Fixture.chunk()
    let request = try Fixture.destination().request(for: .chunk(sending))
    #expect(request.method == .put)
    #expect(request.url == Fixture.base + "/v1/uploads/s-1_A/chunks/3")
    #expect(request.content == Array("123456789".utf8))
    #expect(request.sentBytes === sending.sentBytes)
    #expect(request.header("X-Chunk-CRC32C") == "e3069283")
    let headers = try ChunkHeaders(reading: request.header)
    #expect(headers.sha256 == sha256(Array("123456789".utf8)))
    #expect(headers.sizeBytes == 9)
    #expect(headers.encoding == .identity)
    #expect(
      headers.mac
        == ProtocolReference.mac(
          secret: "secret-token", nonce: Fixture.nonce, sessionID: "s-1_A", index: 3, Array("123456789".utf8)))
  }

  @Test(.promises("P81")) func compressedChunk_statesItsPlainBytesAndEncoding() throws {
    let content = [UInt8](repeating: 0, count: 1 << 20)
    let destination = try Fixture.destination()
    let plain = destination.request(for: .chunk(Fixture.chunk(content)))
    let compressed = destination.request(for: .chunk(Fixture.compressedChunk(content, body: [1, 2, 3])))
    #expect(compressed.content == [1, 2, 3])
    #expect(compressed.header("X-Chunk-Encoding") == "lz4")
    #expect(compressed.header("X-Chunk-Size") == "1048576")
    #expect(compressed.header("Content-Digest") == nil)
    #expect(plain.header("X-Chunk-Encoding") == "identity")
    for field in ["X-Chunk-SHA256", "X-Chunk-CRC32C", "X-Chunk-HMAC", "X-Chunk-Size"] {
      #expect(compressed.header(field) == plain.header(field), "\(field)")
    }
    // The time is for what travels.
    #expect(plain.limits.total == .seconds(256))
    #expect(compressed.limits.total == UploadConstants.chunkTimeoutBase)
  }

  @Test(.promises("P82")) func compressedWholeFile_statesItsPlainBytesAndEncoding() throws {
    let content = [UInt8](repeating: 0, count: 1000)
    var sending = Fixture.wholeFile(content)
    sending.encoding = .lz4
    sending.body = TestBytes([7, 7])
    let destination = try Fixture.destination()
    let plain = destination.request(for: .wholeFile(Fixture.wholeFile(content)))
    let compressed = destination.request(for: .wholeFile(sending))
    #expect(compressed.content == [7, 7])
    #expect(compressed.header("X-Chunk-Encoding") == "lz4")
    for field in ["X-Chunk-SHA256", "X-Chunk-HMAC", "X-Chunk-Size", "Idempotency-Key"] {
      #expect(compressed.header(field) == plain.header(field), "\(field)")
    }
  }

  @Test(.promises("P100")) func chunk_hasAStallLimitAndTimeForItsSize() throws {
    let destination = try Fixture.destination()
    let small = destination.request(for: .chunk(Fixture.chunk())).limits
    #expect(small.stall == UploadConstants.stallDetection)
    #expect(small.stallBytesPerSecond == 8192)
    #expect(small.connect == .seconds(5))
    #expect(small.total == UploadConstants.chunkTimeoutBase)
    let bytes = [UInt8](repeating: 0, count: 4 << 20)
    #expect(destination.request(for: .chunk(Fixture.chunk(bytes))).limits.total == .seconds(1024))
  }

  @Test func chunkIndex_outOfRange_doesNotTrap() throws {
    for index in [-1, Int.min, Int.max] {
      let request = try Fixture.destination().request(for: .chunk(Fixture.chunk(index: index)))
      #expect(ProtocolPath(target: String(request.url.dropFirst(Fixture.base.count))) != nil)
    }
  }

  @Test(.promises("P38", "P100")) func commit_statesEverything() throws {
    var commit = Fixture.commit()
    commit.right = NameRight(ifExists: .refuse)
    let request = try Fixture.destination().request(for: .commit(commit))
    #expect(request.method == .post)
    #expect(request.url == Fixture.base + "/v1/uploads/s-1_A/commit")
    #expect(request.limits.total == .seconds(120))
    #expect(request.limits.stall == .zero)
    #expect(
      try WireJSON.decode(CommitRequest.self, from: request.content)
        == CommitRequest(
          sizeBytes: 10_000_000, chunkCount: 3, merkleRoot: Hex.encode(sha256([1])), chainTip: Hex.encode(sha256([2])),
          name: "a/b%0A.mov", ifExists: .fail, ownership: NameOwnership(ifTaken: .refuse), modifiedNanoseconds: -5,
          mode: 0o755))
  }

  @Test(.promises("P38", "P54", "DE138e")) func publications_sayWhatTheyMayReplace() throws {
    let root = Hex.encode(sha256([4]))
    let earlier = [
      EarlierPublication(fileID: Fixture.fileID, merkleRoot: root, sizeBytes: 9, chunkBytes: 4096),
      EarlierPublication(fileID: Fixture.fileID, merkleRoot: root, sizeBytes: 5, chunkBytes: nil),
      EarlierPublication(fileID: Fixture.fileID, merkleRoot: root, sizeBytes: 1 << 40, chunkBytes: nil),
      EarlierPublication(fileID: Fixture.fileID, merkleRoot: "no digest", sizeBytes: 1, chunkBytes: 1),
    ]
    let right = NameRight(ifExists: .number, replaces: earlier, publishedAs: "a b/c-2.txt")
    let claims = [(9, UInt32(4096)), (5, 5), (1 << 40, nil)].map { size, chunk in
      PublicationClaim(
        fileID: Fixture.fileID.description, merkleRoot: sha256([4]), sizeBytes: UInt64(size), chunkBytes: chunk)
    }
    let ownership = NameOwnership(ifTaken: .number, replaces: claims, publishedAs: "a b/c-2.txt")
    var sending = Fixture.wholeFile()
    sending.right = right
    let file = try FileHeaders(reading: Fixture.destination().request(for: .wholeFile(sending)).header)
    #expect(file.ownership == ownership && file.ifExists == .replace)
    var commit = Fixture.commit()
    commit.right = right
    let body = try Fixture.destination().request(for: .commit(commit)).content
    let read = try WireJSON.decode(CommitRequest.self, from: body)
    #expect(read.ownership == ownership && read.ifExists == .replace)
    commit.right = NameRight(ifExists: .number)
    let first = try Fixture.destination().request(for: .commit(commit)).content
    #expect(try WireJSON.decode(CommitRequest.self, from: first).ifExists == .fail)
  }

  /// Regression: of what versions before had published in chunks, a later content got a number.
  @Test(.promises("P38", "DE138a")) func whereTheSizeOfChunksIsNotKnown_theUsualOnesAreNamed() throws {
    let destination = try Fixture.destination { $0.wholeFileBytesMax = 256 << 10 }
    func sizes(of sizeBytes: UInt64) throws -> [UInt32?] {
      var commit = Fixture.commit()
      let earlier = EarlierPublication(
        fileID: Fixture.fileID, merkleRoot: Hex.encode(sha256([4])), sizeBytes: sizeBytes, chunkBytes: nil)
      commit.right = NameRight(ifExists: .number, replaces: Array(repeating: earlier, count: 6))
      let body = destination.request(for: .commit(commit)).content
      let claims = try #require(WireJSON.decode(CommitRequest.self, from: body).ownership?.replaces)
      #expect(claims.count <= 8)
      return claims.prefix(2).map(\.chunkBytes)
    }
    #expect(try sizes(of: 700_000) == [256 << 10, 700_000])
    #expect(try sizes(of: 100 << 20) == [256 << 10, 4 << 20])
    // More chunks than a file may have.
    #expect(try sizes(of: 300 << 30) == [4 << 20, 4 << 20])
    #expect(try sizes(of: 1 << 50) == [nil, nil])
    #expect(try sizes(of: 0) == [1, 1])
  }

  @Test(.promises("P52")) func abort_isADelete() throws {
    let request = try Fixture.destination().request(for: .abort(SessionIdentity(id: "x", nonce: [])))
    #expect(request.method == .delete)
    #expect(request.url == Fixture.base + "/v1/uploads/x")
  }

  @Test(.promises("P54", "P55")) func wholeFile_carriesEverythingInOneRequest() throws {
    let sending = Fixture.wholeFile()
    let request = try Fixture.destination().request(for: .wholeFile(sending))
    #expect(request.method == .put)
    #expect(request.url == Fixture.base + "/v1/files/a%20b/c.txt")
    #expect(request.content == Array("123456789".utf8))
    let file = try FileHeaders(reading: request.header)
    #expect(file.nonce == Fixture.nonce)
    #expect(file.modifiedNanoseconds == 42)
    #expect(file.mode == 0o644)
    #expect(file.ifExists == .replace && file.ownership == NameOwnership(ifTaken: .replace))
    #expect(file.fileID == "000000000000000100000000000000fe")
    let chunk = try ChunkHeaders(reading: request.header)
    let text = file.idempotencyKey.text
    #expect(
      chunk.mac
        == ProtocolReference.mac(
          secret: "secret-token", nonce: Fixture.nonce, sessionID: text, index: 0, Array("123456789".utf8)))
  }

  @Test(.promises("P54", "P86")) func emptyFile_isSentWithAnEmptyBody() throws {
    let request = try Fixture.destination().request(for: .wholeFile(Fixture.wholeFile([])))
    let chunk = try ChunkHeaders(reading: request.header)
    #expect(chunk.sizeBytes == 0)
    #expect(chunk.crc32c == 0)
    #expect(chunk.sha256 == sha256([]))
    guard case .bytes(let bytes) = request.body else {
      Issue.record("a PUT needs a body, or no Content-Length is sent")
      return
    }
    #expect(bytes.isEmpty)
  }
}

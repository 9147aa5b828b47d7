import ChunkProtocol
import FoundationEssentials
import Integrity
import Promises
import Testing

/// docs/protocol.md and docs/openapi.yaml say what the code does.
@Suite struct DocumentTests {
  private let protocolText: String
  private let openAPIText: String

  init() throws {
    let parts = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
    let root = parts.joined(separator: "/")
    protocolText = try String(contentsOfFile: root + "/docs/protocol.md", encoding: .utf8)
    openAPIText = try String(contentsOfFile: root + "/docs/openapi.yaml", encoding: .utf8)
  }

  @Test(.promises("P92")) func problems_areAllDescribedWithTheirStatus() {
    let lines = protocolText.split(separator: "\n")
    for type in ProblemType.allCases {
      let word = type.rawValue.split(separator: ":").last ?? ""
      let line = lines.first { $0.hasPrefix("| `\(word)` |") } ?? ""
      #expect(line.contains("\(type.status)"), "docs/protocol.md, Problems: \(word)")
      #expect(openAPIText.contains("- \(type.rawValue)\n"), "docs/openapi.yaml, Problem: \(word)")
    }
    let listed = lines.filter { $0.hasPrefix("| `") && $0.split(separator: "|").count == 4 }
    #expect(listed.count(where: { $0.contains("| 4") || $0.contains("| 5") }) == ProblemType.allCases.count)
    #expect(openAPIText.components("urn:uploadfs:problem:") == ProblemType.allCases.count)
  }

  @Test(.promises("P11")) func limits_areThoseOfTheCode() {
    #expect(protocolText.contains("| header section | \(ProtocolLimits.headerBytesMax >> 10) KiB |"))
    #expect(protocolText.contains("| JSON body | \(ProtocolLimits.jsonBodyBytesMax >> 10) KiB |"))
    #expect(
      protocolText.contains(
        "| published name | \(ProtocolLimits.nameBytesMax) bytes, \(ProtocolLimits.nameComponentBytesMax) for each"))
    #expect(protocolText.contains("| session id | 1–\(ProtocolLimits.sessionIDBytesMax) of"))
    #expect(protocolText.contains("| idempotency key | 1–\(ProtocolLimits.idempotencyKeyBytesMax) printable"))
    #expect(protocolText.contains("| members of a bundle | \(ProtocolLimits.bundleFilesMax) |"))
    #expect(protocolText.contains("| head of a member | \(ProtocolLimits.bundleHeadBytesMax >> 10) KiB |"))
    #expect(protocolText.contains("| plain bytes of a bundle | \(ProtocolLimits.bundleBytesMax >> 20) MiB |"))
    #expect(protocolText.contains("`\(HeaderName.bundleFilesMax): \(ProtocolLimits.bundleFilesMax)`"))
    #expect(protocolText.contains("| chunks of a run | \(ProtocolLimits.runChunksMax) |"))
    #expect(protocolText.contains("| plain bytes of a run | \(ProtocolLimits.runBytesMax >> 20) MiB |"))
    #expect(protocolText.contains("`\(HeaderName.runBytesMax): \(ProtocolLimits.runBytesMax)`"))
    #expect(protocolText.contains("| chunks of one upload | \(ProtocolLimits.chunkCountMax / 1000),000 "))
    #expect(protocolText.contains("| indices in one `incomplete` | \(ProtocolLimits.missingIndicesMax) |"))
    #expect(protocolText.contains("| a commit's wait for chunks | \(ProtocolLimits.commitWaitSeconds) s |"))
    #expect(protocolText.contains("| life of a session | \(ProtocolLimits.sessionLifetimeSeconds / 86_400) days"))
  }

  @Test func headerFields_areAllDescribed() {
    for name in [
      HeaderName.chunkSHA256, HeaderName.chunkCRC32C, HeaderName.chunkSize, HeaderName.chunkEncoding,
      HeaderName.chunkHMAC, HeaderName.chunkNonce, HeaderName.contentDigest, HeaderName.idempotencyKey,
      HeaderName.fileModifiedNanoseconds, HeaderName.fileMode, HeaderName.fileID, HeaderName.ifExists,
      HeaderName.ifTaken, HeaderName.replaces, HeaderName.publishedAs, HeaderName.retryAfter, HeaderName.bundleFilesMax,
      HeaderName.chunkEncodings, HeaderName.bundleEncodings, HeaderName.runBytesMax,
    ] {
      #expect(protocolText.contains("`\(name)"), "docs/protocol.md: \(name)")
      #expect(openAPIText.contains("\(name)"), "docs/openapi.yaml: \(name)")
    }
  }

  @Test(.promises("P13")) func members_areAllDescribed() throws {
    let digest = String(repeating: "0", count: 64)
    let receipt = ReceiptBody(
      id: "r", name: "n", sizeBytes: 0, merkleRoot: digest, chainTip: digest, publishedAtMilliseconds: 0)
    let bodies: [any Encodable] = [
      Capabilities(
        chunkBytesMin: 1, chunkBytesMax: 1, fileBytesMax: 1, concurrentChunks: 1, wholeFileBytesMax: 1),
      SessionRequest(
        name: "n", sizeBytes: 1, chunkBytes: 1, modifiedNanoseconds: 0, mode: 0, contentType: "t", fileID: "f",
        revision: 0, nonce: digest),
      SessionResponse(id: "s", chunkBytes: 1, expiresAtSeconds: 0, encodings: []),
      HeldResponse(
        id: "s", state: .open, chunkBytes: 1, held: [], digests: [:], chainTip: digest, expiresAtSeconds: 0,
        receipt: receipt, encodings: []),
      CommitRequest(
        sizeBytes: 0, chunkCount: 0, merkleRoot: digest, chainTip: digest, name: "n", ifExists: .fail,
        ownership: NameOwnership(
          ifTaken: .number,
          replaces: [PublicationClaim(fileID: "f", merkleRoot: sha256([]), sizeBytes: 0, chunkBytes: 1)],
          publishedAs: "n"),
        modifiedNanoseconds: 0, mode: 0),
      PublicationClaim(fileID: "f", merkleRoot: sha256([]), sizeBytes: 0, chunkBytes: 1), receipt,
      StatsResponse(
        startedAtMilliseconds: 0, requests: 0, connectionsAccepted: 0, handshakes: 0, chunksReceived: 0,
        chunksStored: 0, duplicateChunks: 0, bytesReceived: 0, filesPublished: 0, chunkRequestsInFlightMax: 0,
        uploads: []),
      StatsResponse.Upload(
        id: "s", name: "n", requests: 0, connections: 0, chunksReceived: 0, chunksStored: 0, duplicateChunks: 0,
        bytesReceived: 0, encodedBytesReceived: 0, streamsMax: 0, streamsMaxAfterMilliseconds: 0,
        firstChunkAtMilliseconds: 0, twelveActiveAfterMilliseconds: 0),
      Problem(.incomplete, detail: "d", missing: [], limit: 0, field: "f"),
    ]
    for body in bodies {
      for member in try members(WireJSON.encode(body)) {
        #expect(protocolText.contains("`\(member)`") || protocolText.contains("\"\(member)\""), "\(member)")
        #expect(openAPIText.contains("        \(member):"), "docs/openapi.yaml: \(member)")
      }
    }
  }

  @Test(.promises("P88")) func example_isComputedByTheCode() {
    let nonce = (0..<32).map { UInt8($0) }
    let master = ChunkMAC.masterKey(credentialSecret: Array("example-token".utf8))
    let key = ChunkMAC.sessionKey(masterKey: master, nonce: nonce, sessionID: "0123456789abcdef")
    let mac = ChunkMAC.mac(
      key: key, index: 7, sizeBytes: 3, chunkSHA256: sha256(Array("abc".utf8)), sessionID: "0123456789abcdef",
      nonce: nonce)
    for bytes in [master, key, mac] { #expect(protocolText.contains(Hex.encode(bytes))) }
  }

  /// The names of an object's members.
  private func members(_ json: [UInt8]) throws -> [String] {
    struct Anything: Decodable { init(from decoder: any Decoder) throws {} }
    return try WireJSON.decode([String: Anything].self, from: json).keys.sorted()
  }
}

extension String {
  /// How often a text occurs.
  fileprivate func components(_ text: String) -> Int {
    ranges(of: text).count
  }
}

import ChunkProtocol
import Integrity
import ReceiverCore
import Testing

@testable import UploadSimulation

/// Runs of chunks at the simulated receiver, which is the real intake and core.
@Suite struct SimulatedRunTests {
  private static let nonce = [UInt8](repeating: 7, count: 32)
  private let world: World
  private let receiver: SimulatedReceiver

  init() {
    world = World(scenario: .calm, seed: 1, bug: nil, plan: nil, isTracing: false)
    receiver = SimulatedReceiver(world)
    receiver.start()
  }

  /// Sends a request, or its beginning, and waits for what comes of it.
  private func send(
    _ method: String, _ target: String, _ fields: [(name: String, value: String)] = [], _ body: [UInt8] = [],
    cutAfter arrived: Int? = nil
  ) -> Answer? {
    var (answer, isOver): (Answer?, Bool) = (nil, false)
    let request = WireRequest(
      method: method, target: target,
      fields: fields + [
        (HeaderName.authorization, "Bearer \(SimulatedReceiver.token)"),
        (HeaderName.contentLength, String(body.count)),
      ])
    let exchange = receiver.begin(request) {
      answer = $0
      isOver = true
    }
    if let arrived {
      exchange?.breakOff(after: Array(body.prefix(arrived)))
    } else {
      exchange?.arrive(body)
    }
    while !isOver, world.time.step() {}
    return answer
  }

  private func open() throws -> String {
    let body = SessionRequest(
      name: "scan.mov", sizeBytes: nil, chunkBytes: 4, modifiedNanoseconds: 0, mode: 0o644, contentType: nil,
      fileID: "f", revision: 1, nonce: Hex.encode(Self.nonce))
    let answer = send("POST", "/v1/uploads", [(HeaderName.idempotencyKey, "\"key\"")], WireJSON.encode(body))
    return try WireJSON.decode(SessionResponse.self, from: try #require(answer).body).id
  }

  private func member(_ id: String, _ index: UInt32, _ plain: [UInt8]) -> [UInt8] {
    let master = ChunkMAC.masterKey(credentialSecret: Array(SimulatedReceiver.token.utf8))
    let key = ChunkMAC.sessionKey(masterKey: master, nonce: Self.nonce, sessionID: id)
    let mac = ChunkMAC.mac(
      key: key, index: index, sizeBytes: UInt64(plain.count), chunkSHA256: sha256(plain), sessionID: id,
      nonce: Self.nonce)
    let chunk = ChunkHeaders(
      sha256: sha256(plain), crc32c: ChunkChecksums(of: plain).crc32c, sizeBytes: UInt64(plain.count),
      encoding: .identity,
      mac: mac, contentSHA256: nil)
    let head = BundleMemberHead(target: ProtocolPath.chunk(id: id, index: index).text, fields: chunk.fields)
    return head.encode(contentLength: plain.count) + plain
  }

  private func sendRun(_ id: String, _ body: [UInt8], cutAfter arrived: Int? = nil) -> Answer? {
    send("POST", "/v1/uploads/\(id)/chunks", [(HeaderName.contentType, MediaType.bundle)], body, cutAfter: arrived)
  }

  private func held(_ id: String) throws -> [ChunkIndexRange] {
    try WireJSON.decode(HeldResponse.self, from: try #require(send("GET", "/v1/uploads/\(id)")).body).held
  }

  @Test func run_isAnsweredMemberByMember() throws {
    let id = try open()
    let answer = try #require(
      sendRun(id, member(id, 0, [1, 2, 3, 4]) + member("other", 1, [1]) + member(id, 2, [9])))
    #expect(answer.status == 200)
    #expect(try BundleAnswer.read(answer.body).map(\.status) == [201, 400, 201])
    #expect(try held(id) == ChunkIndexRange.covering([0, 2]))
    #expect(world.violation == nil && receiver.isQuiet)
  }

  @Test func runThatBreaksOff_leavesWhatWasComplete() throws {
    let id = try open()
    let (first, second) = (member(id, 0, [1, 2, 3, 4]), member(id, 1, [5, 6, 7, 8]))
    _ = sendRun(id, first + second, cutAfter: first.count + second.count - 1)
    #expect(try held(id) == ChunkIndexRange.covering([0]))
    _ = sendRun(id, second, cutAfter: 0)
    #expect(try held(id) == ChunkIndexRange.covering([0]))
    #expect(sendRun("nothing", second)?.status == 404)
    #expect(world.violation == nil && receiver.isQuiet)
  }
}

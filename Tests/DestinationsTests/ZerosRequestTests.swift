import ChunkProtocol
import Integrity
import Promises
import ProtocolReference
import Testing
import TransferModel

@testable import Destinations

@Suite struct ZerosRequestTests {
  private let sending = ZerosSending(
    session: Fixture.session, ranges: [0..<3, 7..<200_000], chunkBytes: 512, digest: ChunkDigest(ofZeros: 512))

  @Test(.promises("P33i", "P89b")) func zeros_areNamedWithTheirTag() throws {
    let request = try Fixture.destination().request(for: .zeros(sending))
    #expect(request.method == .post)
    #expect(request.url == Fixture.base + "/v1/uploads/s-1_A/zeros")
    let body = try WireJSON.decode(ZerosRequest.self, from: request.content)
    #expect(body.ranges == [ChunkIndexRange(first: 0, last: 2), ChunkIndexRange(first: 7, last: 199_999)])
    let mac = ProtocolReference.zerosMAC(
      secret: Fixture.token, nonce: Fixture.nonce, sessionID: "s-1_A", chunkBytes: 512,
      ranges: [(first: 0, last: 2), (first: 7, last: 199_999)])
    #expect(body.mac == ProtocolReference.hex(mac))
    #expect(ChunkDigest(ofZeros: 512).sha256.bytes == ProtocolReference.sha256([UInt8](repeating: 0, count: 512)))
    #expect(ChunkDigest(ofZeros: 512).crc32c == ProtocolReference.crc32c([UInt8](repeating: 0, count: 512)))
  }

  @Test(.promises("P33j")) func answers_meanWhatThoseOfChunksMean() throws {
    let destination = try Fixture.destination()
    func outcome(_ status: Int) -> StepOutcome {
      destination.outcome(of: .zeros(sending), response: Fixture.answer(status))
    }
    #expect(outcome(201) == .chunkStored && outcome(200) == .chunkStored)
    let refused = destination.outcome(
      of: .zeros(sending), response: Fixture.answer(400, Problem(.badRequest, detail: "ranges")))
    #expect(outcome(503).failure?.kind == .busy && refused.failure?.kind == .badRequest)
    // A proxy's word ends no session.
    #expect(outcome(404).failure?.kind == .serverError && outcome(400).failure?.kind == .serverError)
    #expect(outcome(202).failure != nil)
  }

  @Test(.promises("P14")) func offer_isRead_andBounded() throws {
    let destination = try Fixture.destination()
    func offered(_ value: String?) -> Int? {
      let headers = value.map { [HTTPHeader("x-zero-ranges-max", $0)] } ?? []
      return destination.offers(in: Fixture.answer(204, headers: headers)).zeroRangesMax
    }
    #expect(offered("1000") == 1000 && offered("5") == 5 && offered("99999") == 1000 && offered("0") == 0)
    #expect(offered(nil) == nil && offered("-1") == nil && offered("many") == nil)
  }
}

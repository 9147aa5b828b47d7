import FileModel
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct DestinationGateTests {
  private static func at(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

  private static func failure(_ code: String) -> FileStatus.Failure {
    FileStatus.Failure(
      code: code, message: "It is away.", at: ClockReading(monotonic: at(0), wallMilliseconds: 0, asleep: .zero))
  }

  private let probe = HTTPRequestID(7)

  private func closed(by proof: DestinationGate.Proof = .answers) -> DestinationGate {
    var gate = DestinationGate()
    _ = gate.close(for: .seconds(10), at: Self.at(0), Self.failure("busy"), by: proof)
    return gate
  }

  @Test func closed_letsOneRequestThrough_onceThePauseIsOver() {
    var gate = closed()
    #expect(!gate.maySend(at: Self.at(9)) && gate.maySend(at: Self.at(10)))
    gate.sent(probe)
    #expect(gate.isProbe(probe) && !gate.maySend(at: Self.at(100)) && gate.closedUntil == nil)
    gate.sent(HTTPRequestID(8))
    #expect(gate.isProbe(probe), "one that was under way before is not the probe")
    gate.probeNext(at: Self.at(11))
    #expect(gate.maySend(at: Self.at(11)) && !gate.isOpen)
  }

  @Test func pauseCanBeShortened_andNotMadeLonger() {
    var gate = closed()
    let shortened = [20, 3].map { gate.shorten(to: Self.at($0)) }
    #expect(shortened == [false, true] && gate.closedUntil == Self.at(3))
    let hasEnded = gate.endPause(at: Self.at(1))
    #expect(hasEnded && gate.maySend(at: Self.at(1)))
    gate.sent(probe)
    let changes = [gate.endPause(at: Self.at(2)), gate.shorten(to: Self.at(2))]
    #expect(changes == [false, false] && gate.isProbe(probe))
    var open = DestinationGate()
    let hadPause = open.endPause(at: Self.at(2))
    #expect(!hadPause && open.isOpen)
  }

  /// A server that answers each question may still take no bytes.
  @Test func onlyWhatProvesAsMuch_endsThePauses() {
    var gate = closed(by: .takes)
    _ = gate.close(for: .seconds(20), at: Self.at(10), Self.failure("busy"), by: .answers)
    let tooLittle = [DestinationGate.Proof.answers, .begins].map { gate.isProved(by: $0) }
    #expect(tooLittle == [false, false] && gate.delay == .seconds(20))
    // Once what failed has succeeded, anything is enough.
    let enough = [DestinationGate.Proof.takes, .answers].map { gate.isProved(by: $0) }
    #expect(enough == [true, true] && gate.delay == nil)
  }

  @Test func failure_isSaidOnce_untilItIsAnotherOne_orTheGateWasOpen() {
    var gate = closed()
    let areNew = ["busy", "tls-failed"].map {
      gate.close(for: .seconds(20), at: Self.at(10), Self.failure($0), by: .answers)
    }
    #expect(areNew == [false, true] && gate.attempts == 3 && gate.failure?.code == "tls-failed")
    let wasClosed = [gate.open(), gate.open()]
    #expect(wasClosed == [true, false] && gate.failure == nil && gate.attempts == 0)
    let isNew = gate.close(for: .seconds(20), at: Self.at(60), Self.failure("tls-failed"), by: .answers)
    #expect(isNew)
  }
}

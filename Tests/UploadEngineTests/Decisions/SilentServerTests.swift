import FileModel
import Lookup
import Promises
import Testing
import TransferModel

@testable import UploadEngine

/// A server that hangs.
@Suite struct SilentServerTests {
  private let file = ImaginaryFile(1, "a.mov", size: 3500)

  private func saysSilence(_ harness: ScheduleHarness) -> Bool {
    harness.status(file.id)?.reason?.contains("has not answered for") == true
  }

  /// Regression: of a receiver that was stopped nothing was said for eleven seconds.
  @Test(.promises("S31g")) func serverThatDoesNotAnswer_isSaidAfterFourSeconds() {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.write(file)
    #expect(harness.sent.contains { $0.order.isOpenSession })
    harness.advance(by: .milliseconds(3900))
    #expect(!saysSilence(harness))
    harness.advance(by: .milliseconds(100))
    #expect(harness.state(file.id) == .uploading && saysSilence(harness))
    #expect(harness.status(file.id)?.reason?.contains("for 4 s") == true)
    harness.openSession()
    #expect(!saysSilence(harness))
    harness.succeed()
    #expect(harness.state(file.id) == .complete && !saysSilence(harness))
  }

  /// A slow line is no silence.
  @Test(.promises("S31g")) func bodyThatMoves_isNoSilence() throws {
    var harness = ScheduleHarness()
    harness.handle(.scanEnded)
    harness.beginSending(file)
    let request = try #require(harness.sent.first { if case .chunk = $0.order { true } else { false } }).id
    for bytes in 1...10 {
      harness.advance(by: .seconds(1))
      harness.apply { $0.progressed([request: UInt64(bytes)], at: $1) }
      #expect(!saysSilence(harness))
    }
    harness.advance(by: .seconds(4))
    #expect(saysSilence(harness))
  }
}

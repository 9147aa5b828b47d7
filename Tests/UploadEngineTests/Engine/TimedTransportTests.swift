import Testing
import TransferModel

@testable import UploadEngine

/// A mount's own time-outs.
@Suite struct TimedTransportTests {
  private var timing: RequestTiming {
    var timing = RequestTiming()
    timing.connect = .seconds(50)
    timing.request = .seconds(60)
    timing.stall = .seconds(70)
    timing.answer = .seconds(80)
    return timing
  }

  @Test func withoutAny_limitsAreAsTheyWere() {
    let limits = HTTPRequestLimits(total: .seconds(7), stall: .seconds(3))
    #expect(RequestTiming().applied(to: limits) == limits)
    #expect(RequestTiming().applied(to: HTTPRequestLimits()) == HTTPRequestLimits())
  }

  @Test func aRequestWithoutContent_hasTheTimeThatIsSet() {
    let limits = timing.applied(to: HTTPRequestLimits())
    #expect(limits.connect == .seconds(50) && limits.total == .seconds(60))
    #expect(limits.stall == .zero, "nothing moves that could stall")
  }

  @Test func aBody_isMeasuredByWhatIsSet_andKeepsTheTimeThatItNeeds() {
    var body = HTTPRequestLimits(total: .seconds(900), stall: UploadConstants.stallDetection)
    #expect(timing.applied(to: body).total == .seconds(900) && timing.applied(to: body).stall == .seconds(70))
    #expect(timing.applied(to: body).answer == .seconds(80))
    body.answer = .seconds(300)
    #expect(timing.applied(to: body).answer == .seconds(300))
    var shorter = timing
    shorter.request = .seconds(5)
    body.total = UploadConstants.chunkTimeoutBase
    #expect(shorter.applied(to: body).total == UploadConstants.chunkTimeoutBase)
  }
}

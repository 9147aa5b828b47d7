import Lookup
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct RequestFormsTests {
  private static func time(_ seconds: Int64) -> MonotonicTime {
    MonotonicTime(nanoseconds: seconds * 1_000_000_000)
  }

  /// A server that says what else it takes, and nothing of a form, does not know that form; one that says nothing at all leaves it open.
  @Test func whatIsNotNamedBesideOthers_isNotTaken() {
    var forms = RequestForms()
    forms.learn(DestinationOffers())
    #expect(forms.runs == .unknown && forms.zeros == .unknown && !forms.sharedFrames.isOffered)
    forms.learn(DestinationOffers(filesPerRequest: 64, runBytesMax: 1000, takesSharedFrames: true))
    #expect(forms.runs == .upTo(1000) && forms.zeros == .none && forms.sharedFrames.isOffered)
    forms.learn(DestinationOffers(encodings: [.identity], zeroRangesMax: 5))
    #expect(forms.runs == .none && forms.zeros == .upTo(5) && !forms.sharedFrames.isOffered)
    forms.learn(DestinationOffers(runBytesMax: 0))
    #expect(forms.runs == .none)
  }

  /// What was refused once is not used again, although another answer offers it.
  @Test func aRefusedEncoding_staysRefused() {
    var forms = RequestForms()
    forms.learn(DestinationOffers(encodings: [.identity, .lz4, .zstd]))
    #expect(forms.encodings.contains(.zstd))
    forms.learn(.refused(StepFailure(.encodingRefused, "415")))
    forms.learn(DestinationOffers(encodings: [.identity, .lz4, .zstd]))
    #expect(!forms.encodings.contains(.zstd) && forms.encodings.contains(.lz4))
  }

  /// One broken connection costs nothing, runs that fail together count once, and each further failure doubles the rest.
  @Test func runsRest_afterFailuresInARow() {
    var forms = RequestForms()
    let lost = StepFailure.Kind.transport(.connectionLost)
    forms.runFailed(lost, sentAt: Self.time(1), at: Self.time(10))
    #expect(forms.mayFormRuns(at: Self.time(10)))
    forms.runFailed(lost, sentAt: Self.time(9), at: Self.time(11))
    #expect(forms.mayFormRuns(at: Self.time(11)), "it was sent before the first one failed")
    forms.runFailed(lost, sentAt: Self.time(12), at: Self.time(13))
    #expect(!forms.mayFormRuns(at: Self.time(42)) && forms.mayFormRuns(at: Self.time(43)))
    forms.runFailed(lost, sentAt: Self.time(44), at: Self.time(45))
    #expect(!forms.mayFormRuns(at: Self.time(104)) && forms.mayFormRuns(at: Self.time(105)))
    forms.runSucceeded()
    #expect(forms.mayFormRuns(at: Self.time(46)))
  }
}

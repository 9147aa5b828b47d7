import Testing

@testable import UploadFS

struct WriteBackStandingTests {
  private static func refused(lost: Range<UInt64>? = nil) -> WriteBackStanding {
    var standing = WriteBackStanding()
    standing.refused(.inputOutput)
    guard lost != nil, var refusal = standing.refusal else { return standing }
    refusal.lost = lost
    standing.savingEnded(leaving: refusal)
    return standing
  }

  @Test func eachRefusalCounts_andTheLastErrorStands() {
    var standing = Self.refused()
    standing.refused(.noSpace)
    #expect(standing.refusals == 2 && standing.refusal?.error == .noSpace && standing.refusal?.tries == 0)
  }

  @Test func failedSaving_isDueLater() {
    var standing = Self.refused()
    standing.savingFailed(.noSpace, atSeconds: 10)
    #expect(standing.refusal?.dueSeconds == 11 && standing.refusal?.error == .noSpace && standing.refusals == 1)
    standing.savingEnded(leaving: nil)
    standing.savingFailed(.noSpace, atSeconds: 10)
    #expect(!standing.isRefused)
  }

  @Test(arguments: [true, false]) func lossOfTheContentBefore_isForgottenUnlessItIsOfThisOne(isLost: Bool) {
    var standing = Self.refused(lost: 0..<1)
    standing.forgetWhatWasSaved(keepingLoss: isLost)
    #expect(standing.refusal?.lost == (isLost ? 0..<1 : nil) && standing.isRefused)
  }

  @Test func refusal_isTakenOnce() {
    var standing = Self.refused()
    #expect(standing.takeRefusal() != nil && standing.takeRefusal() == nil && standing.refusals == 1)
  }
}

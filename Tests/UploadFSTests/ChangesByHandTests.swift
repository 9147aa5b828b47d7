import Testing

@testable import UploadFS

struct ChangesByHandTests {
  private static let content = ChangesByHand.Content(epoch: 1, sizeBytes: 7, modifiedNanoseconds: 5)

  private static func changed(_ change: (inout ChangesByHand.Content) -> Void) -> ChangesByHand.Content {
    var content = content
    change(&content)
    return content
  }

  @Test func anotherContentOfTheSameEpoch_isAChange() {
    for other in [Self.changed { $0.sizeBytes = 8 }, Self.changed { $0.modifiedNanoseconds = 6 }] {
      var changes = ChangesByHand()
      #expect(!changes.saw(Self.content) && !changes.saw(Self.content) && !changes.hasChangedContent)
      #expect(changes.saw(other) && changes.hasChangedContent)
      #expect(!changes.saw(other) && changes.hasChangedContent, "until the sink is told")
      changes.forgetChange()
      #expect(!changes.saw(other) && !changes.hasChangedContent)
    }
  }

  @Test func anotherEpoch_andWhatWasForgotten_areNoChange() {
    var changes = ChangesByHand()
    let first = changes.saw(Self.content)
    let second = changes.saw(Self.changed { ($0.epoch, $0.sizeBytes) = (2, 9) })
    changes.forgetSeen()
    let third = changes.saw(Self.changed { $0.epoch = 2 })
    #expect(!first && !second && !third && !changes.hasChangedContent)
  }

  @Test func missedFile_isMissedSinceTheFirstTime() {
    var changes = ChangesByHand()
    changes.missed(atSeconds: 3)
    changes.missed(atSeconds: 5)
    #expect(changes.missedSinceSeconds == 3)
    changes.found()
    #expect(changes.missedSinceSeconds == nil)
  }

  @Test(arguments: [true, false]) func fileInAnotherPlace_isHeldWhereTheSinkKnowsIt(isKnown: Bool) {
    var changes = ChangesByHand()
    changes.putInPlace(isKnown: isKnown)
    #expect(changes.hasPutInPlace && changes.hasChangedContent == isKnown)
    changes.forgetPlace()
    #expect(!changes.hasPutInPlace && changes.hasChangedContent == isKnown)
  }
}

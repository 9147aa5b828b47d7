import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// What refusals in a row say, and what ends them.
@Suite struct RefusalsTests {
  private func id(_ number: UInt64) -> FileID { FileID(high: 0, low: number) }

  @Test func severalFilesInARow_areAMatterOfTheDestination() {
    var refusals = Refusals()
    let areOfDestination = [1, 1, 2, 3].map { refusals.refuse([id($0)], wouldHaveProved: .takes) }
    #expect(areOfDestination == [false, false, false, true], "the same file again is no other one")
    #expect(!refusals.knowsNothing(of: id(1)) && refusals.knowsNothing(of: id(4)))
  }

  @Test func whatIsForNoFile_isAMatterOfTheDestinationAtOnce() {
    var refusals = Refusals()
    let isOfDestination = refusals.refuse([], wouldHaveProved: .answers)
    #expect(isOfDestination)
  }

  @Test func onlyWhatProvesAsMuchAsWasRefused_endsTheRow() {
    var refusals = Refusals()
    _ = refusals.refuse([id(1)], wouldHaveProved: .takes)
    _ = refusals.refuse([id(2)], wouldHaveProved: .answers)
    refusals.proved(.begins)
    let third = refusals.refuse([id(3)], wouldHaveProved: .takes)
    #expect(third)
    refusals.proved(.takes)
    #expect(refusals.knowsNothing(of: id(1)))
    let first = refusals.refuse([id(4)], wouldHaveProved: .takes)
    #expect(!first)
  }

  @Test func openingsRest_untilOneIsGiven() {
    var refusals = Refusals()
    let areToRest = [1, 2, 3].map { refusals.refuseOpening(of: id($0)) }
    #expect(areToRest == [false, false, true])
    refusals.restOpenings(for: .seconds(2), at: MonotonicTime(nanoseconds: 0))
    #expect(refusals.openingRest?.until == MonotonicTime(nanoseconds: 2_000_000_000))
    refusals.endOpeningRest()
    #expect(refusals.openingRest?.isOver == true)
    // Bytes that are taken say nothing of openings.
    refusals.proved(.takes)
    #expect(refusals.openingRest != nil)
    refusals.proved(.begins)
    let isToRest = refusals.refuseOpening(of: id(4))
    #expect(refusals.openingRest == nil && !isToRest)
  }

  @Test func probesInVain_areForgottenOnceTheDestinationIsToBeHad() {
    var refusals = Refusals()
    refusals.probedInVain([id(1)])
    #expect(refusals.wasProbedInVain(id(1)) && !refusals.knowsNothing(of: id(1)))
    refusals.forgetProbes()
    #expect(!refusals.wasProbedInVain(id(1)))
  }
}

import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// Places at work, and who waits for them.
@Suite struct TurnQueuesTests {
  private func id(_ number: UInt64) -> FileID { FileID(high: 0, low: number) }

  private func places(_ countMax: Int, waiting: [UInt64]) -> WorkSlots {
    var places = WorkSlots(countMax: countMax)
    for number in waiting { places.join(id(number), goesFirst: false) }
    return places
  }

  /// Takes all places that are free.
  private func fill(_ places: inout WorkSlots) -> [FileID] {
    var taken: [FileID] = []
    while let next = places.popForFreePlace() {
      places.take(next)
      taken.append(next)
    }
    return taken
  }

  @Test func placesAreTakenInOrder_asManyAsThereAre() {
    var places = places(2, waiting: [1, 2, 3])
    #expect(fill(&places) == [id(1), id(2)] && places.hasWaiting)
    places.leave(id(1), at: 0)
    #expect(fill(&places) == [id(3)] && places.working == [id(2), id(3)] && !places.hasWaiting)
    #expect(places.brokenInvariants == [])
  }

  @Test func aFileHasOnePlace_howeverOftenItJoins() {
    var places = places(3, waiting: [1, 1])
    #expect(fill(&places) == [id(1)])
    places.join(id(1), goesFirst: true)
    #expect(!places.hasWaiting)
    // It may come back once it has left.
    places.leave(id(1), at: 0)
    places.join(id(1), goesFirst: false)
    #expect(fill(&places) == [id(1)] && places.brokenInvariants == [])
  }

  @Test func whatIsInMemoryAlone_goesBeforeAllThatWait() {
    var places = places(1, waiting: [1, 2])
    places.join(id(3), goesFirst: true)
    #expect(fill(&places) == [id(3)])
  }

  @Test func aPlaceIsHandedOn_withTheLatestTimeOfThoseThatLeft() {
    var places = places(2, waiting: [1, 2])
    _ = fill(&places)
    places.leave(id(1), at: 700)
    places.leave(id(2), at: 300)
    #expect(places.handedOnTime == 700)
  }

  @Test func filesThatAreGone_haveNoTurn() {
    var queues = TurnQueues(UploadLimits())
    queues.small.join(id(1))
    queues.small.join(id(2))
    queues.medium.join(id(1), goesFirst: false)
    queues.large.join(id(1), goesFirst: false)
    queues.removeWaiting { $0 == id(1) }
    #expect(queues.small.popFirst() == id(2) && queues.small.popFirst() == nil)
    #expect(!queues.medium.hasWaiting && !queues.large.hasWaiting)
  }

  @Test func theCommonStart_neverGoesBack() {
    var queues = TurnQueues(UploadLimits())
    queues.served(at: 500)
    queues.served(at: 200)
    #expect(queues.virtualTime == 500)
  }

  @Test func changes_areSeenOnce() {
    var queues = TurnQueues(UploadLimits())
    let (before, first, second) = (
      queues.hasChanged(since: 0), queues.hasChanged(since: 3), queues.hasChanged(since: 3)
    )
    #expect(!before && first && !second)
  }

  @Test func readyFiles_waitFromTheFirstOn_andAnewOnceSomeHaveGone() {
    var small = SmallFileTurns()
    small.beginGathering(at: MonotonicTime(nanoseconds: 1))
    #expect(small.readySince == nil)
    small.becameReady(id(1))
    small.becameReady(id(2))
    small.beginGathering(at: MonotonicTime(nanoseconds: 2))
    small.beginGathering(at: MonotonicTime(nanoseconds: 9))
    #expect(small.readySince == MonotonicTime(nanoseconds: 2))
    small.keepReady([id(2)])
    small.gatherAnew(at: MonotonicTime(nanoseconds: 10))
    #expect(small.readySince == MonotonicTime(nanoseconds: 10))
    small.keepReady([])
    small.gatherAnew(at: MonotonicTime(nanoseconds: 11))
    #expect(small.readySince == nil)
  }
}

import FileModel
import Lookup
import Promises
import Testing

@testable import UploadEngine

/// What is reported before earlier runs are known.
@Suite struct EarlyEventsTests {
  private let earlier = FileID(high: 1, low: 1)
  private let new = FileID(high: 1, low: 2)

  @Test(.promises("S35b")) func everythingWaits_upToABound() {
    var events = EarlyEvents()
    for _ in 0..<EarlyEvents.countMax { #expect(events.keep(.contentStays(new)) == .kept) }
    #expect(events.keep(.contentStays(earlier)) == .full)
  }

  @Test(.promises("S35d")) func whereTheCatalogCannotBeRead_onlyWhatIsOfEarlierRunsWaits() {
    var events = EarlyEvents()
    _ = events.keep(.reported(.removed(earlier)))
    _ = events.keep(.reported(.removed(new)))
    _ = events.keep(.reported(.scanEnded))
    let others = events.keepOnly(of: [earlier])
    #expect(others.map(\.file) == [new] && events.events.map(\.file) == [earlier, nil])
    #expect(events.keep(.contentWillChange(new)) == .notKept && events.keep(.contentWillChange(earlier)) == .kept)
  }

  @Test(.promises("S35d")) func whatWasOvertaken_goes_andNothingIsFull() {
    var events = EarlyEvents()
    _ = events.keepOnly(of: [earlier])
    for _ in 0..<EarlyEvents.countMax {
      #expect(events.keep(.contentWillChange(earlier)) == .kept)
      #expect(events.keep(.contentStays(earlier)) == .kept)
    }
    #expect(events.events.count <= EarlyEvents.countMax)
    guard case .contentStays? = events.events.last else {
      Issue.record("the last one stays the last")
      return
    }
  }
}

import FileModel
import Lookup
import Promises
import Testing

@testable import UploadEngine

/// What is reported before earlier runs are known.
@Suite struct StartupEventBufferTests {
  private let earlier = FileID(high: 1, low: 1)
  private let new = FileID(high: 1, low: 2)

  @Test(.promises("S35b")) func everythingWaits_upToABound() {
    var events = StartupEventBuffer()
    for _ in 0..<StartupEventBuffer.countMax { #expect(events.keep(.contentStays(new)) == .kept) }
    #expect(events.keep(.contentStays(earlier)) == .full)
  }

  @Test(.promises("S35d")) func whereTheCatalogCannotBeRead_onlyWhatIsOfEarlierRunsWaits() {
    var events = StartupEventBuffer()
    _ = events.keep(.reported(.removed(earlier)))
    _ = events.keep(.reported(.removed(new)))
    _ = events.keep(.reported(.scanEnded))
    let others = events.keepOnly(of: [earlier])
    #expect(others.map(\.file) == [new] && events.events.map(\.file) == [earlier, nil])
    #expect(events.keep(.contentWillChange(new)) == .notKept && events.keep(.contentWillChange(earlier)) == .kept)
  }

  /// Regression: what had lain in the spool and was opened by a program went on without what the catalog knew of its place.
  @Test(.promises("S35d")) func whatIsMet_waitsForTheCatalog() {
    var met = ImaginaryFile(2, "b.mov", size: 5).snapshot
    (met.wasFound, met.epoch) = (true, 0)
    var other = ImaginaryFile(3, "c.mov", size: 5).snapshot
    (other.wasFound, other.epoch) = (true, 0)
    var events = StartupEventBuffer()
    _ = events.keep(.reported(.opened(met)))
    #expect(events.keepOnly(of: [earlier]).isEmpty)
    #expect(events.keep(.reported(.opened(other))) == .kept && events.keep(.contentWillChange(other.id)) == .kept)
    #expect(events.keep(.contentWillChange(met.id)) == .kept && events.keep(.contentWillChange(new)) == .notKept)
    #expect(events.found.map(\.id) == [met.id, other.id])
  }

  @Test(.promises("S35d")) func whatWasOvertaken_goes_andNothingIsFull() {
    var events = StartupEventBuffer()
    _ = events.keepOnly(of: [earlier])
    for _ in 0..<StartupEventBuffer.countMax {
      #expect(events.keep(.contentWillChange(earlier)) == .kept)
      #expect(events.keep(.contentStays(earlier)) == .kept)
    }
    #expect(events.events.count <= StartupEventBuffer.countMax)
    guard case .contentStays? = events.events.last else {
      Issue.record("the last one stays the last")
      return
    }
  }
}

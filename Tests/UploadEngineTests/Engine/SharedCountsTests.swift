import FileModel
import OrderedCollections
import Promises
import Testing

@testable import UploadEngine

/// Regression: a file that went to two destinations counted twice.
@Suite struct SharedCountsTests {
  private let one = ImaginaryFile(1, "a.mov", size: 10).id
  private let other = ImaginaryFile(2, "b.mov", size: 10).id
  private var counts = SharedCounts(destinationCount: 2)

  private func changed(_ id: FileID, _ kind: FileStanding.Kind, isPending: Bool = false) -> CountedFiles {
    CountedFiles(changed: [(id, FileStanding(kind: kind, isPending: isPending))])
  }

  @Test(.promises("S74d")) mutating func aFile_countsWhereItHasComeTheLeastFar() {
    var result = counts.count([changed(one, .complete), changed(one, .ready, isPending: true)])
    #expect(result.filesByState == [.queued: 1] && result.undeliveredCount == 0)
    result = counts.count([CountedFiles(), changed(one, .failed)])
    #expect(result.filesByState == [.failed: 1] && result.undeliveredCount == 1)
    result = counts.count([changed(one, .failed), changed(other, .complete)])
    #expect(result.filesByState == [.failed: 1, .complete: 1] && result.undeliveredCount == 1, "it has failed at both")
    result = counts.count([changed(one, .none), changed(one, .none)])
    #expect(result.filesByState == [.complete: 1] && result.undeliveredCount == 0)
  }

  @Test(.promises("S74d")) mutating func whatIsIgnoredAtOneOfThem_countsAsAtTheOtherOne() {
    var result = counts.count([changed(one, .ignored), changed(one, .complete)])
    #expect(result.filesByState == [.complete: 1])
    result = counts.count([changed(other, .ignored), changed(other, .ignored)])
    #expect(result.filesByState == [.complete: 1, .ignored: 1])
  }

  @Test(.promises("S74d")) mutating func whatIsOfThisMomentAlone_isCountedAndNotKept() {
    var main = changed(one, .ready, isPending: true)
    main.atWork = [one]
    #expect(counts.count([main, CountedFiles()]).filesByState == [.uploading: 1])
    #expect(counts.count([CountedFiles(isPaused: true), CountedFiles()]).filesByState == [.waiting: 1])
    #expect(counts.count([CountedFiles(), CountedFiles()]).filesByState == [.queued: 1])
    main = changed(one, .interrupted)
    main.leaving = [one]
    let result = counts.count([main, CountedFiles(isScanFailing: true)])
    #expect(result.filesByState == [.interrupted: 1])
    #expect(result.undeliveredCount == 1, "what cannot be searched counts once, and what goes does not")
  }
}

import FileModel
import Testing
import TransferModel

@testable import UploadEngine

@Suite struct SpoolHealthTests {
  private let start = MonotonicTime(nanoseconds: 0)

  private static func failure(_ message: String) -> FileStatus.Failure {
    FileStatus.Failure(code: "disk", message: message, atMilliseconds: 0)
  }

  /// The same reason is said once; a failure that lasts goes on lasting whatever its reason is by then.
  @Test func aScanFailure_isNewsOnce_andLasts() {
    var spool = SpoolHealth()
    #expect(spool.scanFails(at: .root, Self.failure("a")) == (isFirst: true, isNews: true))
    #expect(spool.scanFails(at: .root, Self.failure("a")) == (isFirst: false, isNews: false))
    spool.scanFailureLasts()
    #expect(spool.scanFails(at: .root, Self.failure("b")) == (isFirst: false, isNews: true))
    #expect(spool.scan?.isLasting == true)
    spool.scanEnded()
    spool.scanFailureLasts()
    #expect(spool.scan == nil)
  }

  /// The time of a record failure is that of the first one, and ends with a record that is taken.
  @Test func aRecordFailure_lastsFromItsFirstTime() {
    var spool = SpoolHealth()
    #expect(spool.recordFailureLasts(after: .seconds(10), at: start + .seconds(60)) == false)
    #expect(spool.recordFails(Self.failure("a"), ofRevision: Self.failure("b"), at: start) == true)
    #expect(spool.recordFails(Self.failure("a"), ofRevision: Self.failure("b"), at: start + .seconds(9)) == false)
    #expect(spool.recordFailureLasts(after: .seconds(10), at: start + .seconds(9)) == false)
    #expect(spool.recordFailureLasts(after: .seconds(10), at: start + .seconds(10)) == true)
    #expect(spool.record?.isLasting == true && spool.recordSucceeds() && !spool.recordSucceeds())
  }

  @Test func aShortage_endsByItself() {
    var spool = SpoolHealth()
    #expect(spool.isSpaceShort(at: start) == false)
    spool.spaceIsShort(until: start + .seconds(2))
    #expect(spool.isSpaceShort(at: start + .seconds(1)) && !spool.isSpaceShort(at: start + .seconds(2)))
    #expect(spool.isSpaceShort(at: start + .seconds(1)) == false)
  }
}

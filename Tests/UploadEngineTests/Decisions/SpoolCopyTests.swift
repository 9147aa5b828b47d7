import FileModel
import Testing
import TransferModel

@testable import UploadEngine

/// What is known of a file's copy in the spool.
@Suite struct SpoolCopyTests {
  private static let start = MonotonicTime(nanoseconds: 1_000_000_000)

  @Test func copyThatCannotBeRead_lastsOnlyAfterAnotherRead_andOnce() throws {
    var copy = SpoolCopy()
    copy.readFailedAgain()
    #expect(copy.unreadable == nil, "nothing has failed before")
    copy.becameUnreadable(at: Self.start)
    let later = Self.start + .seconds(10)
    #expect(copy.unreadable?.beginsToLast(after: .seconds(10), at: later) == false, "nothing was tried again")
    copy.readFailedAgain()
    #expect(copy.unreadable?.beginsToLast(after: .seconds(11), at: later) == false, "not for so long")
    #expect(copy.unreadable?.beginsToLast(after: .seconds(10), at: later) == true)
    copy.staysUnreadable()
    #expect(copy.unreadable?.isLasting == true)
    #expect(copy.unreadable?.beginsToLast(after: .seconds(10), at: later) == false)
    copy.becameReadable()
    #expect(copy.unreadable == nil)
  }

  @Test func anotherContent_isThere_andIsNotDoubted() {
    var copy = SpoolCopy()
    copy.metUnread()
    copy.partsMayGo()
    copy.becameUnreadable(at: Self.start)
    copy.awaitDisk(until: Self.start)
    copy.leave()
    copy.contentChanged(lacksParts: false)
    #expect(copy.isLocal && !copy.isMetUnread && !copy.mayLackParts && copy.unreadable == nil)
    #expect(copy.diskPatience == Self.start, "the disk's answer is about the disk")
  }
}

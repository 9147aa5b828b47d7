import Testing

@testable import UploadEngine

/// When writers had a file open.
@Suite struct WriterActivityTests {
  @Test func settledFile_hasTheTimeOfItsClose_andKeepsItWhileItIsOpenAgain() {
    var writers = WriterActivity(isOpen: true)
    writers.created(at: 10)
    writers.settled(at: 20)
    #expect(!writers.isOpen && writers.openedAt == 10 && writers.closedAt == 20)
    writers.opened()
    #expect(writers.isOpen && writers.openedAt == 10 && writers.closedAt == 20)
    writers.changed(isOpen: false)
    #expect(!writers.isOpen)
  }
}

import Testing

@testable import UploadFS

struct FileAnnouncementTests {
  @Test func fileOfAnEarlierRun_isFoundOnce() {
    var announcement = FileAnnouncement(wasCreatedHere: false)
    #expect(announcement.isToBeFound)
    announcement.found()
    #expect(!announcement.isToBeFound)
  }

  @Test func createdFile_isNotFound_andItsOpeningIsSentOnce() {
    var announcement = FileAnnouncement(wasCreatedHere: true)
    announcement.created(isOpenedPending: true)
    #expect(!announcement.isToBeFound && announcement.takeOpened() && !announcement.takeOpened())
  }

  @Test(arguments: [true, false]) func tmpfile_isOpenedWithItsFirstName(isOpenForWriting: Bool) {
    var announcement = FileAnnouncement(wasCreatedHere: true)
    announcement.madeWithoutName()
    #expect(announcement.isTmpfile && !announcement.isOpenedPending)
    announcement.gotFirstName(isOpenForWriting: isOpenForWriting)
    #expect(!announcement.isTmpfile && announcement.takeOpened() == isOpenForWriting)
  }

  @Test func survivingWriter_isUntoldWhereTheSystemDoesNotSay() {
    let answers = [true, false, nil].map { FileAnnouncement.SurvivingWriter($0) }
    #expect(answers == [.some, .none, .untold])
  }
}

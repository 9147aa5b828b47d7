import FileModel
import Promises
import Testing

@testable import UploadFS

/// What the disk said a moment ago of who may see a status.
@Suite struct RecentAccessTests {
  private let subject = RecentAccess.Subject.folder(RelativePath("day 1"))
  private let access = FileOwnership(user: 1, group: 2, mode: 0o750)

  @Test(.promises("SE5a")) func anAnswerHoldsForAMoment() {
    var recent = RecentAccess()
    recent.said(access, of: subject, in: recent.era, atMilliseconds: 1000)
    let ends = 1000 + RecentAccess.ageMaxMilliseconds
    #expect(recent.access(to: subject, atMilliseconds: ends - 1) == access)
    #expect(recent.access(to: subject, atMilliseconds: ends) == nil)
    #expect(recent.access(to: .file(.new()), atMilliseconds: 1000) == nil)
  }

  @Test(.promises("SE5a")) func aChangeThroughTheMount_holdsAtOnce() {
    var recent = RecentAccess()
    let asked = recent.era
    recent.said(access, of: subject, in: asked, atMilliseconds: 0)
    recent.changed()
    #expect(recent.access(to: subject, atMilliseconds: 0) == nil)
    // The disk was asked before the change, and has answered after it.
    recent.said(access, of: subject, in: asked, atMilliseconds: 0)
    #expect(recent.access(to: subject, atMilliseconds: 0) == nil)
  }

  @Test func answersAreBounded() {
    var recent = RecentAccess()
    for number in 0..<100_000 {
      recent.said(access, of: .folder(RelativePath("\(number)")), in: recent.era, atMilliseconds: 0)
    }
    let kept = (0..<100_000).count { recent.access(to: .folder(RelativePath("\($0)")), atMilliseconds: 0) != nil }
    #expect(kept > 0 && kept <= 1024)
  }
}

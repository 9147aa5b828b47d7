import FileModel

/// Who may see what is said of captures and folders, as the disk has just said it. The kernel asks for that with each call, several
/// times for one reading of a status; not each of these is to be a question to the disk.
///
/// Changes through the mount hold at once: they empty it. Those behind the mount hold once an answer is too old.
struct RecentAccess: Sendable {
  /// What is asked about.
  enum Subject: Hashable, Sendable {
    case file(FileID)
    case folder(RelativePath)
  }

  /// An answer of before this one's end may be that of a question of before a change.
  typealias Era = UInt64

  static let ageMaxMilliseconds = 100
  private static let answersMax = 1024

  private struct Answer {
    var access: FileOwnership
    var atMilliseconds: Int
  }

  private(set) var era: Era = 0
  private var answers: [Subject: Answer] = [:]

  /// What was said a moment ago; nil where it has to be asked. The time is that of the monotonic clock.
  func access(to subject: Subject, atMilliseconds now: Int) -> FileOwnership? {
    guard let answer = answers[subject], now - answer.atMilliseconds < Self.ageMaxMilliseconds else { return nil }
    return answer.access
  }

  /// The disk has said it, to a question of this era.
  mutating func said(_ access: FileOwnership, of subject: Subject, in era: Era, atMilliseconds now: Int) {
    guard era == self.era else { return }
    if answers.count >= Self.answersMax { answers.removeAll(keepingCapacity: true) }
    answers[subject] = Answer(access: access, atMilliseconds: now)
  }

  /// Something has changed that says who may see what.
  mutating func changed() {
    era += 1
    answers.removeAll(keepingCapacity: true)
  }
}

/// What the sink knows of a file's existence, and what it is still to be told before anything else. Pure.
struct FileAnnouncement: Hashable, Sendable {
  /// Whether a program writes a file through a mount whose daemon has died.
  enum SurvivingWriter: Hashable, Sendable {
    case some, none
    /// The system does not say it.
    case untold

    init(_ isWritten: Bool?) { self = isWritten.map { $0 ? .some : .none } ?? .untold }
  }

  /// The daemon has seen this file being created, so that the scan has nothing to say of it.
  let wasCreatedHere: Bool
  /// The file was met in the spool, and the sink was told.
  private(set) var isFound = false
  /// Made with O_TMPFILE and not linked yet: the sink does not know of it.
  private(set) var isTmpfile = false
  /// `opened` of a created file is still to be sent; the call that sends the file's first event sends this before it.
  private(set) var isOpenedPending = false
  /// What was asked before the scan came to the file; nil where there was no need.
  private(set) var survivingWriter: SurvivingWriter?

  init(wasCreatedHere: Bool) {
    self.wasCreatedHere = wasCreatedHere
  }

  /// The scan has not come to the file yet, and has something to say of it.
  var isToBeFound: Bool { !isFound && !wasCreatedHere }

  /// The sink is told that the file is there, or learns it from an event that says more.
  mutating func found() { isFound = true }

  /// The file was made without a name.
  mutating func madeWithoutName() { isTmpfile = true }

  /// linkat(2) has given a file its first name. Programs may have it open for writing.
  mutating func gotFirstName(isOpenForWriting: Bool) {
    isTmpfile = false
    isOpenedPending = isOpenForWriting
  }

  /// The file was created and opened. No lock may be held when that is sent.
  mutating func created(isOpenedPending: Bool) { self.isOpenedPending = isOpenedPending }

  /// Whether `opened` is sent now, before another event.
  mutating func takeOpened() -> Bool {
    defer { isOpenedPending = false }
    return isOpenedPending
  }

  /// The system was asked before the daemon's own descriptor could write.
  mutating func askedForSurvivingWriter(_ answer: SurvivingWriter) { survivingWriter = answer }
}

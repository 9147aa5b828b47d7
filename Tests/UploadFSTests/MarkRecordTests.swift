import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Testing

@testable import UploadFS

/// Marks that stand on no file.
@Suite struct MarkRecordTests {
  private static func opened(_ folder: TemporaryFolder) throws -> MarkRecord {
    let number = try check(uploadfs_openat(AT_FDCWD, folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0))
    return try MarkRecord(in: FileDescriptor(owning: number, isReadable: true, isWritable: false))
  }

  private static let id = FileID(high: 1, low: 2)
  private static let closed = WriterStateXattr.closed(sizeBytes: 5, in: SpoolInstance(name: "0123abcd.1f"))

  @Test func lastLineOfAnInodeCounts() {
    let recorded = RecordedMarks("1 writing .\n2 mount-died .\n1 closed 5 0123abcd.1f .\n3 none .\n2 - .\n")
    #expect(recorded.marks == [1: Self.closed, 3: .none])
    #expect(recorded.lineCount == 5 && recorded.unreadableLineCount == 0)
    #expect(RecordedMarks(recorded.text).marks == recorded.marks)
  }

  @Test(.promises("S79b")) func marksSayWhoseTheyAre() throws {
    let folder = try TemporaryFolder()
    let record = try Self.opened(folder)
    try record.keep(.unfinished, of: 1, as: Self.id, durably: true)
    try record.keep(Self.closed, of: 2, as: FileID(high: 3, low: 4), durably: true)
    try record.keep(.unfinished, of: 3, durably: true)
    let again = try Self.opened(folder)
    #expect(again.mark(of: 1) == .unfinished && again.mark(of: 2) == Self.closed && again.mark(of: 3) == .unfinished)
    #expect(again.mayBe(of: Self.id, 1) && !again.mayBe(of: Self.id, 2) && again.mayBe(of: Self.id, 3))
    again.wasMoved()
    #expect(again.mark(of: 1) == nil && again.formerMark(of: Self.id) == .unfinished)
    try again.keep(.none, of: 1, as: FileID(high: 3, low: 4), durably: false)
    #expect(again.formerMark(of: FileID(high: 3, low: 4)) == Self.closed)
    // As long as not every file was met the next start needs them, too.
    let third = try Self.opened(folder)
    third.wasMoved()
    #expect(
      third.formerMark(of: FileID(high: 3, low: 4)) == Self.closed && third.formerMark(of: Self.id) == .unfinished)
    try again.forgetFormerPlace()
    #expect(try Self.opened(folder).mark(of: 2) == nil)
  }

  @Test func lineWithoutItsEnd_wasNeverRecorded() {
    #expect(RecordedMarks("1 writing .\n1 no").marks == [1: .unfinished])
    #expect(RecordedMarks("1 writing .\n1 closed 5\n2 writing .\n").marks == [1: .unfinished, 2: .unfinished])
  }

  @Test func whatIsNotUnderstood_isBeingWritten_orCounted() {
    let recorded = RecordedMarks("1 of a later version .\nno number .\n\n-1 writing .\n2 writing .\n")
    #expect(recorded.marks == [1: .unfinished, 2: .unfinished])
    #expect(recorded.unreadableLineCount == 2)
  }

  @Test func marksAreThereAfterARestart() throws {
    let folder = try TemporaryFolder()
    let record = try Self.opened(folder)
    #expect(record.mark(of: 1) == nil)
    try record.keep(.unfinished, of: 1, durably: true)
    try record.keep(Self.closed, of: 2, durably: false)
    try record.keep(.unfinished, of: 3, durably: true)
    try record.forget(3)
    let later = try Self.opened(folder)
    #expect(later.mark(of: 1) == .unfinished && later.mark(of: 2) == Self.closed && later.mark(of: 3) == nil)
    try later.retain { $0 == 2 }
    #expect(try Self.opened(folder).mark(of: 1) == nil)
  }

  @Test func linePartThatACrashLeft_isEndedBeforeTheNext() throws {
    let folder = try TemporaryFolder()
    try Self.opened(folder).keep(.unfinished, of: 1, durably: true)
    let path = folder.path + "/marks"
    let number = try check(open(path, O_WRONLY | O_APPEND))
    #expect(Glibc.write(number, "2 wri", 5) == 5)
    close(number)
    let record = try Self.opened(folder)
    try record.keep(.unfinished, of: 3, durably: true)
    let later = try Self.opened(folder)
    #expect(later.mark(of: 1) == .unfinished && later.mark(of: 2) == nil && later.mark(of: 3) == .unfinished)
  }

  @Test func longRecord_isReplacedByWhatItSays() throws {
    let folder = try TemporaryFolder()
    let record = try Self.opened(folder)
    try record.keep(.unfinished, of: 7, durably: true)
    for inode in 1000..<3000 as Range<UInt64> {
      try record.keep(.unfinished, of: inode, durably: false)
      try record.forget(inode)
    }
    var status = stat()
    #expect(stat(folder.path + "/marks", &status) == 0 && status.st_size < 32_000)
    let later = try Self.opened(folder)
    #expect(later.mark(of: 7) == .unfinished && later.mark(of: 2999) == nil)
    try record.keep(.unfinished, of: 8, durably: true)
    #expect(try Self.opened(folder).mark(of: 8) == .unfinished, "it goes on in the new file")
  }

  /// Regression: the disk says once that a sync has failed, and the second change of the file went on without a mark.
  @Test(.promises("S40i")) func afterAFailedSync_theRecordIsWrittenAnew() throws {
    let folder = try TemporaryFolder()
    let record = try Self.opened(folder)
    let path = folder.path + "/marks"
    // A pipe takes lines, and cannot be synced.
    #expect(mkfifo(path, 0o600) == 0)
    let reader = try check(open(path, O_RDONLY | O_NONBLOCK))
    defer { close(reader) }
    #expect(failure { try record.keep(.unfinished, of: 1, durably: true) } == EINVAL)
    #expect(mkdir(folder.path + "/marks.new", 0o700) == 0)
    #expect(failure { try record.keep(.unfinished, of: 1, durably: true) } == EEXIST, "as long as it is not durable")
    #expect(failure { try record.synchronize() } == EEXIST)
    #expect(rmdir(folder.path + "/marks.new") == 0)
    try record.keep(.unfinished, of: 1, durably: true)
    #expect(try Self.opened(folder).mark(of: 1) == .unfinished)
    try record.keep(.unfinished, of: 2, durably: true)
    #expect(try Self.opened(folder).mark(of: 2) == .unfinished)
  }

  @Test func recordThatIsNoFile_isRefused() throws {
    let folder = try TemporaryFolder()
    try #require(mkdir(folder.path + "/marks", 0o700) == 0)
    #expect(throws: SystemError.self) { _ = try Self.opened(folder) }
    try #require(rmdir(folder.path + "/marks") == 0 && mkfifo(folder.path + "/marks", 0o600) == 0)
    #expect(throws: SystemError.self) { _ = try Self.opened(folder) }
  }
}

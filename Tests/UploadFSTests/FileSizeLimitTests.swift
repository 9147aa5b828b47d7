import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Testing

@testable import UploadFS

/// Writers whose own limit for files ends what they write, of which the kernel tells no daemon.
@Suite struct FileSizeLimitTests {
  private static let limit = EndedProcess.limitBytes

  private static func content(_ count: Int) -> [UInt8] { [UInt8](repeating: 7, count: count) }

  @Test func limit_isReadFromWhatTheSystemSaysOfAProcess() {
    func limit(_ line: String) -> UInt64? {
      let text = """
        Limit                     Soft Limit           Hard Limit           Units
        Max cpu time              unlimited            unlimited            seconds
        \(line)
        Max data size             4096                 unlimited            bytes

        """
      return FileSizeLimit(limits: Array(text.utf8))?.bytes
    }
    #expect(limit("Max file size             1024                 unlimited            bytes") == 1024)
    #expect(limit("Max file size             0                    0                    bytes") == 0)
    #expect(limit("Max file size             unlimited            unlimited            bytes") == nil)
    #expect(limit("Max file size") == nil && limit("") == nil)
  }

  @Test func limit_ofAProcessIsItsOwn() throws {
    let limited = try EndedProcess.limited()
    #expect(FileSizeLimit(of: limited.number)?.bytes == UInt64(Self.limit))
    #expect(FileSizeLimit(limits: ProcessExitState.read("/proc/\(limited.number)/limits"))?.bytes == UInt64(Self.limit))
    #expect(FileSizeLimit(of: 0) == nil && FileSizeLimit(of: 0x7fff_fff0) == nil)
  }

  /// Regression: a program that may make no longer files was told so by its write(2), and its part was published, through the
  /// daemon as well as past it.
  @Test(.promises("S41o"), arguments: [(-1, false), (0, true), (1, false)])
  func fileThatEndsWhereItsWritersLimitDoes_isInterrupted(beyond: Int, isCut: Bool) throws {
    let limited = try EndedProcess.limited()
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    try mounted.write(handle, Self.content(Self.limit + beyond))
    _ = try mounted.filesystem.flush(handle, closer: limited.number)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == (isCut ? .writeFailed(errno: EFBIG) : nil))
    #expect(mounted.sink.takeNames().contains("writeFailed") == isCut && mounted.sink.problems == [])
  }

  @Test(.promises("S41o")) func whatAWriterWithoutTheLimitGoesOnWith_isWhole() throws {
    let limited = try EndedProcess.limited()
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    try mounted.write(handle, Self.content(Self.limit))
    _ = try mounted.filesystem.flush(handle, closer: limited.number)
    try mounted.write(handle, at: Int64(Self.limit), [8])
    _ = try mounted.filesystem.flush(handle, closer: getpid())
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.problems == [])
  }

  @Test(.promises("S41o")) func fileThatALimitedProcessHasNotChanged_isAsWholeAsItWas() throws {
    let limited = try EndedProcess.limited()
    let mounted = try Mounted()
    try mounted.make("a", Self.content(Self.limit))
    let handle = try mounted.open("a", flags: O_WRONLY)
    _ = try mounted.filesystem.flush(handle, closer: limited.number)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.problems == [])
  }
}

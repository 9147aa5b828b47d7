import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// What becomes of files that the disk has refused, as the kernel tells of it.
@Suite struct WriteBackTests {
  /// The kernel's memory of failures, by script: what is answered to those who ask through a description of their own.
  private final class Kernel: Sendable {
    private struct State {
      var answers: [Int32] = []
      var inode: UInt64 = 0
    }

    private let state = Mutex(State())

    /// The next questions about this file are answered so, and 0 is no failure; after them there is none.
    func answer(_ file: CapturedFile, _ answers: [Int32]) {
      state.withLock { $0 = State(answers: answers, inode: file.key.inode) }
    }

    var errors: Filesystem.WriteBackErrors {
      { descriptor in
        var status = stat()
        guard !descriptor.isWritable, fstat(descriptor.number, &status) == 0 else { return nil }
        return self.state.withLock { state in
          guard UInt64(status.st_ino) == state.inode, !state.answers.isEmpty else { return nil }
          let answer = state.answers.removeFirst()
          return answer == 0 ? nil : SystemError(code: answer)
        }
      }
    }
  }

  private let kernel = Kernel()
  private let mounted: Mounted

  init() throws {
    mounted = try Mounted(writeBackErrors: kernel.errors)
  }

  private func file(_ name: String) throws -> CapturedFile {
    try #require(mounted.filesystem.file(of: mounted.node(name)))
  }

  private func flush() { mounted.filesystem.flush(mounted.filesystem.flushes.takeAll()) }

  private func snapshot(_ name: String) throws -> FileSnapshot {
    try #require(mounted.filesystem.snapshot(of: file(name).id))
  }

  private func mark(_ name: String) -> String? {
    do throws(SystemError) {
      let place = try SpoolLocation(root: mounted.filesystem.root.number, components: [EntryName(name)])
      return try SpoolLabel.read(at: place).label.mark.text
    } catch {
      return nil
    }
  }

  /// Regression: all who asked shared one description, so that each failure was told to one of them, and a rewriting whose own fsync
  /// was told nothing took the refusal back.
  @Test(.promises("S41d")) func aFailureThatAnotherThreadIsToldOf_doesNotCountAsSaved() throws {
    try mounted.make("a")
    kernel.answer(try file("a"), [EIO])
    flush()
    #expect(try snapshot("a").interruption == .spoolFailing(errno: EIO))
    #expect(mark("a") == "not-on-disk", "the mount may die")
    // Asked before the content is given to the disk again, and after it.
    kernel.answer(try file("a"), [0, EIO])
    flush()
    #expect(try snapshot("a").interruption == .spoolFailing(errno: EIO) && mark("a") == "not-on-disk")
  }

  /// Regression: fsync(2) succeeded when another thread's had been told of the failure.
  @Test(.promises("S41g")) func aFailureThatAnotherThreadIsToldOf_failsTheSyncOfTheFile() throws {
    let handle = try mounted.create("a", flags: O_RDWR)
    try mounted.write(handle, [1])
    kernel.answer(try file("a"), [EIO])
    #expect(failure { _ = try mounted.filesystem.synchronize(handle, dataOnly: false) } == EIO)
    #expect(failure { _ = try mounted.filesystem.synchronize(handle, dataOnly: false) } == EIO)
    mounted.filesystem.release(handle)
  }

  @Test(.promises("S41d", "S44e")) func whatIsSavedIsOnTheDisk() throws {
    try mounted.make("a")
    kernel.answer(try file("a"), [EIO])
    flush()
    flush()
    flush()
    #expect(try snapshot("a").interruption == nil && snapshot("a").isOnDisk && mark("a") == nil)
  }

  /// Regression: an error of a syncfs(2) is told once. A batch that came after it counted as on the disk with a file in it of which the
  /// disk had refused some.
  @Test(.promises("S44a", "S41d")) func eachFileIsAskedAfterASyncOfAll() throws {
    let names = (0...Filesystem.filesFlushedAloneMax).map { "a\($0)" }
    for name in names { try mounted.make(name) }
    kernel.answer(try file("a7"), [EIO])
    flush()
    for name in names {
      let snapshot = try snapshot(name)
      #expect(snapshot.isOnDisk == (name != "a7") && snapshot.diskErrno == (name == "a7" ? EIO : nil), "\(name)")
    }
  }

  /// Regression: a description was kept for asking when a writer closed the file last, and none when a reader did.
  @Test(.promises("S41d")) func aReaderThatClosesLast_endsNoAsking() throws {
    let writer = try mounted.create("a")
    try mounted.write(writer, [1])
    let reader = try mounted.open("a", flags: O_RDONLY)
    mounted.filesystem.release(writer)
    mounted.filesystem.release(reader)
    kernel.answer(try file("a"), [EIO])
    #expect(try snapshot("a").interruption == .spoolFailing(errno: EIO))
  }

  /// Regression: the mark was put for a file that was being changed, or that no program had open.
  @Test(.promises("S41l")) func aFileThatIsOpenAndUnchanged_isMarked() throws {
    try mounted.make("a")
    let handle = try mounted.open("a", flags: O_RDWR)
    kernel.answer(try file("a"), [EIO])
    #expect(try snapshot("a").diskErrno == EIO)
    #expect(mark("a") == "not-on-disk")
    mounted.filesystem.release(handle)
    #expect(mark("a") == "not-on-disk", "until the disk has it")
    flush()
    flush()
    #expect(try mark("a") == nil && snapshot("a").isOnDisk)
  }

  /// Regression: what was read from the disk after that had refused it, and before the kernel was asked, counted as what was written.
  @Test(
    .promises("S41k"), .enabled(if: WriteBackTests.canForgetPages, "/tmp is on a filesystem that keeps all in memory"),
    arguments: ["a reader", "the uploader", "a change beside it"])
  func whatWasReadFromTheDiskMeanwhile_isNoContent(_ who: String) throws {
    let bytes = [UInt8](repeating: 7, count: 3 * 4096 + 100)
    let handle = try mounted.create("a", flags: O_RDWR)
    try mounted.write(handle, bytes)
    let path = mounted.captures + "/a"
    Self.forgetPages(path)
    switch who {
    case "a reader": #expect(try mounted.read(handle) == bytes)
    case "the uploader": #expect(try mounted.contents(of: file("a").id) == bytes)
    default: try mounted.write(handle, at: 3 * 4096 + 100, [8])
    }
    kernel.answer(try file("a"), [EIO])
    flush()
    mounted.filesystem.release(handle)
    guard case .lostInWriteBack(errno: EIO, _)? = mounted.sink.lastSnapshot?.interruption else {
      Issue.record("\(String(describing: mounted.sink.lastSnapshot?.interruption))")
      return
    }
  }

  /// Regression: a read that the spool's filesystem refused as such, asking nothing of its disk, put all that was in memory in doubt.
  @Test(.promises("S41k")) func aReadThatIsRefusedAsSuch_putsNothingInDoubt() throws {
    let handle = try mounted.create("a", flags: O_RDWR)
    try mounted.write(handle, [UInt8](repeating: 7, count: 3 * 4096))
    let file = try file("a")
    // Through a descriptor that is open for writing alone neither what is in memory nor what is on the disk can be read.
    let refusing = FileDescriptor(
      owning: open(mounted.captures + "/a", O_WRONLY | O_CLOEXEC), isReadable: true, isWritable: false)
    var buffer = [UInt8](repeating: 0, count: 4096)
    #expect(throws: SystemError(code: EBADF)) {
      try buffer.withUnsafeMutableBytes { bytes in
        _ = try mounted.filesystem.readNoting(file, refusing, at: 0, into: bytes)
      }
    }
    kernel.answer(file, [EIO])
    flush()
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil, "what was in memory has been given to the disk again")
  }

  /// Regression: a loss that was noticed while a program had the file open was taken back when that closed it without a change, and the
  /// file counted as whole.
  @Test(
    .promises("S41f", "S41l"),
    .enabled(if: WriteBackTests.canForgetPages, "/tmp is on a filesystem that keeps all in memory"))
  func whatIsLost_whileAProgramHasTheFileOpen_isLostAfterItsClose() throws {
    let writer = try mounted.create("a", flags: O_RDWR)
    try mounted.write(writer, [UInt8](repeating: 7, count: 3 * 4096))
    mounted.filesystem.release(writer)
    Self.forgetPages(mounted.captures + "/a")
    let handle = try mounted.open("a", flags: O_RDWR)
    _ = try mounted.read(handle)
    kernel.answer(try file("a"), [EIO])
    flush()
    flush()
    mounted.filesystem.release(handle)
    guard case .lostInWriteBack(errno: EIO, _)? = mounted.sink.lastSnapshot?.interruption else {
      Issue.record("\(String(describing: mounted.sink.lastSnapshot?.interruption))")
      return
    }
    #expect(mark("a")?.hasPrefix("not-on-disk 5") == true, "\(mark("a") ?? "none")")
  }

  /// Regression, found by the simulation (spool-disk, seed 52000054325): a loss that was found after a user had asked for the file as it was
  /// lost its mark by that.
  @Test(
    .promises("S41l", "S77c"),
    .enabled(if: WriteBackTests.canForgetPages, "/tmp is on a filesystem that keeps all in memory"))
  func whatIsFoundToBeLost_isNotAcceptedWithWhatWasKnownBefore() throws {
    let handle = try mounted.create("a", flags: O_RDWR)
    try mounted.write(handle, [UInt8](repeating: 7, count: 3 * 4096))
    Self.forgetPages(mounted.captures + "/a")
    _ = try mounted.read(handle)
    kernel.answer(try file("a"), [EIO])
    flush()
    mounted.filesystem.release(handle)
    let lost = try snapshot("a")
    mounted.filesystem.accept(lost.id, .writeFailed(errno: EIO), ifUnchangedSince: lost.epoch)
    #expect(try snapshot("a").interruption == lost.interruption && mark("a")?.hasPrefix("not-on-disk 5") == true)
    mounted.filesystem.accept(lost.id, lost.interruption, ifUnchangedSince: lost.epoch)
    #expect(try snapshot("a").interruption == nil)
  }

  /// What was read and asked about is as good as what is in memory.
  @Test(
    .promises("S41d"), .enabled(if: WriteBackTests.canForgetPages, "/tmp is on a filesystem that keeps all in memory"))
  func whatWasReadBeforeTheLastQuestion_isContent() throws {
    let handle = try mounted.create("a", flags: O_RDWR)
    try mounted.write(handle, [UInt8](repeating: 7, count: 3 * 4096))
    Self.forgetPages(mounted.captures + "/a")
    _ = try mounted.read(handle)
    kernel.answer(try file("a"), [0, EIO])
    #expect(try snapshot("a").diskErrno == nil)
    flush()
    mounted.filesystem.release(handle)
    flush()
    #expect(try snapshot("a").interruption == nil)
  }

  private static let canForgetPages: Bool = {
    do { return try pagesGo() } catch { return false }
  }()

  private static func pagesGo() throws -> Bool {
    let folder = try TemporaryFolder()
    let path = folder.path + "/a"
    let number = try check(open(path, O_RDWR | O_CREAT, 0o600))
    defer { close(number) }
    var byte: UInt8 = 1
    guard pwrite(number, &byte, 1, 0) == 1 else { return false }
    forgetPages(path)
    return uploadfs_read_cached(number, &byte, 1, 0) < 0 && errno == EAGAIN
  }

  /// As memory pressure does.
  private static func forgetPages(_ path: String) {
    let number = open(path, O_RDWR)
    defer { close(number) }
    #expect(fsync(number) == 0)
    #expect(posix_fadvise(number, 0, 0, POSIX_FADV_DONTNEED) == 0)
  }

  /// Regression: EIO, ENOSPC and EDQUOT alone counted, and what a disk said in other words was taken for written.
  @Test(
    .promises("S41d"),
    arguments: [EIO, ENOSPC, EDQUOT, EROFS, ENXIO, ENODEV, EREMOTEIO, ETIMEDOUT, ENOLINK, ESTALE])
  func whateverADiskSays_isARefusal(_ code: Int32) {
    #expect(SystemError(code: code).asRefusal?.code == code)
  }

  @Test(arguments: [EBADF, EINVAL, ESPIPE, ENOSYS, EPERM]) func whatTheCallItselfSays_isNone(_ code: Int32) {
    #expect(SystemError(code: code).asRefusal == nil)
  }

  /// Regression: acknowledged pages of a large recording were dropped although the disk had refused them, and were nowhere then.
  @Test(.promises("S41d")) func pagesThatTheDiskHasRefused_areNotDropped() throws {
    try mounted.make("a")
    let file = try file("a")
    let reading = try mounted.filesystem.openForReading(file.id)
    #expect(reading.mayDropPageCache())
    kernel.answer(file, [EIO])
    #expect(!reading.mayDropPageCache() && !reading.mayDropPageCache(), "told once, and known from then on")
    flush()
    flush()
    #expect(reading.mayDropPageCache())
  }

  /// Regression: pages that were dropped between their rewriting and their pinning were read from the disk by that, and sent.
  @Test(.promises("S41e", "S41k")) func piecesThatWereReadFromTheDiskSince_areNotWhatWasRewritten() throws {
    let bytes = [UInt8](repeating: 7, count: 3 * 4096)
    try mounted.make("a", bytes)
    let piece = bytes.withUnsafeBytes { all in
      Filesystem.RewrittenPiece(at: 4096, UnsafeRawBufferPointer(rebasing: all[4096...]))
    }
    let number = try check(open(mounted.captures + "/a", O_RDWR))
    let opened = FileDescriptor(owning: number, isReadable: true, isWritable: true)
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
    defer { buffer.deallocate() }
    #expect(try piece.isStill(in: opened, through: buffer))
    // What a disk has in the place of a page that it has refused.
    let zeros = [UInt8](repeating: 0, count: 4096)
    #expect(pwrite(number, zeros, zeros.count, 2 * 4096) == zeros.count)
    #expect(try !piece.isStill(in: opened, through: buffer))
    #expect(ftruncate(number, 2 * 4096) == 0)
    #expect(try !piece.isStill(in: opened, through: buffer))
  }

  @Test func whatCannotBeKeptOpen_isSyncedFirst() throws {
    // As when the process may open no more: what is there cannot be opened once more.
    let gone = FileDescriptor(owning: -1, isReadable: true, isWritable: true)
    let kept = KeptDescriptors(countMax: 1)
    #expect(kept.keep(gone) == nil)
    let known = FileDescriptor(owning: dup(mounted.filesystem.root.number), isReadable: true, isWritable: false)
    let first = kept.keep(known)
    #expect(first != nil && kept.keep(known) == nil)
  }

  /// Regression: of thousands of open files that rest each was asked every second.
  @Test func filesThatRest_areTakenInTurns_andAtOnceWhenTheyChange() throws {
    let queue = FlushQueue()
    let names = (0..<40).map { "\($0)" }
    for name in names { try mounted.make(name) }
    for name in names { queue.addIdle(try file(name)) }
    queue.add(try file("0"))
    queue.addIdle(try file("0"))
    let seconds = (0..<FlushQueue.idleTurns).map { _ in queue.takeDue() }
    #expect(seconds[0].contains { $0 === (try? file("0")) })
    #expect(seconds.flatMap { $0 }.count == names.count && seconds.allSatisfy { $0.count < names.count / 2 })
    #expect(queue.takeDue().isEmpty)
    for name in names { queue.addIdle(try file(name)) }
    #expect(queue.takeAll().count == names.count)
  }

  @Test func fileThatIsNotWrittenFor10Looks_rests_untilItIs() {
    var idle = IdleWatch()
    for _ in 0..<IdleWatch.checksUntilIdle - 1 { idle.check() }
    let before = (idle.isIdle, idle.changed())
    for _ in 0..<IdleWatch.checksUntilIdle { idle.check() }
    let after = (idle.isIdle, idle.changed(), idle.isIdle)
    #expect(before == (false, false) && after == (true, true, false))
  }

  /// Regression: beyond its capacity files were left out, and so never flushed nor asked for.
  @Test(.promises("S44a")) func aFullQueueLeavesNothingOut_andIsTakenAtOnce() throws {
    let queue = FlushQueue(capacity: 2)
    let names = ["a", "b", "c"]
    for name in names { try mounted.make(name) }
    for name in names { queue.add(try file(name)) }
    #expect(queue.next()?.count == 3)
  }
}

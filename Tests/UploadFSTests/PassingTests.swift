import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// Files that the kernel reads and writes by itself, with a kernel that takes each one: what the daemon makes of that is the
/// same wherever it runs.
@Suite struct PassingTests {
  /// Knows what it was given.
  private final class Kernel: BackingFiles {
    private let state = Mutex((count: Int32(0), lent: [BackingID: FileDescriptor]()))
    let refuses: Bool

    init(refuses: Bool = false) { self.refuses = refuses }

    func lend(_ descriptor: FileDescriptor) -> BackingID? {
      if refuses { return nil }
      return state.withLock { state in
        state.count += 1
        let id = BackingID(rawValue: state.count)
        state.lent[id] = descriptor
        return id
      }
    }

    func takeBack(_ id: BackingID) { state.withLock { $0.lent[id] = nil } }

    var lentCount: Int { state.withLock { $0.lent.count } }
  }

  private final class Disk: Sendable {
    let freeBytes = Mutex<UInt64>(8 << 30)
    let quotas = Mutex(SpoolQuotas.none)
  }

  private static func mounted(
    _ kernel: Kernel, folder: TemporaryFolder? = nil, spareBytes: UInt64 = 8 << 30,
    disk: Disk? = nil, _ change: (inout FilesystemConfiguration) -> Void = { _ in },
    isOpenForWriting: @escaping Filesystem.OpenForWriting = { $0.isOpenForWriting() },
    quotas: @escaping Filesystem.QuotaQuestion = { _ in .none }
  ) throws -> Mounted {
    let rules = try ["*.raw upload=on-close", "*.wait upload=on-close close=wait", "*.big when-full=release"]
      .map { text in try FileRule(text) }
    let source: SpoolSpace.Source = { () throws(SystemError) in
      var numbers = uploadfs_space()
      numbers.preferred_bytes = 4096
      numbers.block_bytes = 4096
      numbers.available_blocks = UInt64((disk?.freeBytes.withLock { $0 } ?? spareBytes) / 4096)
      return numbers
    }
    let mounted = try Mounted(
      folder: folder, source: source,
      { configuration in
        configuration.rules = FileRules(rules: rules)
        configuration.passthrough = .on
        change(&configuration)
      }, isOpenForWriting: isOpenForWriting, quotas: quotas)
    mounted.filesystem.backingFiles.withLock { $0 = kernel }
    return mounted
  }

  private static func create(_ mounted: Mounted, _ name: String, _ flags: Int32 = O_WRONLY) throws -> Filesystem.Opened
  {
    try mounted.filesystem.create(mounted.entry(name), mode: 0o600, flags: flags, caller: mounted.caller).opened
  }

  private static func open(_ mounted: Mounted, _ name: String, _ flags: Int32) throws -> Filesystem.Opened {
    try mounted.filesystem.open(mounted.node(name), flags: flags)
  }

  /// What the kernel does by itself.
  private static func writePast(_ mounted: Mounted, _ name: String, bytes count: Int) throws {
    try #require(truncate("\(mounted.captures)/\(name)", off_t(count)) == 0)
  }

  @Test func readersShareOneFile_whichGoesBackWithTheLast() throws {
    let kernel = Kernel()
    let mounted = try Self.mounted(kernel)
    try mounted.make("f")
    let (one, other) = (try Self.open(mounted, "f", O_RDONLY), try Self.open(mounted, "f", O_RDONLY))
    #expect(one.backing != nil && one.backing == other.backing && !one.isDirect && !one.keepsCache)
    mounted.filesystem.release(one.handle)
    #expect(kernel.lentCount == 1)
    mounted.filesystem.release(other.handle)
    #expect(kernel.lentCount == 0 && mounted.sink.problems == [])
  }

  private static let openings: [(name: String, flags: Int32, passes: Bool)] = [
    ("new.raw", O_WRONLY | O_TRUNC, true), ("new.raw", O_RDWR, false), ("new", O_WRONLY | O_TRUNC, false),
    ("new.wait", O_WRONLY | O_TRUNC, false), ("new.big", O_RDONLY, false), ("new.wait", O_RDONLY, false),
    ("new.raw", O_WRONLY, false), ("new.raw", O_RDONLY, true),
  ]

  @Test(arguments: openings)
  func whoPassesIsSaidByTheRules(name: String, flags: Int32, passes: Bool) throws {
    let mounted = try Self.mounted(Kernel())
    try mounted.make(name)
    let opened = try Self.open(mounted, name, flags)
    #expect((opened.backing != nil) == passes)
    #expect(opened.changesUnseen == (passes && flags & O_ACCMODE != O_RDONLY))
    mounted.filesystem.release(opened.handle)
    #expect(mounted.sink.problems == [])
  }

  /// Without the setting the filesystem has no kernel; with `read` writers go through the daemon.
  @Test(.promises("S50b")) func writersPassOnlyWhereThatIsSet() throws {
    let mounted = try Self.mounted(Kernel()) { $0.passthrough = .read }
    let writer = try Self.create(mounted, "f.raw")
    #expect(writer.backing == nil && mounted.filesystem.passingHandles == 0)
    mounted.filesystem.release(writer.handle)
    let reader = try Self.open(mounted, "f.raw", O_RDONLY)
    #expect(reader.backing != nil && mounted.filesystem.passingHandles == 1)
    mounted.filesystem.release(reader.handle)
    #expect(mounted.filesystem.passingHandles == 0 && mounted.sink.problems == [])
  }

  @Test(.promises("S50b"), arguments: [("f.raw", "f"), ("f", "f.raw"), ("f.raw", "g.raw")])
  func writersPassOnlyIfEveryNameSaysSo(first: String, second: String) throws {
    let mounted = try Self.mounted(Kernel())
    try mounted.make(first)
    _ = try mounted.filesystem.makeLink(to: mounted.node(first), at: mounted.entry(second))
    let opened = try Self.open(mounted, first, O_WRONLY | O_TRUNC)
    #expect(opened.changesUnseen == (second == "g.raw"))
    mounted.filesystem.release(opened.handle)
    #expect(mounted.sink.problems == [])
  }

  @Test(arguments: [true, false]) func writersPassWhereThereIsRoom(passes: Bool) throws {
    let mounted = try Self.mounted(Kernel(), spareBytes: (4 << 30) - (passes ? 0 : 4096))
    let opened = try Self.create(mounted, "f.raw")
    #expect((opened.backing != nil) == passes)
    mounted.filesystem.release(opened.handle)
  }

  @Test func whereTheKernelRefuses_theDaemonReadsAndWrites() throws {
    let mounted = try Self.mounted(Kernel(refuses: true))
    let writer = try Self.create(mounted, "f.raw")
    #expect(writer.backing == nil && writer.isDirect && !writer.changesUnseen)
    mounted.filesystem.release(writer.handle)
    let reader = try Self.open(mounted, "f.raw", O_RDONLY)
    #expect(reader.backing == nil)
    mounted.filesystem.release(reader.handle)
    #expect(mounted.sink.takeNames() == ["opened", "settled"])
  }

  @Test func aFileWithAnUnseenWriter_isChangingUntilTheRelease() throws {
    let mounted = try Self.mounted(Kernel())
    try mounted.make("f.raw")
    _ = mounted.sink.takeNames()
    let writer = try Self.open(mounted, "f.raw", O_WRONLY | O_TRUNC)
    let id = try #require(mounted.sink.lastSnapshot?.id)
    #expect(mounted.sink.takeNames() == ["opened", "willChange", "changed"])
    #expect(mounted.filesystem.snapshot(of: id)?.mutationsInFlight == 1)
    #expect(mounted.filesystem.growth(of: id, chunkBytes: 4096, anew: true) == nil)
    #expect(mounted.filesystem.changesUnseen(try mounted.node("f.raw")))
    try Self.writePast(mounted, "f.raw", bytes: 5000)
    #expect(mounted.sink.takeNames() == [])
    mounted.filesystem.release(writer.handle)
    #expect(mounted.sink.lastSnapshot?.sizeBytes == 5000 && mounted.sink.lastSnapshot?.interruption == nil)
    #expect(mounted.sink.takeNames() == ["settled"] && mounted.sink.problems == [])
    #expect(try !mounted.filesystem.changesUnseen(mounted.node("f.raw")))
  }

  private static func mark(_ mounted: Mounted, _ name: String) throws -> SpoolMark {
    let place = try mounted.filesystem.location(of: mounted.node(name))
    return try SpoolLabel.read(at: place).label.mark
  }

  /// Regression (FS8): a shell duplicates the descriptor and closes the first one, and the mark said that the file was finished.
  @Test(.promises("S50e", "S40d")) func markOfAnUnseenWriter_standsUntilItsRelease() throws {
    let mounted = try Self.mounted(Kernel())
    let writer = try Self.create(mounted, "f.raw")
    try #require(writer.changesUnseen)
    _ = try mounted.filesystem.flush(writer.handle)
    #expect(try Self.mark(mounted, "f.raw").isWriting, "a duplicate may write on")
    try Self.writePast(mounted, "f.raw", bytes: 5000)
    mounted.filesystem.release(writer.handle)
    #expect(try !Self.mark(mounted, "f.raw").isWriting)
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.problems == [])
  }

  /// Regression (FS13): after fsync(2), close(2) and a power cut the file was interrupted.
  @Test(.promises("S50e")) func whatAnUnseenWriterHasSynchronized_needsNoMarkFromTheReleaseOn() throws {
    let mounted = try Self.mounted(Kernel())
    let writer = try Self.create(mounted, "f.raw")
    try Self.writePast(mounted, "f.raw", bytes: 5000)
    _ = try mounted.filesystem.synchronize(writer.handle, dataOnly: false)
    _ = try mounted.filesystem.flush(writer.handle)
    mounted.filesystem.release(writer.handle)
    #expect(try Self.mark(mounted, "f.raw") == .none)
    #expect(mounted.sink.problems == [])
  }

  /// Regression (FS12): two copies that ended with “No space left on device” were published.
  @Test(.promises("S50f"), arguments: [true, false]) func whatWasOpenWhileTheDiskWasFull_isInterrupted(
    isSeenAtTheLook: Bool
  ) throws {
    let disk = Disk()
    let mounted = try Self.mounted(Kernel(), disk: disk)
    let writer = try Self.create(mounted, "f.raw")
    try #require(writer.changesUnseen)
    disk.freeBytes.withLock { $0 = 0 }
    if isSeenAtTheLook {
      mounted.filesystem.lookAfterUnseenWriters()
      disk.freeBytes.withLock { $0 = 8 << 30 }
    }
    mounted.filesystem.release(writer.handle)
    #expect(mounted.sink.lastSnapshot?.interruption == .writeFailed(errno: ENOSPC))
    #expect(mounted.sink.problems == [])
  }

  /// A reader that passes would have later writers pass as well.
  @Test(.promises("S50i"), arguments: [SpoolQuotas.none, .enforced, .unknown])
  func nothingPasses_whereAQuotaMayRefuseBytes(quotas: SpoolQuotas) throws {
    let mounted = try Self.mounted(Kernel(), quotas: { _ in quotas })
    let writer = try Self.create(mounted, "f.raw")
    #expect((writer.backing != nil) == (quotas == .none) && writer.changesUnseen == (quotas == .none))
    mounted.filesystem.release(writer.handle)
    let reader = try Self.open(mounted, "f.raw", O_RDONLY)
    #expect((reader.backing != nil) == (quotas == .none))
    mounted.filesystem.release(reader.handle)
    #expect((mounted.filesystem.passthroughRefusal == nil) == (quotas == .none))
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S50i"), arguments: [true, false]) func whatIsOpenWhenQuotasComeUp_isInterrupted(
    isSeenAtTheLook: Bool
  ) throws {
    let disk = Disk()
    let mounted = try Self.mounted(Kernel(), quotas: { _ in disk.quotas.withLock { $0 } })
    let writer = try Self.create(mounted, "f.raw")
    try #require(writer.changesUnseen)
    disk.quotas.withLock { $0 = .enforced }
    if isSeenAtTheLook { mounted.filesystem.lookAfterUnseenWriters() }
    mounted.filesystem.release(writer.handle)
    #expect(mounted.sink.lastSnapshot?.interruption == .writeFailed(errno: EDQUOT))
    let next = try Self.create(mounted, "g.raw")
    #expect(next.backing == nil && !next.changesUnseen)
    mounted.filesystem.release(next.handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.problems == [])
  }

  /// Regression (FS12): the part that a program had written up to its own limit (`ulimit -f`) was published.
  @Test(.promises("S50f", "S41o"), arguments: [true, false]) func whatItsWritersLimitCutsOffUnseen_isInterrupted(
    goesOn: Bool
  ) throws {
    let limited = try EndedProcess.limited()
    let mounted = try Self.mounted(Kernel())
    let writer = try Self.create(mounted, "f.raw")
    try #require(writer.changesUnseen)
    try Self.writePast(mounted, "f.raw", bytes: EndedProcess.limitBytes)
    _ = try mounted.filesystem.flush(writer.handle, closer: limited.number)
    // A duplicate of the descriptor, in a process without the limit.
    if goesOn { try Self.writePast(mounted, "f.raw", bytes: EndedProcess.limitBytes + 1) }
    mounted.filesystem.release(writer.handle)
    #expect(mounted.sink.lastSnapshot?.interruption == (goesOn ? nil : .writeFailed(errno: EFBIG)))
    #expect(mounted.sink.problems == [])
  }

  @Test func whatHasBecomeTooLargeUnseen_isInterrupted() throws {
    let mounted = try Self.mounted(Kernel()) { $0.fileBytesMax = 1000 }
    let writer = try Self.create(mounted, "f.raw")
    try Self.writePast(mounted, "f.raw", bytes: 1001)
    mounted.filesystem.release(writer.handle)
    #expect(mounted.sink.lastSnapshot?.interruption == .writeRefused(limitBytes: 1000))
  }

  @Test func aMappingThatOutlivesItsHandle_keepsTheFileOpen() throws {
    let mounted = try Self.mounted(Kernel())
    try mounted.make("f")
    _ = mounted.sink.takeNames()
    // A reader first: the writer then has to pass the daemon, too.
    let reader = try Self.open(mounted, "f", O_RDONLY)
    let writer = try Self.open(mounted, "f", O_RDWR)
    #expect(writer.backing == reader.backing && writer.changesUnseen)
    // A mapping holds the spool's file open, as this does.
    let mapping = uploadfs_openat(AT_FDCWD, "\(mounted.captures)/f", O_RDWR | O_CLOEXEC, 0)
    try #require(mapping >= 0)
    mounted.filesystem.release(writer.handle)
    mounted.filesystem.release(reader.handle)
    mounted.filesystem.lookAfterUnseenWriters()
    #expect(mounted.sink.takeNames() == ["opened", "willChange", "changed"])
    close(mapping)
    Self.lookUntilNothingIsLeft(mounted)
    #expect(mounted.sink.takeNames() == ["settled"] && mounted.sink.problems == [])
  }

  /// A child that another test starts has copies of all descriptors until it executes its program.
  private static func lookUntilNothingIsLeft(_ mounted: Mounted) {
    let deadline = ContinuousClock.now + .seconds(20)
    repeat {
      mounted.filesystem.lookAfterUnseenWriters()
    } while mounted.filesystem.unseenWriters.withLock { !$0.isEmpty } && ContinuousClock.now < deadline
  }

  /// Regression (FS11): it was killed as well, and the part was published.
  @Test(.promises("S51b")) func aWriterThatHasSurvivedTheDaemon_isWaitedFor_andItsFileIsInterrupted() throws {
    let folder = try TemporaryFolder()
    let captures = folder.path + "/spool/captures"
    try Mounted(folder: folder).make("f")
    let surviving = uploadfs_openat(AT_FDCWD, "\(captures)/f", O_WRONLY | O_CLOEXEC, 0)
    try #require(surviving >= 0)
    let mounted = try Self.mounted(Kernel(), folder: folder)
    mounted.filesystem.mayHaveLentFiles.store(true, ordering: .relaxed)
    mounted.filesystem.scanSpool()
    mounted.filesystem.lookAfterUnseenWriters()
    #expect(mounted.sink.takeNames() == ["willChange", "changed", "scanEnded"])
    #expect(try Self.mark(mounted, "f").isWriting, "should this daemon die as well")
    close(surviving)
    Self.lookUntilNothingIsLeft(mounted)
    #expect(mounted.sink.lastSnapshot?.interruption == .mountDied)
    #expect(mounted.sink.takeNames() == ["settled"] && mounted.sink.problems == [])
  }

  /// Regression: a lease that the system refused for another reason than a writer counted as there being none, and a part was published.
  @Test(.promises("S51b")) func aFileOfWhichTheSystemDoesNotSayWhoWritesIt_isHeldAtTheStart() throws {
    let folder = try TemporaryFolder()
    try Mounted(folder: folder).make("f")
    let mounted = try Self.mounted(Kernel(), folder: folder, isOpenForWriting: { _ in nil })
    mounted.filesystem.mayHaveLentFiles.store(true, ordering: .relaxed)
    mounted.filesystem.scanSpool()
    #expect(mounted.sink.lastSnapshot?.interruption == .mountDied)
    #expect(mounted.sink.takeNames() == ["found", "scanEnded"] && mounted.sink.problems == [])
  }

  /// Regression: what a program read in the moment after the start counted as being written through a mount that had died, and was held.
  @Test(.promises("S40b")) func whatIsReadBeforeItIsFound_hasNoSurvivingWriter() throws {
    let folder = try TemporaryFolder()
    try Mounted(folder: folder).make("f")
    let mounted = try Self.mounted(Kernel(), folder: folder)
    mounted.filesystem.mayHaveLentFiles.store(true, ordering: .relaxed)
    let reader = try Self.open(mounted, "f", O_RDONLY)
    mounted.filesystem.scanSpool()
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
    #expect(mounted.sink.takeNames() == ["found", "scanEnded"] && mounted.sink.problems == [])
    mounted.filesystem.release(reader.handle)
  }

  /// Regression: so did what a program only read when the daemon was killed. The kernel keeps what it was given as long as anything
  /// refers to the dead mount.
  @Test(.promises("S40b", "S51b")) func whatTheKernelKeepsOfADeadMount_isNoWriter() throws {
    let folder = try TemporaryFolder()
    let kernel = Kernel()
    do {
      let killed = try Self.mounted(kernel, folder: folder)
      try killed.make("f")
      _ = try Self.open(killed, "f", O_RDONLY)
      #expect(kernel.lentCount == 1)
    }
    let mounted = try Self.mounted(Kernel(), folder: folder)
    mounted.filesystem.mayHaveLentFiles.store(true, ordering: .relaxed)
    mounted.filesystem.scanSpool()
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
    #expect(mounted.sink.takeNames() == ["found", "scanEnded"] && mounted.sink.problems == [])
    withExtendedLifetime(kernel) {}
  }

  /// Regression: so did what a program truncated by its path.
  @Test(.promises("S40b")) func whatIsTruncatedBeforeItIsFound_hasNoSurvivingWriter() throws {
    let folder = try TemporaryFolder()
    try Mounted(folder: folder).make("f")
    let mounted = try Self.mounted(Kernel(), folder: folder)
    mounted.filesystem.mayHaveLentFiles.store(true, ordering: .relaxed)
    let truncating = try mounted.filesystem.descriptorForTruncation(of: mounted.node("f"))
    mounted.filesystem.scanSpool()
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
    #expect(mounted.sink.takeNames() == ["found", "scanEnded"] && mounted.sink.problems == [])
    withExtendedLifetime(truncating) {}
  }

  /// Regression: likewise, of a mapping that may have outlived its handle.
  @Test(.promises("S50e")) func aMappingThatCannotBeAskedFor_leavesAContentInDoubt() throws {
    let mounted = try Self.mounted(Kernel(), isOpenForWriting: { _ in nil })
    try mounted.make("f")
    // A reader first: the writer then has to pass the daemon, too.
    let reader = try Self.open(mounted, "f", O_RDONLY)
    let writer = try Self.open(mounted, "f", O_RDWR)
    try #require(writer.changesUnseen)
    mounted.filesystem.release(writer.handle)
    mounted.filesystem.release(reader.handle)
    mounted.filesystem.lookAfterUnseenWriters()
    #expect(mounted.filesystem.unseenWriters.withLock { $0.isEmpty })
    #expect(mounted.sink.lastSnapshot?.interruption == .writeFailed(errno: EIO) && mounted.sink.problems == [])
  }
}

import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// What becomes of files whose writers do not finish them.
@Suite struct WriterExitTests {
  /// What the spool file is marked with, without the instance of the spool.
  private static func mark(_ mounted: Mounted, _ name: String) -> String? { mark(mounted.filesystem, name) }

  private static func mark(_ filesystem: Filesystem, _ name: String) -> String? {
    do throws(SystemError) {
      let place = try SpoolLocation(root: filesystem.root.number, components: [EntryName(name)])
      let mark = try SpoolLabel.read(at: place).label.mark
      if mark.isWriting { return "writing" }
      return mark.text.map { $0.split(separator: " ").prefix(2).joined(separator: " ") }
    } catch {
      return nil
    }
  }

  /// The snapshot of a file as a restarted daemon finds it; by default after the machine was started again.
  private static func found(
    _ folder: TemporaryFolder, in instance: SpoolInstance? = SpoolInstance(name: "later")
  ) throws -> FileSnapshot? {
    let mounted = try Mounted(folder: folder, instance: instance)
    mounted.filesystem.scanSpool()
    return mounted.sink.lastSnapshot
  }

  @Test(.promises("S40d")) func markStands_fromTheFirstChangeToTheCloseOfTheLastWriter() throws {
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    #expect(Self.mark(mounted, "a") == "writing", "making it was a change")
    try mounted.write(handle, [1])
    _ = try mounted.filesystem.flush(handle)
    #expect(Self.mark(mounted, "a") == "closed 1", "close(2) returns now, the release comes later")
    try mounted.write(handle, [2])
    #expect(Self.mark(mounted, "a") == "writing", "a duplicate of the descriptor writes on")
    _ = try mounted.filesystem.flush(handle)
    mounted.filesystem.release(handle)
    #expect(Self.mark(mounted, "a") == "closed 1")
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.problems == [])
  }

  @Test(.promises("S44c", "S44d")) func closeThatIsToBeSynced_leavesNoMark_unlessItFails() throws {
    let rules = FileRules(rules: [try FileRule("* close=synced")])
    let mounted = try Mounted(source: nil) { $0.rules = rules }
    try mounted.makeDirectory("d")
    let handle = try mounted.create("d/a")
    try mounted.write(handle, [1])
    #expect(try mounted.filesystem.flush(handle) == nil)
    #expect(Self.mark(mounted, "d/a") == nil, "a power cut takes nothing any more")
    try mounted.write(handle, at: 1, [2])
    #expect(Self.mark(mounted, "d/a") == "writing", "a duplicate of the descriptor writes on")
    rename("\(mounted.captures)/d", "\(mounted.captures)/gone")
    #expect(throws: SystemError.inputOutput) { try mounted.filesystem.flush(handle) }
    rename("\(mounted.captures)/gone", "\(mounted.captures)/d")
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption != nil && mounted.sink.problems == [])
  }

  @Test(.promises("S40d")) func closeOfOneOfTwoWriters_leavesTheMark() throws {
    let mounted = try Mounted()
    let one = try mounted.create("a")
    let other = try mounted.open("a", flags: O_RDWR)
    try mounted.write(one, [1])
    _ = try mounted.filesystem.flush(one)
    #expect(Self.mark(mounted, "a") == "writing")
    _ = try mounted.filesystem.flush(other)
    #expect(Self.mark(mounted, "a") == "closed 1")
    mounted.filesystem.release(one)
    try mounted.write(other, [2])
    #expect(Self.mark(mounted, "a") == "writing")
    mounted.filesystem.release(other)
    #expect(Self.mark(mounted, "a") == "closed 1")
  }

  /// Regression: what was said first of a file of an earlier run did not say that its writer had died, so that one which was
  /// renamed or linked before the scan had come to it was published as if it were whole.
  @Test(.promises("S40a"), arguments: ["rename", "link"])
  func whatDiedInAnEarlierRun_isInterrupted_whateverIsDoneToItBeforeTheScan(_ what: String) throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      try mounted.write(try mounted.create("a"), [1])
    }
    let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "later"))
    if what == "rename" {
      try mounted.rename("a", "b")
    } else {
      _ = try mounted.filesystem.makeLink(to: mounted.node("a"), at: mounted.entry("b"))
    }
    #expect(mounted.sink.lastSnapshot?.interruption == .notOnDisk)
    mounted.filesystem.scanSpool()
    #expect(mounted.sink.lastSnapshot?.interruption == .notOnDisk)
  }

  @Test func openingWithoutChange_marksNothing() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let handle = try mounted.open("a", flags: O_RDWR)
    #expect(Self.mark(mounted, "a") == "closed 7")
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
  }

  @Test(.promises("S40a", "S40b", "S39f")) func fileThatWasBeingWritten_isFoundInterrupted_untilItIsWrittenOn()
    throws
  {
    let folder = try TemporaryFolder()
    func die(_ isClosed: Bool) throws {
      let mounted = try Mounted(folder: folder)
      let handle = try mounted.create("a")
      try mounted.write(handle, [1])
      if isClosed { _ = try mounted.filesystem.flush(handle) }
    }
    try die(false)
    #expect(try Self.found(folder, in: nil)?.interruption == .mountDied)
    #expect(try Self.found(folder, in: nil)?.interruption == .mountDied, "also the next time")
    do {
      let mounted = try Mounted(folder: folder)
      mounted.filesystem.release(try mounted.open("a", flags: O_WRONLY))
      #expect(mounted.sink.lastSnapshot?.interruption == .mountDied, "it was opened and not changed")
      let handle = try mounted.open("a", flags: O_WRONLY)
      try mounted.write(handle, at: 1, [2])
      mounted.filesystem.release(handle)
      #expect(mounted.sink.lastSnapshot?.interruption == nil)
    }
    #expect(try Self.found(folder, in: nil)?.interruption == nil)
    unlink(folder.path + "/spool/captures/a")
    try die(true)
    #expect(try Self.found(folder, in: nil)?.interruption == nil, "its close had returned")
  }

  /// Regression: a program that went on at the end of a file made it whole, with zeros in the middle that the power cut had left.
  @Test(.promises("S40c", "S41l")) func fileThatWasBeingWrittenWhenThePowerWent_isNotMadeGoodByWritingOn() throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "boot.s1"))
      try mounted.write(try mounted.create("a"), [1])
    }
    do {
      let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "later.s1"))
      let handle = try mounted.open("a", flags: O_WRONLY)
      try mounted.write(handle, at: 1, [2])
      mounted.filesystem.release(handle)
      #expect(mounted.sink.lastSnapshot?.interruption == .notOnDisk)
    }
    let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "later.s1"))
    let handle = try mounted.open("a", flags: O_WRONLY | O_TRUNC)
    try mounted.write(handle, [3])
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil, "it was written anew")
  }

  @Test(.promises("S40c", "S41l")) func fileOfWhichThePowerCutLeftAPart_isFoundInterrupted() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/spool/captures/a"
    do { try Mounted(folder: folder).make("a") }
    #expect(try Self.found(folder, in: nil)?.interruption == nil)
    truncate(path, 3)
    #expect(try Self.found(folder)?.interruption == .notOnDisk)
    #expect(try Self.found(folder)?.interruption == .notOnDisk, "also the next time")
    do {
      let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "later"))
      let handle = try mounted.open("a", flags: O_WRONLY)
      try mounted.write(handle, at: 3, [1])
      #expect(Self.mark(mounted, "a") == "not-on-disk", "who goes on does not make it good, nor does its death")
      mounted.filesystem.release(handle)
      #expect(mounted.sink.lastSnapshot?.interruption == .notOnDisk && Self.mark(mounted, "a") == "not-on-disk")
    }
    #expect(try Self.found(folder)?.interruption == .notOnDisk)
    do {
      let mounted = try Mounted(folder: folder)
      let handle = try mounted.open("a", flags: O_WRONLY | O_TRUNC)
      try mounted.write(handle, [1])
      mounted.filesystem.release(handle)
      #expect(mounted.sink.lastSnapshot?.interruption == nil && Self.mark(mounted, "a") == "closed 1")
    }
    #expect(try Self.found(folder, in: nil)?.interruption == nil)
  }

  /// Regression: a size can be on the disk before the bytes, so that zeros counted as whole.
  @Test(.promises("S40c", "S40k")) func whatWasClosed_andNotBroughtToTheDisk_countsInTheInstanceInWhichItWasClosed()
    throws
  {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "boot.s1", earlierName: "boot.7"))
      try mounted.make("a")
    }
    func interruption(_ name: String?, _ earlier: String? = nil) throws -> Interruption? {
      try Self.found(folder, in: SpoolInstance(name: name, earlierName: earlier))?.interruption
    }
    #expect(try interruption("boot.s1", "boot.8") == nil, "through another mount of the same filesystem")
    #expect(try interruption("boot.s2", "boot.s1") == nil, "of a version that names the instance otherwise")
    #expect(try interruption("boot.s2", "boot.7") == .notOnDisk)
    #expect(try interruption(nil) == .notOnDisk, "it is unknown")
  }

  @Test(.promises("S40k")) func emptyFile_isWholeInAnyInstance() throws {
    let folder = try TemporaryFolder()
    do { try Mounted(folder: folder).make("a", []) }
    #expect(try Self.found(folder)?.interruption == nil)
  }

  @Test(.promises("S40k", "S44e"), arguments: [1, Filesystem.filesFlushedAloneMax + 1])
  func whatWasFlushed_isWholeInAnyInstance_andWhatIsChangedAfterThatIsNot(count: Int) throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      for number in 0..<count { try mounted.make("a\(number)") }
      mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
      let file = try #require(mounted.filesystem.file(of: mounted.node("a0")))
      #expect(file.state.withLock { $0.disk.isOnDisk && !$0.disk.isMarkUnsynced })
    }
    #expect(try Self.found(folder)?.interruption == nil)
    do {
      let mounted = try Mounted(folder: folder)
      let handle = try mounted.open("a0", flags: O_WRONLY)
      try mounted.write(handle, [1])
      mounted.filesystem.release(handle)
    }
    let later = try Mounted(folder: folder, instance: SpoolInstance(name: "later"))
    later.filesystem.scanSpool()
    let file = try #require(later.filesystem.file(of: later.node("a0")))
    #expect(later.filesystem.snapshot(of: file.id)?.interruption == .notOnDisk)
  }

  @Test(.promises("S44g")) func fileThatIsBeingWritten_isBroughtToTheDisk_untilItIsClosed() throws {
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    try mounted.write(handle, [1, 2, 3])
    let file = try #require(mounted.filesystem.file(of: mounted.node("a")))
    func isThere() -> Bool { file.state.withLock { $0.growth.flushedEpoch == $0.activity.epoch } }
    let growing = mounted.filesystem.growing.takeAll()
    #expect(growing.count == 1 && !isThere())
    mounted.filesystem.flushGrowing(growing)
    #expect(isThere() && mounted.filesystem.growing.takeAll().isEmpty)
    try mounted.write(handle, at: 3, [4])
    #expect(!isThere() && mounted.filesystem.growing.takeAll().count == 1)
    mounted.filesystem.release(handle)
    mounted.filesystem.flushGrowing([file])
    #expect(!isThere(), "with its names, by the flush of what was closed")
  }

  @Test(.promises("S44g")) func whatIsWrittenFast_isBroughtToTheDiskAtOnce_each64MiB() throws {
    let mounted = try Mounted()
    let growing = mounted.filesystem.growing
    let handle = try mounted.create("a")
    let block = [UInt8](repeating: 7, count: 1 << 20)
    var end: Int64 = 0
    try mounted.write(handle, [1])
    for round in 1...2 {
      for number in 1...64 {
        #expect(!growing.isHurried, "round \(round), before MiB \(number)")
        try mounted.write(handle, at: end, block)
        end += Int64(block.count)
      }
      #expect(growing.isHurried)
      let file = try #require(mounted.filesystem.file(of: mounted.node("a")))
      mounted.filesystem.flushGrowing(growing.takeAll())
      #expect(file.state.withLock { $0.growth.flushedEpoch == $0.activity.epoch && $0.growth.bytes == 0 })
    }
  }

  /// Regression: the flush after the start took the mark away, and at the next start the part counted as whole.
  /// Regression, found by the simulation (comebacks): a power cut could come between the new length and the mark, and after a later
  /// write into what the file had grown by, so that torn bytes had no mark.
  @Test(.promises("S40c")) func whatAClosedFileIsMadeLongerBy_isMarkedBeforeItChanges() throws {
    let mounted = try Mounted()
    try mounted.make("a", [1, 2, 3])
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    let file = try #require(mounted.filesystem.file(of: mounted.node("a")))
    var changes = AttributeChanges()
    changes.size = 4096
    _ = try mounted.filesystem.setAttributes(of: file.node, changes, handle: nil)
    #expect(file.state.withLock { $0.disk.provenBytes } == 4096)
    let handle = try mounted.open("a", flags: O_WRONLY)
    try mounted.write(handle, at: 100, [4])
    #expect(file.state.withLock { $0.disk.provenBytes } == nil, "the disk has the mark")
    mounted.filesystem.release(handle)
  }

  /// Found by the simulation (killed-writers, seed 642): another writer wrote over what a killed one had left; a power cut left a mixture under the
  /// mark of before, and the next who went on at its end made that whole.
  @Test(.promises("S40o"), arguments: [(0, true), (1, false)] as [(Int64, Bool)])
  func whatAKilledWriterLeft_isMarkedOnTheDiskBeforeItIsWrittenOver(offset: Int64, isWrittenOver: Bool) throws {
    let mounted = try Mounted()
    var handle = try mounted.create("a")
    try mounted.write(handle, [1])
    try mounted.filesystem.fileHandle(handle).killingSignal.store(9, ordering: .relaxed)
    mounted.filesystem.release(handle)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    let file = try #require(mounted.filesystem.file(of: mounted.node("a")))
    #expect(file.state.withLock { $0.disk.mark } == .interrupted(.writerKilled(signal: 9)), "the disk has it")
    handle = try mounted.open("a", flags: O_WRONLY)
    try mounted.write(handle, at: offset, [2])
    #expect(file.state.withLock { $0.disk.provenBytes } == (isWrittenOver ? nil : 1))
    #expect(file.state.withLock { $0.disk.mark?.isWriting } == true)
    mounted.filesystem.release(handle)
  }

  /// Found by the simulation (killed-writers, seed 50000052053): a writer that was killed before it changed anything had a mark put that proves
  /// nothing, which the disk did not have yet; what was written over then had the older one, which proves, after a power cut.
  @Test(.promises("S40o")) func anotherMarkDoesNotHideWhatTheDiskHas() throws {
    let mounted = try Mounted()
    var handle = try mounted.create("a")
    try mounted.write(handle, [1, 2, 3])
    try mounted.filesystem.fileHandle(handle).killingSignal.store(9, ordering: .relaxed)
    mounted.filesystem.release(handle)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    let file = try #require(mounted.filesystem.file(of: mounted.node("a")))
    #expect(file.state.withLock { $0.disk.mark } == .interrupted(.writerKilled(signal: 9)), "the disk has it")
    handle = try mounted.open("a", flags: O_WRONLY)
    file.state.withLock { state in
      state.disk.synchronized(false)
      state.disk.marksAreCommitted()
      if let descriptor = state.handles.descriptor {
        mounted.filesystem.keepMark(of: file, &state, through: descriptor)
      }
    }
    #expect(file.state.withLock { $0.disk.mark?.isProof == false && $0.disk.provenBytes == 3 })
    mounted.filesystem.release(handle)
  }

  /// The run before may have put it just before its end.
  @Test(.promises("S40o")) func ofAMarkThatIsFound_theDiskIsNotKnownToHaveIt() throws {
    let folder = try TemporaryFolder()
    do { try Mounted(folder: folder).make("a", [1]) }
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    let file = try #require(mounted.filesystem.file(of: mounted.node("a")))
    #expect(file.state.withLock { $0.disk.mark?.isUnproven == true && $0.disk.provenBytes == .max })
  }

  @Test(.promises("S40c", "S41l")) func whatIsFoundCutShort_isSoAfterAFlushAndAnotherRestart() throws {
    let folder = try TemporaryFolder()
    do { try Mounted(folder: folder).make("a") }
    truncate(folder.path + "/spool/captures/a", 3)
    do {
      let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "later"))
      mounted.filesystem.scanSpool()
      mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
      #expect(Self.mark(mounted, "a") == "not-on-disk")
    }
    #expect(try Self.found(folder, in: SpoolInstance(name: "last"))?.interruption == .notOnDisk)
  }

  @Test(.promises("S40p")) func whatAPowerCutHasLeftWithoutBytes_isListed_alsoAfterAnotherRestart() throws {
    let folder = try TemporaryFolder()
    let piece = 64 << 10
    do {
      let mounted = try Mounted(folder: folder)
      let handle = try mounted.create("a")
      try mounted.write(handle, at: Int64(piece), [UInt8](repeating: 1, count: piece))
      try mounted.filesystem.allocate(handle, mode: 0, offset: Int64(2 * piece), length: Int64(piece))
      try mounted.write(handle, at: Int64(3 * piece), [UInt8](repeating: 1, count: piece))
      mounted.filesystem.release(handle)
      #expect(mounted.sink.lastSnapshot?.missing == nil, "it is whole")
    }
    for instance in ["later", "last"] {
      let found = try Self.found(folder, in: SpoolInstance(name: instance))
      let (first, kept) = (0..<UInt64(piece), UInt64(2 * piece)..<UInt64(3 * piece))
      #expect(found?.interruption == .notOnDisk && found?.missing == MissingBytes([first, kept]))
    }
    let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "last"))
    let handle = try mounted.open("a", flags: O_WRONLY)
    try mounted.write(handle, [UInt8](repeating: 2, count: piece))
    mounted.filesystem.release(handle)
    let missing = MissingBytes([UInt64(2 * piece)..<UInt64(3 * piece)])
    #expect(mounted.sink.lastSnapshot?.interruption == .notOnDisk && mounted.sink.lastSnapshot?.missing == missing)
    let again = try mounted.open("a", flags: O_WRONLY | O_TRUNC)
    try mounted.write(again, [1])
    mounted.filesystem.release(again)
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.lastSnapshot?.missing == nil)
  }

  @Test(.promises("S40f")) func fileMadeShorterByHand_isNoPowerCut_asLongAsTheSpoolIsTheSame() throws {
    let folder = try TemporaryFolder()
    do { try Mounted(folder: folder, instance: SpoolInstance(name: "now")).make("a") }
    truncate(folder.path + "/spool/captures/a", 3)
    #expect(try Self.found(folder, in: SpoolInstance(name: "now"))?.interruption == nil)
    #expect(try Self.found(folder)?.interruption == .notOnDisk)
    let real = try Mounted()
    let name = SpoolInstance(of: real.filesystem.root).name
    #expect(real.filesystem.instance.name == name && name?.isEmpty != true)
  }

  @Test(.promises("S40f")) func spoolThatCannotBeToldFromALaterOne_isAnotherOne() throws {
    let folder = try TemporaryFolder()
    do { try Mounted(folder: folder, instance: SpoolInstance(name: nil)).make("a") }
    truncate(folder.path + "/spool/captures/a", 3)
    #expect(try Self.found(folder, in: SpoolInstance(name: nil))?.interruption == .notOnDisk)
  }

  @Test(.promises("S44a"), arguments: [1, Filesystem.filesFlushedAloneMax + 1])
  func flushedFiles_haveNoMark_unlessTheyChangeAgain(count: Int) throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      try mounted.makeDirectory("sub")
      let names = (0..<count).map { "sub/a\($0)" }
      for name in names { try mounted.make(name) }
      try mounted.make("changed")
      let handle = try mounted.open("changed", flags: O_WRONLY)
      try mounted.write(handle, [1])
      let files = mounted.filesystem.flushes.takeAll()
      #expect(files.count == count + 1)
      mounted.filesystem.flush(files)
      #expect(names.allSatisfy { Self.mark(mounted, $0) == nil })
      #expect(Self.mark(mounted, "changed") == "writing")
      mounted.filesystem.release(handle)
      #expect(Self.mark(mounted, "changed") == "closed 7")
    }
    // What was not flushed when the mount ended is flushed by the next one.
    let next = try Mounted(folder: folder)
    next.filesystem.scanSpool()
    let files = next.filesystem.flushes.takeAll()
    #expect(files.count == 1)
    next.filesystem.flush(files)
    #expect(Self.mark(next, "changed") == nil)
    // Opened and not changed, it is as durable as it was.
    next.filesystem.release(try next.open("changed", flags: O_RDWR))
    #expect(Self.mark(next, "changed") == nil && next.filesystem.flushes.takeAll().isEmpty)
  }

  @Test(.promises("S44e")) func whatTheDiskHas_isSaid_untilTheFileChangesOrIsRenamed() throws {
    let mounted = try Mounted()
    func flush() -> Bool? {
      mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
      return mounted.sink.lastSnapshot?.isOnDisk
    }
    try mounted.makeDirectory("d")
    try mounted.make("a")
    #expect(mounted.sink.lastSnapshot?.isOnDisk == false && flush() == true)
    #expect(mounted.filesystem.flushes.takeAll().isEmpty)
    try mounted.rename("a", "d/a")
    #expect(mounted.sink.lastSnapshot?.isOnDisk == false && flush() == true)
    let handle = try mounted.open("d/a", flags: O_WRONLY)
    try mounted.write(handle, [1])
    #expect(mounted.sink.lastSnapshot?.isOnDisk == false && flush() == false, "it is open")
    mounted.filesystem.release(handle)
    rename("\(mounted.captures)/d", "\(mounted.captures)/gone")
    #expect(flush() == false, "its folder cannot be synced")
    rename("\(mounted.captures)/gone", "\(mounted.captures)/d")
    #expect(mounted.sink.problems == [])
  }

  /// Regression: the close of each empty file synced it, its label and its folder by itself.
  @Test(.promises("S44a")) func emptyFile_isFlushedWithTheOthers() throws {
    let mounted = try Mounted()
    try mounted.make("a", [])
    #expect(Self.mark(mounted, "a") == "closed 0" && mounted.sink.lastSnapshot?.isOnDisk == false)
    let file = try #require(mounted.filesystem.file(of: mounted.node("a")))
    #expect(file.state.withLock { $0.writeBack.asking?.descriptor.isWritable } == false)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(Self.mark(mounted, "a") == nil && mounted.sink.lastSnapshot?.isOnDisk == true)
    #expect(file.state.withLock { $0.writeBack.asking == nil })
  }

  @Test(.promises("S44e")) func whatAnEarlierRunBroughtToTheDisk_isThere() throws {
    let folder = try TemporaryFolder()
    for (name, flushes) in [("flushed", true), ("closed", false)] {
      let mounted = try Mounted(folder: folder)
      try mounted.make(name)
      if flushes { mounted.filesystem.flush(mounted.filesystem.flushes.takeAll()) }
    }
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    func isOnDisk(_ name: String) throws -> Bool? {
      let file = try #require(mounted.filesystem.file(of: mounted.node(name)))
      return mounted.filesystem.snapshot(of: file.id)?.isOnDisk
    }
    #expect(try isOnDisk("flushed") == true && isOnDisk("closed") == false)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(try isOnDisk("closed") == true)
  }

  @Test(.promises("S44a")) func flushThread_takesWhatWasClosed_andEndsWhenItIsTold() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    Concurrently(mounted.filesystem).run(threads: 2) { filesystem, thread in
      if thread == 0 { return filesystem.flushClosedFiles() }
      let deadline = ContinuousClock.now + .seconds(20)
      while Self.mark(filesystem, "a") != nil, ContinuousClock.now < deadline { sched_yield() }
      filesystem.stopFlushing()
    }
    #expect(Self.mark(mounted, "a") == nil)
  }

  @Test(.promises("S40b")) func truncationOfAClosedFile_isNoPowerCut_whereverTheMountDies() throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      try mounted.make("a")
      let (file, descriptor) = try mounted.filesystem.descriptorForTruncation(of: mounted.node("a"))
      _ = try mounted.filesystem.beginMutation(of: file, .size(3), through: descriptor)
      #expect(Self.mark(mounted, "a") == "closed 7")
      ftruncate(descriptor.number, 3)
    }
    #expect(try Self.found(folder, in: nil)?.interruption == nil)
  }

  /// Regression: a length that a file got during a sync counted as being on the disk, which may have got it after that.
  @Test(.promises("S44e")) func whatIsUnderWayDuringASync_isNotOnTheDisk() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let (file, descriptor) = try mounted.filesystem.descriptorForTruncation(of: mounted.node("a"))
    let mutation = try mounted.filesystem.beginMutation(of: file, .size(3), through: descriptor)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(Self.mark(mounted, "a") == "closed 7")
    ftruncate(descriptor.number, 3)
    mounted.filesystem.endMutation(mutation, of: file, through: descriptor, writtenBytes: 0)
    mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
    #expect(Self.mark(mounted, "a") == nil)
    #expect(mounted.sink.lastSnapshot?.isOnDisk == true && mounted.sink.problems == [])
  }

  @Test(.promises("S40b", "S40c")) func closedFileOfAnEarlierRunThatIsMadeShorter_isNoPowerCut() throws {
    let folder = try TemporaryFolder()
    do { try Mounted(folder: folder).make("a") }
    do {
      let mounted = try Mounted(folder: folder)
      var changes = AttributeChanges()
      changes.size = 3
      _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: nil)
    }
    let found = try #require(try Self.found(folder, in: nil))
    #expect(found.sizeBytes == 3 && found.interruption == nil)
  }

  @Test(.promises("S16c", "S40a")) func fileMadeWithoutAName_isInterruptedWhenTheMountDies_onceItHasOne() throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      let made = try mounted.filesystem.createTmpfile(
        in: .root, mode: 0o600, flags: O_RDWR, caller: mounted.caller)
      try mounted.write(made.opened.handle, [1])
      _ = try mounted.filesystem.makeLink(to: made.found.node, at: mounted.entry("a"))
    }
    #expect(try Self.found(folder, in: nil)?.interruption == .mountDied)
  }

  /// Regression: the change went on, and after a crash the old receipt could stand for the new content.
  @Test(.promises("S34c")) func changeThatCannotBeRecorded_isRefused_andLeavesTheFileWhole() throws {
    let mounted = try Mounted()
    try mounted.make("a", [1, 2, 3])
    mounted.sink.refuseChanges(true)
    let number = try mounted.open("a", flags: O_WRONLY)
    #expect(failure { try mounted.write(number, [9]) } == EIO)
    #expect(failure { _ = try mounted.open("a", flags: O_WRONLY | O_TRUNC) } == EIO)
    #expect(failure { try mounted.filesystem.allocate(number, mode: 0, offset: 0, length: 10) } == EIO)
    mounted.filesystem.release(number)
    let settled = try #require(mounted.sink.lastSnapshot)
    #expect(settled.interruption == nil && settled.sizeBytes == 3 && settled.writableOpens == 0)
    #expect(try mounted.contents(of: settled.id) == [1, 2, 3])
    mounted.sink.refuseChanges(false)
    let later = try mounted.open("a", flags: O_WRONLY)
    try mounted.write(later, [9])
    mounted.filesystem.release(later)
    #expect(try mounted.contents(of: settled.id) == [9, 2, 3])
    #expect(mounted.sink.lastSnapshot?.interruption == nil && mounted.sink.problems == [])
  }

  @Test(.promises("S40c", "S40d")) func whatIsWrittenDuringAnFsync_isNotTakenForDurable() throws {
    let mounted = try Mounted()
    let number = try mounted.create("a")
    let handle = try mounted.filesystem.fileHandle(number)
    let mutation = try mounted.filesystem.beginMutation(of: handle.file, .bytes(0..<1), through: handle.descriptor)
    _ = try mounted.filesystem.synchronize(handle, dataOnly: false)
    #expect(pwrite(handle.descriptor.number, "x", 1, 0) == 1)
    mounted.filesystem.endMutation(mutation, of: handle.file, through: handle.descriptor, writtenBytes: 1)
    mounted.filesystem.release(number)
    #expect(Self.mark(mounted, "a") == "closed 1")
  }

  @Test(.promises("S41a", "S41b"), arguments: [true, false])
  func fileIsInterrupted_whenTheSpoolRefusesAWriteOrAnFsync(isWrite: Bool) throws {
    let mounted = try Mounted()
    let number = try mounted.create("a")
    try mounted.write(number, [1])
    let handle = try mounted.filesystem.fileHandle(number)
    // A pipe's end for reading takes neither.
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    close(ends[1])
    let broken = FileHandle(
      file: handle.file, descriptor: FileDescriptor(owning: ends[0], isReadable: true, isWritable: true),
      choice: handle.choice, opener: 0, wholeEpoch: nil)
    if isWrite {
      let other = mounted.filesystem.handles.withLock { $0.insert(.file(broken)) }
      #expect(failure { try mounted.write(other, at: 1, [2]) } == ESPIPE)
      _ = mounted.filesystem.handles.withLock { $0.remove(other) }
    } else {
      #expect(failure { _ = try mounted.filesystem.synchronize(broken, dataOnly: false) } == EINVAL)
    }
    mounted.filesystem.release(number)
    #expect(mounted.sink.lastSnapshot?.interruption == .writeFailed(errno: isWrite ? ESPIPE : EINVAL))
    #expect(Self.mark(mounted, "a") == "write-failed \(isWrite ? ESPIPE : EINVAL)")
  }

  /// Regression: the loss was made good, and what the disk went on refusing was read as if it had that; once memory was short, as
  /// zeros.
  @Test(.promises("S41d")) func fileWrittenAnew_whileItsDiskRefusesIt_isNotReadBeforeTheDiskHasIt() throws {
    let mounted = try Mounted()
    let number = try mounted.create("a")
    try mounted.write(number, [1])
    let file = try mounted.filesystem.fileHandle(number).file
    mounted.filesystem.release(number)
    file.state.withLock { state in
      var refusal = DiskRefusal(.inputOutput)
      refusal.lost = 0..<1
      state.writeBack.savingEnded(leaving: refusal)
      state.integrity.present.lostContent(.lostInWriteBack(errno: EIO, 0..<1))
      state.integrity.settleAsItIs()
    }
    let writer = try mounted.open("a", flags: O_WRONLY | O_TRUNC)
    try mounted.write(writer, [2])
    mounted.filesystem.release(writer)
    #expect(mounted.sink.lastSnapshot?.interruption == .spoolFailing(errno: EIO))
  }

  /// Regression: with its last name a file lost what its disk had refused.
  @Test(.promises("S41g"), arguments: [true, false])
  func fsyncOfAnUnlinkedFile_thatItsDiskRefuses_fails(isRefusedBefore: Bool) throws {
    let mounted = try Mounted()
    let number = try mounted.create("a")
    try mounted.write(number, [1])
    let handle = try mounted.filesystem.fileHandle(number)
    if isRefusedBefore { handle.file.state.withLock { $0.writeBack.refused(.inputOutput) } }
    try mounted.filesystem.unlink(mounted.entry("a"))
    if !isRefusedBefore { handle.file.state.withLock { $0.writeBack.refused(.inputOutput) } }
    mounted.filesystem.flush([handle.file])
    for _ in 0..<2 { #expect(failure { _ = try mounted.filesystem.synchronize(handle, dataOnly: false) } == EIO) }
    mounted.filesystem.release(number)
  }

  @Test func fileThatWasMadeDurable_hasNoMark() throws {
    let mounted = try Mounted()
    let handle = try mounted.create("a")
    try mounted.write(handle, [1])
    _ = try mounted.filesystem.synchronize(mounted.filesystem.fileHandle(handle), dataOnly: false)
    mounted.filesystem.release(handle)
    #expect(Self.mark(mounted, "a") == nil)
  }

  @Test(.promises("S39a", "S39b")) func killedWriter_leavesTheFileInterrupted_alsoOverARestart() throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      let handle = try mounted.create("a")
      try mounted.write(handle, [1])
      try mounted.filesystem.fileHandle(handle).killingSignal.store(9, ordering: .relaxed)
      mounted.filesystem.release(handle)
      #expect(mounted.sink.lastSnapshot?.interruption == .writerKilled(signal: 9))
      #expect(Self.mark(mounted, "a") == "writer-killed 9")
    }
    #expect(try Self.found(folder, in: nil)?.interruption == .writerKilled(signal: 9))
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    let snapshot = try #require(mounted.sink.lastSnapshot)
    mounted.filesystem.accept(snapshot.id, snapshot.interruption, ifUnchangedSince: snapshot.epoch + 1)
    #expect(Self.mark(mounted, "a") == "writer-killed 9")
    mounted.filesystem.accept(snapshot.id, snapshot.interruption, ifUnchangedSince: snapshot.epoch)
    #expect(Self.mark(mounted, "a") == "closed 1" && mounted.filesystem.snapshot(of: snapshot.id)?.interruption == nil)
  }

  /// Regression: a writer who went on at its end made it whole, with what the power cut had left.
  @Test(.promises("S40o", "S41l"), arguments: [true, false])
  func whatAKilledWriterLeft_isNotMadeGoodByWritingOn_unlessTheDiskHadIt(isOnDisk: Bool) throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      let handle = try mounted.create("a")
      try mounted.write(handle, [1])
      try mounted.filesystem.fileHandle(handle).killingSignal.store(9, ordering: .relaxed)
      mounted.filesystem.release(handle)
      let file = try #require(mounted.filesystem.file(of: mounted.node("a")))
      if isOnDisk {
        mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
        #expect(file.state.withLock { $0.disk.isOnDisk && !$0.disk.isMarkUnsynced })
      }
      #expect(
        file.state.withLock { $0.disk.mark }
          == (isOnDisk
            ? .interrupted(.writerKilled(signal: 9))
            : .ended(.writerKilled(signal: 9), in: mounted.filesystem.instance)))
    }
    let mounted = try Mounted(folder: folder, instance: SpoolInstance(name: "later"))
    mounted.filesystem.scanSpool()
    let expected = isOnDisk ? Interruption.writerKilled(signal: 9) : .notOnDisk
    #expect(mounted.sink.lastSnapshot?.interruption == expected)
    let handle = try mounted.open("a", flags: O_WRONLY)
    try mounted.write(handle, at: 1, [2])
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == (isOnDisk ? nil : .notOnDisk))
  }

  @Test func marksOfWhatEnded_areReadAsTheyWereWritten() {
    let instance = SpoolInstance(name: "0123abcd.s1")
    for interruption in [Interruption.writerKilled(signal: 9), .mountDied, .changedInSpool] {
      let ended = WriterStateXattr.ended(interruption, in: instance)
      #expect(ended.text.map { WriterStateXattr($0) } == ended)
      #expect(Interruption(ended.text ?? "") == interruption, "to an earlier version")
      #expect(
        WriterStateXattr(interruption.text) == .interrupted(interruption), "of an earlier version, or on the disk")
      let unknown = WriterStateXattr.ended(interruption, in: SpoolInstance(name: nil))
      #expect(unknown.text.map { WriterStateXattr($0) } == .interrupted(.notOnDisk))
    }
    let lost = Interruption.lostInWriteBack(errno: 5, 1..<2)
    #expect(WriterStateXattr(lost.text) == .interrupted(lost))
  }

  @Test(.promises("S39a")) func killedProcessThatChangedNothing_leavesTheFileWhole() throws {
    let mounted = try Mounted()
    try mounted.make("a")
    let handle = try mounted.open("a", flags: O_RDWR)
    try mounted.filesystem.fileHandle(handle).killingSignal.store(9, ordering: .relaxed)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
  }

  /// close(2) of the first writer has returned, and the kernel sends the release of its descriptor when it likes.
  @Test(.promises("S39a")) func killedProcessThatChangedNothing_leavesTheFileWhole_alsoBeforeItsWritersAreReleased()
    throws
  {
    let killed = try EndedProcess.killed()
    let mounted = try Mounted()
    let writer = try mounted.create("a")
    try mounted.write(writer, [1])
    _ = try mounted.filesystem.flush(writer, closer: getpid())
    let idle = try mounted.open("a", flags: O_RDWR)
    let other = try mounted.open("a", flags: O_RDWR)
    _ = try mounted.filesystem.flush(idle, closer: killed.number)
    mounted.filesystem.release(writer)
    mounted.filesystem.release(idle)
    try mounted.write(other, [2])
    _ = try mounted.filesystem.flush(other, closer: killed.number)
    mounted.filesystem.release(other)
    #expect(mounted.sink.lastSnapshot?.interruption == .writerKilled(signal: 9), "the one that wrote counts")

    let again = try mounted.create("b")
    _ = try mounted.filesystem.flush(again, closer: getpid())
    let last = try mounted.open("b", flags: O_RDWR)
    _ = try mounted.filesystem.flush(last, closer: killed.number)
    mounted.filesystem.release(last)
    mounted.filesystem.release(again)
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
  }

  @Test(.promises("S39f")) func fileWrittenAnewAfterItsWriterDied_isWhole() throws {
    let mounted = try Mounted()
    let dead = try mounted.create("a")
    try mounted.write(dead, [1])
    try mounted.filesystem.fileHandle(dead).killingSignal.store(15, ordering: .relaxed)
    let other = try mounted.open("a", flags: O_WRONLY)
    mounted.filesystem.release(dead)
    #expect(mounted.filesystem.snapshot(of: try #require(mounted.sink.lastSnapshot).id)?.interruption != nil)
    let anew = try mounted.open("a", flags: O_WRONLY | O_TRUNC)
    try mounted.write(anew, [2])
    mounted.filesystem.release(anew)
    mounted.filesystem.release(other)
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
  }

  @Test(.promises("S29b", "S41a", "S41c")) func failedWrite_isSaidOnce_andMadeGoodByWritingItsPlace() throws {
    let mounted = try Mounted(source: nil) { $0.fileBytesMax = 100 }
    let handle = try mounted.create("a")
    try mounted.write(handle, [UInt8](repeating: 1, count: 90))
    #expect(failure { try mounted.write(handle, at: 90, [UInt8](repeating: 1, count: 20)) } == EFBIG)
    #expect(failure { try mounted.write(handle, at: 90, [UInt8](repeating: 1, count: 20)) } == EFBIG)
    #expect(mounted.sink.takeNames().filter { $0 == "writeFailed" }.count == 1)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == .writeRefused(limitBytes: 100))
    #expect(Self.mark(mounted, "a") == "write-refused 100")
    let again = try mounted.open("a", flags: O_WRONLY)
    var changes = AttributeChanges()
    changes.size = 90
    _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: again)
    mounted.filesystem.release(again)
    #expect(mounted.sink.lastSnapshot?.interruption == nil && Self.mark(mounted, "a") == "closed 90")
  }

  @Test(.promises("S41a")) func failedWriteOfAFileThatDidNotChange_leavesItWhole() throws {
    let mounted = try Mounted(source: nil) { $0.fileBytesMax = 100 }
    try mounted.make("a")
    let handle = try mounted.open("a", flags: O_WRONLY)
    #expect(failure { try mounted.write(handle, at: 100, [1]) } == EFBIG)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
  }

  /// Regression, found by the simulation (spool-disk, seed 7000016425): what was delivered got another name before its writer, whose
  /// write had failed, closed it. It was held for that write, and stayed so.
  @Test(.promises("S41m")) func failedWriteOfAFileThatDidNotChange_isNoneOfTheContentThatIsRenamed() throws {
    let mounted = try Mounted(source: nil) { $0.fileBytesMax = 100 }
    try mounted.make("a")
    let handle = try mounted.open("a", flags: O_WRONLY)
    #expect(failure { try mounted.write(handle, at: 100, [1]) } == EFBIG)
    try mounted.rename("a", "b")
    #expect(mounted.sink.lastSnapshot?.names == [RelativePath("b")])
    #expect(mounted.sink.lastSnapshot?.interruption == nil)
    // Once something changes it counts.
    try mounted.write(handle, [1])
    try mounted.rename("b", "c")
    #expect(mounted.sink.lastSnapshot?.interruption == .writeRefused(limitBytes: 100))
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == .writeRefused(limitBytes: 100))
  }
}

/// What is to be waited for.
@Suite struct AwaitedDeliveryTests {
  private static func mounted(_ rule: String) throws -> Mounted {
    let rules = FileRules(rules: [try FileRule(rule)])
    return try Mounted(source: nil) { $0.rules = rules }
  }

  @Test(.promises("S42a")) func closeOfTheLastWriter_settlesWhatWasWritten_andTheReleaseHasNothingToSay() throws {
    let mounted = try Self.mounted("* close=wait")
    let handle = try mounted.create("a")
    #expect(try mounted.filesystem.flush(handle) == nil, "nothing was written yet")
    try mounted.write(handle, [1])
    let awaited = try #require(try mounted.filesystem.flush(handle))
    let snapshot = try #require(mounted.sink.lastSnapshot)
    #expect(mounted.sink.takeNames() == ["opened", "settled"])
    #expect(awaited == AwaitedDelivery(file: snapshot.id, epoch: snapshot.epoch) && snapshot.isSettled)
    #expect(try mounted.filesystem.flush(handle) == awaited, "it may not be delivered yet")
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == [] && mounted.sink.problems == [])
  }

  /// Regression: only writes counted as changes.
  @Test(.promises("S42a"), arguments: ["ftruncate", "fallocate"])
  func closeAfterAChangeThatIsNoWrite_isWaitedFor(call: String) throws {
    let mounted = try Self.mounted("* close=wait")
    try mounted.make("a")
    let handle = try mounted.open("a", flags: O_WRONLY)
    #expect(try mounted.filesystem.flush(handle) == nil, "nothing was changed yet")
    if call == "fallocate" {
      try mounted.filesystem.allocate(handle, mode: 0, offset: 0, length: 100)
    } else {
      var changes = AttributeChanges()
      changes.size = 100
      _ = try mounted.filesystem.setAttributes(of: mounted.node("a"), changes, handle: handle)
    }
    #expect(try mounted.filesystem.flush(handle) != nil)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.problems == [])
  }

  /// Regression: what an fsync(2) had settled, whose wait was refused with EAGAIN (S42g), no close waited for.
  @Test(.promises("S42a")) func closeAfterAnFsyncThatDidNotWait_isWaitedFor() throws {
    let mounted = try Self.mounted("* close=wait fsync=remote")
    let handle = try mounted.create("a")
    try mounted.write(handle, [1])
    let refused = try #require(try mounted.filesystem.synchronize(handle, dataOnly: false))
    #expect(try mounted.filesystem.flush(handle) == refused)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S42d")) func duplicateThatWritesLater_beginsANewRevision() throws {
    let mounted = try Self.mounted("* close=wait")
    let handle = try mounted.create("a")
    try mounted.write(handle, [1])
    let first = try #require(try mounted.filesystem.flush(handle))
    try mounted.write(handle, [2])
    let second = try #require(try mounted.filesystem.flush(handle))
    #expect(second.epoch > first.epoch)
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == ["opened", "settled", "willChange", "changed", "settled"])
    #expect(mounted.sink.problems == [])
  }

  @Test(.promises("S42d")) func closeBesideAnotherWriter_doesNotWait() throws {
    let mounted = try Self.mounted("* close=wait")
    let one = try mounted.create("a")
    let other = try mounted.open("a", flags: O_WRONLY)
    try mounted.write(one, [1])
    #expect(try mounted.filesystem.flush(one) == nil)
    try mounted.write(other, [2])
    #expect(try mounted.filesystem.flush(other) != nil, "now no process is left that could write")
  }

  @Test(.promises("S43")) func fsync_settlesWhatWasWritten_andTheFileStaysOpen() throws {
    let mounted = try Self.mounted("*.log fsync=remote")
    let handle = try mounted.create("a.log")
    try mounted.write(handle, [1])
    let first = try #require(try mounted.filesystem.synchronize(handle, dataOnly: true))
    #expect(try mounted.filesystem.synchronize(handle, dataOnly: false) == first, "it may not be delivered yet")
    try mounted.write(handle, at: 1, [2])
    mounted.filesystem.release(handle)
    #expect(mounted.sink.takeNames() == ["opened", "settled", "willChange", "changed", "settled"])
    let elsewhere = try mounted.create("a.mov")
    try mounted.write(elsewhere, [1])
    #expect(try mounted.filesystem.synchronize(elsewhere, dataOnly: false) == nil)
    #expect(try mounted.filesystem.flush(elsewhere) == nil && mounted.sink.problems == [])
  }

  @Test(.promises("S33a", "S43")) func fsyncOfAReader_settlesNothingThatIsBeingWritten() throws {
    let mounted = try Self.mounted("* fsync=remote")
    let writer = try mounted.create("a")
    try mounted.write(writer, [1])
    let reader = try mounted.open("a", flags: O_RDONLY)
    #expect(try mounted.filesystem.synchronize(reader, dataOnly: false) == nil)
    #expect(mounted.sink.takeNames() == ["opened"])
    mounted.filesystem.release(writer)
    mounted.filesystem.release(reader)
    #expect(mounted.sink.takeNames() == ["settled"] && mounted.sink.problems == [])
  }
}

@Suite struct ProcessExitStateTests {
  private static func line(flags: UInt64, exitCode: Int32, name: String = "a) R (b") -> [UInt8] {
    var fields = [String](repeating: "0", count: 50)
    fields[0] = "R"
    fields[6] = "\(flags)"
    fields[49] = "\(exitCode)"
    return Array("17 (\(name)) \(fields.joined(separator: " "))\n".utf8)
  }

  @Test func signal_countsForAnExitingThreadOnly() {
    #expect(ProcessExitState(statusLine: Self.line(flags: 0x40_0004, exitCode: 9)).signal == 9)
    #expect(ProcessExitState(statusLine: Self.line(flags: 0x4, exitCode: 0x80 | 11)).signal == 11, "with a core dump")
    #expect(ProcessExitState(statusLine: Self.line(flags: 0x4, exitCode: 1 << 8)).signal == 0, "exit(1)")
    #expect(ProcessExitState(statusLine: Self.line(flags: 0x4, exitCode: 1 << 8)).isEnding)
    #expect(ProcessExitState(statusLine: Self.line(flags: 0x40_0000, exitCode: 9)) == .alive)
    // PF_SIGNALED of a thread whose process ends by itself.
    #expect(ProcessExitState(statusLine: Self.line(flags: 0x404, exitCode: 0)).signal == 0)
  }

  @Test func whatCannotBeRead_isAlive() {
    for text in ["", "17 (a) R 1", "17 (a", "17 (a) \(String(repeating: "x ", count: 60))"] {
      #expect(ProcessExitState(statusLine: Array(text.utf8)) == .alive)
    }
    #expect(
      ProcessExitState(of: 0) == .alive && ProcessExitState(of: -1) == .alive
        && ProcessExitState(of: getpid()) == .alive)
  }

  @Test func whoHasMemory_isNotEnding() {
    #expect(ProcessExitState.hasNoMemory(Array("0 0 0 0 0 0 0\n".utf8)))
    for text in ["", "1 1 0 0 0 1 0\n", "2045 300 10 1 0 90 0\n"] {
      #expect(!ProcessExitState.hasNoMemory(Array(text.utf8)))
    }
  }

  @Test(.promises("S39a", "S42d")) func ownerOfADescriptor_isTheProcessThatOpenedIt_orTheOneThatOutlivesIt() {
    #expect(ProcessExitState.isOwner(getpid(), ofDescriptorOpenedBy: getpid()))
    #expect(
      ProcessExitState.isOwner(0, ofDescriptorOpenedBy: 7) && ProcessExitState.isOwner(7, ofDescriptorOpenedBy: 0))
    #expect(ProcessExitState.isOwner(getpid(), ofDescriptorOpenedBy: 0x7fff_fff0), "no such process any more")
    #expect(!ProcessExitState.isOwner(getpid(), ofDescriptorOpenedBy: getppid()))
  }
}

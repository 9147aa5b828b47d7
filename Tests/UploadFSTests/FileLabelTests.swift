import CLinux
import FileModel
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

@testable import UploadFS

/// What a spool's file says of itself.
struct FileLabelTests {
  private static let id = FileID(high: .max, low: 0x0123_4567_89ab_cdef)
  private static let pointer = SessionPointer(
    chunkBytes: 1 << 20, sessionID: "a;b c%", nonce: [0, 1, 255], address: "https://vault.example.org/ä",
    credentialMark: "1f")

  private static func released(_ indices: [Int]) -> ReleasedChunks {
    var released = ReleasedChunks(chunkBytes: 1 << 20)
    for index in indices {
      let isTaken = released.insert(index)
      #expect(isTaken)
    }
    return released
  }

  @Test(.promises("S40d")) func everythingComesBack() {
    let marks: [WriterStateXattr] = [
      .none, .unfinished, .writing(in: SpoolInstance(name: "1a2b3c4d.s7")),
      .closed(sizeBytes: .max, in: SpoolInstance(name: "1a2b3c4d.7")),
      .interrupted(.lostInWriteBack(errno: 5, 1..<9)), .interrupted(.unproven),
    ]
    for mark in marks {
      for released in [nil, Self.released([1, 2, 9])] {
        for id in [Self.id, FileID(high: 0, low: 0), FileID(high: 1, low: .max)] {
          let label = FileLabel(
            id: id, mark: mark, released: released, pointer: released == nil ? nil : Self.pointer,
            others: ["zlater version's"])
          #expect(FileLabel(label.text) == label)
        }
      }
    }
  }

  /// ext4 keeps so much beside an inode of 256 bytes; more costs a block of its own.
  @Test func mostFitBesideAnInode() {
    let mark = WriterStateXattr.closed(sizeBytes: 999_999_999_999, in: SpoolInstance(name: "1a2b3c4d.100000fff"))
    #expect(FileLabel(id: Self.id, mark: mark).text.utf8.count <= 64)
  }

  @Test(.promises("S79f")) func membersOfLaterVersionsStay_andOtherVersionsDoubt() {
    let text = FileLabel(id: Self.id, mark: .none).text
    let later = FileLabel("\(text);xsomething;mwriting;y")
    #expect(later.id == Self.id && later.mark == .unfinished && later.others == ["xsomething", "y"])
    #expect(later.text == "\(text);mwriting;xsomething;y")
    for unknown in ["", "2\(text.dropFirst())", "1", "1tooShort", text + "x", "1" + String(repeating: "_", count: 22)] {
      #expect(FileLabel(unknown) == FileLabel(id: nil, mark: .unfinished), "\(unknown)")
    }
  }

  @Test(.promises("S40h")) func partsThatCannotBeReadAreNotNothing() {
    let text = FileLabel(id: Self.id, mark: .none).text
    #expect(!FileLabel(text + ";rnonsense").saysWhatIsMissing && !FileLabel("2\(text);r7").saysWhatIsMissing)
    #expect(FileLabel(text).saysWhatIsMissing && FileLabel("2\(text)").saysWhatIsMissing)
  }

  // MARK: - On files

  private static func attribute(_ name: String, of file: String) -> String? {
    let root = open("/", O_RDONLY | O_DIRECTORY)
    defer { close(root) }
    var buffer = [CChar](repeating: 0, count: 4096)
    let count = uploadfs_attribute_at(root, file, name, &buffer, buffer.count)
    return count < 0 ? nil : String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static func set(_ value: String, _ name: String, of file: String) throws {
    let number = try check(open(file, O_RDONLY))
    defer { close(number) }
    try check(uploadfs_set_attribute(number, name, value, value.utf8.count))
  }

  private static func found(_ mounted: Mounted) -> [String: FileSnapshot] {
    var found: [String: FileSnapshot] = [:]
    for case .event(.found(let snapshot)) in mounted.sink.records {
      for name in snapshot.names { found[name.displayText] = snapshot }
    }
    return found
  }

  /// A spool with two files, of which one was not finished, and what it knew of them.
  private static func spool(_ folder: TemporaryFolder) throws -> [String: FileID] {
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    try mounted.make("whole")
    let handle = try mounted.create("half")
    try mounted.write(handle, [1])
    return [
      "whole": try #require(mounted.filesystem.file(of: mounted.node("whole"))).id,
      "half": try #require(mounted.filesystem.file(of: mounted.node("half"))).id,
    ]
  }

  /// Copies the spool to the place of another test's.
  private static func copied(
    _ folder: TemporaryFolder, keepsAttributes: Bool, keepsTimes: Bool = true
  ) throws -> TemporaryFolder {
    let target = try TemporaryFolder()
    let options = keepsAttributes ? "-a" : keepsTimes ? "-rp" : "-r"
    #expect(uploadfs_run("cp", options, folder.path + "/spool", target.path + "/spool") == 0)
    return target
  }

  @Test(.promises("S79a", "S79b")) func aMovedSpoolIsKnownByItsLabels() throws {
    let folder = try TemporaryFolder()
    let ids = try Self.spool(folder)
    let mounted = try Mounted(folder: Self.copied(folder, keepsAttributes: true))
    mounted.filesystem.scanSpool()
    let found = Self.found(mounted)
    #expect(found["whole"]?.id == ids["whole"] && found["whole"]?.interruption == nil)
    #expect(found["half"]?.id == ids["half"] && found["half"]?.interruption == .mountDied)
  }

  @Test(.promises("S40m", "S44e")) func whatLiesThereWithoutALabelIsNotKnownToBeOnTheDisk() throws {
    let folder = try TemporaryFolder()
    let captures = folder.path + "/spool/captures"
    #expect(uploadfs_run("mkdir", "-p", captures, nil) == 0)
    #expect(uploadfs_run("cp", "/proc/version", captures + "/a", nil) == 0)
    do {
      let mounted = try Mounted(folder: folder)
      mounted.filesystem.scanSpool()
      let found = try #require(Self.found(mounted)["a"])
      #expect(found.interruption == nil && !found.isOnDisk)
      #expect(try #require(Self.attribute("user.uploadfs", of: captures + "/a")).contains(";mclosed "))
      mounted.filesystem.flush(mounted.filesystem.flushes.takeAll())
      #expect(mounted.filesystem.snapshot(of: found.id)?.isOnDisk == true)
    }
    let later = try Mounted(folder: folder, instance: SpoolInstance(name: "later"))
    later.filesystem.scanSpool()
    #expect(Self.found(later)["a"]?.interruption == nil)
  }

  /// Regression: an inode number of another disk gave a capture another one's identity, and with it that one's receipt.
  @Test(.promises("S79a")) func inMovedSpools_inodeNumbersSayNothing() throws {
    let folder = try TemporaryFolder()
    _ = try Self.spool(folder)
    let copy = try Self.copied(folder, keepsAttributes: false)
    var status = stat()
    try check(stat(copy.path + "/spool/captures/whole", &status))
    let foreign = FileID(high: 1, low: 1)
    let mounted = try Mounted(folder: copy, known: [UInt64(status.st_ino): foreign])
    mounted.filesystem.scanSpool()
    #expect(Self.found(mounted).values.allSatisfy { $0.id != foreign })
  }

  /// Of what the disk did not take on the file the record says whose it is, wherever that lies.
  @Test(.promises("S79b", "S40i")) func theRecordOfAMovedSpoolIsByIdentity() throws {
    let folder = try TemporaryFolder()
    let ids = try Self.spool(folder)
    let whole = try #require(ids["whole"])
    let copy = try Self.copied(folder, keepsAttributes: true)
    // The inode numbers are those of files elsewhere, and here of others.
    var status = stat()
    #expect(stat(copy.path + "/spool/captures/half", &status) == 0)
    let lines = "7 writing @\(whole) .\n\(status.st_ino) none @\(FileID(high: 1, low: 1)) .\n"
    try Self.write(lines, to: copy.path + "/spool/.state/marks")
    for _ in 0..<2 {
      let mounted = try Mounted(folder: copy)
      mounted.filesystem.scanSpool()
      let found = Self.found(mounted)
      #expect(found["whole"]?.id == whole && found["whole"]?.interruption == .mountDied)
      #expect(found["half"]?.interruption == .mountDied)
    }
    let label = try #require(Self.attribute("user.uploadfs", of: copy.path + "/spool/captures/whole"))
    #expect(FileLabel(label).mark == .unfinished)
  }

  /// A backup that was put back past the mount, and got the inode number of what was there.
  @Test(.promises("S79a")) func theRecordOfAnotherCaptureIsNotBelieved() throws {
    let folder = try TemporaryFolder()
    _ = try Self.spool(folder)
    var status = stat()
    #expect(stat(folder.path + "/spool/captures/whole", &status) == 0)
    try Self.write(
      "\(status.st_ino) writing @\(FileID(high: 1, low: 1)) .\n", to: folder.path + "/spool/.state/marks")
    let mounted = try Mounted(folder: folder)
    mounted.filesystem.scanSpool()
    #expect(Self.found(mounted)["whole"]?.interruption == nil)
  }

  private static func write(_ text: String, to path: String) throws {
    let number = try check(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600))
    defer { close(number) }
    #expect(Glibc.write(number, text, text.utf8.count) == text.utf8.count)
  }

  @Test(.promises("S79c")) func withoutLabels_theCatalogsDoubtCounts_andWhatNothingProvesIsHeld() throws {
    let folder = try TemporaryFolder()
    let ids = try Self.spool(folder)
    let copy = try Self.copied(folder, keepsAttributes: false)
    var status = stat()
    try check(stat(copy.path + "/spool/captures/whole", &status))
    let attributes = CapturedFile.KnownAttributes(status)
    var known = KnownCaptures()
    let whole = KnownCapture(
      id: try #require(ids["whole"]), path: RelativePath("whole"), sizeBytes: attributes.sizeBytes,
      modifiedNanoseconds: attributes.modifiedNanoseconds)
    var half = KnownCapture(
      id: try #require(ids["half"]), path: RelativePath("half"), sizeBytes: 99, modifiedNanoseconds: 0,
      doubt: .writerKilled(signal: 9))
    half.recordedIn = "here"
    known.doubtful = [half.path: half]
    known.all = { [half] in [whole.path: whole, half.path: half] }
    let unproven = open(copy.path + "/spool/captures/unproven", O_WRONLY | O_CREAT, 0o600)
    close(unproven)
    for _ in 0..<2 {
      let mounted = try Mounted(folder: copy, source: nil, instance: SpoolInstance(name: "here")) { [known] in
        $0.knownCaptures = known
      }
      mounted.filesystem.scanSpool()
      let found = Self.found(mounted)
      #expect(found["whole"]?.id == ids["whole"] && found["whole"]?.interruption == nil)
      #expect(found["half"]?.id == ids["half"] && found["half"]?.interruption == .writerKilled(signal: 9))
      #expect(found["unproven"]?.interruption == .unproven)
      // The second start finds labels.
      known = KnownCaptures()
    }
  }

  /// Regression: the attribute of `.spool` counted for that of all files, and what had been open was whole.
  @Test(.promises("S79c"), arguments: [true, false])
  func withoutLabels_whatNothingProvesIsHeld_alsoWhereTheStampKeptItsOwn(capturesAloneWereMoved: Bool) throws {
    let folder = try TemporaryFolder()
    let ids = try Self.spool(folder)
    var copy = try Self.copied(folder, keepsAttributes: false)
    if capturesAloneWereMoved {
      let captures = folder.path + "/spool/captures"
      try check(Glibc.rename(captures, folder.path + "/former"))
      try check(Glibc.rename(copy.path + "/spool/captures", captures))
      copy = folder
    } else {
      try Self.set("1", "user.uploadfs", of: copy.path + "/spool/.spool")
    }
    var status = stat()
    try check(stat(copy.path + "/spool/captures/whole", &status))
    let facts = CapturedFile.KnownAttributes(status)
    var whole = KnownCapture(
      id: try #require(ids["whole"]), path: RelativePath("whole"), sizeBytes: facts.sizeBytes,
      modifiedNanoseconds: facts.modifiedNanoseconds)
    whole.isOnDisk = true
    let known = whole
    let mounted = try Mounted(folder: copy, source: nil) { $0.knownCaptures.all = { [known.path: known] } }
    mounted.filesystem.scanSpool()
    let found = Self.found(mounted)
    #expect(found["half"]?.interruption == .unproven)
    #expect(found["whole"]?.id == known.id && found["whole"]?.interruption == nil)
  }

  /// Regression: where captures/ was copied by itself `.spool` has its own time, and no time of a capture was looked at.
  @Test(.promises("S79j"), arguments: [(true, Interruption.unproven), (false, nil)] as [(Bool, Interruption?)])
  func withoutLabels_theTimeCountsWhereCapturesAloneWereCopiedWithIt(
    keepsTimes: Bool, expected: Interruption?
  ) throws {
    let folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["whole"])
    let copy = try Self.copied(folder, keepsAttributes: false, keepsTimes: keepsTimes)
    let captures = folder.path + "/spool/captures"
    try check(Glibc.rename(captures, folder.path + "/former"))
    try check(Glibc.rename(copy.path + "/spool/captures", captures))
    var status = stat()
    try check(stat(captures + "/whole", &status))
    let facts = CapturedFile.KnownAttributes(status)
    var whole = KnownCapture(
      id: id, path: RelativePath("whole"), sizeBytes: facts.sizeBytes,
      modifiedNanoseconds: facts.modifiedNanoseconds + 5_000_000_000)
    whole.isOnDisk = true
    let known = whole
    let mounted = try Mounted(folder: folder, source: nil) { $0.knownCaptures.all = { [known.path: known] } }
    mounted.filesystem.scanSpool()
    let found = try #require(Self.found(mounted)["whole"])
    #expect(found.id == id && found.interruption == expected)
    // Found by the simulation (bare-copies, seed 49000006504): an inode number that was that of before by chance made it a later content.
    #expect(found.isPutInPlace)
  }

  /// Regression, found by the simulation (bare-copies, seed 20123): a writer who went on at its end made it whole, with what the power cut
  /// before the copy had left.
  @Test(
    .promises("S79c"), arguments: [.mountDied, .writerKilled(signal: 9), .notOnDisk] as [Interruption],
    ["here", "elsewhere", nil])
  func withoutLabels_whatWasNotEnded_isNotMadeGoodByWritingOn_unlessItsFilesystemHasIt(
    doubt: Interruption, recordedIn: String?
  ) throws {
    let folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["half"])
    let copy = try Self.copied(folder, keepsAttributes: false)
    var half = KnownCapture(
      id: id, path: RelativePath("half"), sizeBytes: 99, modifiedNanoseconds: 0, doubt: doubt)
    half.recordedIn = recordedIn
    let mounted = try Mounted(folder: copy, source: nil, instance: SpoolInstance(name: "here")) { [half] in
      $0.knownCaptures.doubtful = [half.path: half]
    }
    mounted.filesystem.scanSpool()
    let isHere = recordedIn == "here"
    let expected = isHere || doubt.isLack ? doubt : .unproven
    #expect(Self.found(mounted)["half"]?.interruption == expected)
    let handle = try mounted.open("half", flags: O_WRONLY | O_APPEND)
    try mounted.write(handle, at: 1, [2])
    mounted.filesystem.release(handle)
    #expect(mounted.sink.lastSnapshot?.interruption == (isHere && !doubt.isLack ? nil : expected))
  }

  /// Where the spool's filesystem had what the catalog describes.
  enum Proof: Sendable {
    /// On its disk.
    case anywhere
    /// In memory, in this instance or in another one, or in one that is not known.
    case here, elsewhere, nowhere
  }

  /// Regression: what has the name and the size of a known capture was whole, also where a power cut had left zeros
  /// before the copy.
  @Test(
    .promises("S79c", "S79j"),
    arguments: [
      (true, 0, .anywhere, nil), (true, 0, .nowhere, .unproven), (true, 0, .here, nil),
      (true, 0, .elsewhere, .unproven),
      (true, 5_000_000_000, .anywhere, .unproven), (true, -5_000_000_000, .here, .unproven),
      (false, 5_000_000_000, .anywhere, nil), (false, 5_000_000_000, .nowhere, .unproven),
      (false, 5_000_000_000, .here, nil),
    ] as [(Bool, Int64, Proof, Interruption?)])
  func withoutLabels_sizeAndTimeProveWhatTheDiskWasKnownToHave_orTheSameFilesystem(
    keepsTimes: Bool, later: Int64, proof: Proof, expected: Interruption?
  ) throws {
    let folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["whole"])
    let copy = try Self.copied(folder, keepsAttributes: false, keepsTimes: keepsTimes)
    var status = stat()
    try check(stat(copy.path + "/spool/captures/whole", &status))
    let facts = CapturedFile.KnownAttributes(status)
    var whole = KnownCapture(
      id: id, path: RelativePath("whole"), sizeBytes: facts.sizeBytes,
      modifiedNanoseconds: facts.modifiedNanoseconds + later)
    whole.isOnDisk = proof == .anywhere
    whole.recordedIn = proof == .here ? "here" : proof == .elsewhere ? "elsewhere" : nil
    let known = whole
    let mounted = try Mounted(folder: copy, source: nil, instance: SpoolInstance(name: "here")) {
      $0.knownCaptures.all = { [known.path: known] }
    }
    mounted.filesystem.scanSpool()
    let found = try #require(Self.found(mounted)["whole"])
    #expect(found.id == id && found.interruption == expected)
  }

  /// Regression: zeros were taken for content where parts had been given up.
  /// Nothing but its name says of one that was being written, or looks otherwise, that it is this one: that is held.
  @Test(
    .promises("S79c", "S79i"),
    arguments: [
      (20480, nil, true, nil), (20480, nil, false, .unproven), (1, nil, true, .unproven),
      (20480, .mountDied, true, .unproven),
    ] as [(UInt64, Interruption?, Bool, Interruption?)])
  func withoutLabels_whatMayBeAtTheServerAloneIsNoZeros(
    sizeBytes: UInt64, doubt: Interruption?, isOnDisk: Bool, expected: Interruption?
  ) throws {
    let folder = try TemporaryFolder()
    _ = try Self.spool(folder)
    let copy = try Self.copied(folder, keepsAttributes: false)
    let file = open(copy.path + "/spool/captures/take", O_WRONLY | O_CREAT, 0o600)
    for (index, byte) in [UInt8]([1, 0, 2, 0, 0]).enumerated() {
      pwrite(file, [UInt8](repeating: byte, count: 4096), 4096, off_t(4096 * index))
    }
    close(file)
    var known = KnownCaptures()
    let pointer = SessionPointer(chunkBytes: 4096, sessionID: "s", nonce: [1], address: "", credentialMark: nil)
    var status = stat()
    try check(stat(copy.path + "/spool/captures/take", &status))
    let modified = CapturedFile.KnownAttributes(status).modifiedNanoseconds
    var take = KnownCapture(
      id: Self.id, path: RelativePath("take"), sizeBytes: sizeBytes, modifiedNanoseconds: modified, doubt: doubt,
      pointer: pointer)
    take.isOnDisk = isOnDisk
    known.doubtful = [take.path: take]
    let mounted = try Mounted(folder: copy, source: nil) { $0.knownCaptures = known }
    mounted.filesystem.scanSpool()
    let found = try #require(Self.found(mounted)["take"])
    #expect(found.id == Self.id && found.isPartlyReleased && found.pointer == pointer && found.interruption == expected)
    let missing = (0..<5).filter {
      mounted.filesystem.isReleased(found.id, UInt64($0 * 4096)..<UInt64($0 * 4096 + 1))
    }
    #expect(missing == [1, 3, 4])
    let label = try #require(Self.attribute("user.uploadfs", of: mounted.captures + "/take"))
    #expect(FileLabel(label).pointer == pointer && FileLabel(label).released == Self.chunks([1, 3, 4]))
  }

  private static func chunks(_ indices: [Int]) -> ReleasedChunks {
    var released = ReleasedChunks(chunkBytes: 4096)
    for index in indices {
      let isTaken = released.insert(index)
      #expect(isTaken)
    }
    return released
  }

  @Test(.promises("S79c")) func aSpoolWithoutItsStateHoldsWhatSaysNothing() throws {
    let folder = try TemporaryFolder()
    _ = try Self.spool(folder)
    let byHand = open(folder.path + "/spool/captures/by hand", O_WRONLY | O_CREAT, 0o600)
    close(byHand)
    let mounted = try Mounted(folder: folder, source: nil) { $0.knownCaptures.areLost = true }
    mounted.filesystem.scanSpool()
    #expect(Self.found(mounted)["whole"]?.interruption == nil)
    #expect(Self.found(mounted)["by hand"]?.interruption == .unproven)
  }

  @Test(.promises("S79a")) func aCopyBesideACapture_getsAnIdentityOfItsOwn() throws {
    let folder = try TemporaryFolder()
    let ids = try Self.spool(folder)
    let captures = folder.path + "/spool/captures"
    #expect(uploadfs_run("cp", "-a", captures + "/whole", captures + "/copy") == 0)
    let whole = KnownCapture(
      id: try #require(ids["whole"]), path: RelativePath("whole"), sizeBytes: 7, modifiedNanoseconds: 0)
    let mounted = try Mounted(folder: folder, source: nil) {
      $0.knownCaptures.capture = { $0 == whole.id ? whole : nil }
    }
    _ = try mounted.node("copy")
    mounted.filesystem.scanSpool()
    let found = Self.found(mounted)
    #expect(found["whole"]?.id == whole.id)
    let copy = try #require(found["copy"]?.id)
    #expect(copy != whole.id)
    #expect(FileLabel(try #require(Self.attribute("user.uploadfs", of: captures + "/copy"))).id == copy)
  }

  /// A disk on which these readings of what stands on files fail.
  private final class FailingReadings: Sendable {
    private let failing: Set<Int>
    private let error: SystemError
    private let count = Atomic<Int>(0)

    init(_ failing: Set<Int>, _ error: SystemError) { (self.failing, self.error) = (failing, error) }

    func read(_ place: borrowing SpoolLocation) throws(SystemError) -> SpoolLabel.Found {
      if failing.contains(count.add(1, ordering: .relaxed).newValue) { throw error }
      return try SpoolLabel.read(at: place)
    }
  }

  private static func mounted(
    _ folder: TemporaryFolder, failing: Set<Int>, with error: SystemError = .inputOutput, known: [UInt64: FileID] = [:],
    _ change: (inout FilesystemConfiguration) -> Void = { _ in }
  ) throws -> Mounted {
    let readings = FailingReadings(failing, error)
    return try Mounted(
      folder: folder, known: known, source: nil, change,
      labelReading: { (place) throws(SystemError) in try readings.read(place) })
  }

  /// Regression: one reading that failed gave the capture another identity, which was written over its label.
  @Test(.promises("S35c", "S79a", "S79d"), arguments: ["it was moved", "its catalog is lost"])
  func aLabelThatCannotBeRead_isReadAgainAndNotWrittenOver(spool: String) throws {
    var folder = try TemporaryFolder()
    let ids = try Self.spool(folder)
    if spool == "it was moved" { folder = try Self.copied(folder, keepsAttributes: true) }
    let pointer = SessionPointer(chunkBytes: 4096, sessionID: "s", nonce: [1], address: "", credentialMark: nil)
    let half = folder.path + "/spool/captures/half"
    let label = FileLabel(id: ids["half"], mark: .unfinished, released: Self.chunks([0]), pointer: pointer)
    try Self.set(label.text, "user.uploadfs", of: half)
    let mounted = try Self.mounted(folder, failing: [1, 2])
    mounted.filesystem.scanSpool()
    let found = Self.found(mounted)
    #expect(found["half"]?.id == ids["half"] && found["half"]?.pointer == pointer && found["whole"]?.id == ids["whole"])
    let now = FileLabel(try #require(Self.attribute("user.uploadfs", of: half)))
    #expect(now.id == label.id && now.pointer == pointer && now.released == label.released)
    #expect(
      mounted.sink.records.contains { record in
        if case .event(.scanFailing(.root, EIO)) = record { true } else { false }
      })
  }

  /// Regression: a capture that a daemon which is not root may not read got another identity in a spool that was moved, and its label
  /// counted as another one's once it could be read.
  @Test(.promises("S79b")) func aLabelThatMayNotBeRead_isThatOfItsNameInAMovedSpool() throws {
    let folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["whole"])
    let whole = KnownCapture(id: id, path: RelativePath("whole"), sizeBytes: 7, modifiedNanoseconds: 0)
    let mounted = try Self.mounted(
      Self.copied(folder, keepsAttributes: true), failing: Set(1...100), with: .accessDenied
    ) {
      $0.knownCaptures.all = { [whole.path: whole] }
      $0.knownCaptures.capture = { $0 == whole.id ? whole : nil }
    }
    mounted.filesystem.scanSpool()
    #expect(try mounted.filesystem.file(of: mounted.node("whole"))?.id == id)
  }

  /// Regression: a copy took the identity, because the original could not be asked.
  @Test(.promises("S79a")) func whileTheOriginalCannotBeAsked_nobodyIsItsCopy() throws {
    let folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["whole"])
    let captures = folder.path + "/spool/captures"
    #expect(uploadfs_run("cp", "-a", captures + "/whole", captures + "/copy") == 0)
    let whole = KnownCapture(id: id, path: RelativePath("whole"), sizeBytes: 7, modifiedNanoseconds: 0)
    let mounted = try Self.mounted(folder, failing: [2]) {
      $0.knownCaptures.capture = { $0 == whole.id ? whole : nil }
    }
    #expect(failure { _ = try mounted.node("copy") } == EIO)
    mounted.filesystem.scanSpool()
    #expect(Self.found(mounted)["whole"]?.id == id && Self.found(mounted)["copy"]?.id != id)
    #expect(FileLabel(try #require(Self.attribute("user.uploadfs", of: captures + "/whole"))).id == id)
  }

  /// Regression: a catalog that could not be read knew nothing of any capture, so that a copy took the identity of its original, and a file
  /// whose label says nothing got a new one.
  @Test(.promises("S79a"), arguments: ["a copy", "in a copy of the spool"])
  func whileTheCatalogCannotBeRead_noCaptureIsUnknown(file: String) throws {
    var folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["whole"])
    let captures = folder.path + "/spool/captures"
    var name = "whole"
    if file == "a copy" {
      name = "copy"
      #expect(uploadfs_run("cp", "-a", captures + "/whole", captures + "/copy") == 0)
    } else {
      folder = try Self.copied(folder, keepsAttributes: false)
    }
    let whole = KnownCapture(id: id, path: RelativePath("whole"), sizeBytes: 7, modifiedNanoseconds: .min)
    let reads = Atomic<Int>(0)
    let failing = file == "a copy" ? 1 : 2
    @Sendable func read() throws(KnownCapturesUnreadable) {
      if reads.add(1, ordering: .relaxed).newValue <= failing { throw KnownCapturesUnreadable() }
    }
    let mounted = try Mounted(folder: folder, source: nil) {
      $0.knownCaptures.all = { () throws(KnownCapturesUnreadable) in
        try read()
        return [whole.path: whole]
      }
      $0.knownCaptures.capture = { id throws(KnownCapturesUnreadable) in
        try read()
        return id == whole.id ? whole : nil
      }
    }
    #expect(failure { _ = try mounted.node(name) } == EIO)
    mounted.filesystem.scanSpool()
    let found = Self.found(mounted)
    #expect(found["whole"]?.id == id && found["copy"]?.id != id)
  }

  /// A file that was taken for another capture by its inode number and its name, while its label could not be read, is held and keeps that.
  @Test(.promises("S40h")) func aFileThatSaysLaterThatItIsAnotherCapture_keepsItsLabel() throws {
    let folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["whole"])
    let path = folder.path + "/spool/captures/whole"
    var status = stat()
    try check(stat(path, &status))
    let other = KnownCapture(id: Self.id, path: RelativePath("whole"), sizeBytes: 1, modifiedNanoseconds: 0)
    let mounted = try Self.mounted(folder, failing: [1], known: [UInt64(status.st_ino): other.id]) {
      $0.knownCaptures.capture = { $0 == other.id ? other : nil }
    }
    _ = try mounted.node("whole")
    mounted.filesystem.scanSpool()
    let found = try #require(Self.found(mounted)["whole"])
    #expect(found.id == other.id && found.interruption == .spoolUnreadable(errno: EBADMSG))
    #expect(FileLabel(try #require(Self.attribute("user.uploadfs", of: path))).id == id)
  }

  /// Regression: a file that had got the inode number of a capture that was gone was that capture.
  @Test(
    .promises("S79a"),
    arguments: [
      "another content", "nothing", "another content, where a doubtful one was", "as it was", "its label was refused",
    ])
  func anInodeNumberThatWasUsedAgain_carriesNoIdentity(file: String) throws {
    let folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["whole"])
    let captures = folder.path + "/spool/captures"
    var status = stat()
    try check(stat(captures + "/whole", &status))
    let inode = UInt64(status.st_ino)
    let facts = CapturedFile.KnownAttributes(status)
    let whole = KnownCapture(
      id: id, path: RelativePath("whole"), sizeBytes: facts.sizeBytes, modifiedNanoseconds: facts.modifiedNanoseconds)
    let doubtful = KnownCapture(
      id: Self.id, path: RelativePath("other"), sizeBytes: 1, modifiedNanoseconds: 0, doubt: .mountDied)
    // As the spool gives a number that is free again.
    try check(Glibc.rename(captures + "/whole", captures + "/other"))
    let number = try check(open(captures + "/other", O_WRONLY | (file == "as it was" ? 0 : O_TRUNC)))
    try check(uploadfs_remove_attribute(number, "user.uploadfs"))
    if file != "as it was", file != "nothing" { #expect(Glibc.write(number, "another", 7) == 7) }
    close(number)
    if file == "its label was refused" {
      try Self.write("\(inode) none @\(id) .\n", to: folder.path + "/spool/.state/marks")
    }
    let mounted = try Mounted(folder: folder, known: [inode: id], source: nil) {
      $0.knownCaptures.capture = { $0 == whole.id ? whole : nil }
      if file == "another content, where a doubtful one was" { $0.knownCaptures.doubtful = [doubtful.path: doubtful] }
    }
    mounted.filesystem.scanSpool()
    let found = try #require(Self.found(mounted)["other"])
    switch file {
    case "as it was", "its label was refused": #expect(found.id == id)
    case "another content, where a doubtful one was": #expect(found.id == doubtful.id)
    default: #expect(found.id != id && !found.isPutInPlace)
    }
  }

  /// Regression (lives, 229953487): a capture that was made after the one which was renamed to its place, and was forgotten with that,
  /// came back from a backup and replaced what had been delivered since.
  @Test(.promises("S80a"), arguments: ["it has its inode", "it is evicted", "it was changed long after", nil])
  func anUnknownCaptureInThePlaceOfOneThatWasChangedLater_isAnotherContentOfThat(evidence: String?) throws {
    let folder = try TemporaryFolder()
    let id = try #require(try Self.spool(folder)["whole"])
    var status = stat()
    try check(stat(folder.path + "/spool/captures/whole", &status))
    let modified = CapturedFile.KnownAttributes(status).modifiedNanoseconds
    var known = KnownCapture(
      id: FileID(high: id.high - 1, low: 0), path: RelativePath("whole"), sizeBytes: 99,
      modifiedNanoseconds: modified + (evidence == "it was changed long after" ? 60_000_000_000 : 1))
    known.isEvicted = evidence == "it is evicted"
    let renamed = known
    let inodes = evidence == "it has its inode" ? [UInt64(status.st_ino): known.id] : [:]
    let mounted = try Mounted(folder: folder, known: inodes, source: nil) {
      $0.knownCaptures.all = { [renamed.path: renamed] }
    }
    mounted.filesystem.scanSpool()
    let found = try #require(Self.found(mounted)["whole"])
    // Without any of that it was renamed to that place in the mount, which died before it was known.
    #expect(found.id == (evidence == nil ? id : known.id) && found.isPutInPlace == (evidence != nil))
  }

  @Test(.promises("S79f")) func attributesOfVersionsBefore_areTakenOver() throws {
    let folder = try TemporaryFolder()
    do {
      let mounted = try Mounted(folder: folder)
      try mounted.make("half", [UInt8](repeating: 7, count: 3 * 4096))
      try mounted.make("parts", [UInt8](repeating: 0, count: 3 * 4096))
    }
    let captures = folder.path + "/spool/captures"
    for name in ["half", "parts"] {
      let number = try check(open(captures + "/" + name, O_RDONLY))
      try check(uploadfs_remove_attribute(number, "user.uploadfs"))
      close(number)
    }
    try Self.set("writing", "user.uploadfs.writing", of: captures + "/half")
    try Self.set("4096 1-1", "user.uploadfs.released", of: captures + "/parts")
    for _ in 0..<2 {
      let mounted = try Mounted(folder: folder)
      mounted.filesystem.scanSpool()
      let found = Self.found(mounted)
      #expect(found["half"]?.interruption == .mountDied && found["parts"]?.isPartlyReleased == true)
      let label = FileLabel(try #require(Self.attribute("user.uploadfs", of: captures + "/parts")))
      #expect(label.id == found["parts"]?.id && label.released?.text == "4096 1-1")
      for name in ["half", "parts"] {
        #expect(Self.attribute("user.uploadfs.writing", of: "\(captures)/\(name)") == nil)
        #expect(Self.attribute("user.uploadfs.released", of: "\(captures)/\(name)") == nil)
      }
    }
  }
}

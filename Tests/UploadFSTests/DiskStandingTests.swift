import FileModel
import Testing

@testable import UploadFS

struct DiskStandingTests {
  private static let instance = SpoolInstance(name: "boot")
  private static let closed = WriterStateXattr.closed(sizeBytes: 4, in: instance)

  private static func found(_ mark: WriterStateXattr) -> DiskStanding {
    var disk = DiskStanding(mark: nil)
    disk.found(mark)
    return disk
  }

  @Test func withoutAMark_anEarlierRunBroughtItToTheDisk() {
    let disk = Self.found(.none)
    #expect(disk.isAtRest && disk.provenBytes == nil)
  }

  @Test func markThatProvesNothing_mayNotBeOnTheDisk() {
    for mark in [Self.closed, .writing(in: Self.instance), .interrupted(.notOnDisk)] {
      let disk = Self.found(mark)
      #expect(!disk.isOnDisk && !disk.isSynchronized && disk.provenBytes == .max)
    }
    #expect(Self.found(.interrupted(.writerKilled(signal: 9))).provenBytes == nil)
  }

  @Test func changeOfProvenBytes_needsTheMarkOnTheDisk() {
    var disk = Self.found(.none)
    let wasOnDisk = disk.isSynchronized
    disk.contentIsNotThere()
    disk.noteProven(sizeBytes: 10, wasOnDisk: wasOnDisk)
    disk.isWritten(.writing(in: Self.instance))
    #expect(disk.needsMark(before: .bytes(5..<6)) && !disk.needsMark(before: .bytes(10..<20)))
    disk.marksAreCommitted()
    #expect(!disk.needsMark(before: .bytes(5..<6)))
  }

  @Test func contentThatTheDiskDidNotHave_isNotProvenByTheLackOfAMark() {
    var disk = Self.found(.none)
    disk.contentIsNotThere()
    disk.noteProven(sizeBytes: 10, wasOnDisk: disk.isSynchronized)
    #expect(disk.provenBytes == nil)
    disk.sizeChangesUnmarked(to: 20)
    #expect(disk.provenBytes == nil)
  }

  @Test func sizeThatChangesUnmarked_isProvenUpToTheLargerOne() {
    var disk = Self.found(.none)
    disk.noteProven(sizeBytes: 10, wasOnDisk: true)
    disk.sizeChangesUnmarked(to: 4)
    #expect(disk.provenBytes == 10)
    disk.sizeChangesUnmarked(to: 4096)
    #expect(disk.provenBytes == 4096)
  }

  @Test func closedFile_isAtRestOnceTheDiskHasItsContentItsMarkAndItsNames() {
    var disk = DiskStanding(mark: WriterStateXattr.none)
    disk.settled(Self.closed)
    disk.synchronized(true)
    disk.proved(.none)
    #expect(!disk.isAtRest && disk.isMarkUnsynced)
    disk.markIsSynced()
    disk.everythingIsThere()
    #expect(disk.isAtRest)
    disk.namesChanged()
    #expect(!disk.isOnDisk && disk.isSynchronized && disk.nameChanges == 1)
    disk.namesAreSynced()
    #expect(disk.isAtRest)
  }

  @Test func refusedMark_isOutdated_untilAnotherOneStands() {
    var disk = Self.found(.none)
    disk.markWasRefused()
    #expect(disk.isMarkOutdated && !disk.isOnDisk && disk.isSynchronized)
    disk.settled(Self.closed)
    #expect(!disk.isMarkOutdated && disk.isMarkUnsynced)
  }
}

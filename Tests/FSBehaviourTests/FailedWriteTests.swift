import FileModel
import FilesystemCalls
import FilesystemFixtures
import Glibc
import Promises
import Testing
import UploadFS

/// What becomes of a file of which a write fails.
@Suite struct FailedWriteTests {
  /// A disk of ten blocks.
  private static let small = MountOptions(disk: SimulatedDisk(blocks: 10))
  private static let limited = MountOptions { $0.fileBytesMax = 1000 }

  /// Makes a file as large as the disk, and one block larger; that fails.
  private static func fill(_ side: Side) throws {
    #expect(try side(.open("take", [.readWrite, .create], as: "file")) == .done)
    #expect(try side(.write("file", .repeated(1, count: 10 * block))) == .number(Int64(10 * block)))
    #expect(try side(.write("file", .repeated(2, count: block))) == .failed(.noSpace))
    #expect(side.events() == ["opened", "writeFailed"])
  }

  @Test(.promises("S41a")) func aFileThatFoundNoSpaceIsInterrupted() async throws {
    try await mounted(Self.small) { side in
      try Self.fill(side)
      try side(.close("file"))
      #expect(try side.settled("take").interruption == .writeFailed(errno: ENOSPC))
    }
  }

  @Test(.promises("S29b", "S41a")) func aFileThatWouldBeTooLargeIsInterrupted() async throws {
    try await mounted(Self.limited) { side in
      try side(.open("take", [.readWrite, .create], as: "file"))
      try side(.write("file", .repeated(1, count: 900)))
      #expect(try side(.write("file", .repeated(1, count: 200))) == .failed(.tooLarge))
      try side(.close("file"))
      #expect(try side.settled("take").interruption == .writeRefused(limitBytes: 1000))
      // Also when it is only looked at.
      try side(.open("take", .readWrite, as: "file"))
      try side(.close("file"))
      #expect(try side.settled("take").interruption == .writeRefused(limitBytes: 1000))
    }
  }

  /// Regression: its program alone was told, and the part was published.
  @Test(.promises("S41o")) func aFileThatEndsAtItsWritersOwnLimitIsInterrupted() async throws {
    try await mounted { side in
      let limited = try side.another("limited")
      // RLIMIT_FSIZE.
      try limited(.setrlimit(1, 1000))
      try limited(.open("take", [.readWrite, .create], as: "file"))
      #expect(try limited(.write("file", .repeated(1, count: 2000))) == .number(1000))
      #expect(try limited(.write("file", "x")) == .failed(.tooLarge))
      try limited(.close("file"))
      let part = try side.settled("take")
      #expect(part.interruption == .writeFailed(errno: EFBIG) && part.sizeBytes == 1000)

      try side(.open("take", [.writeOnly, .append], as: "file"))
      #expect(try side(.write("file", "the rest")) == .number(8))
      try side(.close("file"))
      #expect(try side.settled("take").interruption == nil, "written after all")

      try limited(.put("small", .repeated(1, count: 999)))
      #expect(try side.settled("small").interruption == nil)
    }
  }

  /// How a writer makes good what has failed.
  enum Remedy: String, CaseIterable, CustomTestStringConvertible {
    case written, cutOff, emptied, writtenAnew

    var testDescription: String { rawValue }

    /// How large the file is in the end.
    var sizeBytes: Int {
      switch self {
      case .written: 10 * block
      case .cutOff: block
      case .emptied: 0
      case .writtenAnew: 5
      }
    }

    func callAsFunction(_ side: Side) throws {
      switch self {
      case .written:
        try side(.unlink("ballast"))
        #expect(try side(.write("file", .repeated(2, count: block))) == .number(Int64(block)))
        try side(.close("file"))
      case .cutOff:
        try side(.ftruncate("file", Int64(block)))
        try side(.close("file"))
      case .emptied:
        try side(.close("file"))
        try side(.truncate("take", 0))
      case .writtenAnew:
        try side(.close("file"))
        try side(.put("take", "whole"))
      }
    }
  }

  @Test(.promises("S41c"), arguments: Remedy.allCases)
  func whatIsMadeGoodIsWhole(remedy: Remedy) async throws {
    try await mounted(Self.small) { side in
      try side(.put("ballast", .repeated(1, count: block)))
      _ = try side.settled("ballast")
      #expect(try side(.open("take", [.readWrite, .create], as: "file")) == .done)
      #expect(try side(.write("file", .repeated(1, count: 9 * block))) == .number(Int64(9 * block)))
      #expect(try side(.write("file", .repeated(2, count: block))) == .failed(.noSpace))
      try remedy(side)
      let whole = try #require(Self.settled(ofBytes: UInt64(remedy.sizeBytes), side))
      #expect(whole.interruption == nil)
    }
  }

  /// The file as it was when it was last complete with this size.
  private static func settled(ofBytes bytes: UInt64, _ side: Side) -> FileSnapshot? {
    func last(_ records: [RecordingSink.Record]) -> FileSnapshot? {
      for case .event(.settled(let file)) in records.reversed() where file.sizeBytes == bytes { return file }
      return nil
    }
    _ = side.mount.sink.waits { last($0) != nil }
    return last(side.mount.sink.records)
  }

  private static let half: Payload = .repeated(1, count: 500)

  @Test(.promises("S41a", "S41c")) func whatFailsOfAFileThatIsNotChangedLeavesItWhole() async throws {
    try await mounted(Self.limited) { side in
      try side(.put("take", Self.half))
      #expect(try side.settled("take").interruption == nil)
      try side(.open("take", .writeOnly, as: "file"))
      #expect(try side(.pwrite("file", "x", at: 1000)) == .failed(.tooLarge))
      try side(.close("file"))
      #expect(try side.settled("take").interruption == nil)
      #expect(try side(.get("take")) == .content(Content(Self.half)))
    }
  }
}

private let block = SimulatedDisk.blockBytes

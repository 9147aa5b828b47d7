import FileModel
import FilesystemCalls
import FilesystemFixtures
import Glibc
import Promises
import Testing

/// What becomes of a file when its writers end.
@Suite struct InterruptionTests {
  /// A further process that has written half of a file.
  private static func writer(_ side: Side, _ name: String = "take", _ flags: OpenFlags = []) throws -> Player {
    let writer = try side.another("writer")
    // No core is dumped.
    try writer(.setrlimit(4, 0))
    #expect(try writer(.open(Path(name), flags.union([.readWrite, .create]), as: "file")) == .done)
    #expect(try writer(.write("file", "half")) == .number(4))
    return writer
  }

  @Test(.promises("S39a", "S39b", "S39f"), arguments: [SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGSEGV, SIGABRT])
  func aFileWhoseWriterIsKilledIsInterrupted_untilAnotherOneFinishesIt(signal: Int32) async throws {
    try await mounted { side in
      try Self.writer(side).kill(signal)
      let snapshot = try side.settled("take")
      #expect(snapshot.interruption == .writerKilled(signal: signal) && snapshot.sizeBytes == 4)
      #expect(try side(.get("take")) == .content("half"), "it is kept")

      try side(.open("take", [.writeOnly, .append], as: "file"))
      try side(.close("file"))
      #expect(try side.settled("take").interruption == .writerKilled(signal: signal), "opened, and not changed")

      try side(.open("take", [.writeOnly, .append], as: "file"))
      try side(.write("file", " and half"))
      try side(.close("file"))
      #expect(try side.settled("take").interruption == nil)
      #expect(try side(.get("take")) == .content("half and half"))
    }
  }

  @Test(.promises("S39f")) func aNewContentInItsPlaceIsWhole() async throws {
    try await mounted { side in
      for name in ["emptied", "replaced", "truncated"] {
        try Self.writer(side, name).kill()
        #expect(try side.settled(name).interruption == .writerKilled(signal: SIGKILL))
      }
      try side(.put("emptied", "whole"))
      #expect(try side.settled("emptied").interruption == nil)
      try side(.put("new", "whole"))
      try side(.rename("new", "replaced"))
      try side(.chmod("replaced", 0o600))
      #expect(side.mount.sink.lastSnapshot?.interruption == nil)
      try side(.truncate("truncated", 0))
      #expect(try side.settled("truncated").interruption == nil)
    }
  }

  /// How a process that had a file open for writing ends, and the file is finished.
  enum Finish: String, CaseIterable, CustomTestStringConvertible {
    case exit, exitWithAnError, exitOfManyThreads, killedAfterClose, killedWithoutAChange, killedReader
    case killedChildOfAWriterThatGoesOn, killedParentOfAChildThatGoesOn, killedAfterTheChildHasClosed

    var testDescription: String { rawValue }

    func callAsFunction(_ side: Side) throws {
      let writer = try side.another("writer")
      try writer(.open("take", [.readWrite, .create], as: "file"))
      if self != .killedChildOfAWriterThatGoesOn, self != .killedParentOfAChildThatGoesOn {
        try writer(.write("file", "whole"))
      } else {
        try writer(.write("file", "wh"))
      }
      switch self {
      case .exit: writer.leave()
      case .exitWithAnError: try writer.exit(1)
      case .exitOfManyThreads:
        for _ in 0..<8 { _ = try writer.begin(.pause) }
        try writer.exit(0)
      case .killedAfterClose:
        try writer(.close("file"))
        writer.kill()
      case .killedWithoutAChange:
        try writer(.close("file"))
        _ = try side.settled("take")
        try writer(.open("take", .readWrite, as: "file"))
        writer.kill()
      case .killedReader:
        let reader = try side.another("reader")
        try reader(.open("take", .readOnly, as: "file"))
        reader.kill()
        try writer(.close("file"))
      case .killedChildOfAWriterThatGoesOn:
        try writer.fork("child").kill()
        try writer(.write("file", "ole"))
        try writer(.close("file"))
      case .killedParentOfAChildThatGoesOn:
        let child = try writer.fork("child")
        writer.kill()
        try child(.write("file", "ole"))
        child.leave()
      case .killedAfterTheChildHasClosed:
        let child = try writer.fork("child")
        try writer(.close("file"))
        try child(.close("file"))
        child.kill()
        writer.kill()
      }
    }
  }

  @Test(.promises("S39a", "S39e"), arguments: Finish.allCases)
  func aProcessThatEndsByItself_orIsNotTheLastToHaveIt_leavesTheFileFinished(finish: Finish) async throws {
    try await mounted { side in
      try finish(side)
      let snapshot = try side.settled("take")
      #expect(snapshot.interruption == nil && snapshot.sizeBytes == 5)
      #expect(try side(.get("take")) == .content("whole"))
    }
  }

  /// How a process that is killed has a file open, beside having opened it for reading and writing.
  enum Hold: String, CaseIterable, CustomTestStringConvertible {
    case nothingIsWritten, duplicates, anotherThread, sharedMapping, appending, emptied, madeShorter, allocated
    case secondDescriptor, anotherName

    var testDescription: String { rawValue }

    func callAsFunction(_ writer: Player) throws {
      func open(_ flags: OpenFlags = []) throws {
        try writer(.open("take", flags.union([.readWrite, .create]), as: "file"))
      }
      switch self {
      case .nothingIsWritten: try open()
      case .duplicates:
        try open()
        for copy: Slot in ["one", "two", "three"] { try writer(.dup("file", as: copy)) }
        try writer(.close("one"))
        try writer(.close("file"))
        try writer(.write("two", "half"))
      case .anotherThread:
        try open()
        for _ in 0..<8 { _ = try writer.begin(.pause) }
        try writer.begin(.write("file", "half")).answer()
      case .sharedMapping:
        try open()
        try writer(.ftruncate("file", 8192))
        try writer(.mmap("file", 8192, .sharedReadWrite, as: "map"))
        try writer(.store("map", "half"))
      case .appending:
        try open(.append)
        try writer(.write("file", "half"))
      case .emptied:
        try writer(.put("take", "whole"))
        _ = try writer.side.settled("take")
        try open(.truncate)
      case .madeShorter:
        try writer(.put("take", "whole"))
        _ = try writer.side.settled("take")
        try open()
        try writer(.ftruncate("file", 2))
      case .allocated:
        try open()
        try writer(.fallocate("file", at: 0, count: 4096))
      case .secondDescriptor:
        try open()
        try writer(.write("file", "half"))
        try writer(.close("file"))
        _ = try writer.side.settled("take")
        try writer(.open("take", [.writeOnly, .append], as: "file"))
        try writer(.write("file", " again"))
      case .anotherName:
        try open()
        try writer(.write("file", "half"))
        try writer(.link("take", "twin"))
        try writer(.rename("take", "renamed"))
        try writer(.rename("renamed", "take"))
      }
    }
  }

  @Test(.promises("S39a"), arguments: Hold.allCases)
  func aKilledWriterLeavesTheFileInterrupted_howeverItHasItOpen(hold: Hold) async throws {
    try await mounted { side in
      let writer = try side.another("writer")
      try hold(writer)
      writer.kill()
      #expect(try side.settled("take").interruption == .writerKilled(signal: SIGKILL))
      try side(.put("other", "x"))
      #expect(try side.settled("other").interruption == nil, "no other file is concerned")
    }
  }

  /// A descriptor that several processes have.
  @Test(.promises("S39a")) func ofOneDescriptorTheLastProcessDecides() async throws {
    try await mounted { side in
      let writer = try Self.writer(side)
      let child = try writer.fork("child")
      let grandchild = try child.fork("grandchild")
      writer.leave()
      child.leave()
      grandchild.kill(SIGTERM)
      #expect(try side.settled("take").interruption == .writerKilled(signal: SIGTERM))
    }
  }

  /// Descriptors of their own.
  @Test(.promises("S39a"), arguments: [false, true])
  func ofSeveralWritersOneThatIsKilledIsEnough(isLast: Bool) async throws {
    try await mounted { side in
      let writers = try (0..<3).map { try Self.writer(side, "take", $0 == 0 ? .create : .append) }
      if !isLast { writers[1].kill() }
      writers[0].leave()
      #expect(!side.events().contains("settled"), "there are other writers")
      try writers[2](.close("file"))
      if isLast { writers[1].kill() }
      #expect(try side.settled("take").interruption == .writerKilled(signal: SIGKILL))
    }
  }

  @Test(.promises("S39a")) func theFileIsInterruptedUnderTheNameThatItHasAtTheEnd() async throws {
    try await mounted { side in
      let writer = try Self.writer(side, "take.part")
      try side(.rename("take.part", "take"))
      writer.kill()
      let snapshot = try side.settled("take")
      #expect(snapshot.interruption == .writerKilled(signal: SIGKILL))
      #expect(snapshot.names.map(\.displayText) == ["work/take"])
      // Of a file without a name nothing is said.
      let other = try Self.writer(side, "gone")
      try side(.unlink("gone"))
      other.kill()
      #expect(try side.passAnotherFile() == ["opened", "removed", "opened", "settled"])
    }
  }

  /// The kernel does not tell the end of a process that has closed its descriptor.
  @Test func aKilledProcessThatHasOnlyAMapping_countsAsFinished() async throws {
    try await mounted { side in
      let writer = try Self.writer(side)
      try writer(.ftruncate("file", 4096))
      try writer(.mmap("file", 4096, .sharedReadWrite, as: "map"))
      try writer(.close("file"))
      try writer(.store("map", "more"))
      #expect(!side.events().contains("settled"))
      writer.kill()
      #expect(try side.settled("take").interruption == nil)
      #expect(try side(.pread(Self.open(side, "take"), 4)) == .content("more"))
      try side(.close("reader"))
    }
  }

  private static func open(_ side: Side, _ name: String) throws -> Slot {
    try side(.open(Path(name), .readOnly, as: "reader"))
    return "reader"
  }
}

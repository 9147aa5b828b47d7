import FileModel
import FilesystemCalls
import FilesystemFixtures
import Promises
import Testing

/// What the sink is told of a file, and when.
@Suite struct CompletionTests {
  /// What is told of a new file: that it is new counts as its first change.
  private static let made = ["opened", "settled"]
  /// What is told of a file that is opened for writing and changed.
  private static let changed = ["opened", "willChange", "changed", "settled"]

  /// Makes a file, and forgets that.
  private static func make(_ side: Side, _ name: String = "f") throws -> FileSnapshot {
    try side(.put(Path(name), "content"))
    return try side.settled(name)
  }

  @Test(.promises("S33a")) func aFileIsCompleteAtItsLastClose() async throws {
    try await mounted { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      for part: Payload in ["one", " and ", "two"] { try side(.write("file", part)) }
      try side(.fsync("file"))
      #expect(side.events() == ["opened"])
      try side(.close("file"))
      let snapshot = try side.settled("f")
      #expect(snapshot.sizeBytes == 11 && snapshot.names.map(\.displayText) == ["work/f"])
    }
  }

  /// A way to change a file that is open.
  enum Change: String, CaseIterable, CustomTestStringConvertible {
    case write, pwrite, writev, ftruncate, longer, fallocate, punch, sendfile, store, append

    var testDescription: String { rawValue }

    func callAsFunction(_ side: Side) throws {
      switch self {
      case .write: try side(.write("file", "x"))
      case .pwrite: try side(.pwrite("file", "x", at: 3))
      case .writev: try side(.writev("file", ["x", "y"]))
      case .ftruncate: try side(.ftruncate("file", 1))
      case .longer: try side(.ftruncate("file", 10_000))
      case .fallocate: try side(.fallocate("file", at: 0, count: 4096))
      case .punch: try side(.fallocate("file", [.punchHole, .keepSize], at: 0, count: 3))
      case .sendfile:
        try side(.open("source", .readOnly, as: "source"))
        try side(.sendfile(from: "source", to: "file", at: 0, 3))
        try side(.close("source"))
      case .store:
        try side(.mmap("file", 7, .sharedReadWrite, as: "map"))
        try side(.store("map", "x"))
        try side(.msync("map"))
        try side(.munmap("map"))
      case .append:
        try side(.lseek("file", 0, .end))
        try side(.write("file", "x"))
      }
    }
  }

  @Test(.promises("S33b", "S34a"), arguments: Change.allCases)
  func aChangeOfACompleteFileIsARevisionThatIsSaidBefore(change: Change) async throws {
    try await mounted { side in
      _ = try Self.make(side, "source")
      let before = try Self.make(side)
      try side(.open("f", .readWrite, as: "file"))
      #expect(side.events() == ["opened"])
      try change(side)
      #expect(side.events() == ["willChange", "changed"])
      try side(.write("file", "more of the same revision"))
      try side(.close("file"))
      let after = try #require(side.mount.sink.settled("work/f"))
      #expect(side.events() == ["settled"])
      #expect(after.id == before.id && after.epoch > before.epoch)
    }
  }

  @Test(.promises("S33b", "S34a")) func aFileThatIsEmptiedOrTruncatedWithoutAnOpenFileIsARevision() async throws {
    try await mounted { side in
      let before = try Self.make(side)
      #expect(try side(.truncate("f", 3)) == .done)
      #expect(try side.events(until: "f") == ["willChange", "changed", "settled"])
      #expect(try side(.truncate("f", 100)) == .done)
      #expect(try side.events(until: "f") == ["willChange", "changed", "settled"])
      // Emptied by open(2), also by one for reading.
      for flags: OpenFlags in [[.writeOnly, .truncate], [.readOnly, .truncate]] {
        try side(.tryOpen("f", flags))
        let after = try #require(side.mount.sink.settled("work/f"))
        #expect(after.sizeBytes == 0 && after.epoch > before.epoch)
        #expect(side.events().filter { $0 != "opened" } == ["willChange", "changed", "settled"])
        try side(.put("f", "content"))
        _ = try side.settled("f")
      }
    }
  }

  @Test(.promises("S34b")) func openingWithoutAChangeIsNone() async throws {
    try await mounted { side in
      let before = try Self.make(side)
      for flags: OpenFlags in [.writeOnly, .readWrite, [.readWrite, .create], [.writeOnly, .append]] {
        try side(.tryOpen("f", flags))
        let after = try #require(side.mount.sink.settled("work/f"))
        #expect(after.epoch == before.epoch && side.events() == Self.made)
      }
      try side(.tryOpen("f", .readOnly))
      try side(.get("f"))
      #expect(try side.passAnotherFile() == Self.made, "of readers nothing is said")
    }
  }

  @Test(.promises("S33a")) func filesThatAreMadeWithoutAWriterAreComplete() async throws {
    try await mounted { side in
      #expect(try side(.mknod("made", .file)) == .done)
      #expect(try side.settled("made").sizeBytes == 0)
      #expect(try side(.open("read", [.readOnly, .create], as: "reader")) == .done)
      #expect(try side.settled("read").sizeBytes == 0)
      try side(.close("reader"))
    }
  }

  @Test(.promises("S33a")) func readersHoldNothingUp() async throws {
    try await mounted { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.write("file", "content"))
      try side(.open("f", .readOnly, as: "reader"))
      try side(.mmap("reader", 7, .sharedReadOnly, as: "map"))
      try side(.mmap("file", 7, .privateReadOnly, as: "copy"))
      try side(.munmap("copy"))
      try side(.close("file"))
      #expect(try side.events(until: "f") == Self.made)
      #expect(try side(.load("map", 7)) == .content("content"))
      try side(.close("reader"))
      try side(.munmap("map"))
      #expect(try side.passAnotherFile() == Self.made)
    }
  }

  @Test(.promises("S33a", "S14b"), arguments: [true, false])
  func aFileIsNotCompleteWhileItIsMapped(isNew: Bool) async throws {
    try await mounted { side in
      if !isNew { _ = try Self.make(side) }
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.ftruncate("file", 8192))
      try side(.mmap("file", 8192, .sharedReadWrite, as: "map"))
      try side(.close("file"))
      try side(.store("map", "first"))
      try side(.msync("map"))
      // Another writer comes and goes.
      let other = try side.another()
      try other(.open("f", .writeOnly, as: "file"))
      try other(.write("file", "F"))
      try other(.close("file"))
      try side(.store("map", at: 4096, "last"))
      #expect(try !side.passAnotherFile().dropLast().contains("settled"))
      try side(.munmap("map"))
      #expect(try side.settled("f").sizeBytes == 8192)
      try side(.open("f", .readOnly, as: "reader"))
      #expect(try side(.pread("reader", 5)) == .content("First"))
      #expect(try side(.pread("reader", 4, at: 4096)) == .content("last"))
      try side(.close("reader"))
    }
  }

  @Test(.promises("S33a")) func onlyTheLastDescriptorCompletesTheFile() async throws {
    try await mounted { side in
      let other = try side.another("other")
      try side(.open("f", [.writeOnly, .create], as: "file"))
      try side(.dup("file", as: "duplicate"))
      try other(.open("f", [.readWrite, .append], as: "file"))
      let child = try other.fork("child")
      for (player, slot) in [(side.first, "file"), (other, "file"), (side.first, "duplicate")] as [(Player, Slot)] {
        try player(.write(slot, "x"))
        try player(.close(slot))
        #expect(try side.passAnotherFile().filter { $0 == "settled" }.count == 1, "the other file's")
      }
      try child(.write("file", "the end"))
      child.leave()
      #expect(try side.settled("f").sizeBytes == 9)
    }
  }

  @Test(.promises("S33a", "S13b")) func writersOnTwoThreadsHaveTheFileInCommon() async throws {
    try await mounted { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.dup("file", as: "duplicate"))
      let threads = try [
        side.first.begin(.untilStopped([.pwrite("file", .repeated(1, count: 5000), at: 0), .ftruncate("file", 9000)])),
        side.first.begin(.untilStopped([.pwrite("duplicate", .repeated(2, count: 5000), at: 4000)])),
      ]
      for _ in 0..<20 {
        try side(.open("f", .writeOnly, as: "another"))
        try side(.pwrite("another", "x", at: 8999))
        try side(.close("another"))
      }
      for thread in threads { try thread.stop() }
      #expect(side.events() == ["opened"])
      try side(.close("file"))
      try side(.close("duplicate"))
      let snapshot = try side.settled("f")
      #expect(snapshot.sizeBytes == 9000 && snapshot.mutationsInFlight == 0)
    }
  }

  @Test(.promises("S76a")) func aFileThatIsRenamedWhileItIsOpenIsCompleteUnderItsNewName() async throws {
    try await mounted { side in
      try side(.open("draft.part", [.writeOnly, .create], as: "file"))
      try side(.write("file", "content"))
      try side(.rename("draft.part", "film"))
      #expect(side.events() == ["opened", "namesChanged"])
      try side(.write("file", " and more"))
      try side(.close("file"))
      let snapshot = try side.settled("film")
      #expect(snapshot.names.map(\.displayText) == ["work/film"] && snapshot.sizeBytes == 16)
      // A complete file has another name, and no other content.
      try side(.rename("film", "film.mov"))
      #expect(side.events() == ["namesChanged"])
    }
  }

  @Test(.promises("S76a")) func aFolderThatIsRenamedChangesTheNamesOfItsFiles() async throws {
    try await mounted { side in
      try side(.mkdir("takes"))
      try side(.open("takes/f", [.writeOnly, .create], as: "file"))
      try side(.write("file", "content"))
      try side(.rename("takes", "done"))
      try side(.close("file"))
      #expect(try side.settled("done/f").names.map(\.displayText) == ["work/done/f"])
    }
  }

  @Test(.promises("S4", "S33a")) func aFileOfSeveralNamesIsOneFile() async throws {
    try await mounted { side in
      try side(.open("f", [.writeOnly, .create], as: "file"))
      try side(.link("f", "twin"))
      #expect(side.events() == ["opened", "namesChanged"])
      try side(.write("file", "content"))
      try side(.close("file"))
      let snapshot = try side.settled("twin")
      #expect(snapshot.names.map(\.displayText) == ["work/f", "work/twin"])
      try side(.unlink("f"))
      #expect(side.events() == ["namesChanged"])
      try side(.unlink("twin"))
      #expect(side.events() == ["removed"])
    }
  }

  @Test(.promises("S6a", "S33a")) func ofAFileWithoutANameNothingIsSaid() async throws {
    try await mounted { side in
      try side(.open("unlinked", [.readWrite, .create], as: "unlinked"))
      _ = try Self.make(side, "replaced")
      try side(.open("replaced", .readWrite, as: "replaced"))
      try side(.put("new", "new"))
      _ = try side.settled("new")
      try side(.unlink("unlinked"))
      #expect(side.events() == ["removed"])
      try side(.rename("new", "replaced"))
      #expect(Set(side.events()) == ["namesChanged", "removed"])
      for slot: Slot in ["unlinked", "replaced"] {
        try side(.write(slot, "more"))
        try side(.ftruncate(slot, 1))
        try side(.close(slot))
      }
      #expect(try side.passAnotherFile() == Self.made)
      #expect(try side(.get("replaced")) == .content("new"))
    }
  }

  @Test(.promises("S33a")) func aManyTimesWrittenFileIsSaidOnceForEachRevision() async throws {
    try await mounted { side in
      var epochs: [UInt64] = []
      for round in 0..<20 {
        try side(.open("f", [.writeOnly, .create, .append], as: "file"))
        try side(.write("file", "line"))
        try side(.close("file"))
        let snapshot = try #require(side.mount.sink.settled("work/f"))
        #expect(side.events() == (round == 0 ? Self.made : Self.changed))
        epochs.append(snapshot.epoch)
      }
      #expect(epochs == epochs.sorted() && Set(epochs).count == 20)
    }
  }
}

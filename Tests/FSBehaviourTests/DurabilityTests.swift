import CFilesystemCalls
import FileModel
import FilesystemCalls
import FilesystemFixtures
import Glibc
import Promises
import Testing
import UploadFS

/// What fsync(2) and its relatives say, and that the spool was asked.
@Suite struct DurabilityTests {
  /// How often the daemon has made something of the spool durable.
  private static func count(_ name: String, _ side: Side) throws -> Int {
    var facts = stat()
    try #require(lstat("\(side.mount.captures)/work/\(name)", &facts) == 0)
    return calls_synchronized(facts.st_dev, facts.st_ino)
  }

  @Test(.promises("S15a", "S15b")) func filesAndDirectoriesCanBeMadeDurable() async throws {
    try await comparison { side in
      for flags: OpenFlags in [.writeOnly, .readWrite, [.writeOnly, .append]] {
        try side(.open("f", flags.union(.create), as: "file"))
        try side(.write("file", .repeated(1, count: 100_000)))
        #expect(try side(.fsync("file")) == .done)
        #expect(try side(.fdatasync("file")) == .done)
        #expect(try side(.syncfs("file")) == .done)
        try side(.close("file"))
      }
      // Of what was read only, too.
      try side(.open("f", .readOnly, as: "file"))
      try side(.fsync("file"))
      try side(.unlink("f"))
      try side(.fsync("file"))
      try side(.close("file"))
      try side(.mkdir("d"))
      try side(.open("d", .directory, as: "folder"))
      #expect(try side(.fsync("folder")) == .done)
      #expect(try side(.fdatasync("folder")) == .done)
      try side(.syncfs("folder"))
      try side(.rmdir("d"))
      try side(.fsync("folder"))
      try side(.close("folder"))
      try side(.open(".", .path, as: "path"))
      #expect(try side(.fsync("path")) == .failed(Errno(EBADF)))
    }
  }

  @Test(.promises("S15a")) func aFileIsOnTheSpoolsDiskWhenTheCallReturns() async throws {
    try await mounted { side in
      for flags: OpenFlags in [.writeOnly, .readWrite] {
        try side(.open("f", flags.union(.create), as: "file"))
        for call in [Call.fsync("file"), .fdatasync("file")] {
          try side(.write("file", .repeated(1, count: 100_000)))
          let before = try Self.count("f", side)
          #expect(try side(call) == .done)
          #expect(try Self.count("f", side) > before, "\(call)")
        }
        try side(.close("file"))
      }
    }
  }

  @Test(
    .promises("S13a"), arguments: [OpenFlags.writeOnly, .readWrite],
    [OpenFlags.sync, .dataSync, [.sync, .direct]])
  func whatIsWrittenSynchronouslyIsOnTheSpoolsDisk(access: OpenFlags, flag: OpenFlags) async throws {
    try await mounted { side in
      try side(.open("f", [access, .create, flag], as: "file"))
      for _ in 0..<2 {
        let before = try Self.count("f", side)
        #expect(try side(.write("file", .repeated(1, count: 1 << 17))) == .number(1 << 17))
        #expect(try Self.count("f", side) > before)
      }
      try side(.close("file"))
    }
  }

  @Test(.promises("S44a", "S44b")) func whatWasClosedIsFlushed_withTheFolderThatHoldsItsName() async throws {
    try await mounted { side in
      for folder: Path in ["d", "e"] { try side(.mkdir(folder)) }
      try side(.put("d/f", "x"))
      // The kernel's release comes after close(2) has returned: it must not pass for that of the content below.
      _ = try side.settled("d/f")
      try side(.rename("d/f", "e/f"))
      let (folder, file) = (try Self.count("e", side), try Self.count("e/f", side))
      try side(.put("e/f", "y"))
      side.mount.flush(try side.settled("e/f").id)
      #expect(try Self.count("e", side) > folder && Self.count("e/f", side) > file)
    }
  }

  @Test(.promises("S40b", "S44b")) func thatASynchronizedFileIsFinished_isOnTheDiskWhenItsCloseReturns() async throws {
    try await mounted { side in
      try side(.open("f", [.writeOnly, .create], as: "file"))
      try side(.write("file", "x"))
      try side(.fsync("file"))
      let before = try Self.count("f", side)
      try side(.close("file"))
      #expect(try Self.count("f", side) > before)
    }
  }

  @Test(.promises("S44c")) func closeThatIsToBeSynced_returnsWhenContentAndFoldersAreOnTheDisk() async throws {
    let rules = FileRules(rules: [try FileRule("*.now close=synced")])
    try await mounted(MountOptions { $0.rules = rules }) { side in
      try side(.mkdir("d"))
      try side(.mkdir("d/e"))
      for (path, isSynced) in [("d/e/f.now", true), ("d/e/f", false)] {
        try side(.open(Path(path), [.writeOnly, .create], as: "file"))
        try side(.write("file", "x"))
        let before = try ["d", "d/e", path].map { try Self.count($0, side) }
        #expect(try side(.close("file")) == .done)
        let after = try ["d", "d/e", path].map { try Self.count($0, side) }
        if isSynced {
          #expect(zip(before, after).allSatisfy { $0 < $1 }, "\(before) \(after)")
        } else {
          #expect(before == after)
        }
      }
    }
  }

  @Test(.promises("S15a", "S14b")) func storesAreOnTheSpoolsDiskAfterMsync() async throws {
    try await mounted { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.ftruncate("file", 8192))
      try side(.mmap("file", 8192, .sharedReadWrite, as: "mapped"))
      let before = try Self.count("f", side)
      try side(.store("mapped", "stored"))
      #expect(try side(.msync("mapped")) == .done)
      #expect(try Self.count("f", side) > before)
      try side(.munmap("mapped"))
      try side(.close("file"))
    }
  }

  @Test(.promises("S15b")) func aDirectorysNamesAreOnTheSpoolsDiskWhenTheCallReturns() async throws {
    try await mounted { side in
      try side(.mkdir("d"))
      try side(.open("d", .directory, as: "folder"))
      for call in [Call.fsync("folder"), .fdatasync("folder")] {
        try side(.put("d/f", "x"))
        let before = try Self.count("d", side)
        #expect(try side(call) == .done)
        #expect(try Self.count("d", side) > before, "\(call)")
        try side(.unlink("d/f"))
      }
      try side(.close("folder"))
    }
  }
}

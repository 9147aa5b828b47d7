import FileModel
import FilesystemCalls
import FilesystemFixtures
import Glibc
import Promises
import Testing

/// Directories, names and renames.
@Suite struct NameTests {
  @Test(.promises("S1")) func operationsOnNames_failAndSucceedAsLocally() async throws {
    try await comparison { side in
      try side(.mkdir("a"))
      try side(.put("a/f", "x"))
      try side(.mkdir("a"))
      try side(.mkdir("a/f"))
      try side(.mkdir("none/b"))
      try side(.mkdir("a/f/b"))
      try side(.rmdir("a"))
      try side(.rmdir("a/f"))
      try side(.rmdir("none"))
      try side(.rmdir("."))
      try side(.unlink("none"))
      try side(.unlink("a"))
      try side(.tryOpen("a", .writeOnly))
      try side(.tryOpen("a/f/", .readOnly))
      try side(.tryOpen("a/f", .directory))
      try side(.tryOpen("a/f", [.create, .exclusive, .writeOnly]))
      try side(.tryOpen("none", .readOnly))
      try side(.tryOpen("none/", [.create, .writeOnly]))
      try side(.rename("none", "b"))
      try side(.rename("a", "a/below"))
      try side(.rename("a/f", "a"))
      try side(.rename("a", "a/f"))
      try side(.rename("a/f", "none/f"))
      try side(.rename("a", "."))
      try side(.link("a", "hard"))
      try side(.link("a/f", "a/f"))
      try side(.symlink("x", "a"))
      try side(.symlink("loop", "loop"))
      try side(.tryOpen("loop", .readOnly))
      try side(.tryOpen("loop", .noFollow))
      try side(.readlink("a/f"))
      try side(.stat("a/f/below"))
      try side(.tree("."))
      try side(.rename("a/f", "g"))
      try side(.stat("a/f"))
      try side(.rmdir("a"))
      try side(.stat("a"))
    }
  }

  @Test(.promises("S1")) func directoriesReplaceEmptyDirectoriesOnly() async throws {
    try await comparison { side in
      for name in ["one", "other", "full"] { try side(.mkdir(Path(name))) }
      try side(.put("full/f", "x"))
      try side(.put("file", "y"))
      try side(.rename("one", "full"))
      try side(.rename("one", "file"))
      try side(.rename("file", "one"))
      try side(.rename("full", "other"))
      try side(.get("other/f"))
      try side(.stat("full"))
    }
  }

  /// Each name with what it is renamed to.
  static let names: [Bytes] = [
    "with space", "Übung – 测试", "line\nbreak", ".hidden", "-rf",
    Bytes(Array("bad-".utf8) + [0xFF, 0xFE] + Array("-utf8".utf8)),
    "tab\tquote'\"\\", Bytes(String(repeating: "n", count: 255)), Bytes(String(repeating: "ü", count: 127)), "a%2Fb",
    "*", "...",
  ]

  @Test(.promises("S2a")) func anyNameCanBeUsed() async throws {
    try await comparison { side in
      for name in Self.names {
        let path = Path(name)
        try side(.put(path, .bytes(name)))
        #expect(try side(.list(".")) == .names([name]))
        #expect(try side(.get(path)) == .content(Content(name.bytes)))
        let other = Path(Bytes(name.bytes.count > 200 ? Array(name.bytes.dropLast()) : name.bytes + [0x32]))
        #expect(try side(.rename(path, other)) == .done)
        try side(.stat(path))
        #expect(try side(.unlink(other)) == .done)
      }
    }
  }

  @Test(.promises("S2a")) func namesAndPathsThatAreTooLongAreRefused() async throws {
    try await comparison { side in
      let long = Path(String(repeating: "n", count: 256))
      #expect(try side(.put(long, "")) == .failed(.nameTooLong))
      try side(.mkdir(long))
      try side(.stat(long))
      try side(.put("f", ""))
      try side(.rename("f", long))
      try side(.link("f", long))
      try side(.symlink("f", long))
      try side(.mknod(long, .fifo))
      try side(.stat(Path(Array(repeating: String(repeating: "n", count: 200), count: 25).joined(separator: "/"))))
    }
  }

  @Test(.promises("S2b")) func directoriesCanBeDeeperThanAPathIsLong() async throws {
    try await comparison { side in
      let name = Bytes(String(repeating: "n", count: 200))
      try side(.open(".", .directory, as: "here"))
      for _ in 0..<40 {
        #expect(try side(.mkdir(Path(name, in: "here"))) == .done)
        #expect(try side(.open(Path(name, in: "here"), .directory, as: "here")) == .done)
      }
      try side(.open(Path("bottom", in: "here"), [.create, .readWrite], as: "file"))
      try side(.write("file", "deep"))
      try side(.close("file"))
      try side(.stat(Path("bottom", in: "here")))
      #expect(try side(.rename(Path("bottom", in: "here"), Path("renamed", in: "here"))) == .done)
      #expect(try side(.unlink(Path("renamed", in: "here"))) == .done)
      try side(.close("here"))
      #expect(try side(.run(["rm", "-r", String(repeating: "n", count: 200)])) == .ended(status: 0, output: ""))
      #expect(try side(.list(".")) == .names([]))
    }
  }

  @Test(.promises("S3a")) func renamesReplaceAtomically() async throws {
    try await mounted { side in
      let count = 1000
      let contents = (0..<10).map { Payload.repeated(UInt8(ascii: "0") + $0, count: 1000) }
      try side(.put("current", contents[0]))
      for index in 0..<count { try side(.put(Path(".current.\(index)"), contents[index % 10])) }
      let watchers = try (0..<2).map { try side.another("watcher \($0)").begin(.untilStopped([.get("current")])) }
      // Without a pause, so that a reader's second try is overtaken, too.
      let renames = (0..<count).map { Call.rename(Path(".current.\($0)"), "current") }
      #expect(try side(.sequence(renames)) == .several(Array(repeating: .done, count: count)))
      let whole = Set(contents.map { Answer.several([.content(Content($0))]) })
      for watcher in watchers {
        guard case .rounds(let rounds, let seen) = try watcher.stop() else {
          Issue.record("no rounds")
          continue
        }
        #expect(rounds > 0)
        #expect(Set(seen).subtracting(whole) == [])
      }
      #expect(try side(.list(".")) == .names(["current"]))
    }
  }

  @Test(.promises("S3b")) func renameFlags_actAsLocally() async throws {
    try await comparison { side in
      try side(.put("a", "a"))
      try side(.put("b", "b"))
      try side(.mkdir("dir"))
      try side(.put("dir/inside", "inside"))
      let renames: [(Path, Path, RenameFlags)] = [
        ("a", "b", .noReplace), ("a", "c", .noReplace), ("c", "b", .exchange), ("c", "none", .exchange),
        ("b", "dir", .exchange), ("dir", "b", .exchange), ("b", "c", [.noReplace, .exchange]),
        ("b", "c", RenameFlags(rawValue: 64)),
      ]
      for (old, new, flags) in renames {
        try side(.rename(old, new, flags))
        try side(.tree("."))
      }
    }
  }

  @Test(.promises("S3b", "S4", "S6a")) func whateverIsRenamedLinkedAndExchanged_eachNameStandsForItsFile() async throws
  {
    try await comparison { side in
      var draw = SeededGenerator(seed: 3)
      let names = (0..<6).map { Path("n\($0)") }
      for (index, name) in names.enumerated() { try side(.put(name, .random(seed: UInt64(index), count: 20_000))) }
      try side(.open(names[0], .readWrite, as: "first"))
      for step in 0..<200 {
        let pair = names.shuffled(using: &draw)
        let (one, other) = (pair[0], pair[1])
        let content = Payload.random(seed: draw.next(), count: [10, 7000, 60_000].randomElement(using: &draw) ?? 0)
        switch Int.random(in: 0..<6, using: &draw) {
        case 0: try side(.rename(one, other, .exchange))
        case 1: try side(.rename(one, other, .noReplace))
        case 2: try side(.rename(one, other))
        case 3: try side(.link(one, other))
        case 4: try side(.put(one, content))
        default:
          try side(.put("new", content))
          try side(.rename("new", one))
        }
        try side(.write("first", .bytes(Bytes("\(step) "))))
        try side(.fstat("first"))
        try side(.tree("."))
      }
      try side(.pread("first", 1 << 20))
      try side(.close("first"))
      let found = try side(.list(".")).names
      if side.kind == .mounted { try Self.expectKnown(found, side) }
    }
  }

  /// What the sink was told of a name is the file that the spool has there.
  private static func expectKnown(_ names: [Bytes], _ side: Side) throws {
    let found = try names.map { name in
      var facts = stat()
      let path = "work/" + String(decoding: name.bytes, as: UTF8.self)
      try #require(lstat("\(side.mount.captures)/\(path)", &facts) == 0)
      return "\(path) \(facts.st_ino)"
    }
    let known = side.mount.sink.known.values.flatMap { file in file.names.map { "\($0.displayText) \(file.inode)" } }
    #expect(known.sorted() == found.sorted())
  }

  @Test(.promises("S3b")) func unknownRenameFlagsAreRefused() async throws {
    try await mounted { side in
      try side(.put("a", "a"))
      #expect(try side(.rename("a", "b", .whiteout)) == .failed(.invalid))
      #expect(try side(.list(".")) == .names(["a"]))
    }
  }

  @Test(.promises("S3c")) func renamingALinkOntoItsTwin_doesNothing() async throws {
    try await comparison { side in
      try side(.put("a", "a"))
      try side(.link("a", "b"))
      #expect(try side(.rename("a", "b")) == .done)
      #expect(try side(.list(".")) == .names(["a", "b"]))
    }
  }
}

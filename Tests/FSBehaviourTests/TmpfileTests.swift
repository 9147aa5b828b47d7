import FileModel
import FilesystemCalls
import FilesystemFixtures
import Promises
import Testing

/// Files without a name: O_TMPFILE.
@Suite struct TmpfileTests {
  @Test(.promises("S16d", needs: .oldLibfuse)) func anOldLibfuseHasNone() async throws {
    try await mounted { side throws in
      #expect(try side(.open(".", [.nameless, .readWrite], as: "file")) == .failed(.notSupported))
      #expect(try side(.open(".", [.nameless, .writeOnly, .exclusive], as: "file")) == .failed(.notSupported))
      #expect(try side(.list(".")) == .names([]))
    }
  }

  @Test(.promises("S16c", needs: .namelessFiles)) func aFileWithoutAName_actsAsLocally() async throws {
    try await comparison { side in
      for flags: OpenFlags in [.readWrite, .writeOnly, [.readWrite, .exclusive]] {
        try side(.open(".", flags.union(.nameless), mode: 0o640, as: "file"))
        try side(.write("file", .random(seed: 16, count: 10_000)))
        try side(.ftruncate("file", 5000))
        try side(.fsync("file"))
        try side(.pread("file", 10_000))
        #expect(try side(.fstat("file")).status?.links == 0)
        #expect(try side(.list(".")) == .names([]))
        try side(.get(.link(of: "file")))
        #expect(try side(.close("file")) == .done)
      }
      try side(.open(".", [.nameless, .readOnly], as: "file"))
      try side(.open("none", [.nameless, .readWrite], as: "file"))
      try side(.put("f", ""))
      try side(.open("f", [.nameless, .readWrite], as: "file"))
    }
  }

  @Test(.promises("S16c", needs: .namelessFiles)) func aFileGetsItsNameLater_asLocally() async throws {
    try await comparison { side in
      try side(.mkdir("sub"))
      try side(.open("sub", [.nameless, .readWrite], mode: 0o640, as: "file"))
      try side(.write("file", "first "))
      #expect(try side(.link(.link(of: "file"), "take", follows: true)) == .done)
      try side(.fstat("file"))
      try side(.write("file", "second"))
      try side(.link(.link(of: "file"), "take", follows: true))
      try side(.linkDescriptor("file", "sub/again"))
      try side(.get("take"))
      try side(.close("file"))
      try side(.open(".", [.nameless, .writeOnly, .exclusive], as: "file"))
      #expect(try side(.link(.link(of: "file"), "excluded", follows: true)) == .failed(.notFound))
      try side(.close("file"))
    }
  }

  @Test(.promises("S16c", needs: .namelessFiles)) func nothingIsKnownOfAFileBeforeItHasAName() async throws {
    try await mounted { side in
      let sink = side.mount.sink
      _ = sink.takeNames()
      try side(.open(".", [.nameless, .readWrite], as: "file"))
      try side(.write("file", "first "))
      try side(.fsync("file"))
      #expect(sink.takeNames() == [])
      try side(.link(.link(of: "file"), "take", follows: true))
      #expect(sink.takeNames() == ["opened"])
      try side(.write("file", "second"))
      try side(.close("file"))
      #expect(try #require(sink.settled("work/take")).sizeBytes == 12)
      #expect(sink.takeNames() == ["settled"])
    }
  }

  @Test(.promises("S16c", needs: .namelessFiles)) func aFileThatNeverGetsAName_leavesNothing() async throws {
    try await mounted(.inOrder) { side in
      let spool = try Actor(in: side.mount.captures)
      defer { spool.leave() }
      _ = side.mount.sink.takeNames()
      for flags: OpenFlags in [.readWrite, [.writeOnly, .exclusive]] {
        try side(.open(".", flags.union(.nameless), as: "file"))
        try side(.write("file", .repeated(1, count: 8 << 20)))
        try side(.close("file"))
      }
      try side.afterEveryRelease()
      #expect(side.mount.sink.takeNames() == [])
      let call = Call.tree(".")
      guard case .tree(let left) = try spool.answer(spool.begin(call, onThread: false), of: call) else {
        Issue.record("no tree")
        return
      }
      #expect(left.map(\.path) == ["./work"])
    }
  }
}

import FilesystemCalls
import Promises
import Testing

/// What is open, or the current directory of a process, when its name goes.
@Suite struct UnlinkedTests {
  @Test(.promises("S6a", "S18a")) func anUnlinkedFileWorksUntilItIsClosed() async throws {
    try await comparison { side in
      try side(.open("f", [.readWrite, .create], mode: 0o600, as: "file"))
      try side(.write("file", "before"))
      #expect(try side(.unlink("f")) == .done)
      try side(.write("file", " and after"))
      #expect(try side(.fstat("file")).status?.links == 0)
      try side(.ftruncate("file", 12))
      try side(.fchmod("file", 0o640))
      try side(.futimens("file", access: .nanoseconds(1), modification: .nanoseconds(2)))
      try side(.open(.link(of: "file"), .readOnly, as: "again"))
      #expect(try side(.pread("again", 100)) == .content("before and a"))
      #expect(try side(.fstat("file")).status?.modified == 2)
      try side(.put("f", "another"))
      try side(.close("again"))
      try side(.pread("file", 100))
      #expect(try side(.close("file")) == .done)
    }
  }

  @Test(.promises("S6a")) func aReplacedFileWorksUntilItIsClosed() async throws {
    try await comparison { side in
      try side(.put("old", "old"))
      try side(.put("new", "new"))
      try side(.open("old", .readWrite, as: "file"))
      #expect(try side(.rename("new", "old")) == .done)
      try side(.lseek("file", 0, .end))
      try side(.write("file", " still here"))
      #expect(try side(.pread("file", 100)) == .content("old still here"))
      #expect(try side(.get("old")) == .content("new"))
      #expect(try side(.fstat("file")).status?.links == 0)
      try side(.close("file"))
    }
  }

  @Test(.promises("S6a")) func anUnlinkedFileIsSharedByItsProcesses() async throws {
    try await comparison { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      let copy = try side.first.fork("copy")
      try side(.unlink("f"))
      try copy(.write("file", "of the copy"))
      copy.leave()
      #expect(try side(.pread("file", 100)) == .content("of the copy"))
      try side(.close("file"))
    }
  }

  @Test(.promises("S6a")) func anUnlinkedFileGetsNoNameAgain() async throws {
    try await comparison { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.write("file", .repeated(UInt8(ascii: "x"), count: 400_000)))
      try side(.unlink("f"))
      #expect(try side(.link(.link(of: "file"), "again", follows: true)) == .failed(.notFound))
      #expect(try side(.linkDescriptor("file", "again")) == .failed(.notFound))
      try side(.write("file", "more"))
      #expect(try side(.fstat("file")).status?.size == 400_004)
      #expect(try side(.list(".")) == .names([]))
      try side(.close("file"))
    }
  }

  @Test(.promises("S6b")) func aRemovedCurrentDirectoryCanBeAskedAbout() async throws {
    try await comparison { side in
      try side(.mkdir("gone"))
      let inside = try side.another("inside")
      try inside(.chdir("gone"))
      #expect(try side(.rmdir("gone")) == .done)
      #expect(try inside(.stat(".")).status?.links == 0)
      #expect(try inside(.list(".")) == .names([]))
      #expect(try inside(.put("f", "")) == .failed(.notFound))
      try inside(.mkdir("d"))
      try inside(.chdir(".."))
    }
  }
}

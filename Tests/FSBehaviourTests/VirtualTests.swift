import FileModel
import FilesystemCalls
import FilesystemFixtures
import Glibc
import Promises
import Synchronization
import Testing

/// The files that the daemon makes up.
@Suite struct VirtualTests {
  @Test(.promises("S30a", "S30b")) func theVirtualTreeIsReadOnlyAndItsNamesAreTaken() async throws {
    try await mounted { side in
      try side(.put("f", "x"))
      #expect(try side(.list("..")) == .names([".uploadfs", "status", "work"]))
      let refused: Set<Answer> = [.failed(.readOnly), .failed(.accessDenied)]
      for name in ["status", ".uploadfs"] {
        let root = Path("../" + name)
        #expect(try side(.mkdir(root)) == .failed(.exists))
        #expect(try side(.symlink("x", root)) == .failed(.exists))
        #expect(try side(.link("f", root)) == .failed(.exists))
        #expect(try [.failed(.notPermitted), .failed(Errno(EISDIR))].contains(side(.rename("f", root))))
        // An ordinary user may not write the directory, whose `..` would change.
        let moved = try side(.rename(root, "moved"))
        #expect(moved == .failed(geteuid() == 0 ? .notPermitted : .accessDenied))
        for call in [
          Call.rename("../work", root), .rename("../work", root, .exchange), .rmdir(root),
        ] { #expect(try side(call) == .failed(.notPermitted), "\(call)") }
        for call in [
          Call.put(Path("../\(name)/new"), ""), .mkdir(Path("../\(name)/new")),
          .rename("f", Path("../\(name)/f")), .chmod(root, 0o777),
        ] { #expect(try refused.contains(side(call)), "\(call)") }
        // Below other directories the names are free.
        #expect(try side(.put(Path(name), "free here")) == .done)
        #expect(try side(.get(Path(name))) == .content("free here"))
        #expect(try side(.list(".")).names.contains(Bytes(name)))
      }
      let file = Path("../status/file.json")
      for call in [
        Call.tryOpen(file, .writeOnly), .tryOpen(file, [.writeOnly, .append]), .tryOpen(file, [.readOnly, .truncate]),
        .truncate(file, 0), .unlink(file),
        .chmod(file, 0o777), .utimens(file, access: .nanoseconds(1), modification: .nanoseconds(1)),
      ] { #expect(try refused.union([.failed(.notPermitted)]).contains(side(call)), "\(call)") }
      #expect(try side(.get(file)) == .content("one"))
      #expect(try side(.stat(file)).status?.mode == 0o444)
      #expect(try side(.readlink("../status/link")) == .content("file.json"))
      #expect(try side(.get("../status/link")) == .content("one"))
      #expect(try side(.list("../status")) == .names(["file.json", "link"]))
    }
  }

  @Test(.promises("S77a", "S77b")) func wordsAreWrittenAsShellsAndProgramsWrite() async throws {
    try await mounted { side in
      let file = Path("../status/file.json")
      let tree = side.mount.tree
      tree.isWritable.store(true, ordering: .relaxed)
      #expect(try side(.stat(file)).status?.mode == 0o666)
      #expect(try side(.put(file, "retry\n")) == .done)
      #expect(try side(.put("../status/link", "cancel")) == .done)
      try side(.open(file, [.writeOnly, .append], as: "file"))
      #expect(try side(.write("file", " publish ")) == .number(9))
      #expect(try side(.ftruncate("file", 0)) == .done)
      #expect(try side(.ftruncate("file", 2)) == .failed(.invalid))
      try side(.close("file"))
      #expect(try side(.truncate(file, 0)) == .done)
      #expect(try side(.truncate(file, 1)) == .failed(.invalid))
      try side(.open(file, [.readWrite], as: "file"))
      #expect(try side(.pwrite("file", "retry", at: 1)) == .failed(.invalid))
      tree.refusal.withLock { $0 = VirtualWriteRefusal(errno: ENOSPC) }
      #expect(try side(.pwrite("file", "retry", at: 0)) == .failed(Errno(ENOSPC)))
      try side(.close("file"))
      for call in [
        Call.unlink(file), .chmod(file, 0o777), .rename(file, "../status/moved"), .rename(file, "here"),
        .utimens(file, access: .nanoseconds(1), modification: .nanoseconds(1)),
      ] {
        #expect(
          try [.failed(.readOnly), .failed(.accessDenied), .failed(.notPermitted)].contains(side(call)), "\(call)")
      }
      #expect(try side(.get(file)) == .content("one"), "nothing of it stays")
      #expect(tree.words.withLock { $0 } == ["retry\n", "cancel", " publish "])
    }
  }

  @Test(.promises("S31a", "S31b")) func aVirtualFileIsAsLongAsItSays_andConsistentWhileOpen() async throws {
    try await mounted { side in
      let file = Path("../status/file.json")
      #expect(try side(.stat(file)).status?.size == 3)
      try side(.open(file, .readOnly, as: "file"))
      #expect(try side(.read("file", 1)) == .content("o"))
      side.mount.tree.set("another, and longer")
      #expect(try side(.read("file", 100)) == .content("ne"))
      #expect(try side(.pread("file", 100)) == .content("another, and longer"))
      #expect(try side(.fstat("file")).status?.size == 19)
      try side(.close("file"))
      #expect(try side(.stat(file)).status?.size == 19)
      #expect(try side(.stat("../status/none")) == .failed(.notFound))
    }
  }

  @Test(.promises("S31a")) func aVirtualFileThatComesAndGoes_isThereAtOnceAndNoLonger() async throws {
    try await mounted { side throws in
      let guest = Path("../status/guest")
      for _ in 0..<3 {
        #expect(try side(.stat(guest)) == .failed(.notFound))
        #expect(try side(.list("../status")) == .names(["file.json", "link"]))
        side.mount.tree.hasGuest.store(true, ordering: .relaxed)
        #expect(try side(.stat(guest)).status?.size == 5)
        #expect(try side(.list("../status")) == .names(["file.json", "guest", "link"]))
        #expect(try side(.get(guest)) == .content("guest"))
        side.mount.tree.hasGuest.store(false, ordering: .relaxed)
      }
    }
  }

  @Test(.promises("S31c")) func namesMayBeLongerThan255Bytes() async throws {
    try await mounted { side throws in
      #expect(try side(.list("../.uploadfs")) == .names([Bytes(SettableTree.longName)]))
      #expect(try side(.get(Path("../.uploadfs/" + SettableTree.longName))) == .content("long"))
    }
  }

  @Test(.promises("S32")) func pollWakesTheReaderOfAVirtualFile() async throws {
    try await mounted { side in
      try side(.open("../status/file.json", .readOnly, as: "file"))
      for round in 0..<3 {
        try side(.pread("file", 100))
        // Nothing is new at once; later the change ends the wait, whether that has begun or not.
        #expect(try side(.poll("file", Int16(POLLIN), milliseconds: 0)) == .number(0))
        let waiting = try side.first.begin(.poll("file", Int16(POLLIN), milliseconds: 20_000))
        side.mount.tree.set("round \(round)")
        #expect(try waiting.answer() == .number(Int64(POLLIN)))
        #expect(try side(.pread("file", 100)) == .content(Content(Array("round \(round)".utf8))))
      }
      try side(.close("file"))
    }
  }
}

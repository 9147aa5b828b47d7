import FilesystemFixtures
import FileModel
import FilesystemCalls
import Promises
import Glibc
import Testing

/// Hard and symbolic links, and special files.
@Suite struct LinkTests {
  @Test(.promises("S4")) func hardLinksAreOneFile() async throws {
    try await comparison { side in
      try side(.mkdir("sub"))
      try side(.put("a", "one"))
      try side(.link("a", "b"))
      try side(.link("b", "sub/c"))
      let inodes = try ["a", "b", "sub/c"].map { try side(.stat(Path($0))).status?.inode }
      #expect(Set(inodes).count == 1 && inodes[0] != nil)
      try side(.put("b", "two"))
      #expect(try side(.get("a")) == .content("two"))
      #expect(try side(.stat("a")).status?.links == 3)
      try side(.unlink("a"))
      try side(.rename("b", "sub/b"))
      try side(.chmod("sub/c", 0o640))
      #expect(try side(.stat("sub/b")).status?.links == 2)
    }
  }

  @Test(.promises("S4")) func aLinkIsMadeOfAnOpenFile() async throws {
    try await comparison { side in
      try side(.open("f", [.create, .readWrite], as: "file"))
      try side(.write("file", "before"))
      #expect(try side(.link(.link(of: "file"), "g", follows: true)) == .done)
      try side(.write("file", " after"))
      try side(.fstat("file"))
      #expect(try side(.get("g")) == .content("before after"))
      try side(.close("file"))
    }
  }

  @Test(.promises("S5a")) func symbolicLinksHoldAnyTarget() async throws {
    try await comparison { side in
      // No longer one is possible.
      let long = String(repeating: "x", count: 4095)
      for (index, target) in ["target of any kind\n", "file", ".", long].enumerated() {
        #expect(try side(.symlink(Bytes(target), Path("link\(index)"))) == .done)
        #expect(try side(.readlink(Path("link\(index)"))) == .content(Content(Array(target.utf8))))
      }
      try side(.symlink("", "empty"))
      try side(.symlink(Bytes(String(repeating: "x", count: 4096)), "too long"))
      try side(.symlink(Bytes([0xFF, 0xFE, 0x0A]), "bytes"))
      try side(.put("file", "content"))
      #expect(try side(.get("link1")) == .content("content"))
      try side(.get("link0"))
      try side(.list("link2"))
      #expect(try side(.link("link1", "link1 again")) == .done)
      try side(.put("link1", "through the link"))
      try side(.get("file"))
      try side(.unlink("link1"))
    }
  }

  @Test(.promises("S5a")) func fifosJoinProcesses() async throws {
    try await comparison { side in
      try side(.mknod("fifo", .fifo, mode: 0o600))
      let reader = try side.another("reader").begin(.get("fifo"))
      #expect(try side(.put("fifo", "through the pipe")) == .done)
      #expect(try reader.answer() == .content("through the pipe"))
    }
  }

  @Test(.promises("S5a")) func socketsJoinProcesses() async throws {
    try await comparison { side in
      #expect(try side(.bind("socket", as: "server")) == .done)
      try side(.bind("socket", as: "second"))
      let client = try side.another("client")
      #expect(try client(.connect("socket", as: "client")) == .done)
      try side(.close("server"))
      try client(.connect("socket", as: "late"))
    }
  }

  @Test(.promises("S5b")) func onlyRegularFilesAreAnnounced() async throws {
    try await mounted { side in
      try side(.mkdir("directory"))
      try side(.symlink("file", "link"))
      try side(.mknod("fifo", .fifo))
      try side(.bind("socket", as: "server"))
      try side(.rename("fifo", "another fifo"))
      try side(.chmod("another fifo", 0o640))
      try side(.link("link", "another link"))
      try side(.unlink("link"))
      try side(.put("file", "x"))
      try #require(side.mount.sink.settled("work/file") != nil)
      for case .event(let event) in side.mount.sink.records {
        switch event {
        case .opened(let snapshot), .changed(let snapshot), .settled(let snapshot), .unsettled(let snapshot),
          .namesChanged(let snapshot), .attributesChanged(let snapshot), .onDisk(let snapshot), .found(let snapshot):
          #expect(snapshot.names.map(\.displayText) == ["work/file"])
        case .removed, .vanished, .evicted: Issue.record("\(event)")
        case .grown, .writeFailed, .scanFailing, .scanEnded: continue
        }
      }
    }
  }

  @Test(.promises("S1")) func regularFilesCanBeMadeByMknod() async throws {
    try await comparison { side in
      #expect(try side(.mknod("made", .file, mode: 0o600)) == .done)
      try side(.put("made", "written"))
      try side(.mknod("made", .file))
    }
  }

  @Test(.promises("S5c"), .enabled(if: geteuid() == 0, "only root may make devices anywhere"))
  func devicesCannotBeMade() async throws {
    try await mounted { side throws in
      #expect(try side(.mknod("null", .characterDevice(major: 1, minor: 3))) == .failed(.notPermitted))
      #expect(try side(.list(".")) == .names([]))
    }
  }

  @Test(.promises("S5c")) func theMountIsNodevAndNosuid() async throws {
    try await mounted { side in
      guard case .space(let space) = try side(.statvfs(".")) else {
        Issue.record("no statvfs")
        return
      }
      #expect(space.isNoDevice && space.isNoSetID)
    }
  }
}

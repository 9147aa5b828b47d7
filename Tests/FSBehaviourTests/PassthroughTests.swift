import FileModel
import FilesystemCalls
import FilesystemFixtures
import Promises
import Testing

@testable import UploadFS

/// Files that the kernel reads and writes past the daemon.
///
/// What passes the daemon works while it stands still; a call that has to come to it waits.
@Suite struct PassthroughTests {
  static let size = 1_000_000
  static let content = Payload.random(seed: 50, count: size)

  /// Files that end in .raw are sent once they are closed, those in .log never, and those in .wait while close(2) waits.
  static func options(
    disk: SimulatedDisk? = nil, isOnOverlay: Bool = false,
    _ change: @escaping @Sendable (inout FilesystemConfiguration) -> Void = { _ in }
  ) throws -> MountOptions {
    let rules = try ["*.raw upload=on-close", "*.log upload=never", "*.wait upload=on-close close=wait"]
      .map { text in try FileRule(text) }
    return MountOptions(disk: disk, isOnOverlay: isOnOverlay) { configuration in
      configuration.threadCount = 1
      configuration.passthrough = .on
      configuration.rules = FileRules(rules: rules)
      change(&configuration)
    }
  }

  /// Before the first write of a mount the kernel asks whether there are capabilities of files at all.
  static func prepare(_ side: Side) throws {
    try side(.getxattr(".", "security.capability"))
    _ = side.mount.sink.takeNames()
  }

  @Test(.promises("S50a", needs: .passthrough)) func readersPassTheDaemon() async throws {
    try await mounted(Self.options()) { side in
      let whole = Answer.content(Content(Self.content))
      try side(.put("f", Self.content))
      let other = try side.another("other")
      try side(.open("f", .readOnly, as: "file"))
      try other(.open("f", .readOnly, as: "file"))
      try side.whileTheDaemonStandsStill { () throws in
        #expect(try side(.pread("file", Self.size)) == whole)
        #expect(try other(.pread("file", Self.size)) == whole)
        #expect(try side(.mmap("file", Self.size, .sharedReadOnly, as: "mapped")) == .done)
        #expect(try side(.load("mapped", Self.size)) == whole)
      }
      try side(.munmap("mapped"))
      try side(.close("file"))
    }
  }

  @Test(.promises("S50a", needs: .passthrough)) func readersThatPassSeeWritersThatDoNot() async throws {
    try await comparison(Self.options()) { side in
      try side(.put("f", .repeated(UInt8(ascii: "a"), count: 65_536)))
      try side(.open("f", .readOnly, as: "reader"))
      try side(.mmap("reader", 65_536, .sharedReadOnly, as: "mapped"))
      for flags: OpenFlags in [[.writeOnly, .append], .writeOnly, .readWrite] {
        try side(.open("f", flags, as: "writer"))
        try side(.write("writer", "written"))
        try side(.pread("reader", 131_072))
        try side(.load("mapped", 65_536))
        try side(.close("writer"))
      }
      try side(.munmap("mapped"))
      try side(.close("reader"))
    }
  }

  @Test(.promises("S50b", "S50e", needs: .passthrough), arguments: ["f.raw", "f.log"])
  func writersOfFilesThatAreSentWhenClosed_passTheDaemon(name: String) async throws {
    try await mounted(Self.options()) { side in
      try Self.prepare(side)
      let (path, sink) = (Path(name), side.mount.sink)
      try side(.open(path, [.writeOnly, .create], as: "file"))
      // It counts as changing from the open to the release: nothing of it can be trusted, and nothing of it is followed.
      #expect(sink.lastSnapshot?.mutationsInFlight ?? 0 > 0)
      let id = try #require(sink.lastSnapshot).id
      #expect(sink.takeNames() == ["opened"])
      try side.whileTheDaemonStandsStill { () throws in
        #expect(try side(.write("file", Self.content)) == .number(Int64(Self.size)))
      }
      #expect(try side(.fstat("file")).status?.size == Int64(Self.size))
      #expect(try side(.stat(path)).status?.size == Int64(Self.size))
      #expect(side.mount.served?.growth(of: id, chunkBytes: 4096, anew: true) == nil)
      #expect(sink.takeNames() == [])
      try side(.ftruncate("file", Int64(Self.size) - 1))
      try side(.pwrite("file", "the end", at: Int64(Self.size) - 1))
      try side(.close("file"))
      let whole = try #require(sink.settled("work/" + name))
      #expect(whole.sizeBytes == Self.size + 6 && whole.interruption == nil && sink.takeNames() == ["settled"])
      #expect(try side(.get(path)) == .content(Content(Self.content.bytes.dropLast() + Array("the end".utf8))))
    }
  }

  @Test(.promises("S50b", needs: .passthrough)) func writersOfFilesThatAreSentBefore_doNotPass() async throws {
    try await mounted(Self.options()) { side in
      try Self.prepare(side)
      try side(.open("f", [.writeOnly, .create], as: "file"))
      var write: Pending?
      try side.whileTheDaemonStandsStill { write = try side.first.beginAndWait(.write("file", Self.content)) }
      #expect(try write?.answer() == .number(Int64(Self.size)))
      try side(.close("file"))
      #expect(try side(.get("f")) == .content(Content(Self.content)))
    }
  }

  @Test(.promises("S50c", needs: .passthrough)) func filesOpenForBoth_orWhoseCallsWait_doNotPass() async throws {
    try await mounted(Self.options()) { side in
      try Self.prepare(side)
      try side(.put("f.raw", Self.content))
      try side(.put("f.wait", Self.content))
      try side(.open("f.raw", .readWrite, as: "both"))
      try side(.open("f.raw", .readOnly, as: "beside"))
      try side(.open("f.wait", .readOnly, as: "reader"))
      try side(.open("g.wait", [.writeOnly, .create], as: "writer"))
      var waiting: [Pending] = []
      try side.whileTheDaemonStandsStill { () throws in
        waiting = try [
          .pread("both", 4096), .pread("beside", 4096, at: 131_072), .pwrite("both", "x", at: 0),
          .pread("reader", 4096), .write("writer", "x"),
        ].map { call in try side.first.beginAndWait(call) }
      }
      for call in waiting { try call.answer() }
      for slot: Slot in ["both", "beside", "reader", "writer"] { try side(.close(slot)) }
    }
  }

  @Test(.promises("S50h", needs: .passthrough)) func whereTheKernelRefuses_theDaemonReadsAndWrites() async throws {
    try await mounted(Self.options(isOnOverlay: true)) { side in
      try Self.prepare(side)
      let sink = side.mount.sink
      try side(.open("f.raw", [.writeOnly, .create], as: "file"))
      #expect(sink.takeNames() == ["opened"])
      try side(.write("file", Self.content))
      #expect(sink.takeNames() == [])
      try side(.close("file"))
      #expect(try #require(sink.settled("work/f.raw")).sizeBytes == Self.size)
      try side(.open("f.raw", .readOnly, as: "file"))
      var read: Pending?
      try side.whileTheDaemonStandsStill { read = try side.first.beginAndWait(.pread("file", Self.size)) }
      #expect(try read?.answer() == .content(Content(Self.content)))
      try side(.close("file"))
    }
  }

  @Test(.promises("S51a", needs: .passthrough)) func aMappingThatOutlivesItsDescriptor_keepsTheFileOpen() async throws {
    try await mounted(Self.options()) { side in
      let sink = side.mount.sink
      try side(.put("f", Self.content))
      try #require(sink.settled("work/f") != nil)
      _ = sink.takeNames()
      // A reader first: the writer then has to pass the daemon, too.
      try side(.open("f", .readOnly, as: "reader"))
      try side(.open("f", .readWrite, as: "file"))
      try side(.mmap("file", Self.size, .sharedReadWrite, as: "mapped"))
      try side(.store("mapped", "early"))
      #expect(sink.takeNames() == ["opened", "willChange", "changed"])
      try side(.close("file"))
      try side(.close("reader"))
      try side.afterEveryRelease()
      try side(.store("mapped", at: 100, "late"))
      side.mount.served?.checkPassthroughWriters()
      #expect(sink.takeNames() == [])
      try side(.munmap("mapped"))
      #expect(sink.settled("work/f") != nil)
      #expect(sink.takeNames() == ["settled"])
      try side(.open("f", .readOnly, as: "file"))
      #expect(try side(.pread("file", 5)) == .content("early"))
      #expect(try side(.pread("file", 4, at: 100)) == .content("late"))
      try side(.close("file"))
    }
  }
}

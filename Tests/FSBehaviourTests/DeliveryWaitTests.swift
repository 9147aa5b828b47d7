import FileModel
import FilesystemCalls
import FilesystemFixtures
import Glibc
import Promises
import Testing
import UploadFS

/// Calls that return when something is delivered, by rule.
@Suite struct DeliveryWaitTests {
  private static let settled = ["opened", "settled"]

  private static func options(_ rule: String) throws -> MountOptions {
    let rules = FileRules(rules: [try FileRule(rule)])
    return MountOptions { $0.rules = rules }
  }

  /// A further process that has written to a file, while every delivery takes long.
  private static func writer(_ side: Side, _ name: String = "f") throws -> Player {
    side.mount.sink.deliveries.hold()
    let writer = try side.another("writer")
    #expect(try writer(.open(Path(name), [.readWrite, .create], as: "file")) == .done)
    #expect(try writer(.write("file", "content")) == .number(7))
    return writer
  }

  @Test(.promises("S42a", "S42b", "S42f"), arguments: [true, false])
  func closeReturnsWhenTheContentIsDelivered_orHasFailed(isDelivered: Bool) async throws {
    try await mounted(Self.options("* close=wait")) { side in
      let deliveries = side.mount.sink.deliveries
      let closing = try Self.writer(side).begin(.close("file"))
      #expect(deliveries.waits(for: 1))
      #expect(side.events() == Self.settled, "the delivery can begin")
      // Meanwhile everything else goes on.
      try side(.mkdir("folder"))
      #expect(try side(.get("f")) == .content("content"))
      deliveries.letGo(isDelivered ? .delivered : .failed)
      #expect(try closing.answer() == (isDelivered ? .done : .failed(Errno(EIO))))
    }
  }

  @Test(.promises("S42c"), arguments: [true, false])
  func aSignalEndsTheWait(isCaught: Bool) async throws {
    try await mounted(Self.options("* close=wait")) { side in
      let deliveries = side.mount.sink.deliveries
      let writer = try Self.writer(side)
      if isCaught { try writer(.handle(signal: SIGUSR1)) }
      let closing = try writer.begin(.close("file"), onThread: false)
      #expect(deliveries.waits(for: 1))
      if isCaught {
        writer.send(SIGUSR1)
        #expect(try closing.answer() == .failed(Errno(EINTR)))
      } else {
        writer.kill()
      }
      #expect(deliveries.waits(for: 0))
      #expect(side.events() == Self.settled, "the content is what it was")
    }
  }

  @Test(.promises("S42c")) func theEndOfTheMountEndsTheWait_alsoOfACallThatComesLater() async throws {
    try await mounted(Self.options("* close=wait fsync=remote")) { side in
      let deliveries = side.mount.sink.deliveries
      let (waiting, later) = (try Self.writer(side), try Self.writer(side, "later"))
      let closing = try waiting.begin(.close("file"))
      #expect(deliveries.waits(for: 1))
      side.mount.endWaitingCalls()
      #expect(try closing.answer() == .failed(Errno(EIO)))
      #expect(try later(.fsync("file")) == .failed(Errno(EIO)))
      try later(.write("file", "x"))
      #expect(try later(.close("file")) == .failed(Errno(EIO)))
      #expect(deliveries.waits(for: 0))
    }
  }

  @Test(.promises("S42e")) func nothingIsWaitedForOfAnEmptyFile_orAtTheEndOfAProcess() async throws {
    try await mounted(Self.options("* close=wait")) { side in
      let ending = try Self.writer(side, "exit")
      try ending.exit(3)
      #expect(try side.events(until: "exit") == Self.settled)
      let killed = try Self.writer(side, "killed")
      killed.kill()
      #expect(try side.settled("killed").interruption == .writerKilled(signal: SIGKILL))
      #expect(try side(.tryOpen("empty", [.writeOnly, .create])) == .done)
      #expect(try side(.tryOpen("exit", .readOnly)) == .done)
      #expect(try side(.tryOpen("exit", .readWrite)) == .done, "nothing is changed")
      #expect(side.mount.sink.deliveries.waits(for: 0))
    }
  }

  @Test(.promises("S42a")) func elsewhereNothingIsWaitedFor() async throws {
    try await mounted(Self.options("*.mov close=wait")) { side in
      try Self.writer(side, "f.txt").leave()
      #expect(try side(.put("g.txt", "content")) == .done)
      #expect(side.mount.sink.deliveries.waits(for: 0))
    }
  }

  @Test(.promises("S42d", "S33b")) func aDuplicateThatWritesLaterBeginsARevision() async throws {
    try await mounted(Self.options("* close=wait")) { side in
      let deliveries = side.mount.sink.deliveries
      let writer = try Self.writer(side)
      try writer(.dup("file", as: "duplicate"))
      let first = try writer.begin(.close("file"))
      #expect(deliveries.waits(for: 1) && side.events() == Self.settled)
      deliveries.letGo(.delivered)
      #expect(try first.answer() == .done)
      deliveries.hold()
      try writer(.write("duplicate", " and more"))
      #expect(side.events() == ["willChange", "changed"])
      let second = try writer.begin(.close("duplicate"))
      #expect(deliveries.waits(for: 1) && side.mount.sink.lastSnapshot?.sizeBytes == 16)
      #expect(side.events() == ["settled"])
      deliveries.letGo(.delivered)
      #expect(try second.answer() == .done)
    }
  }

  @Test(.promises("S42d")) func onlyTheProcessThatOpenedTheFileWaits_onceThereIsContent() async throws {
    try await mounted(Self.options("* close=wait")) { side in
      let deliveries = side.mount.sink.deliveries
      deliveries.hold()
      let opener = try side.another("opener")
      try opener(.open("f", [.writeOnly, .create], as: "file"))
      try opener(.dup("file", as: "output"))
      // As a shell does that hands a descriptor on.
      #expect(try opener(.close("file")) == .done)
      let child = try opener.fork("child")
      try child(.write("output", "content"))
      #expect(try child(.close("output")) == .done)
      #expect(!side.events().contains("settled"))
      let closing = try opener.begin(.close("output"))
      #expect(deliveries.waits(for: 1) && side.events() == ["settled"])
      deliveries.letGo(.delivered)
      #expect(try closing.answer() == .done)
    }
  }

  @Test(.promises("S42d")) func besideAnotherWriterNothingIsWaitedFor() async throws {
    try await mounted(Self.options("* close=wait")) { side in
      let deliveries = side.mount.sink.deliveries
      let (one, other) = (try Self.writer(side), try Self.writer(side))
      #expect(try one(.close("file")) == .done)
      let closing = try other.begin(.close("file"))
      #expect(deliveries.waits(for: 1) && side.events() == Self.settled)
      deliveries.letGo(.delivered)
      #expect(try closing.answer() == .done)
    }
  }

  @Test(.promises("S43"), arguments: [Call.fsync("file"), .fdatasync("file")])
  func fsyncReturnsWhenWhatWasWrittenIsDelivered(call: Call) async throws {
    try await mounted(Self.options("* fsync=remote")) { side in
      let deliveries = side.mount.sink.deliveries
      let writer = try Self.writer(side)
      for (round, outcome) in [DeliveryOutcome.delivered, .delivered, .failed].enumerated() {
        deliveries.hold()
        if round > 0 { try writer(.write("file", "more")) }
        let waiting = try writer.begin(call)
        #expect(deliveries.waits(for: 1))
        #expect(side.events() == (round == 0 ? Self.settled : ["willChange", "changed", "settled"]))
        deliveries.letGo(outcome)
        #expect(try waiting.answer() == (outcome == .failed ? .failed(Errno(EIO)) : .done))
      }
      #expect(try writer(.close("file")) == .done)
    }
  }

  /// The mount has three threads. Each call has a file of its own: the kernel lets one fsync(2) of a file pass at a time.
  @Test(.promises("S42f", "S42g")) func manyCallsWaitAndBlockNothing_butNotAnyNumber() async throws {
    try await mounted(Self.options("*.log fsync=remote")) { side in
      let deliveries = side.mount.sink.deliveries
      deliveries.hold()
      let writer = try side.another("writer")
      func open(_ name: String) throws -> Call {
        try writer(.open(Path(name + ".log"), [.writeOnly, .create], as: Slot(name)))
        try writer(.write(Slot(name), "content"))
        return .fsync(Slot(name))
      }
      let calls = try (0..<256).map { try open("f\($0)") }
      let waiting = try calls.map { try writer.begin($0) }
      #expect(deliveries.waits(for: 256))
      #expect(try side(.put("other", "content")) == .done)
      #expect(try side(.get("f0.log")) == .content("content"))
      #expect(try writer(open("last")) == .failed(.again))
      deliveries.letGo(.delivered)
      for pending in waiting { #expect(try pending.answer() == .done) }
    }
  }
}

import FilesystemCalls
import Glibc
import Promises
import Testing

/// Locks among processes, and readiness.
@Suite struct LockTests {
  @Test(.promises("S24")) func locksOfTheWholeFileWorkAmongProcesses() async throws {
    try await comparison { side in
      try side(.put("f", "content"))
      try side(.open("f", .readWrite, as: "file"))
      let other = try side.another()
      try other(.open("f", .readWrite, as: "file"))
      #expect(try side(.flock("file", .exclusive)) == .done)
      #expect(try other(.flock("file", .exclusive)) == .failed(.again))
      let waiting = try other.begin(.flock("file", .shared, waits: true))
      #expect(try side(.flock("file", .unlocked)) == .done)
      #expect(try waiting.answer() == .done)
      try side(.flock("file", .shared))
      try side(.flock("file", .exclusive))
      other.kill()
      #expect(try side(.flock("file", .exclusive)) == .done)
      try side(.close("file"))
    }
  }

  @Test(.promises("S24"), arguments: [false, true]) func locksOfRangesWorkAmongProcesses(ofOpenFile: Bool) async throws
  {
    try await comparison { side in
      try side(.put("f", .repeated(1, count: 100)))
      try side(.open("f", .readWrite, as: "file"))
      let other = try side.another()
      try other(.open("f", .readWrite, as: "file"))
      func lock(_ kind: LockKind, _ start: Int64, _ count: Int64, waits: Bool = false) -> Call {
        .fcntlLock("file", kind, start: start, count: count, ofOpenFile: ofOpenFile, waits: waits)
      }
      #expect(try side(lock(.exclusive, 0, 10)) == .done)
      #expect(try other(lock(.exclusive, 5, 10)) == .failed(.again))
      #expect(try other(lock(.exclusive, 10, 10)) == .done)
      let waiting = try other.begin(lock(.shared, 0, 5, waits: true))
      #expect(try side(lock(.unlocked, 0, 0)) == .done)
      #expect(try waiting.answer() == .done)
      #expect(try side(lock(.shared, 0, 5)) == .done)
      try side(lock(.exclusive, 0, 5))
      other.leave()
      #expect(try side(lock(.exclusive, 0, 0)) == .done)
      try side(.close("file"))
    }
  }

  @Test(.promises("S24")) func locksOfOpenFilesWorkWithinAProcess() async throws {
    try await comparison { side in
      try side(.put("f", "x"))
      try side(.open("f", .readWrite, as: "one"))
      try side(.open("f", .readWrite, as: "other"))
      #expect(try side(.fcntlLock("one", .exclusive, start: 0, count: 1, ofOpenFile: true)) == .done)
      #expect(try side(.fcntlLock("other", .exclusive, start: 0, count: 1, ofOpenFile: true)) == .failed(.again))
      try side(.close("one"))
      #expect(try side(.fcntlLock("other", .exclusive, start: 0, count: 1, ofOpenFile: true)) == .done)
      try side(.close("other"))
    }
  }

  @Test(.promises("S25")) func capturesAreAlwaysReady() async throws {
    try await comparison { side in
      try side(.open("f", [.create, .readWrite], as: "file"))
      let both = Int16(POLLIN | POLLOUT)
      #expect(try side(.poll("file", both, milliseconds: 5000)) == .number(Int64(both)))
      try side(.close("file"))
    }
  }
}

import FilesystemCalls
import Foundation
import Glibc
import Promises
import Testing

/// Locks for which processes wait.
@Suite struct LockHandoverTests {
  enum Kind: String, CaseIterable, CustomTestStringConvertible {
    case wholeFile, range, rangeOfOpenFile

    var testDescription: String { rawValue }

    func call(_ lock: LockKind, waits: Bool = false) -> Call {
      switch self {
      case .wholeFile: .flock("file", lock, waits: waits)
      case .range: .fcntlLock("file", lock, start: 10, count: 5, waits: waits)
      case .rangeOfOpenFile: .fcntlLock("file", lock, start: 10, count: 5, ofOpenFile: true, waits: waits)
      }
    }
  }

  /// How a process gives up its lock.
  enum Way: String, CaseIterable, CustomTestStringConvertible {
    case unlocks, closes, ends, isKilled

    var testDescription: String { rawValue }

    func callAsFunction(_ holder: Player, _ kind: Kind) throws {
      switch self {
      case .unlocks: #expect(try holder(kind.call(.unlocked)) == .done)
      case .closes: #expect(try holder(.close("file")) == .done)
      case .ends: holder.leave()
      case .isKilled: holder.kill()
      }
    }
  }

  private static func opener(_ side: Side, _ name: String) throws -> Player {
    let player = try side.another(name)
    #expect(try player(.open("f", .readWrite, as: "file")) == .done)
    return player
  }

  /// Begins to wait for a lock on the main thread, to which signals go, and returns once the kernel has the process queued.
  private static func wait(_ player: Player, _ call: Call) throws -> Pending {
    let inode = try #require(try player(.fstat("file")).status?.inode)
    let before = queued(inode)
    let pending = try player.begin(call, onThread: false)
    let deadline = ContinuousClock.now + .seconds(20)
    while queued(inode) <= before {
      try #require(ContinuousClock.now < deadline, "the lock is not waited for")
      sched_yield()
    }
    return pending
  }

  /// How many wait for a lock of a file.
  private static func queued(_ inode: UInt64) -> Int {
    let locks = (try? String(contentsOfFile: "/proc/locks", encoding: .utf8)) ?? ""
    return locks.split(separator: "\n").count { $0.contains("-> ") && $0.contains(":\(inode) ") }
  }

  @Test(.promises("S24"), arguments: Kind.allCases, Way.allCases)
  func aWaitingProcessGetsTheLock_howeverItsHolderGivesItUp(kind: Kind, way: Way) async throws {
    try await comparison { side in
      try side(.put("f", .repeated(1, count: 100)))
      try side(.open("f", .readWrite, as: "file"))
      let (holder, waiter) = (try Self.opener(side, "holder"), try Self.opener(side, "waiter"))
      #expect(try holder(kind.call(.exclusive)) == .done)
      let waiting = try Self.wait(waiter, kind.call(.exclusive, waits: true))
      #expect(try side(kind.call(.exclusive)) == .failed(.again))
      try way(holder, kind)
      #expect(try waiting.answer() == .done)
      #expect(try side(kind.call(.shared)) == .failed(.again), "the waiting process has it")
      try way(waiter, kind)
      #expect(try side(kind.call(.exclusive)) == .done)
      try side(.close("file"))
    }
  }

  @Test(.promises("S24"), arguments: Kind.allCases)
  func allThatWaitToShareGetTheLockAtOnce(kind: Kind) async throws {
    try await comparison { side in
      try side(.put("f", .repeated(1, count: 100)))
      try side(.open("f", .readWrite, as: "file"))
      let holder = try Self.opener(side, "holder")
      #expect(try holder(kind.call(.exclusive)) == .done)
      let waiters = try ["one", "two"].map { try Self.opener(side, $0) }
      let waiting = try waiters.map { try Self.wait($0, kind.call(.shared, waits: true)) }
      // An exclusive lock that becomes a shared one is shared.
      #expect(try holder(kind.call(.shared)) == .done)
      for pending in waiting { #expect(try pending.answer() == .done) }
      #expect(try side(kind.call(.exclusive)) == .failed(.again))
      holder.leave()
      waiters[0].leave()
      #expect(try side(kind.call(.exclusive)) == .failed(.again))
      waiters[1].kill()
      #expect(try side(kind.call(.exclusive)) == .done)
      try side(.close("file"))
    }
  }

  @Test(.promises("S24"), arguments: Kind.allCases)
  func aSignalEndsTheWaitForALock(kind: Kind) async throws {
    try await comparison { side in
      try side(.put("f", .repeated(1, count: 100)))
      try side(.open("f", .readWrite, as: "file"))
      #expect(try side(kind.call(.exclusive)) == .done)
      let waiter = try Self.opener(side, "waiter")
      try waiter(.handle(signal: SIGUSR1))
      let waiting = try Self.wait(waiter, kind.call(.exclusive, waits: true))
      waiter.send(SIGUSR1)
      #expect(try waiting.answer() == .failed(Errno(EINTR)))
      // Nor does a process wait on that is killed.
      let killed = try Self.opener(side, "killed")
      _ = try Self.wait(killed, kind.call(.exclusive, waits: true))
      killed.kill()
      #expect(try side(kind.call(.unlocked)) == .done)
      #expect(try waiter(kind.call(.exclusive)) == .done)
      #expect(try side(kind.call(.shared)) == .failed(.again))
      waiter.leave()
      #expect(try side(kind.call(.shared)) == .done)
      try side(.close("file"))
    }
  }
}

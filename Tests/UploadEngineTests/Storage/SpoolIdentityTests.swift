import Glibc
import Logging
import Promises
import Testing
import Threads
import TransferModel

@testable import UploadEngine

@Suite struct SpoolIdentityTests {
  private let folder: ScratchFolder

  init() throws {
    folder = try ScratchFolder()
  }

  private func begin(_ effects: FileEffects = .system) -> SpoolIdentity {
    SpoolIdentity(path: folder("spool"), effects: effects, logger: Logger(label: "test"))
  }

  @Test("Each start has the next number and a mark of its own", .promises("S79g")) func starts() throws {
    let first = try #require(begin().start)
    let second = try #require(begin().start)
    #expect(first.count == 1 && second.count == 2)
    #expect(first.spool == second.spool && first.mark != second.mark)
    #expect(first.spool.count == 16 && first.mark.count == 16 && first.spool != first.mark)
  }

  @Test("A spool that is told that it is a copy takes another identity, once, and keeps it", .promises("P107", "S79g"))
  func told() throws {
    let identity = begin()
    let first = try #require(identity.start)
    identity.told(ofSpool: [UInt8](repeating: 1, count: 16), knownCount: 9, by: "s")
    identity.close()
    #expect(identity.start == first && identity.renewal == nil, "that was another spool")
    identity.told(ofSpool: first.spool, knownCount: 9, by: "s")
    identity.close()
    let second = try #require(identity.start)
    #expect(second.spool != first.spool && second.count == 1)
    let renewal = try #require(identity.renewal)
    #expect(renewal.server == "s" && renewal.count == 1 && renewal.knownCount == 9)
    // No server can know a later start of an identity that is as new as that.
    for spool in [first.spool, second.spool] { identity.told(ofSpool: spool, knownCount: 10, by: "s") }
    identity.close()
    #expect(identity.start == second && identity.renewal == renewal)
    let record = try #require(SpoolIdentityRecord(try folder.read("spool")))
    #expect(record.former == [first.spool])
    let next = begin()
    #expect(next.start?.spool == second.spool && next.start?.count == 2 && next.renewal == nil)
  }

  @Test(
    "A start that was not counted is not told, and no number is said twice", .promises("S79h"), arguments: 1...4)
  func failures(failAt: Int) throws {
    var last = try #require(begin().start)
    for forever in [false, true] {
      if let start = begin(FailingEffects(failAt: failAt, forever: forever).effects).start {
        #expect(start.count > last.count)
        last = start
      }
      let next = try #require(begin().start)
      #expect(next.spool == last.spool && next.count > last.count)
      last = next
    }
    // The other identity is not taken before it is on the disk; the first four effects are those of the start.
    let identity = begin(FailingEffects(failAt: 4 + failAt, forever: true).effects)
    let start = try #require(identity.start)
    identity.told(ofSpool: start.spool, knownCount: 99, by: "s")
    identity.close()
    if identity.renewal == nil {
      #expect(identity.start == start)
    } else {
      #expect(identity.start?.spool != start.spool)
    }
  }

  @Test(
    "Regression: where the system had no thread left for another identity the process ended",
    arguments: [(0, 2), (30, 1)] as [(Int64, Int)])
  func noThread(retrySeconds: Int64, expected: Int) throws {
    let starts = Monitor(0)
    let identity = SpoolIdentity(
      path: folder("spool"), effects: .system, logger: Logger(label: "test"), retrySeconds: retrySeconds
    ) { name, role, run in
      let isThere = starts.withLock { starts, _ in
        starts += 1
        return starts > 1
      }
      return isThere ? NamedThread(name, role, run) : nil
    }
    let first = try #require(identity.start)
    identity.told(ofSpool: first.spool, knownCount: 9, by: "s")
    identity.close()
    #expect(identity.start == first && identity.renewal == nil)
    identity.told(ofSpool: first.spool, knownCount: 9, by: "s")
    identity.close()
    let count = starts.withLock { starts, _ in starts }
    #expect(count == expected)
    // It is tried again, once it is time.
    #expect((identity.start?.spool != first.spool) == (expected == 2))
    #expect(identity.renewal?.knownCount == (expected == 2 ? 9 : nil))
  }

  @Test("What is damaged is made anew, and what cannot be read stays as it is", .promises("S79h"))
  func damage() throws {
    let first = try #require(begin().start)
    let bytes = try folder.read("spool")
    for place in bytes.indices {
      var damaged = bytes
      damaged[place] ^= 1
      try folder.write(damaged, to: "spool")
      #expect(SpoolIdentityRecord(damaged) == nil, "at \(place)")
    }
    for length in 0..<bytes.count { #expect(SpoolIdentityRecord(Array(bytes[..<length])) == nil, "cut at \(length)") }
    #expect(SpoolIdentityRecord(bytes)?.start == first)
    try folder.write(Array(bytes.dropLast(4)), to: "spool")
    let second = try #require(begin().start)
    #expect(second.spool != first.spool && second.count == 1)
    unlink(folder("spool"))
    mkdir(folder("spool"), 0o700)
    #expect(begin().start == nil)
    #expect(access(folder("spool"), F_OK) == 0)
    rmdir(folder("spool"))
    symlink("/nowhere", folder("spool"))
    #expect(begin().start == nil, "nothing is written in the place of what is not known")
  }
}

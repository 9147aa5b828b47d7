import ChunkProtocol
import Lookup
import Promises
import Testing

@testable import ReceiverCore

/// What the receiver says to spools.
@Suite struct SpoolMemoryTests {
  private let credential = CredentialID("c")

  private func start(_ count: UInt64, mark: UInt8 = 0, of spool: UInt8 = 1) -> SpoolStart {
    SpoolStart(
      spool: [UInt8](repeating: spool, count: 16), count: count,
      mark: [UInt8](repeating: mark, count: 15) + [UInt8(count)])
  }

  private func known(_ count: UInt64) -> KnownSpoolStart {
    KnownSpoolStart(spool: [UInt8](repeating: 1, count: 16), count: count)
  }

  @Test("Regression: a spool that was restored from a backup is told so", .promises("P105"))
  func restored() {
    var memory = SpoolMemory()
    for count in [1, 2, 7] as [UInt64] {
      #expect(memory.hear(start(count), of: credential, at: 0) == nil)
      #expect(memory.hear(start(count), of: credential, at: 1) == nil, "the same start again")
    }
    #expect(memory.hear(start(3, mark: 9), of: credential, at: 2) == .init(known: known(7), isFirst: true))
    #expect(memory.hear(start(3, mark: 9), of: credential, at: 3) == .init(known: known(7), isFirst: false))
    #expect(memory.hear(start(7), of: credential, at: 4) == nil, "the last start is the last one as before")
    #expect(memory.hear(start(8), of: credential, at: 5) == nil)
  }

  @Test("Of a spool that runs twice one is told so", .promises("P105")) func twice() {
    var memory = SpoolMemory()
    _ = memory.hear(start(5), of: credential, at: 0)
    #expect(memory.hear(start(5, mark: 1), of: credential, at: 1)?.known == known(5), "two starts with one number")
    _ = memory.hear(start(6, mark: 1), of: credential, at: 2)
    #expect(memory.hear(start(5), of: credential, at: 3)?.known == known(6), "the other one has gone on")
  }

  @Test("What is another credential's is not known", .promises("P5", "P106")) func credentials() {
    var memory = SpoolMemory()
    _ = memory.hear(start(5), of: credential, at: 0)
    #expect(memory.hear(start(2), of: CredentialID("d"), at: 0) == nil)
    #expect(memory.hear(start(2), of: credential, at: 0) != nil)
  }

  @Test("Where the memory is full, the one goes of which nothing was heard for longest", .promises("P106")) func bound()
  {
    var memory = SpoolMemory(spoolsMax: 3)
    for spool in 1...3 as ClosedRange<UInt8> { _ = memory.hear(start(9, of: spool), of: credential, at: Int64(spool)) }
    _ = memory.hear(start(9, of: 1), of: credential, at: 10)
    _ = memory.hear(start(9, of: 4), of: credential, at: 11)
    #expect(memory.takeChanges()?.map { $0.start.prefix(2) } == ["01", "03", "04"])
    #expect(memory.hear(start(2, of: 2), of: credential, at: 12) == nil, "it is not remembered, so nothing is said")
  }

  @Test("A restart, also with another token of the same user, forgets nothing", .promises("P5", "P106")) func restart()
    throws
  {
    var memory = SpoolMemory()
    _ = memory.hear(start(5), of: credential, at: 0)
    let taken = memory.takeChanges()
    let records = try #require(taken)
    #expect(memory.takeChanges() == nil, "nothing has changed since")
    memory.saveFailed()
    #expect(memory.takeChanges() == records)
    let payloads = records.map { JournalRecord.spool($0).bytes }
    let read = payloads.compactMap { payload in
      if case .spool(let record)? = JournalRecord(payload[...]) { record } else { nil }
    }
    #expect(read == records)
    var again = SpoolMemory(read, owners: [credential: CredentialID("new")])
    #expect(again.hear(start(4), of: CredentialID("new"), at: 1)?.known == known(5))
    #expect(again.takeChanges() == nil)
  }

  @Test("That a spool runs reaches the disk once a day") func heard() {
    var memory = SpoolMemory()
    _ = memory.hear(start(5), of: credential, at: 0)
    _ = memory.takeChanges()
    _ = memory.hear(start(5), of: credential, at: 86_399_999)
    #expect(!memory.isChanged)
    _ = memory.hear(start(5), of: credential, at: 86_400_000)
    #expect(memory.takeChanges()?.map(\.heardAt) == [86_400_000])
    #expect(!memory.isChanged)
  }

  @Test("What is no start is not read", .promises("P7", "P105")) func text() {
    let value = start(5).headerValue
    #expect(SpoolStart(headerValue: value) == start(5))
    #expect(KnownSpoolStart(headerValue: known(7).headerValue) == known(7))
    let parts = value.split(separator: "-").map(String.init)
    for bad in [
      "", "-", "--", value + "-", "-" + value, parts[0], "\(parts[0])-05-\(parts[2])", "\(parts[0])-0-\(parts[2])",
      "\(parts[0])-\(parts[2])", "\(parts[0].dropLast(2))-5-\(parts[2])", "\(parts[0])--5-\(parts[2])",
      "\(parts[0])-18446744073709551616-\(parts[2])", "\(parts[0])-5-\(parts[2])00",
      "\(parts[0])-5-g\(parts[2].dropFirst())",
    ] {
      #expect(SpoolStart(headerValue: bad) == nil, "\(bad)")
      #expect(KnownSpoolStart(headerValue: bad) == nil, "\(bad)")
    }
  }
}

import FileModel
import Glibc
import Integrity
import Lookup
import ProtocolReference
import SeededRandom
import Testing
import TransferModel

@testable import UploadEngine

/// Records that grow by segments.
@Suite struct ResumeLogTests {
  private let resume: ResumeFolder
  private let id = ResumeFixture.id
  private var folder: ScratchFolder { resume.folder }
  private var fileName: String { resume.fileName }

  init() throws { resume = try ResumeFolder() }

  private func change(_ index: Int) -> ResumeSnapshot.Change {
    .init(index: index, digest: ResumeFixture.digest(index))
  }

  private func indices(_ load: ResumeLoad) -> [Int]? {
    guard case .record(let record) = load else { return nil }
    return record.acknowledged.map(\.index)
  }

  @Test func changesContinueTheRecordThatThisProcessWrote() throws {
    let store = try resume.open()
    let record = ResumeFixture.record(chunks: 0)
    #expect(store.mark(of: id) == nil)
    try store.save(record)
    #expect(store.mark(of: id) == .init(sessionID: "s-1", changeCount: 0))
    for number in 0..<20 {
      try store.save(ResumeFixture.snapshot(record, changes: [change(number)], changeCount: UInt64(number + 1)))
    }
    #expect(store.mark(of: id) == .init(sessionID: "s-1", changeCount: 20))
    #expect(indices(try resume.open().load(id)) == Array(0..<20))
    #expect(folder.names(in: "resume") == ["\(id).resume"])
  }

  @Test func changesToARecordOfAnotherRunOrSession_areRefusedUntilAWholeOneIsWritten() throws {
    let record = ResumeFixture.record(chunks: 1)
    try resume.open().save(record)
    let store = try resume.open()
    #expect(store.mark(of: id) == nil)
    #expect(throws: StorageError.self) { try store.save(ResumeFixture.snapshot(record, changes: [change(5)])) }
    try store.save(record)
    let other = ResumeFixture.record(chunks: 1, session: "s-2")
    #expect(throws: StorageError.self) { try store.save(ResumeFixture.snapshot(other, changes: [change(5)])) }
    #expect(store.mark(of: id) == nil)
    #expect(store.load(id) == .record(record))
  }

  @Test func aRecordThatWasRemoved_isBegunAgain() throws {
    let store = try resume.open()
    try store.save(ResumeFixture.record())
    store.remove(id)
    #expect(store.mark(of: id) == nil)
    #expect(throws: StorageError.self) {
      try store.save(ResumeFixture.snapshot(ResumeFixture.record(), changes: [change(5)]))
    }
    #expect(folder.names(in: "resume").isEmpty)
  }

  @Test func aFileThatAnotherProgramChanged_isNotAppendedTo() throws {
    let store = try resume.open()
    let record = ResumeFixture.record()
    try store.save(record)
    try folder.write(try folder.read(fileName) + [1], to: fileName)
    #expect(throws: StorageError.self) { try store.save(ResumeFixture.snapshot(record, changes: [change(5)])) }
    try store.save(record)
    #expect(store.load(id) == .record(record))
    unlink(folder(fileName))
    #expect(throws: StorageError.self) { try store.save(ResumeFixture.snapshot(record, changes: [change(5)])) }
    try store.save(record)
    #expect(store.load(id) == .record(record))
  }

  @Test func aTornEndIsReportedAndTheRestIsUsed() throws {
    let store = try resume.open()
    let record = ResumeFixture.record()
    try store.save(record)
    let whole = try folder.read(fileName)
    try store.save(ResumeFixture.snapshot(record, changes: [change(5)]))
    let longer = try folder.read(fileName)
    try folder.write(Array(longer.dropLast(3)), to: fileName)
    let restarted = try resume.open()
    guard case .cutShort(let found, let warning) = restarted.load(id) else {
      Issue.record("the torn end was not noticed")
      return
    }
    #expect(found == record)
    #expect(warning.contains("\(longer.count - 3 - whole.count) bytes") && warning.contains(folder(fileName)))
    let reading = restarted.loadAll()
    #expect(reading.records == [record] && reading.warnings == [warning] && reading.failure == nil)
    // The next save is a whole one and mends the file.
    try restarted.save(record)
    #expect(try resume.open().load(id) == .record(record))
  }

  @Test func theFileStaysInProportionToItsContent() throws {
    let store = try resume.open()
    var record = ResumeFixture.record(chunks: 0)
    try store.save(record)
    var longest = 0
    var compactions = 0
    var before = 0
    for number in 0..<1200 {
      for index in 0..<10 {
        record.merkle.insert(ResumeFixture.sha256Digest(number * 10 + index), at: number * 10 + index)
      }
      try store.save(
        ResumeFixture.snapshot(
          record, changes: (0..<10).map { change(number * 10 + $0) }, changeCount: UInt64(number * 10 + 10)))
      let bytes = try fileSize()
      if bytes < before { compactions += 1 }
      before = bytes
      longest = max(longest, bytes)
    }
    #expect(indices(try resume.open().load(id)) == Array(0..<12_000))
    // 12,000 chunks of 41 bytes, the same again in segments, and the smallest bound.
    #expect(longest < 2 * 12_000 * 41 + (256 << 10) + 4096, "\(longest)")
    #expect((1...10).contains(compactions), "\(compactions)")
    #expect(store.mark(of: id)?.changeCount == 12_000)
  }

  private func fileSize() throws -> Int {
    var status = stat()
    guard lstat(folder(fileName), &status) == 0 else { throw ScratchError(errno: errno) }
    return Int(status.st_size)
  }

  @Test(arguments: [false, true])
  func whicheverEffectOfAnAppendFails_theOldOrTheNewRecordIsThere(forever: Bool) throws {
    let old = ResumeFixture.record(chunks: 2)
    // The key is there already. A whole save has four effects; the append comes after them.
    _ = try resume.open()
    for step in 5...10 {
      let failing = FailingEffects(failAt: step, forever: forever)
      let store = try resume.open(failing.effects)
      try store.save(old)
      var didFail = false
      do {
        try store.save(ResumeFixture.snapshot(old, changes: [change(9)], changeCount: 1))
      } catch {
        didFail = true
        #expect(error.kind == .full)
      }
      let found = try resume.open().load(id)
      guard didFail else {
        #expect(indices(found) == [0, 2, 9])
        #expect(step == 7, "write and fsync are the effects of an append")
        return
      }
      #expect(store.mark(of: id) == nil, "after a failure the next record is a whole one")
      switch found {
      case .record(let record): #expect([[0, 2], [0, 2, 9]].contains(record.acknowledged.map(\.index)))
      case .cutShort(let record, _): #expect(record == old)
      case .none, .damaged, .unreadable: Issue.record("effect \(step): \(found)")
      }
      if !forever {
        try store.save(old)
        #expect(try resume.open().load(id) == .record(old))
      }
    }
    Issue.record("an append has more than two effects")
  }

  // MARK: - With what the decisions hold

  /// Whatever is acknowledged, replaced, denied or forgotten between the saves, and whichever saves fail: what is on disk
  /// after a save that did not fail is what was held.
  @Test(arguments: 1...8 as ClosedRange<UInt64>)
  func whatIsHeld_isWhatIsFoundAgain(seed: UInt64) throws {
    var random = SplitMix(seed: seed)
    let held = HeldChunks()
    var failAt = 50
    var failing = FailingEffects(failAt: failAt, forever: false)
    var store = try resume.open(failing.effects)
    var saves = 0
    for step in 0..<300 {
      change(held, &random, step)
      guard Int.random(in: 0..<4, using: &random) == 0 else { continue }
      let snapshot = Self.snapshot(of: held, since: store.mark(of: id))
      do {
        try store.save(snapshot)
      } catch {
        failAt = Int.random(in: 1..<60, using: &random)
        failing = FailingEffects(failAt: failAt, forever: false)
        if Bool.random(using: &random) { store = try resume.open(failing.effects) }
        continue
      }
      saves += 1
      guard case .record(let record) = try resume.open().load(id) else {
        Issue.record("seed \(seed), step \(step): no record")
        return
      }
      // From nothing, not from what the other has kept up to date.
      let fresh = HeldChunks(acknowledged: held.acknowledged.sorted().map { .init(index: $0.key, digest: $0.value) })
      var expected = Self.snapshot(of: fresh, since: nil).record
      expected.acknowledged.sort { $0.index < $1.index }
      #expect(record == expected, "seed \(seed), step \(step)")
    }
    #expect(saves > 20)
  }

  private func change(_ held: HeldChunks, _ random: inout SplitMix, _ step: Int) {
    let index = Int.random(in: 0..<40, using: &random)
    switch Int.random(in: 0..<20, using: &random) {
    case 0: held.remove(index)
    case 1:
      var digests: LookupTable<Int, Digest32> = [:]
      for (index, digest) in held.acknowledged.sorted() where Bool.random(using: &random) {
        digests[index] = digest.sha256
      }
      held.replace(with: digests)
    default: held.acknowledge(ResumeFixture.digest(step % 3), at: index)
    }
  }

  private static func snapshot(of held: HeldChunks, since mark: ResumeSnapshot.Mark?) -> ResumeSnapshot {
    let changes = mark.flatMap { held.changes(since: $0.changeCount) }
    var record = ResumeFixture.record(chunks: 0)
    let commitment = held.commitment(sessionID: record.sessionID)
    record.merkle = commitment.merkle
    record.chainTip = commitment.chainTip
    record.contiguousCount = commitment.contiguousCount
    if changes == nil {
      record.acknowledged = held.acknowledged.sorted().map { .init(index: $0.key, digest: $0.value) }
    }
    return ResumeSnapshot(
      record: record, changes: changes, mark: .init(sessionID: record.sessionID, changeCount: held.changeCount))
  }

  @Test func unfetchedChanges_areForgottenBeyondABound() {
    let held = HeldChunks()
    for index in 0...HeldChunks.changesMax { held.acknowledge(ResumeFixture.digest(0), at: index) }
    #expect(held.changes(since: 0) == nil)
    let now = held.changeCount
    held.acknowledge(ResumeFixture.digest(1), at: 3)
    #expect(held.changes(since: now) == [.init(index: 3, digest: ResumeFixture.digest(1))])
    #expect(held.changes(since: now + 5) == nil)
  }

  @Test func theCommitment_isOverWhatIsAcknowledgedNow() {
    let held = HeldChunks()
    _ = held.commitment(sessionID: "b")
    for index in [1, 0, 3] { held.acknowledge(ResumeFixture.digest(index), at: index) }
    held.acknowledge(ResumeFixture.digest(9), at: 0)
    held.acknowledge(ResumeFixture.digest(2), at: 2)
    let digests = [9, 1, 2, 3].map { ResumeFixture.sha256Digest($0).bytes }
    let commitment = held.commitment(sessionID: "b")
    #expect(commitment.merkle.root(leafCount: 4)?.bytes == ProtocolReference.merkleRoot(digests))
    #expect(commitment.chainTip.bytes == ProtocolReference.chainTip(sessionID: "b", digests))
    #expect(commitment.contiguousCount == 4)
  }
}

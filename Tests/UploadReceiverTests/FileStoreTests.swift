import ChunkProtocol
import Dispatch
import Glibc
import Integrity
import Lookup
import Promises
import Synchronization
import Testing

@testable import ReceiverCore
@testable import UploadReceiver

@Suite struct FileStoreTests {
  private let folder: TemporaryFolder
  private let credential = CredentialID("c0ffee")
  private let file: [UInt8] = Array("0123456789".utf8)

  init() throws {
    folder = try TemporaryFolder()
  }

  private func makeStore(
    stoppingAt step: StoreStep? = nil, beforeSync: @escaping BeforeSync = { _ in }
  ) throws -> FileStore {
    try FileStore(
      root: folder.path, publishing: [credential: "\(folder.path)/files"], mayPass: { $0 != step },
      beforeSync: beforeSync)
  }

  private func session(_ id: String = "abc", size: UInt64? = nil) -> SessionRecord {
    SessionRecord(
      id: id, credential: credential.text, idempotencyKey: "key",
      opening: SessionParameters(
        name: "a.bin", sizeBytes: size, chunkBytes: 4, nonce: [UInt8](repeating: 1, count: 32), modifiedNanoseconds: 0,
        mode: 0o644),
      requestedChunkBytes: 4, openedAt: 1)
  }

  private func write(_ store: FileStore, _ facts: SessionRecord) throws {
    for (index, start) in stride(from: 0, to: file.count, by: 4).enumerated() {
      let chunk = Array(file[start..<min(start + 4, file.count)])
      try store.write(
        chunk, to: facts.sessionID, index: UInt32(index), offset: UInt64(index) * 4, facts: ChunkChecksums(of: chunk))
    }
  }

  /// Makes the session and writes all its chunks.
  private func fill(_ store: FileStore, _ facts: SessionRecord) throws {
    _ = try store.create(facts)
    try write(store, facts)
  }

  private func publication(
    _ name: String = "folder/a.bin", size: Int? = nil, ifExists: IfExists = .replace, id: String = "receipt"
  ) -> Publication {
    Publication(
      receipt: PublicationReceipt(
        id: id, name: name, sizeBytes: UInt64(size ?? file.count), merkleRoot: sha256([1]),
        chainTip: sha256([2]), publishedAt: 5),
      credential: credential, modifiedNanoseconds: -1_500_000_000, mode: 0o640, ifExists: ifExists)
  }

  private let record = WholeFileRecord(credential: "c0ffee", idempotencyKey: "k", fingerprint: sha256([3]))

  // MARK: Sessions

  @Test(.promises("P24")) func chunks_areFoundAgainAfterARestart() throws {
    let facts = session()
    do {
      let store = try makeStore()
      try fill(store, facts)
    }
    let store = try makeStore()
    let found = try store.recover()
    #expect(found.open.map(\.facts) == [facts])
    #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == [0, 1, 2])
  }

  @Test(.promises("P37")) func chunkWhoseDataWasLost_isNotBelieved() throws {
    let facts = session()
    do {
      let store = try makeStore()
      try fill(store, facts)
    }
    // As after a power cut: the journal reached the disk, the data of two chunks did not.
    folder.write(Array("0123xx67".utf8), to: ".uploads/sessions/abc/data")
    let store = try makeStore()
    _ = try store.recover()
    #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == [0])
  }

  @Test(.promises("P27")) func replacedChunk_countsWithItsLastDigest() throws {
    let facts = session()
    let store = try makeStore()
    try fill(store, facts)
    let patched = Array("ABCD".utf8)
    try store.write(patched, to: facts.sessionID, index: 0, offset: 0, facts: ChunkChecksums(of: patched))
    #expect(try store.verify(facts.sessionID, takesBase: true)[0] == ChunkChecksums(of: patched))
  }

  // MARK: Zeros

  private let mebibyte = 1 << 20

  private func sparseSession(_ size: UInt64? = nil) -> SessionRecord {
    SessionRecord(
      id: "abc", credential: credential.text, idempotencyKey: "key",
      opening: SessionParameters(
        name: "a.bin", sizeBytes: size, chunkBytes: mebibyte, nonce: [UInt8](repeating: 1, count: 32),
        modifiedNanoseconds: 0, mode: 0o644),
      requestedChunkBytes: mebibyte, openedAt: 1)
  }

  private func put(_ byte: UInt8, _ store: FileStore, at index: UInt32) throws {
    let chunk = [UInt8](repeating: byte, count: mebibyte)
    try store.write(
      chunk, to: SessionID("abc"), index: index, offset: UInt64(index) * UInt64(mebibyte),
      facts: ChunkChecksums(of: chunk))
  }

  private func zero(_ store: FileStore, _ ranges: Range<UInt32>...) throws {
    try store.writeZeros(to: SessionID("abc"), IndexRanges(ranges), chunkBytes: UInt64(mebibyte))
  }

  private func allocatedBytes(_ path: String) -> Int {
    var status = stat()
    return stat("\(folder.path)/\(path)", &status) == 0 ? Int(status.st_blocks) * 512 : -1
  }

  @Test(.promises("P33j", "P33k")) func zeros_areHolesInTheFile_andArePublishedSo() throws {
    let store = try makeStore()
    _ = try store.create(sparseSession())
    try zero(store, 0..<2, 3..<100_000)
    try put(7, store, at: 2)
    #expect(try store.verify(SessionID("abc"), takesBase: true).keys.ranges == [0..<100_000])
    _ = try store.publish(SessionID("abc"), publication(size: 100_000 * mebibyte))
    var status = stat()
    #expect(stat("\(folder.path)/files/folder/a.bin", &status) == 0 && Int(status.st_size) == 100_000 * mebibyte)
    #expect(allocatedBytes("files/folder/a.bin") <= 2 * mebibyte)
  }

  @Test(.promises("P33j", "P33k")) func zerosInThePlaceOfBytes_giveTheirSpaceBack() throws {
    let store = try makeStore()
    // The space of a stated size is the session's from its beginning on.
    _ = try store.create(sparseSession(8 << 20))
    for index in UInt32(0)..<8 { try put(1, store, at: index) }
    try zero(store, 1..<7)
    #expect(allocatedBytes(".uploads/sessions/abc/data") <= 3 * mebibyte)
    let held = try store.verify(SessionID("abc"), takesBase: true)
    #expect(held.zeros.ranges == [1..<7] && held.written.keys.sorted() == [0, 7])
    try put(2, store, at: 3)
    #expect(try store.verify(SessionID("abc"), takesBase: true).zeros.ranges == [1..<3, 4..<7])
  }

  @Test(.promises("P33k", "P37")) func zerosOfAnEarlierRun_areFoundAgain_andNotReadWhereTheyAreHoles() throws {
    let count: UInt32 = 200_000
    do {
      let store = try makeStore()
      _ = try store.create(sparseSession())
      try zero(store, 0..<count)
      try put(7, store, at: 5)
      try zero(store, 5..<6)
      try put(7, store, at: 9)
    }
    let store = try makeStore()
    let found = try store.recover()
    #expect(found.open.first?.recordedChunks.zeros.count == Int(count) - 1)
    let start = ContinuousClock.now
    #expect(try store.verify(SessionID("abc"), takesBase: true).count == Int(count))
    // To read them takes minutes.
    #expect(ContinuousClock.now - start < .seconds(10))
  }

  @Test(.promises("P33k", "P37")) func zerosInWhosePlaceTheDiskHasBytes_areNotBelieved() throws {
    do {
      let store = try makeStore()
      _ = try store.create(sparseSession())
      for index in UInt32(0)..<4 { try put(1, store, at: index) }
      try zero(store, 0..<4)
    }
    // As after a power cut that the record has outlived, and the hole has not; and with zeros that are no hole.
    let path = "\(folder.path)/.uploads/sessions/abc/data"
    let number = open(path, O_RDWR)
    defer { close(number) }
    let zeros = [UInt8](repeating: 0, count: mebibyte)
    #expect(pwrite(number, [1], 1, off_t(mebibyte) + 17) == 1)
    #expect(pwrite(number, zeros, mebibyte, off_t(2 * mebibyte)) == mebibyte)
    let store = try makeStore()
    _ = try store.recover()
    #expect(try store.verify(SessionID("abc"), takesBase: true).zeros.ranges == [0..<1, 2..<4])
    #expect(ftruncate(number, off_t(3 * mebibyte) + 5) == 0)
    #expect(try store.verify(SessionID("abc"), takesBase: true).zeros.ranges == [0..<1, 2..<3])
  }

  @Test(.promises("P33k")) func zerosBesideWritesBehindThem_cutNothing() throws {
    let store = try makeStore()
    _ = try store.create(sparseSession())
    DispatchQueue.concurrentPerform(iterations: 16) { number in
      let index = UInt32(number)
      do {
        if number % 2 == 0 { try zero(store, index..<(index + 1)) } else { try put(UInt8(number), store, at: index) }
      } catch {
        Issue.record(error)
      }
    }
    #expect(try store.verify(SessionID("abc"), takesBase: true).keys.ranges == [0..<16])
  }

  @Test func journalTornAtAnyByte_losesOnlyWhatIsTorn() throws {
    let facts = session()
    do {
      let store = try makeStore()
      try fill(store, facts)
    }
    let journal = try #require(folder.contents(".uploads/sessions/abc/journal"))
    let opening = 8 + JournalRecord.session(facts).bytes.count
    let headLength = opening + 8 + JournalRecord.reliesWhenSaid.bytes.count
    let chunkLength = (journal.count - headLength) / 3
    for length in 0...journal.count {
      folder.makeFolder(".uploads/sessions/abc")
      folder.write(Array(journal[..<length]), to: ".uploads/sessions/abc/journal")
      folder.write(file, to: ".uploads/sessions/abc/data")
      // Its client was told that something is on the disk.
      chmod("\(folder.path)/.uploads/sessions/abc/data", 0o600)
      let store = try makeStore()
      let found = try store.recover()
      guard length >= opening else {
        #expect(found.open.isEmpty, "torn at \(length)")
        // Whose they are is not known; that they are there, the data says.
        #expect(found.quarantined.map(\.id) == [facts.sessionID], "torn at \(length)")
        #expect(folder.contents(".uploads/sessions/abc/data") == file, "torn at \(length)")
        continue
      }
      #expect(
        try store.verify(facts.sessionID, takesBase: true).count == max(0, length - headLength) / chunkLength,
        "torn at \(length)")
      // What is appended after the cut is read again.
      try store.write([9], to: facts.sessionID, index: 9, offset: 36, facts: ChunkChecksums(of: [9]))
      #expect(try store.verify(facts.sessionID, takesBase: true)[9] != nil, "torn at \(length)")
    }
  }

  @Test("Regression: a rotten bit in a journal took every record behind it along")
  func journalWithAFlippedBit_losesThatRecordOnly() throws {
    let facts = session()
    do {
      let store = try makeStore()
      try fill(store, facts)
    }
    let journal = try #require(folder.contents(".uploads/sessions/abc/journal"))
    let headLength = 16 + JournalRecord.session(facts).bytes.count + JournalRecord.reliesWhenSaid.bytes.count
    let chunkLength = (journal.count - headLength) / 3
    // In the second chunk's length, its checksum, and its payload.
    for place in [0, 1, 3, 4, 8, chunkLength - 1] {
      var damaged = journal
      damaged[headLength + chunkLength + place] ^= 1
      folder.write(damaged, to: ".uploads/sessions/abc/journal")
      let store = try makeStore()
      #expect(try store.recover().quarantined.isEmpty)
      #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == [0, 2], "at \(place)")
    }
  }

  @Test("Regression: a session whose first record had a rotten bit was deleted, with all that it held")
  func sessionWhoseOpeningIsDamaged_isQuarantined() throws {
    let facts = session()
    do {
      let store = try makeStore()
      try fill(store, facts)
    }
    var journal = try #require(folder.contents(".uploads/sessions/abc/journal"))
    let whole = journal
    journal[20] ^= 1
    folder.write(journal, to: ".uploads/sessions/abc/journal")
    do {
      let found = try makeStore().recover()
      #expect(found.quarantined.map(\.id) == [facts.sessionID] && found.open.isEmpty)
      var core = ReceiverCore(limits: CoreLimits(), credentials: [])
      core.recover(found)
      // To its client it is neither there nor gone.
      let effects = core.handle(.querySession(RequestID(1), credential, facts.sessionID), now: 1)
      guard case .reply(_, .refused(let refusal))? = effects.first else {
        Issue.record("no refusal")
        return
      }
      #expect(refusal.kind == .sessionDamaged)
    }
    #expect(folder.contents(".uploads/sessions/abc/journal") == journal && folder.exists(".uploads/sessions/abc/data"))
    // Once it can be read, it goes on.
    folder.write(whole, to: ".uploads/sessions/abc/journal")
    let store = try makeStore()
    #expect(try store.recover().open.map(\.facts) == [facts])
    #expect(try store.verify(facts.sessionID, takesBase: true).count == 3)
  }

  @Test(.promises("P52")) func removedSession_leavesNothing() throws {
    let facts = session()
    let store = try makeStore()
    try fill(store, facts)
    store.remove(facts.sessionID)
    #expect(!folder.exists(".uploads/sessions/abc"))
    #expect(throws: StoreFailure.self) { try write(store, facts) }
  }

  @Test(
    "Regression: data without a journal counted as a session that was never begun, and was removed",
    arguments: [true, false])
  func dataWithoutItsJournal_isKept(isEmpty: Bool) throws {
    do {
      let store = try makeStore()
      try fill(store, session())
      try store.secure(session().sessionID)
    }
    unlink("\(folder.path)/.uploads/sessions/abc/journal")
    if isEmpty { folder.write([], to: ".uploads/sessions/abc/journal") }
    // One of which nothing is there was never begun.
    for (name, data) in [("empty", [] as [UInt8]?), ("bare", nil)] {
      folder.makeFolder(".uploads/sessions/\(name)")
      if let data { folder.write(data, to: ".uploads/sessions/\(name)/data") }
    }
    for _ in 0..<2 {
      let found = try makeStore().recover()
      #expect(found.quarantined.map(\.id.text) == ["abc"] && found.quarantined.allSatisfy(\.isDamaged))
      #expect(found.open.isEmpty && found.strays.isEmpty)
    }
    #expect(folder.contents(".uploads/sessions/abc/data") == file)
    #expect(!folder.exists(".uploads/sessions/empty") && !folder.exists(".uploads/sessions/bare"))
  }

  @Test(
    "Regression: a power cut within a second of an opening left a session that its operator had to end",
    .promises("P35"), arguments: [nil, 0, 20, 4096] as [Int?])
  func powerCutBeforeAnythingWasSaidToBeOnTheDisk_healsItself(journalBytes: Int?) throws {
    let cut = { [self] in
      unlink("\(folder.path)/.uploads/sessions/abc/journal")
      // The name and the size may be on the disk, and of the bytes nothing.
      if let journalBytes {
        folder.write([UInt8](repeating: 0, count: journalBytes), to: ".uploads/sessions/abc/journal")
      }
    }
    do {
      let store = try makeStore()
      try fill(store, session())
      try store.syncWritten()
    }
    cut()
    do {
      let found = try makeStore().recover()
      #expect(found.quarantined.isEmpty && found.open.isEmpty && found.strays.isEmpty)
      #expect(!folder.exists(".uploads/sessions/abc"))
    }
    // Once its client was told, also in an earlier run, and whatever was written since, it is kept.
    for _ in 0..<2 {
      do {
        let store = try makeStore()
        try fill(store, session())
        try store.secure(session().sessionID)
        try write(store, session())
      }
      cut()
      let store = try makeStore()
      #expect(try store.recover().quarantined.map(\.id.text) == ["abc"])
      #expect(folder.contents(".uploads/sessions/abc/data") == file)
      try store.clear(session().sessionID)
    }
  }

  @Test("What is said to be on the disk changes nothing that is held, while others write", .promises("P35"))
  func told_asksForNothingAnew() throws {
    let store = try makeStore()
    try fill(store, session())
    for _ in 0..<2 { try store.secure(session().sessionID) }
    _ = try store.publish(session().sessionID, publication())
    #expect(folder.contents("files/folder/a.bin") == file)
    var status = stat()
    #expect(stat("\(folder.path)/files/folder/a.bin", &status) == 0 && status.st_mode & 0o7777 == 0o640)
  }

  @Test("Regression: what is no file in a damaged session's folder stayed when its operator ended it")
  func damagedSessionThatIsEnded_leavesNothing() throws {
    let outside = "\(folder.path)/outside"
    folder.makeFolder("outside")
    folder.write([1], to: "outside/kept")
    try fill(try makeStore(), session())
    let path = "\(folder.path)/.uploads/sessions/abc"
    unlink("\(path)/data")
    for name in ["data", "data/below"] { folder.makeFolder(".uploads/sessions/abc/\(name)") }
    folder.write([1], to: ".uploads/sessions/abc/data/below/file")
    symlink(outside, "\(path)/data/link")
    mkfifo("\(path)/pipe", 0o600)
    let store = try makeStore()
    #expect(try store.recover().quarantined.map(\.id.text) == ["abc"])
    for _ in 0..<2 { try store.clear(session().sessionID) }
    #expect(!folder.exists(".uploads/sessions/abc") && folder.contents("outside/kept") == [1])
  }

  @Test("Regression: what cannot be removed keeps its journal")
  func removalThatFails_leavesTheJournal() throws {
    let facts = session()
    let store = try makeStore()
    try fill(store, facts)
    unlink("\(folder.path)/.uploads/sessions/abc/data")
    folder.makeFolder(".uploads/sessions/abc/data")
    store.remove(facts.sessionID)
    #expect(folder.exists(".uploads/sessions/abc/journal"))
  }

  // MARK: What other programs do to it

  enum Meddling: CaseIterable {
    case cut, flipped, replaced, deleted, link, hardLink, pipe, folder

    /// Nothing of it is to be told from what the receiver had put there but by reading it.
    var provesItself: Bool { [.cut, .flipped, .replaced, .deleted].contains(self) }
    /// It may pass: a backup has linked it.
    var mayPass: Bool { self == .hardLink }
  }

  /// Does it to the data of the session, whose last byte is another one afterwards, or not there.
  private func meddle(_ meddling: Meddling) {
    let path = "\(folder.path)/.uploads/sessions/abc/data"
    let other: [UInt8] = Array("012345678X".utf8)
    folder.write(other, to: "elsewhere")
    switch meddling {
    case .cut: truncate(path, 9)
    case .flipped:
      guard let file = fopen(path, "r+") else { return }
      fseek(file, 9, SEEK_SET)
      fputc(Int32(UInt8(ascii: "X")), file)
      fclose(file)
    case .replaced: rename("\(folder.path)/elsewhere", path)
    case .deleted: unlink(path)
    case .link:
      unlink(path)
      symlink("\(folder.path)/elsewhere", path)
    case .hardLink:
      unlink(path)
      link("\(folder.path)/elsewhere", path)
    case .pipe:
      unlink(path)
      mkfifo(path, 0o600)
    case .folder:
      unlink(path)
      mkdir(path, 0o700)
    }
  }

  @Test(
    "Regression: cut, replaced, flipped and linked data of a session was published, and written through a link",
    .timeLimit(.minutes(1)), arguments: Meddling.allCases, [false, true])
  func dataThatIsMeddledWith_isNeitherPublishedNorWrittenThrough(meddling: Meddling, isRestarted: Bool) throws {
    let facts = session()
    var store = try makeStore()
    try fill(store, facts)
    if isRestarted {
      // The lock is let go of before another one takes it.
      store = try replaced(&store) { meddle(meddling) }
    } else {
      meddle(meddling)
    }
    let elsewhere = folder.contents("elsewhere")
    let found = isRestarted ? try store.recover() : nil
    if isRestarted, !meddling.provesItself { #expect(found?.quarantined.first?.isDamaged == !meddling.mayPass) }
    if isRestarted, meddling == .deleted {
      // Nothing is there that a client could rely upon.
      #expect(found?.open.isEmpty == true)
      return
    }
    if isRestarted, meddling.provesItself {
      #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == [0, 1])
    }
    let chunk = Array("89".utf8)
    for _ in 0..<2 where !meddling.provesItself {
      #expect(throws: StoreFailure.self) {
        try store.write(chunk, to: facts.sessionID, index: 2, offset: 8, facts: ChunkChecksums(of: chunk))
      }
      #expect(throws: StoreFailure.self) { try store.secure(facts.sessionID) }
    }
    if !isRestarted || !meddling.provesItself {
      #expect(throws: StoreFailure.self) { _ = try store.publish(facts.sessionID, publication()) }
    }
    #expect(folder.files() == [] && folder.contents("elsewhere") == elsewhere)
    guard meddling.provesItself else {
      #expect {
        _ = try store.verify(facts.sessionID, takesBase: true)
      } throws: { error in
        if case .damaged? = error as? StoreFailure { !meddling.mayPass } else { meddling.mayPass }
      }
      return
    }
    // What is missing is known, and sent again.
    #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == (meddling == .deleted ? [] : [0, 1]))
    try write(store, facts)
    _ = try store.publish(facts.sessionID, publication())
    #expect(folder.contents("files/folder/a.bin") == file)
  }

  /// Another store in its place, after something was done while none was open.
  private func replaced(_ store: inout FileStore, _ work: () -> Void) throws -> FileStore {
    store = try FileStore(root: "\(folder.path)/other", publishing: [:])
    work()
    return try makeStore()
  }

  @Test func dataThatWasFlipped_isNotSaidToBeOnTheDisk() throws {
    let facts = session()
    let store = try makeStore()
    try fill(store, facts)
    meddle(.flipped)
    #expect(throws: StoreFailure.self) { try store.secure(facts.sessionID) }
    #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == [0, 1])
    try store.secure(facts.sessionID)
  }

  @Test func dataThatWasOnlyTouched_isReadAgainAndPublished() throws {
    let facts = session()
    let store = try makeStore()
    try fill(store, facts)
    utimes("\(folder.path)/.uploads/sessions/abc/data", nil)
    _ = try store.publish(facts.sessionID, publication())
    #expect(folder.contents("files/folder/a.bin") == file)
  }

  @Test(
    "Regression: a session whose folder or journal was removed stayed at 500 until the next start",
    arguments: [false, true])
  func sessionThatIsTakenAway_isKnownAfterOneLook(isFolder: Bool) throws {
    let facts = session()
    let store = try makeStore()
    try fill(store, facts)
    let path = "\(folder.path)/.uploads/sessions/abc"
    unlink("\(path)/journal")
    if isFolder {
      unlink("\(path)/data")
      rmdir(path)
    }
    #expect {
      try store.secure(facts.sessionID)
    } throws: { error in
      switch error as? StoreFailure {
      case .sessionGone?: isFolder
      case .damaged?: !isFolder
      default: false
      }
    }
    #expect(folder.contents(".uploads/sessions/abc/data") == (isFolder ? nil : file))
  }

  // MARK: What is kept, and ages

  @Test func relianceOutlivesARestart() throws {
    do {
      let store = try makeStore()
      try fill(store, session())
      try fill(store, session("relied"))
      for _ in 0..<2 { try store.secure(SessionID("relied")) }
    }
    let found = try makeStore().recover().open
    #expect(found.filter(\.mayHoldOnlyCopy).map(\.facts.id) == ["relied"] && found.count == 2)
  }

  @Test("Regression: a session that a client relies upon was removed with its journal, because its data was away")
  func reliedUponSessionWithoutItsData_isQuarantinedAndGoesOnWithIt() throws {
    let (path, away) = ("\(folder.path)/.uploads/sessions/relied/data", "\(folder.path)/away")
    do {
      let store = try makeStore()
      for id in ["relied", "abc"] { try fill(store, session(id)) }
      try store.secure(SessionID("relied"))
    }
    try #require(rename(path, away) == 0)
    unlink("\(folder.path)/.uploads/sessions/abc/data")
    let found = try makeStore().recover()
    #expect(found.quarantined.map(\.id.text) == ["relied"] && found.open.isEmpty)
    #expect(folder.exists(".uploads/sessions/relied/journal") && !folder.exists(".uploads/sessions/abc"))
    try #require(rename(away, path) == 0)
    #expect(try makeStore().recover().open.map(\.facts.id) == ["relied"])
  }

  @Test("Regression: a kill amid a removal left a session without data that nothing ended", arguments: 0..<4)
  func aKillAmidARemoval_leavesWhatIsSweptAway_orFoundAsItWas(steps: Int) throws {
    do {
      let store = try makeStore()
      try fill(store, session())
      try store.secure(SessionID("abc"))
      store.remove(SessionID("abc"), Array(FileStore.Removal.allCases.prefix(steps)))
    }
    let found = try makeStore().recover()
    #expect(found.quarantined.isEmpty && found.open.map(\.mayHoldOnlyCopy) == (steps < 2 ? [true] : []))
    #expect(folder.exists(".uploads/sessions/abc") == (steps < 2))
    // What is found as it was can be gone on with.
    guard steps < 2 else { return }
    let store = try makeStore()
    try store.secure(SessionID("abc"))
    store.remove(SessionID("abc"))
    #expect(!folder.exists(".uploads/sessions/abc"))
  }

  @Test(
    "Regression: data with a second name was deleted before its journal, and a kill between them left a session that nothing ended",
    arguments: 1..<4)
  func aKillAmidTheRemovalOfLinkedData_leavesWhatIsSweptAway(steps: Int) throws {
    do {
      let store = try makeStore()
      try fill(store, session())
      try store.secure(SessionID("abc"))
      try #require(link("\(folder.path)/.uploads/sessions/abc/data", "\(folder.path)/backup") == 0)
      store.remove(SessionID("abc"), Array(FileStore.Removal.allCases.prefix(steps)))
    }
    let found = try makeStore().recover()
    #expect(found.quarantined.isEmpty && found.open.isEmpty && !folder.exists(".uploads/sessions/abc"))
    #expect(folder.contents("backup")?.isEmpty == false, "what else has the name keeps its content")
  }

  @Test("Regression: that a session which was relied upon was published was forgotten", arguments: [false, true])
  func thatASessionWasPublishedThatIsReliedUpon_outlivesRestarts(mayHoldOnlyCopy: Bool) throws {
    do {
      let store = try makeStore()
      try fill(store, session())
      if mayHoldOnlyCopy { try store.secure(SessionID("abc")) }
      _ = try store.publish(SessionID("abc"), publication())
    }
    for _ in 0..<2 {
      let found = try makeStore().recover().published
      #expect(found.map(\.facts.id) == ["abc"] && found.map(\.mayHoldOnlyCopy) == [mayHoldOnlyCopy])
    }
    // Without what its chunks were, which no client asks for any more.
    let journal = try #require(folder.contents(".uploads/sessions/abc/journal"))
    let holdsChunks = JournalFraming.read(journal).payloads.contains { payload in
      if case .chunk? = JournalRecord(payload) { true } else { false }
    }
    #expect(holdsChunks != mayHoldOnlyCopy)
    #expect(folder.contents("files/folder/a.bin") == file)
  }

  @Test("Regression: the time in which no receiver ran, and clocks that jump, made sessions and receipts old")
  func nothingAges_whileNoReceiverRuns() throws {
    func age(_ path: String, days: Double) {
      let then = Double(time(nil)) - days * 86_400
      let times = [timeval(tv_sec: Int(then), tv_usec: 0), timeval(tv_sec: Int(then), tv_usec: 0)]
      utimes("\(folder.path)/.uploads/\(path)", times)
    }
    do {
      let store = try makeStore()
      try fill(store, session())
      _ = try store.publish(file, record, publication("b"))
    }
    // It was left alone for a day, and then no receiver ran for nine.
    age("sessions/abc/journal", days: 10)
    age("lock", days: 9)
    for _ in 0..<2 {
      let store = try makeStore()
      let found = try store.recover()
      let now = Milliseconds(time(nil)) * 1000
      #expect(abs(now - (found.open.first?.lastChange ?? 0) - 86_400_000) < 10_000)
      store.signOfLife()
    }
  }

  // MARK: Publication

  @Test(.promises("P43")) func publication_hasContentModeAndTime() throws {
    let facts = session(size: 10)
    let store = try makeStore()
    try fill(store, facts)
    // Something beyond the end is cut off.
    try store.write([7], to: facts.sessionID, index: 5, offset: 20, facts: ChunkChecksums(of: [7]))
    _ = try store.publish(facts.sessionID, publication())
    #expect(folder.contents("files/folder/a.bin") == file)
    let status = folder.status("files/folder/a.bin")
    #expect(status.st_mode & 0o7777 == 0o640)
    #expect(status.st_mtim.tv_sec == -2 && status.st_mtim.tv_nsec == 500_000_000)
    #expect(folder.files() == ["files/folder/a.bin"])
  }

  @Test(.promises("P10", "P43"), arguments: StoreStep.allCases, [false, true])
  func crashAtAnyStepOfAPublication_publishesOnceWithTheSameReceipt(step: StoreStep, isReplacing: Bool) throws {
    let facts = session()
    folder.makeFolder("files")
    folder.makeFolder("files/folder")
    if isReplacing { folder.write([1], to: "files/folder/a.bin") }
    do {
      let store = try makeStore(stoppingAt: step)
      try fill(store, facts)
      #expect(throws: StoreFailure.self) { _ = try store.publish(facts.sessionID, publication()) }
    }
    let store = try makeStore()
    let found = try store.recover()
    switch step {
    case .dataSynced, .intentRecorded:
      #expect(found.open.map(\.facts) == [facts] && found.published.isEmpty)
      #expect(folder.contents("files/folder/a.bin") == (isReplacing ? [1] : nil))
      #expect(try store.verify(facts.sessionID, takesBase: true).keys.sorted() == [0, 1, 2])
      _ = try store.publish(facts.sessionID, publication())
    case .renamed, .publishedRecorded:
      #expect(found.open.isEmpty)
      #expect(found.published.map(\.receipt) == [publication().receipt])
    }
    #expect(folder.contents("files/folder/a.bin") == file)
  }

  @Test func crashAfterTheRename_isRememberedByTheNextStartToo() throws {
    let facts = session()
    do {
      let store = try makeStore(stoppingAt: .renamed)
      try fill(store, facts)
      #expect(throws: StoreFailure.self) { _ = try store.publish(facts.sessionID, publication()) }
    }
    do { _ = try makeStore().recover() }
    // Another program replaces the file afterwards: the receipt stays what it was.
    folder.write([1, 2, 3], to: "files/folder/a.bin")
    #expect(try makeStore().recover().published.map(\.receipt) == [publication().receipt])
  }

  @Test("Regression: a power cut on btrfs left both names of a rename, and the upload was set aside")
  func bothNamesOfARename_areThePublishedFile() throws {
    let facts = session()
    do {
      let store = try makeStore(stoppingAt: .renamed)
      try fill(store, facts)
      #expect(throws: StoreFailure.self) { _ = try store.publish(facts.sessionID, publication()) }
    }
    link("\(folder.path)/files/folder/a.bin", "\(folder.path)/.uploads/sessions/abc/data")
    let found = try makeStore().recover()
    #expect(found.quarantined.isEmpty && found.open.isEmpty)
    #expect(found.published.map(\.receipt) == [publication().receipt])
    #expect(!folder.exists(".uploads/sessions/abc/data") && folder.contents("files/folder/a.bin") == file)
  }

  @Test func bothNamesOfARenameOfAWholeFile_areThePublishedFile() throws {
    do {
      let store = try makeStore(stoppingAt: .renamed)
      #expect(throws: StoreFailure.self) { _ = try store.publish(file, record, publication()) }
    }
    link("\(folder.path)/files/folder/a.bin", "\(folder.path)/.uploads/incoming/receipt")
    let found = try makeStore().recover()
    #expect(found.wholeFiles.map(\.receipt) == [publication().receipt])
    #expect(folder.files(below: ".uploads/incoming") == [] && folder.contents("files/folder/a.bin") == file)
  }

  @Test func targetThatIsAnotherFile_isNotTakenForThePublication() throws {
    let facts = session()
    do {
      let store = try makeStore(stoppingAt: .renamed)
      try fill(store, facts)
      #expect(throws: StoreFailure.self) { _ = try store.publish(facts.sessionID, publication()) }
    }
    folder.write(file, to: "files/folder/other")
    rename("\(folder.path)/files/folder/other", "\(folder.path)/files/folder/a.bin")
    let found = try makeStore().recover()
    #expect(found.published.isEmpty && found.open.isEmpty)
    #expect(!folder.exists(".uploads/sessions/abc"))
  }

  @Test(.promises("P56"), arguments: StoreStep.allCases)
  func crashAtAnyStepOfAWholeFile_publishesOnceWithTheSameReceipt(step: StoreStep) throws {
    do {
      let store = try makeStore(stoppingAt: step)
      #expect(throws: StoreFailure.self) { _ = try store.publish(file, record, publication()) }
    }
    let store = try makeStore()
    let found = try store.recover()
    switch step {
    case .dataSynced, .intentRecorded:
      #expect(found.wholeFiles.isEmpty)
      #expect(folder.files() == [])
      _ = try store.publish(file, record, publication())
    case .renamed, .publishedRecorded:
      #expect(found.wholeFiles.map(\.receipt) == [publication().receipt])
      #expect(found.wholeFiles.map(\.record) == [record])
    }
    #expect(folder.contents("files/folder/a.bin") == file)
    #expect(folder.files(below: ".uploads/incoming") == [])
  }

  @Test(.promises("P59")) func receiptsOfWholeFiles_surviveTwoRestartsAndAreForgottenInTime() throws {
    do { _ = try makeStore().publish(file, record, publication()) }
    do { #expect(try makeStore().recover().wholeFiles.count == 1) }
    do {
      let store = try makeStore()
      #expect(try store.recover().wholeFiles.count == 1)
      store.forgetReceipts(before: 5)
    }
    do {
      let store = try makeStore()
      #expect(try store.recover().wholeFiles.count == 1)
      store.forgetReceipts(before: 6)
    }
    #expect(try makeStore().recover().wholeFiles.isEmpty)
  }

  /// A start reads no more journals than it takes receipts from.
  @Test func receiptsBeyondTheLatest_areNotRead_andTheirJournalsGo() throws {
    for number in 0..<4 {
      let receipt = publication("f\(number)", id: "receipt-\(number)")
      _ = try makeStore().publish(file, record, receipt)
    }
    do {
      let store = try makeStore()
      #expect(try store.recover(receiptsMax: 2).wholeFiles.map { $0.receipt.name } == ["f2", "f3"])
      store.forgetReceipts(before: 0)
    }
    #expect(try makeStore().recover().wholeFiles.map { $0.receipt.name } == ["f2", "f3"])
  }

  /// The rename is said in a later journal than the intent, as at the border of two.
  @Test func renameInALaterJournal_isOfItsIntent() throws {
    let file = JournalRecord.WholeFile(record: record, receipt: publication().receipt, inode: 1)
    do { try makeStore().receipts.recordSynced([.wholeFile(file)]) }
    do { try makeStore().receipts.recordSynced([.wholeFilePublished(.init(receiptID: file.receipt.id))]) }
    #expect(try makeStore().recover().wholeFiles.map(\.receipt) == [file.receipt])
  }

  @Test(.promises("P44")) func takenName_isRefusedOrReplacedAsAsked() throws {
    let store = try makeStore()
    folder.write([1, 2, 3], to: "files/taken")
    #expect(throws: StoreFailure.nameExists) {
      _ = try store.publish(file, record, publication("taken", ifExists: .fail))
    }
    #expect(folder.contents("files/taken") == [1, 2, 3])
    #expect(try store.publish(file, record, publication("taken")).replacedBytes == 3)
    #expect(folder.contents("files/taken") == file)
  }

  @Test(.promises("P46")) func refusedPublication_canBeRepeatedUnderAnotherName() throws {
    let facts = session()
    let store = try makeStore()
    try fill(store, facts)
    folder.write([1], to: "files/taken")
    #expect(throws: StoreFailure.nameExists) {
      _ = try store.publish(facts.sessionID, publication("taken", ifExists: .fail))
    }
    _ = try store.publish(facts.sessionID, publication("free"))
    #expect(folder.contents("files/free") == file)
  }

  @Test(.promises("P74", "SE7")) func nameThroughALinkOrAFile_isRefusedAndTouchesNothing() throws {
    let store = try makeStore()
    folder.makeFolder("outside")
    symlink("\(folder.path)/outside", "\(folder.path)/files/link")
    symlink("../outside", "\(folder.path)/files/relative")
    for name in ["link/x", "relative/x", "link/deep/x", "link/\u{301}/x"] {
      #expect {
        _ = try store.publish(file, record, publication(name))
      } throws: { error in
        if case .nameUnreachable? = error as? StoreFailure { true } else { false }
      }
    }
    #expect(folder.files(below: "outside") == [])
  }

  /// To Swift a slash and a combining mark behind it are one character.
  @Test func folderThatBeginsWithACombiningMark_isAFolder() throws {
    let store = try makeStore()
    _ = try store.publish(file, record, publication("a/\u{301}b/c"))
    #expect(folder.contents("files/a/\u{301}b/c") == file)
  }

  @Test func nameOfALink_replacesTheLinkItself() throws {
    let store = try makeStore()
    folder.write([1], to: "target")
    symlink("\(folder.path)/target", "\(folder.path)/files/link")
    _ = try store.publish(file, record, publication("link"))
    #expect(folder.contents("target") == [1])
    #expect(folder.status("files/link").st_mode & S_IFMT == S_IFREG)
  }

  @Test("Regression: an empty folder gives way to a file", .promises("P75b"), arguments: [false, true])
  func emptyFolder_givesWayToAFile(isWholeFile: Bool) throws {
    let store = try makeStore()
    folder.makeFolder("files/d")
    folder.makeFolder("files/d/e")
    #expect(try publish(publication("d"), by: store, isWholeFile) == PublicationResult())
    #expect(folder.contents("files/d") == file)
  }

  @Test(
    "Regression: what lies in a folder stays, and a file of its name is published beside it",
    .promises("P75b"), arguments: [false, true])
  func folderWithFiles_keepsThem(isWholeFile: Bool) throws {
    let store = try makeStore()
    _ = try store.publish(file, record, publication("d/e/x"))
    let result = try publish(publication("d"), by: store, isWholeFile)
    #expect(result.publishedAs == "d%~file")
    #expect(folder.contents("files/d%~file") == file && folder.contents("files/d/e/x") == file)
    // The next one replaces it, and the last one has its name once the folder is empty.
    #expect(try store.publish(file, record, publication("d")).replacedBytes == UInt64(file.count))
    unlink("\(folder.path)/files/d/e/x")
    #expect(try store.publish(file, record, publication("d")).publishedAs == nil)
    #expect(folder.contents("files/d") == file)
  }

  @Test(
    "Regression: a file stays, and a folder of its name is made beside it",
    .promises("P75b"), arguments: [false, true])
  func fileInTheWay_stays(isWholeFile: Bool) throws {
    let store = try makeStore()
    folder.write([1], to: "files/d")
    let result = try publish(publication("d/e/x"), by: store, isWholeFile)
    #expect(result.publishedAs == "d%~folder/e/x")
    #expect(folder.contents("files/d") == [1] && folder.contents("files/d%~folder/e/x") == file)
    #expect(throws: StoreFailure.nameExists) { _ = try store.publish(file, record, publication("d", ifExists: .fail)) }
  }

  @Test("Regression: after a crash a file is found under its other name", arguments: [false, true])
  func fileUnderAnotherName_isFoundAgain(isWholeFile: Bool) throws {
    do {
      let store = try makeStore(stoppingAt: .renamed)
      folder.write([1], to: "files/d")
      #expect(throws: StoreFailure.self) { _ = try publish(publication("d/x"), by: store, isWholeFile) }
    }
    let found = try makeStore().recover()
    let receipts = isWholeFile ? found.wholeFiles.map(\.receipt) : found.published.map(\.receipt)
    #expect(receipts.map(\.publishedAs) == ["d%~folder/x"] && receipts.map(\.name) == ["d/x"])
  }

  private func publish(
    _ publication: Publication, by store: FileStore, _ isWholeFile: Bool
  ) throws -> PublicationResult {
    guard !isWholeFile else { return try store.publish(file, record, publication) }
    let facts = session("session-of-\(publication.receipt.name.utf8.count)")
    try fill(store, facts)
    return try store.publish(facts.sessionID, publication)
  }

  // MARK: What a power cut leaves

  /// Notes every sync, and what was there when it began; lets the next one of a kind fail.
  private final class SyncRecorder: Sendable {
    struct State {
      var subjects: [SyncSubject] = []
      var failing: SyncSubject?
    }
    let state = Mutex(State())

    var beforeSync: BeforeSync {
      { [self] (subject) throws(StoreFailure) in
        let isFailing = state.withLock { state in
          state.subjects.append(subject)
          guard state.failing == subject else { return false }
          state.failing = nil
          return true
        }
        if isFailing { throw .io("fsync: Input/output error") }
      }
    }

    func take() -> [SyncSubject] {
      state.withLock { state in
        defer { state.subjects = [] }
        return state.subjects
      }
    }

    func fail(_ subject: SyncSubject) { state.withLock { $0.failing = subject } }
  }

  @Test(.promises("P25")) func publication_syncsDataThenIntentThenFoldersBeforeItReturns() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    let facts = session()
    try fill(store, facts)
    #expect(recorder.take() == [.receiptsFolder], "nothing is synced in the way of a chunk")
    _ = try store.publish(facts.sessionID, publication("new/folders/a.bin"))
    // data, the way to the journal, the journal with the intent; rename; root, new, folders; where the data was.
    #expect(
      recorder.take() == [
        .data, .sessionFolder, .sessionsFolder, .sessionJournal, .publishedFolder, .publishedFolder, .publishedFolder,
        .sessionFolder,
      ])
    _ = try store.publish(file, record, publication("new/folders/b.bin", id: "second"))
    #expect(
      recorder.take() == [
        .data, .receiptJournal, .publishedFolder, .publishedFolder, .publishedFolder, .incomingFolder,
      ])
  }

  @Test func folderMadeByAnotherPublication_isSyncedByEach() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    // The first one makes the folder and fails before anything is on the disk.
    recorder.fail(.receiptJournal)
    #expect(throws: StoreFailure.self) { _ = try store.publish(file, record, publication("new/a")) }
    _ = recorder.take()
    _ = try store.publish(file, record, publication("new/b", id: "second"))
    #expect(recorder.take().filter { $0 == .publishedFolder }.count == 2, "the name of the folder, and in it")
  }

  @Test func folderThatHasNotChanged_isNotSyncedAgain() throws {
    folder.makeFolder("files")
    folder.makeFolder("files/folder")
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    // The time of a change cannot be set; so wait until it is old enough to be told from the next one.
    let deadline = ContinuousClock.now + .seconds(20)
    var synced = 2
    var number = 0
    while synced == 2, ContinuousClock.now < deadline {
      _ = recorder.take()
      number += 1
      _ = try store.publish(file, record, publication("folder/a", id: "r\(number)"))
      synced = recorder.take().filter { $0 == .publishedFolder }.count
    }
    #expect(synced == 1)
    folder.makeFolder("files/other")
    _ = try store.publish(file, record, publication("folder/a", id: "last"))
    #expect(recorder.take().filter { $0 == .publishedFolder }.count == 2)
  }

  @Test(.promises("P25")) func writtenChunks_areSyncedTogetherAndOnce() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    let facts = session()
    try fill(store, facts)
    _ = recorder.take()
    try store.syncWritten()
    #expect(recorder.take() == [.data, .sessionJournal, .sessionFolder, .sessionsFolder])
    try store.syncWritten()
    #expect(recorder.take() == [])
    try store.write([1], to: facts.sessionID, index: 9, offset: 36, facts: ChunkChecksums(of: [1]))
    try store.syncWritten()
    #expect(recorder.take() == [.data, .sessionJournal])
  }

  @Test func manySessionsAtOnce_areSyncedByTheWriterWhenTooManyWait() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    for number in 0..<300 { _ = try store.create(session("s\(number)")) }
    #expect(recorder.take().filter { $0 == .data }.count == 300 - 128)
    try store.syncWritten()
    #expect(recorder.take().filter { $0 == .data }.count == 128)
  }

  /// Regression: of two that wait for the same sync one is told that it has failed; the record of the other one was lost with it.
  @Test(.promises("P25")) func failedSyncOfAJournal_isTheFailureOfAllWhoseRecordsItWasFor() throws {
    let file = try FileDescriptor.open("\(folder.path)/journal", O_RDWR | O_APPEND | O_CREAT, mode: 0o600)
    let other = Mutex<(journal: Journal?, position: UInt64)>((nil, 0))
    let journal = Journal(
      appendingTo: file,
      beforeSync: { () throws(StoreFailure) in
        guard let journal = other.withLock({ $0.journal.take() }) else { return }
        let position = try journal.append(JournalRecord.published.bytes)
        other.withLock { $0.position = position }
        throw .io("fdatasync: Input/output error")
      })
    other.withLock { $0.journal = journal }
    let first = try journal.append(JournalRecord.published.bytes)
    #expect(throws: StoreFailure.self) { try journal.sync(to: first) }
    #expect(throws: StoreFailure.self) { try journal.sync(to: other.withLock { $0.position }) }
    try journal.sync(to: journal.append(JournalRecord.published.bytes))
    try journal.rereadFromDisk()
    try journal.sync(to: first)
  }

  /// Regression: nothing was synced of what an earlier process had appended.
  @Test(.promises("P25")) func journalOfAnEarlierProcess_isSynced() throws {
    let syncs = Mutex(0)
    let file = try FileDescriptor.open("\(folder.path)/journal", O_RDWR | O_APPEND | O_CREAT, mode: 0o600)
    let journal = Journal(appendingTo: file, beforeSync: { () throws(StoreFailure) in syncs.withLock { $0 += 1 } })
    try journal.sync()
    try journal.sync()
    #expect(syncs.withLock { $0 } == 1)
  }

  @Test func failedSync_isNotPublishedBeforeTheDataWasReadAgain() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    let facts = session()
    try fill(store, facts)
    recorder.fail(.data)
    #expect(throws: StoreFailure.self) { try store.syncWritten() }
    // The next sync of the same bytes would succeed: the kernel says it once.
    #expect(throws: StoreFailure.self) { _ = try store.publish(facts.sessionID, publication()) }
    #expect(folder.files() == [])
    #expect(try store.verify(facts.sessionID, takesBase: true).count == 3)
    _ = try store.publish(facts.sessionID, publication())
    #expect(folder.contents("files/folder/a.bin") == file)
  }

  @Test(
    .promises("P25"),
    arguments: [
      SyncSubject.data, .sessionFolder, .sessionsFolder, .sessionJournal, .publishedFolder,
    ])
  func failedSyncOfAPublication_givesNoReceipt(subject: SyncSubject) throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    let facts = session()
    try fill(store, facts)
    recorder.fail(subject)
    #expect {
      _ = try store.publish(facts.sessionID, publication())
    } throws: { error in
      [.io("fsync: Input/output error"), .unsynced("fsync: Input/output error")].contains(error as? StoreFailure)
    }
  }

  @Test(
    "Regression: two syncs of one session told one failure to one of them, and the other one published",
    .timeLimit(.minutes(1)))
  func syncThatFailsBesideAPublication_keepsItFromBeingPublished() throws {
    let isSyncing = DispatchSemaphore(value: 0)
    let mayFail = DispatchSemaphore(value: 0)
    let syncs = Mutex(0)
    let store = try makeStore(beforeSync: { (subject) throws(StoreFailure) in
      guard subject == .data else { return }
      let number = syncs.withLock { syncs in
        syncs += 1
        return syncs
      }
      guard number == 1 else {
        // Another sync is let through beside the one that is about to fail.
        mayFail.signal()
        return
      }
      isSyncing.signal()
      // Where there is one at a time, none comes.
      _ = mayFail.wait(timeout: .now() + .milliseconds(300))
      throw .io("fdatasync: Input/output error")
    })
    let facts = session()
    try fill(store, facts)
    let publication = publication()
    let successes = Mutex(0)
    let both = DispatchGroup()
    DispatchQueue.global().async(group: both) {
      if (try? store.syncWritten()) != nil { successes.withLock { $0 += 1 } }
    }
    isSyncing.wait()
    DispatchQueue.global().async(group: both) {
      if (try? store.publish(facts.sessionID, publication)) != nil { successes.withLock { $0 += 1 } }
    }
    both.wait()
    #expect(successes.withLock { $0 } == 0)
    #expect(folder.files() == [])
  }

  @Test("Regression: a curator who took the folder away failed the publication, and all others with it")
  func folderThatIsTakenAwayMeanwhile_isMadeAgain() throws {
    let path = "\(folder.path)/files/folder"
    let times = Mutex(2)
    let store = try makeStore(beforeSync: { subject in
      guard subject == .data, times.withLock({ $0 }) > 0 else { return }
      times.withLock { $0 -= 1 }
      rmdir(path)
    })
    let facts = session()
    try fill(store, facts)
    _ = try store.publish(facts.sessionID, publication())
    #expect(folder.contents("files/folder/a.bin") == file)
    unlink("\(path)/a.bin")
    times.withLock { $0 = 1 }
    for result in store.publish(batch(["folder/b", "folder/c"])) { _ = try result.get() }
    #expect(folder.contents("files/folder/b") == file && folder.contents("files/folder/c") == file)
  }

  @Test(
    "Regression: once the file has its name, the same publication goes on from there", .promises("P25", "P47"))
  func failedSyncAfterTheRename_isFollowedByTheReceipt() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    let facts = session()
    try fill(store, facts)
    for subject in [SyncSubject.publishedFolder, .publishedFolder] {
      recorder.fail(subject)
      #expect(throws: StoreFailure.unsynced("fsync: Input/output error")) {
        _ = try store.publish(facts.sessionID, publication())
      }
    }
    let inode = folder.status("files/folder/a.bin").st_ino
    #expect(try store.publish(facts.sessionID, publication()) == PublicationResult())
    #expect(folder.contents("files/folder/a.bin") == file && folder.status("files/folder/a.bin").st_ino == inode)
  }

  @Test("Regression: a file that was taken away meanwhile gets no receipt")
  func fileThatWasReplacedBeforeItsSync_getsNoReceipt() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    let facts = session()
    try fill(store, facts)
    recorder.fail(.publishedFolder)
    #expect(throws: StoreFailure.unsynced("fsync: Input/output error")) {
      _ = try store.publish(facts.sessionID, publication())
    }
    unlink("\(folder.path)/files/folder/a.bin")
    #expect {
      _ = try store.publish(facts.sessionID, publication())
    } throws: { error in
      if case .io? = error as? StoreFailure { true } else { false }
    }
    // It is sent again.
    #expect(try store.verify(facts.sessionID, takesBase: true).isEmpty)
    try write(store, facts)
    _ = try store.publish(facts.sessionID, publication())
    #expect(folder.contents("files/folder/a.bin") == file)
  }

  @Test(.promises("P56"), arguments: [SyncSubject.data, .receiptJournal, .publishedFolder, .incomingFolder])
  func failedSyncOfAWholeFile_givesNoReceipt(subject: SyncSubject) throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    recorder.fail(subject)
    #expect(throws: StoreFailure.io("fsync: Input/output error")) {
      _ = try store.publish(file, record, publication())
    }
  }

  // MARK: Whole files together

  private func batch(_ names: [String], _ ifExists: IfExists = .replace) -> [WholeFilePublication] {
    names.enumerated().map { number, name in
      WholeFilePublication(
        body: file, record: record, publication: publication(name, ifExists: ifExists, id: "receipt-\(number)"))
    }
  }

  @Test(.promises("P69")) func filesTogether_shareTheSyncsOfJournalAndFolders() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    _ = recorder.take()
    for result in store.publish(batch(["folder/a", "folder/b", "folder/c"])) { _ = try result.get() }
    #expect(
      recorder.take() == [.data, .data, .data, .receiptJournal, .publishedFolder, .publishedFolder, .incomingFolder])
    for name in ["a", "b", "c"] { #expect(folder.contents("files/folder/\(name)") == file) }
  }

  @Test(.promises("P67")) func fileThatCannotBePublished_leavesTheOthersAlone() throws {
    let store = try makeStore()
    folder.makeFolder("files/taken")
    folder.write([1], to: "files/old")
    let results = store.publish(batch(["a", "taken", "old", "old/x", "new/b"], .fail))
    #expect((try? results[0].get()) != nil && (try? results[4].get()) != nil)
    #expect(throws: StoreFailure.nameExists) { _ = try results[2].get() }
    #expect(throws: StoreFailure.self) { _ = try results[1].get() }
    #expect(try results[3].get().publishedAs == "old%~folder/x")
    #expect(folder.contents("files/old") == [1] && folder.contents("files/new/b") == file)
    #expect(folder.files(below: ".uploads/incoming") == [])
  }

  @Test(.promises("P69"), arguments: StoreStep.allCases)
  func crashAtAnyStepOfSeveralFiles_publishesAllWithTheirReceiptsOrNone(step: StoreStep) throws {
    let files = batch(["folder/a", "b"])
    do {
      for result in try makeStore(stoppingAt: step).publish(files) {
        #expect(throws: StoreFailure.self) { _ = try result.get() }
      }
    }
    let found = try makeStore().recover()
    let isPublished = [.renamed, .publishedRecorded].contains(step)
    #expect(
      Set(found.wholeFiles.map(\.receipt)) == (isPublished ? Set(files.map(\.publication.receipt)) : []))
    #expect(folder.files().count == (isPublished ? 2 : 0))
    #expect(folder.files(below: ".uploads/incoming") == [])
  }

  @Test(.promises("P69"), arguments: [SyncSubject.receiptJournal, .publishedFolder, .incomingFolder])
  func failedSyncOfSeveralFiles_givesNoneOfThemAReceipt(subject: SyncSubject) throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    recorder.fail(subject)
    for result in store.publish(batch(["a", "b"])) { #expect(throws: StoreFailure.self) { _ = try result.get() } }
    #expect(folder.files(below: ".uploads/incoming") == [])
  }

  @Test func failedSyncOfOneFile_givesTheOthersTheirs() throws {
    let recorder = SyncRecorder()
    let store = try makeStore(beforeSync: recorder.beforeSync)
    recorder.fail(.data)
    let results = store.publish(batch(["a", "b"]))
    #expect(throws: StoreFailure.self) { _ = try results[0].get() }
    #expect((try? results[1].get()) != nil)
    #expect(folder.files() == ["files/b"])
  }

  /// The crash may have come between the rename and the folder's sync: a power cut could still take the name away.
  @Test(arguments: [false, true])
  func publicationFoundAfterACrash_countsOnceTheWayToItIsOnTheDisk(isWholeFile: Bool) throws {
    let facts = session()
    do {
      let store = try makeStore(stoppingAt: .renamed)
      try fill(store, facts)
      #expect(throws: StoreFailure.self) {
        if isWholeFile {
          _ = try store.publish(file, record, publication())
        } else {
          _ = try store.publish(facts.sessionID, publication())
        }
      }
    }
    let recorder = SyncRecorder()
    do {
      let store = try makeStore(beforeSync: recorder.beforeSync)
      recorder.fail(.publishedFolder)
      if isWholeFile {
        #expect(throws: StoreFailure.io("fsync: Input/output error")) { _ = try store.recover() }
      } else {
        let found = try store.recover()
        #expect(found.quarantined.map(\.id) == [facts.sessionID] && found.published.isEmpty)
      }
      _ = recorder.take()
    }
    let found = try makeStore(beforeSync: recorder.beforeSync).recover()
    let receipts = isWholeFile ? found.wholeFiles.map(\.receipt) : found.published.map(\.receipt)
    #expect(receipts == [publication().receipt])
    #expect(recorder.take().filter { $0 == .publishedFolder }.count == 2, "the name of the folder, and in it")
  }

  // MARK: Opening

  @Test func mountTable_tellsTheFilesystem() {
    let table = """
      21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
      30 21 0:26 / /dev/shm rw,nosuid shared:4 master:2 - tmpfs tmpfs rw
      nonsense
      """
    #expect(FileDescriptor.filesystem(of: 0x1a, mountinfo: table) == "tmpfs")
    #expect(FileDescriptor.filesystem(of: 0x801, mountinfo: table) == "ext4")
    #expect(FileDescriptor.filesystem(of: 0x802, mountinfo: table) == nil)
  }

  @Test("Regression: what lies among the sessions and is none is named and left alone")
  func strays_doNotKeepTheReceiverFromStarting() throws {
    let facts = session()
    try fill(try makeStore(), facts)
    let sessions = ".uploads/sessions"
    folder.write([1], to: "\(sessions)/file")
    symlink("/nowhere", "\(folder.path)/\(sessions)/link")
    symlink("\(folder.path)/\(sessions)/abc", "\(folder.path)/\(sessions)/twin")
    folder.makeFolder("\(sessions)/with-a-folder")
    folder.makeFolder("\(sessions)/with-a-folder/journal")
    folder.makeFolder("\(sessions)/foreign")
    folder.write([1], to: "\(sessions)/foreign/notes")
    folder.makeFolder("\(sessions)/unborn")
    let found = try makeStore().recover()
    #expect(found.strays.sorted() == ["file", "foreign", "link", "twin", "with-a-folder"])
    #expect(found.open.map(\.facts) == [facts])
    #expect(folder.contents("\(sessions)/file") == [1] && folder.contents("\(sessions)/foreign/notes") == [1])
  }

  @Test func secondReceiverOnOneRoot_isKeptOut() throws {
    let store = try makeStore()
    #expect(throws: StoreOpeningError.locked(folder.path)) { _ = try makeStore() }
    _ = try store.freeBytes()
  }

  @Test(arguments: ["2\n", "10", "second", ""]) func stateOfANewerVersion_isRefused(format: String) throws {
    do {
      let store = try makeStore()
      try fill(store, session())
    }
    folder.write(Array(format.utf8), to: ".uploads/format")
    #expect {
      _ = try makeStore()
    } throws: { error in
      guard case .root(let words)? = error as? StoreOpeningError else { return false }
      return words.contains("a newer version") && words.contains("\(folder.path)/.uploads")
    }
    // Nothing was touched, and the format of this version is its own.
    folder.write(Array("1\n".utf8), to: ".uploads/format")
    #expect(try makeStore().recover().open.count == 1)
  }

  @Test func credentialRootThatHoldsTheState_isRefused() throws {
    for path in [folder.path, "\(folder.path)/.uploads", "\(folder.path)/.uploads/sessions/x", "/"] {
      #expect {
        _ = try FileStore(root: folder.path, publishing: [credential: path])
      } throws: { error in
        if case .credentialRoot? = error as? StoreOpeningError { true } else { false }
      }
    }
  }

  @Test("Regression: a link to the folder of the receiver's key, and a path beside --root's, were taken as roots")
  func credentialRootThatMeetsTheKey_isRefused() throws {
    symlink(folder.path, "\(folder.path)/twin")
    folder.makeFolder("keys")
    for isElsewhere in [false, true] {
      if isElsewhere {
        // The key lies elsewhere, and a link leads there.
        rmdir("\(folder.path)/.development/below")
        try #require(rename("\(folder.path)/.development", "\(folder.path)/keys/here") == 0)
        symlink("\(folder.path)/keys/here", "\(folder.path)/.development")
      }
      // What is missing is made before it is looked at.
      let roots = [".development", "twin/.development", "twin/.development/below", "files/../.development"]
      for root in roots + (isElsewhere ? ["keys", "keys/here"] : []) {
        #expect {
          _ = try FileStore(root: folder.path, publishing: [credential: "\(folder.path)/\(root)"])
        } throws: { error in
          Self.isRefusalForTheKey(error)
        }
      }
    }
    let store = try makeStore()
    #expect {
      try store.adopt([credential: "\(folder.path)/twin/.development"])
    } throws: { error in
      Self.isRefusalForTheKey(error)
    }
    // A file of that name holds no key.
    unlink("\(folder.path)/.development")
    folder.write([1], to: ".development")
    try store.adopt([credential: "\(folder.path)/keys"])
  }

  private static func isRefusalForTheKey(_ error: any Error) -> Bool {
    guard case .credentialRoot(let words)? = error as? StoreOpeningError else { return false }
    return words.contains("the receiver's own key")
  }

  @Test("Regression: of two roots whose names are one text in two spellings, only one was looked at")
  func rootsInTwoSpellings_areLookedAtEach() throws {
    let roots = ["\(folder.path)/caf\u{e9}", "\(folder.path)/cafe\u{301}"]
    let store = try FileStore(
      root: folder.path, publishing: [credential: roots[0], CredentialID("other"): roots[1]])
    #expect(store.checkFolders().isEmpty)
    for root in roots { try #require(rename(root, "\(root).away") == 0) }
    #expect(store.checkFolders().count == 2 && store.foldersAway == 2)
    try #require(rename("\(roots[0]).away", roots[0]) == 0)
    #expect(store.checkFolders().count == 1 && store.foldersAway == 1)
  }

  @Test("Regression: a root that was given in another spelling while the receiver ran was taken for the one of before")
  func rootInAnotherSpelling_isAnotherFolder() throws {
    let store = try FileStore(root: folder.path, publishing: [credential: "\(folder.path)/caf\u{e9}"])
    try store.adopt([credential: "\(folder.path)/cafe\u{301}"])
    _ = try store.publish(file, record, publication("a"))
    #expect(folder.contents("cafe\u{301}/a") == file && !folder.exists("caf\u{e9}/a"))
  }

  @Test func usedBytes_countsFilesAndFollowsNoLinks() throws {
    let store = try makeStore()
    _ = try store.publish(file, record, publication("a/b/c"))
    _ = try store.publish(file, record, publication("d", id: "second"))
    symlink("/", "\(folder.path)/files/everything")
    #expect(try store.usedBytes(of: credential) == 20)
  }

  /// No UTF-8.
  private static let oddName: [UInt8] = [0xff, 0xfe]

  /// A path in the test's folder, as the kernel takes it.
  private func path(_ folderName: String, _ components: [UInt8]...) -> [CChar] {
    var bytes = Array("\(folder.path)/\(folderName)".utf8)
    for component in components { bytes += [UInt8(ascii: "/")] + component }
    return (bytes + [0]).map { CChar(bitPattern: $0) }
  }

  private func makeFile(_ path: [CChar]) throws {
    let opened = try #require(fopen(path, "w"))
    #expect(fwrite(file, 1, file.count, opened) == file.count && fclose(opened) == 0)
  }

  @Test("Regression: files and folders whose names are no UTF-8 did not count to the quota")
  func usedBytes_countsWhateverItsNameIs() throws {
    let store = try makeStore()
    let inner = Self.oddName + Array("folder".utf8)
    try #require(mkdir(path("files", inner), 0o755) == 0)
    try makeFile(path("files", Self.oddName))
    try makeFile(path("files", inner, Self.oddName))
    #expect(try store.usedBytes(of: credential) == 2 * UInt64(file.count))
  }

  @Test("Regression: a folder in which nothing but a folder lies whose name is no UTF-8 kept its name from a file")
  func emptyFolderOfAnyName_givesWayToAFile() throws {
    let store = try makeStore()
    folder.makeFolder("files/d")
    try #require(mkdir(path("files/d", Self.oddName), 0o755) == 0)
    #expect(try store.publish(file, record, publication("d")) == PublicationResult())
    #expect(folder.contents("files/d") == file)
  }

  @Test("Regression: a name that is no UTF-8 kept a damaged session's folder from being ended")
  func damagedSessionWithAnyName_leavesNothing() throws {
    let store = try makeStore()
    try fill(store, session())
    let inner = Self.oddName + Array("folder".utf8)
    try #require(mkdir(path(".uploads/sessions/abc", inner), 0o700) == 0)
    try makeFile(path(".uploads/sessions/abc", inner, Self.oddName))
    try store.clear(session().sessionID)
    #expect(!folder.exists(".uploads/sessions/abc"))
  }
}

extension FileStore {
  /// Publishes one whole file.
  fileprivate func publish(
    _ body: [UInt8], _ record: WholeFileRecord, _ publication: Publication
  ) throws(StoreFailure) -> PublicationResult {
    let results = publish([WholeFilePublication(body: body, record: record, publication: publication)])
    guard results.count == 1, let result = results.first else { throw .io("\(results.count) results for one file") }
    return try result.get()
  }
}

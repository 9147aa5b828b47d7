import FileModel
import Glibc
import Integrity
import Testing

@testable import UploadEngine

@Suite struct ResumeStoreTests {
  private let resume: ResumeFolder
  private let id = ResumeFixture.id
  private var folder: ScratchFolder { resume.folder }
  private var fileName: String { resume.fileName }

  init() throws { resume = try ResumeFolder() }

  private func record(chunks: Int = 3, session: String = "s-1") -> ResumeRecord {
    ResumeFixture.record(chunks: chunks, session: session)
  }

  // MARK: - Round trips

  @Test func aRecordComesBackAfterARestart() throws {
    try resume.open().save(record())
    #expect(try resume.open().load(id) == .record(record()))
    #expect(try resume.open().loadAll().records == [record()])
    #expect(try resume.open().loadAll().warnings.isEmpty)
    #expect(folder.mode(of: fileName) == 0o600)
    #expect(folder.mode(of: "master.key") == 0o600)
    #expect(try folder.read("master.key").count == 32)
  }

  @Test func theLeastRecordComesBack() throws {
    var least = record(chunks: 0, session: "")
    least.expiresAtSeconds = nil
    least.nonce = []
    least.path = .root
    least.chainTip = nil
    least.contiguousCount = 0
    least.merkle = MerkleAccumulator()
    least.estimator = nil
    let store = try resume.open()
    try store.save(least)
    #expect(store.load(id) == .record(least))
  }

  @Test func aRecordOfAHugeFileComesBack() throws {
    let store = try resume.open()
    let huge = record(chunks: 25_000)
    try store.save(huge)
    #expect(store.load(id) == .record(huge))
  }

  @Test func whatWasRemovedIsGone() throws {
    let store = try resume.open()
    try store.save(record())
    store.remove(id)
    store.remove(id)
    #expect(store.load(id) == .none)
    #expect(store.loadAll().records.isEmpty)
  }

  @Test func whatDoesNotFitTheFormatIsRefusedAndTheOldRecordStays() throws {
    let store = try resume.open()
    try store.save(record())
    var wrong = record()
    wrong.acknowledged[0].index = -1
    #expect(throws: StorageError.self) { try store.save(wrong) }
    wrong = record(session: String(repeating: "x", count: 70_000))
    #expect(throws: StorageError.self) { try store.save(wrong) }
    #expect(store.load(id) == .record(record()))
  }

  @Test func nothingOfTheRecordCanBeReadOnDisk() throws {
    var secret = record()
    secret.path = RelativePath("patient-4711.dcm")
    try resume.open().save(secret)
    let bytes = try folder.read(fileName)
    let needle = Array("patient".utf8)
    #expect(!bytes.indices.contains { bytes[$0...].starts(with: needle) })
  }

  // MARK: - Damage

  @Test func aDamagedRecordIsPutAsideAndReportedOnce() throws {
    let store = try resume.open()
    try store.save(record())
    var bytes = try folder.read(fileName)
    bytes[bytes.count / 2] ^= 1
    try folder.write(bytes, to: fileName)
    let reading = store.loadAll()
    #expect(reading.records.isEmpty && reading.failure == nil)
    #expect(reading.warnings.count == 1 && reading.warnings.allSatisfy { !$0.contains("\n") })
    #expect(folder.names(in: "resume") == ["\(id).resume.damaged"])
    #expect(store.load(id) == .none)
    #expect(store.loadAll().warnings.isEmpty)
    try store.save(record())
    #expect(store.load(id) == .record(record()))
  }

  @Test func aRecordOfAnotherKeyIsPutAside() throws {
    try resume.open().save(record())
    unlink(folder("master.key"))
    let store = try resume.open()
    guard case .damaged = store.load(id) else {
      Issue.record("the record of another key was accepted")
      return
    }
    #expect(folder.names(in: "resume") == ["\(id).resume.damaged"])
  }

  @Test func aRecordUnderAnotherFilesNameIsPutAside() throws {
    let store = try resume.open()
    try store.save(record())
    let other = FileID(high: 5, low: 5)
    rename(folder(fileName), folder("resume/\(other).resume"))
    guard case .damaged = store.load(other) else {
      Issue.record("another file's record was accepted")
      return
    }
  }

  @Test func aDamagedKeyIsReplacedAndReported() throws {
    try folder.write([1, 2, 3], to: "master.key")
    let store = try resume.open()
    #expect(store.loadAll().warnings.count == 1)
    try store.save(record())
    #expect(try resume.open().load(id) == .record(record()))
    #expect(try resume.open().loadAll().warnings.isEmpty)
    #expect(try folder.read("master.key.damaged") == [1, 2, 3])
  }

  @Test func aRecordThatIsAFolderStopsNothing() throws {
    mkdir(folder(fileName), 0o700)
    let reading = try resume.open().loadAll()
    #expect(reading.records.isEmpty && reading.warnings.count == 1 && reading.failure == nil)
  }

  @Test func leftoversOfACrashAreCleanedUpAndForeignFilesStay() throws {
    try folder.write([1], to: "\(fileName).tmp")
    try folder.write([1], to: "resume/notes.txt")
    try folder.write([1], to: "resume/xyz.resume")
    #expect(try resume.open().loadAll().warnings.isEmpty)
    #expect(folder.names(in: "resume") == ["notes.txt", "xyz.resume"])
  }

  @Test func atMostAHundredDamagedRecordsAreKept() throws {
    for number in 0..<130 {
      try folder.write([0], to: "resume/\(FileID(high: 0, low: UInt64(number))).resume")
    }
    #expect(try resume.open().loadAll().warnings.count == 130)
    #expect(folder.names(in: "resume").count == 100)
  }

  // MARK: - Failing disks

  @Test(arguments: [false, true])
  func whicheverEffectFailsTheOldOrTheNewRecordIsThere(forever: Bool) throws {
    let old = record(chunks: 2)
    let new = record(chunks: 4)
    var sawOld = false
    var sawNewAfterFailure = false
    for step in 1...20 {
      let store = try resume.open()
      try store.save(old)
      let failing = FailingEffects(failAt: step, forever: forever)
      let broken = try resume.open(failing.effects)
      var didFail = false
      do {
        try broken.save(new)
      } catch {
        didFail = true
        #expect(error.kind == .full)
      }
      // What a restart finds.
      let found = try resume.open().load(id)
      guard didFail else {
        #expect(found == .record(new), "effect \(step)")
        #expect(failing.count < step)
        #expect(step == 5, "write, fsync, rename and fsync of the folder are the effects of a save")
        #expect(sawOld && sawNewAfterFailure)
        return
      }
      #expect(found == .record(old) || found == .record(new), "effect \(step)")
      sawOld = sawOld || found == .record(old)
      sawNewAfterFailure = sawNewAfterFailure || found == .record(new)
      #expect(folder.names(in: "resume") == ["\(id).resume"], "effect \(step) left something behind")
    }
    Issue.record("a save has more than 20 effects")
  }

  @Test(arguments: 1...4)
  func aKeyThatCannotBeMadeDurableIsReportedOrKept(step: Int) throws {
    #expect(throws: StorageError.self) { _ = try resume.open(FailingEffects(failAt: step, forever: true).effects) }
    // The next start finds a whole key or none.
    let store = try resume.open()
    try store.save(record())
    #expect(try resume.open().load(id) == .record(record()))
    #expect(try resume.open().loadAll().warnings.isEmpty)
  }
}

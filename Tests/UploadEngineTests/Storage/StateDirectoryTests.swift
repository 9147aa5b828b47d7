import FileModel
import Glibc
import Testing

@testable import UploadEngine

@Suite struct StateDirectoryTests {
  private let folder: ScratchFolder

  init() throws { folder = try ScratchFolder() }

  @Test func theFolderIsMadePrivate() throws {
    let state = try StateDirectory(spool: folder.path)
    #expect(folder.mode(of: ".state") == 0o700)
    let place = try state.place(of: .main)
    #expect(folder.mode(of: ".state/resume") == 0o700)
    #expect(place.catalogPath == folder(".state/catalog.sqlite"))
    #expect(place.resumeDirectory == folder(".state/resume"))
    #expect(state.masterKeyFile == folder(".state/master.key"))
    let store = try ResumeStore(directory: place.resumeDirectory, masterKeyFile: state.masterKeyFile)
    #expect(store.loadAll().warnings.isEmpty)
    try Catalog(path: place.catalogPath).close()
  }

  @Test func eachFurtherDestination_hasAPrivateFolderOfItsOwn() throws {
    let state = try StateDirectory(spool: folder.path)
    let place = try state.place(of: #require(DestinationName("archive")))
    #expect(place.catalogPath == folder(".state/destinations/archive/catalog.sqlite"))
    for path in [".state/destinations", ".state/destinations/archive", ".state/destinations/archive/resume"] {
      #expect(folder.mode(of: path) == 0o700)
    }
  }

  @Test func loosePermissionsAreTightened() throws {
    mkdir(folder(".state"), 0o755)
    chmod(folder(".state"), 0o755)
    let state = try StateDirectory(spool: folder.path)
    #expect(folder.mode(of: ".state") == 0o700)
    state.unlock()
  }

  @Test func aSecondMountIsTurnedAwayWithTheFirstOnesNumber() throws {
    let first = try StateDirectory(spool: folder.path)
    let error = #expect(throws: StorageError.self) { _ = try StateDirectory(spool: folder.path) }
    #expect(error?.kind == .inUse(pid: getpid()))
    let message = error?.message ?? ""
    #expect(message.contains("process \(getpid())") && message.contains(folder.path) && !message.contains("\n"))
    first.unlock()
    first.unlock()
    let second = try StateDirectory(spool: folder.path)
    second.unlock()
  }

  @Test func aDroppedFolderIsUnlocked() throws {
    do { _ = try StateDirectory(spool: folder.path) }
    _ = try StateDirectory(spool: folder.path)
  }

  @Test func nonsenseInTheLockFileIsNoObstacle() throws {
    let first = try StateDirectory(spool: folder.path)
    try folder.write(Array("\u{0}garbage".utf8), to: ".state/lock")
    let error = #expect(throws: StorageError.self) { _ = try StateDirectory(spool: folder.path) }
    #expect(error?.kind == .inUse(pid: nil))
    first.unlock()
    try folder.write(Array(repeating: 0x39, count: 100), to: ".state/lock")
    _ = try StateDirectory(spool: folder.path)
    #expect(try folder.read(".state/lock") == Array("\(getpid())\n".utf8))
  }

  @Test func aFileOrLinkInItsPlaceIsRefused() throws {
    try folder.write([], to: ".state")
    #expect(throws: StorageError.self) { _ = try StateDirectory(spool: folder.path) }
    unlink(folder(".state"))
    mkdir(folder("elsewhere"), 0o700)
    symlink("elsewhere", folder(".state"))
    #expect(throws: StorageError.self) { _ = try StateDirectory(spool: folder.path) }
    #expect(folder.names(in: "elsewhere").isEmpty)
  }

  @Test func aMissingSpoolIsSaid() throws {
    let error = #expect(throws: StorageError.self) { _ = try StateDirectory(spool: folder("none")) }
    #expect(error?.kind == .system(errno: ENOENT))
  }
}

import FileModel
import Glibc
import Logging
import Lookup
import Synchronization
import Testing
import Threads
import TransferModel

@testable import UploadEngine

/// Files in memory that change like real ones: each change bumps the epoch.
final class MemoryFiles: FileContents {
  struct File {
    var bytes: [UInt8]
    var snapshot: FileSnapshot
  }
  private let files = Mutex<[FileID: File]>([:])
  /// What counts as whole since it was taken as it is.
  let accepted = Mutex<[FileID]>([])

  func put(_ id: FileID, _ name: String, _ bytes: [UInt8]) -> FileSnapshot {
    files.withLock { files in
      var snapshot =
        files[id]?.snapshot
        ?? FileSnapshot(
          id: id, epoch: 0, sizeBytes: 0, modifiedNanoseconds: 0, mode: 0o644, inode: id.low,
          names: [RelativePath(name)], writableOpens: 0, mutationsInFlight: 0)
      snapshot.epoch += 1
      snapshot.sizeBytes = UInt64(bytes.count)
      snapshot.modifiedNanoseconds += 1
      files[id] = File(bytes: bytes, snapshot: snapshot)
      return snapshot
    }
  }

  func snapshot(of id: FileID) -> FileSnapshot? { files.withLock { $0[id]?.snapshot } }

  func growth(of id: FileID, chunkBytes: Int, anew: Bool) -> GrowthReport? { nil }
  func stableEpoch(of id: FileID, at offset: UInt64) -> UInt64? { nil }
  func isChangedOutsideMount(_ id: FileID) -> Bool { false }
  func sizeBytesSoon(of id: FileID) -> UInt64? { snapshot(of: id)?.sizeBytes }
  func isReleased(_ id: FileID, _ range: Range<UInt64>) -> Bool { false }

  func openForReading(_ id: FileID) throws(FileContentsError) -> any ReadableFile {
    guard files.withLock({ $0[id] != nil }) else { throw .gone }
    return FakeFile { [self] in
      snapshot(of: id)
    } bytes: { [self] in
      files.withLock { $0[id]?.bytes }
    }
  }

  func evict(_ candidate: EvictionCandidate) -> Bool {
    files.withLock { $0.removeValue(forKey: candidate.id) } != nil
  }

  func accept(_ id: FileID, _ interruption: Interruption?, ifUnchangedSince epoch: UInt64) {
    accepted.withLock { $0.append(id) }
  }
}

/// A destination whose requests carry the step's number; its transport keeps the steps.
struct LabelledDestination: Destination {
  let server: MemoryServer
  var abilities: DestinationAbilities {
    DestinationAbilities(
      parallelChunks: 12, replaceableChunks: true, unknownLength: true, wholeFileBytesMax: 1000, fileBytesMax: nil)
  }
  var displayURL: String { "memory:" }
  func publishedName(for path: RelativePath) -> String { path.displayText }
  func request(for step: DestinationStep, at endpoint: EndpointID) -> HTTPRequest {
    var request = HTTPRequest(.put, "memory:\(server.keep(step))")
    if case .wholeFile = step { request.opensConnection = server.state.withLock { $0.wantsNewConnections } }
    return request
  }
  func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome {
    server.state.withLock { $0.answeredAt.append(response.receivedAtSeconds) }
    return server.outcome(of: step)
  }
}

/// Completes each request in order on a thread of its own; after a number of requests it falls silent, as a dead line
/// does, until it is revived. What it swallowed ends when it is cancelled.
final class MemoryTransport: HTTPTransport {
  private let inbox = Monitor<[(@Sendable (Result<HTTPResponse, TransportError>) -> Void)?]>([])
  private let requestsLeft: Mutex<Int>
  private let swallowed = Mutex<[HTTPRequestID: @Sendable (Result<HTTPResponse, TransportError>) -> Void]>([:])
  private let thread = Monitor<WorkerThread?>(nil)
  let newConnections = Mutex(0)
  /// Called on the thread that starts requests, before it does.
  let whenStarting = Mutex<(@Sendable () -> Void)?>(nil)

  init(requestsMax: Int) {
    requestsLeft = Mutex(requestsMax)
    let inbox = inbox
    let worker = WorkerThread("test", .answering) {
      while true {
        let next = inbox.wait { $0.isEmpty ? .again : .done($0.removeFirst()) }
        guard let next else { return }
        next(.success(HTTPResponse(status: 200, connection: HTTPConnectionMetrics(protocolName: "HTTP/1.1"))))
      }
    }
    thread.withLock { thread, _ in thread = worker }
  }

  func start(_ requests: [PendingHTTPRequest]) {
    whenStarting.withLock { $0 }?()
    for request in requests { start(request) }
  }

  private func start(_ request: PendingHTTPRequest) {
    if request.request.opensConnection { newConnections.withLock { $0 += 1 } }
    let isSilent = requestsLeft.withLock { left in
      left -= 1
      return left < 0
    }
    if isSilent {
      swallowed.withLock { $0[request.id] = request.onCompletion }
    } else {
      complete(request.onCompletion)
    }
  }

  private func complete(_ onCompletion: @escaping @Sendable (Result<HTTPResponse, TransportError>) -> Void) {
    inbox.withLock { inbox, signal in
      inbox.append(onCompletion)
      signal.signal()
    }
  }

  func revive() { requestsLeft.withLock { $0 = .max } }

  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {
    guard let onCompletion = swallowed.withLock({ $0.removeValue(forKey: id) }) else { return }
    complete { _ in onCompletion(.failure(TransportError(.cancelled, "cancelled"))) }
  }

  func stop() {
    inbox.withLock { inbox, signal in
      inbox.append(nil)
      signal.signal()
    }
    thread.withLock { thread, _ in thread.take() }?.join()
  }
}

/// The tree's documents are tested elsewhere.
struct NoStatus: StatusSource {
  func status(of id: FileID) -> FileStatus? { nil }
  func summary() -> MountSummary { MountSummary() }
}

/// An engine over fakes and a real state directory.
final class EngineBench {
  let directory: String
  let server: MemoryServer
  let files: MemoryFiles
  let transport: MemoryTransport
  let engine: UploadEngine
  let catalog: Catalog
  let tree: StatusTree

  init(
    directory: String, server: MemoryServer, files: MemoryFiles, requestsMax: Int = .max, starts: Bool = true,
    ledger: NameLedger? = nil,
    configure: (inout EngineConfiguration) -> Void = { _ in }
  ) throws {
    transport = MemoryTransport(requestsMax: requestsMax)
    self.directory = directory
    self.server = server
    self.files = files
    catalog = try Catalog(path: directory + "/catalog.sqlite")
    let resume = try ResumeStore(directory: directory + "/resume", masterKeyFile: directory + "/master.key")
    var configuration = EngineConfiguration()
    configuration.limits.chunkBytes = 1000
    configuration.limits.bufferBytes = 1000
    configure(&configuration)
    tree = StatusTree(source: NoStatus(), controlFiles: [])
    engine = try UploadEngine(
      configuration: configuration, destination: LabelledDestination(server: server), transport: transport,
      catalog: catalog, resumeStore: resume, ledger: ledger, statusTree: tree, logger: Logger(label: "test"))
    engine.attach(contents: files)
    guard starts else { return }
    engine.start()
    engine.waitUntilLoaded()
  }

  /// Waits for a state by asking again; the deadline only ends a test that has failed.
  func waits(for id: FileID, _ state: FileStatus.State) -> Bool {
    waits { $0.engine.status(of: id)?.state == state }
  }

  func waits(until isTrue: (EngineBench) -> Bool) -> Bool {
    let deadline = monotonicNanoseconds() + 20_000_000_000
    while monotonicNanoseconds() < deadline {
      if isTrue(self) { return true }
      sched_yield()
    }
    return false
  }

  func stop() {
    transport.stop()
    engine.stop()
    catalog.close()
    #expect(server.state.withLock { $0.mismatches }.isEmpty)
  }

  static func temporaryDirectory() -> String {
    var template = Array("/tmp/uploadfs-engine-XXXXXX".utf8CString)
    let path = template.withUnsafeMutableBufferPointer { buffer in
      buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) } ?? "/tmp"
    }
    mkdir(path + "/resume", 0o700)
    return path
  }
}

/// An open file of a fake: it asks the fake each time, so that it changes and vanishes under its reader.
final class FakeFile: ReadableFile {
  let descriptor: Int32? = nil
  private let snapshot: @Sendable () -> FileSnapshot?
  private let bytes: @Sendable () throws(FileContentsError) -> [UInt8]?

  init(
    snapshot: @escaping @Sendable () -> FileSnapshot?,
    bytes: @escaping @Sendable () throws(FileContentsError) -> [UInt8]?
  ) {
    self.snapshot = snapshot
    self.bytes = bytes
  }

  func identity() throws(FileContentsError) -> FileIdentity {
    guard let snapshot = snapshot() else { throw .gone }
    return FileIdentity(
      inode: snapshot.inode, sizeBytes: snapshot.sizeBytes, modifiedNanoseconds: snapshot.modifiedNanoseconds)
  }

  func read(at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer) throws(FileContentsError) -> Int {
    guard let bytes = try bytes() else { throw .gone }
    guard offset < UInt64(bytes.count) else { return 0 }
    let slice = bytes[Int(offset)...].prefix(buffer.count)
    buffer.copyBytes(from: slice)
    return slice.count
  }
}

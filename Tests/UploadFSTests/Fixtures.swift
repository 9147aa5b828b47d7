import CLinux
import FileModel
import Glibc
import Synchronization
import Testing

@testable import UploadFS

/// A sink that records what it is told and complains about what it must not be told.
final class RecordingSink: FileEventSink {
  /// One call of the sink.
  enum Record: Hashable, Sendable {
    case event(FileEvent)
    case willChange(FileID)
  }

  private struct State {
    var records: [Record] = []
    var candidates: [EvictionCandidate] = []
    var chunks: [ReleaseCandidate] = []
    var chunksAskedFor = 0
    var problems: [String] = []
    var epochs: [FileID: UInt64] = [:]
    var gone: Set<FileID> = []
    /// Files whose next `changed` has been prepared by `contentWillChange`.
    var prepared: Set<FileID> = []
    /// Files that have an open revision or writer, as far as events tell.
    var unsettled: Set<FileID> = []
  }

  private let state = Mutex(State())

  func handle(_ event: FileEvent) {
    state.withLock { state in
      state.records.append(.event(event))
      switch event {
      case .opened(let snapshot):
        Self.check(snapshot, &state, "opened")
        if snapshot.writableOpens < 1 { state.problems.append("opened without a writer: \(snapshot)") }
        state.unsettled.insert(snapshot.id)
      case .changed(let snapshot):
        Self.check(snapshot, &state, "changed")
        if state.prepared.remove(snapshot.id) == nil { state.problems.append("changed without contentWillChange") }
        if snapshot.mutationsInFlight < 1 { state.problems.append("changed without a mutation: \(snapshot)") }
        state.unsettled.insert(snapshot.id)
      case .grown(let report):
        if !state.unsettled.contains(report.file) { state.problems.append("grown while nobody writes: \(report)") }
      case .settled(let snapshot):
        Self.check(snapshot, &state, "settled")
        if !snapshot.isSettled { state.problems.append("settled while it is not: \(snapshot)") }
        state.unsettled.remove(snapshot.id)
      case .namesChanged(let snapshot): Self.check(snapshot, &state, "namesChanged")
      case .attributesChanged(let snapshot): Self.check(snapshot, &state, "attributesChanged")
      case .found(let snapshot):
        Self.check(snapshot, &state, "found")
        if !snapshot.isSettled { state.problems.append("found while somebody writes: \(snapshot)") }
      case .removed(let id), .evicted(let id):
        if !state.gone.insert(id).inserted { state.problems.append("gone twice: \(id)") }
      case .writeFailed, .scanEnded: break
      }
    }
  }

  private static func check(_ snapshot: FileSnapshot, _ state: inout State, _ what: String) {
    if state.gone.contains(snapshot.id) { state.problems.append("\(what) after it was gone: \(snapshot)") }
    if snapshot.names.isEmpty { state.problems.append("\(what) without a name: \(snapshot)") }
    if let before = state.epochs[snapshot.id], snapshot.epoch < before {
      state.problems.append("\(what): epoch went back from \(before) to \(snapshot.epoch)")
    }
    state.epochs[snapshot.id] = snapshot.epoch
  }

  func contentWillChange(_ id: FileID) {
    state.withLock { state in
      state.records.append(.willChange(id))
      if !state.prepared.insert(id).inserted { state.problems.append("contentWillChange twice for one revision") }
    }
  }

  func evictionCandidates() -> [EvictionCandidate] {
    state.withLock { $0.candidates }
  }

  func releaseCandidates(bytesMax: UInt64) -> [ReleaseCandidate] {
    state.withLock { state in
      state.chunksAskedFor += 1
      defer { state.chunks = [] }
      return state.chunks
    }
  }

  /// What is named once when chunks are asked for.
  func offerChunks(_ candidates: [ReleaseCandidate]) { state.withLock { $0.chunks = candidates } }

  var chunksAskedFor: Int { state.withLock { $0.chunksAskedFor } }

  func offer(_ candidates: [EvictionCandidate]) {
    state.withLock { $0.candidates = candidates }
  }

  /// What the sink says about deliveries under way.
  let isDelivering = Atomic<Bool>(false)
  var mayFreeSpace: Bool { isDelivering.load(ordering: .relaxed) }

  var records: [Record] { state.withLock { $0.records } }
  var problems: [String] { state.withLock { $0.problems } }

  /// The names of the events so far, and forgets them.
  func takeNames() -> [String] {
    state.withLock { state in
      defer { state.records = [] }
      return state.records.map { record in
        switch record {
        case .willChange: "willChange"
        case .event(.opened): "opened"
        case .event(.changed): "changed"
        case .event(.grown): "grown"
        case .event(.settled): "settled"
        case .event(.namesChanged): "namesChanged"
        case .event(.attributesChanged): "attributesChanged"
        case .event(.removed): "removed"
        case .event(.evicted): "evicted"
        case .event(.found): "found"
        case .event(.writeFailed): "writeFailed"
        case .event(.scanEnded): "scanEnded"
        }
      }
    }
  }

  /// The snapshot of the last event that had one.
  var lastSnapshot: FileSnapshot? {
    for case .event(let event) in records.reversed() {
      switch event {
      case .opened(let snapshot), .changed(let snapshot), .settled(let snapshot), .namesChanged(let snapshot),
        .attributesChanged(let snapshot), .found(let snapshot):
        return snapshot
      case .grown, .removed, .evicted, .writeFailed, .scanEnded: continue
      }
    }
    return nil
  }
}

/// A virtual tree of one directory and one file whose bytes a test sets.
final class SettableTree: VirtualTree {
  private let text = Mutex<(version: UInt64, bytes: [UInt8])>((1, Array("one".utf8)))

  func set(_ bytes: String) {
    text.withLock { $0 = ($0.version + 1, Array(bytes.utf8)) }
  }

  var topLevelNames: [[UInt8]] { [Array("status".utf8), Array(".uploadfs".utf8)] }

  func node(at path: RelativePath) -> VirtualNode? {
    switch path.displayText {
    case "status", ".uploadfs": .directory
    case "status/file.json": .file(sizeBytes: text.withLock { $0.bytes.count })
    case "status/link": .link(target: Array("file.json".utf8))
    default: nil
    }
  }

  func entries(of directory: RelativePath) -> [VirtualEntry] {
    guard directory.displayText == "status" else { return [] }
    return ["file.json", "link"].compactMap { name in
      node(at: directory.appending(Array(name.utf8))).map { VirtualEntry(name: Array(name.utf8), node: $0) }
    }
  }

  func contents(of path: RelativePath) -> [UInt8]? {
    path.displayText == "status/file.json" ? text.withLock { $0.bytes } : nil
  }

  func version(of path: RelativePath) -> UInt64 {
    path.displayText == "status/file.json" ? text.withLock { $0.version } : 0
  }

  func observeChanges(_ observer: @escaping @Sendable () -> Void) {}
}

/// A folder that goes away with the test.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/uploadfs-tests-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw SystemError.last }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    _ = uploadfs_run("rm", "-rf", path, nil)
  }
}

/// A filesystem over a spool of its own, used without a mount.
final class Mounted {
  let folder: TemporaryFolder
  let sink = RecordingSink()
  let tree = SettableTree()
  let filesystem: Filesystem
  let caller = Caller(user: geteuid(), group: getegid())

  init(
    folder: TemporaryFolder? = nil, known: [UInt64: FileID] = [:], source: SpoolSpace.Source? = nil,
    instance: SpoolInstance? = nil,
    _ change: (inout FilesystemConfiguration) -> Void = { _ in }
  ) throws {
    self.folder = try folder ?? TemporaryFolder()
    var configuration = FilesystemConfiguration(
      mountPoint: self.folder.path + "/mount", spoolDirectory: self.folder.path + "/spool")
    configuration.reserveBytes = 0
    configuration.knownIdentities = known
    change(&configuration)
    filesystem = try Filesystem(
      configuration: configuration, sink: sink, virtualTree: tree, spaceSource: source, instance: instance)
  }

  var captures: String { folder.path + "/spool/captures" }

  /// The node of a path, looked up component by component as the kernel does.
  func node(_ path: String) throws -> NodeID {
    var node = NodeID.root
    for component in path.split(separator: "/") {
      guard let found = try filesystem.lookup(DirectoryEntry(directory: node, name: EntryName(String(component))))
      else {
        throw SystemError.notFound
      }
      node = found.node
    }
    return node
  }

  func entry(_ path: String) throws -> DirectoryEntry {
    let parts = path.split(separator: "/").map(String.init)
    return DirectoryEntry(
      directory: try node(parts.dropLast().joined(separator: "/")), name: EntryName(parts.last ?? ""))
  }

  func create(_ path: String, flags: Int32 = O_WRONLY, mode: mode_t = 0o600) throws -> UInt64 {
    try filesystem.create(entry(path), mode: mode, flags: flags, caller: caller).opened.handle
  }

  func open(_ path: String, flags: Int32) throws -> UInt64 {
    try filesystem.open(node(path), flags: flags).handle
  }

  @discardableResult
  func write(_ handle: UInt64, at offset: Int64 = 0, _ bytes: [UInt8]) throws -> Int {
    try bytes.withUnsafeBytes { buffer throws in try filesystem.write(handle, at: offset, buffer) }
  }

  /// Makes a file with content and closes it.
  func make(_ path: String, _ bytes: [UInt8] = Array("content".utf8)) throws {
    let handle = try create(path)
    if !bytes.isEmpty { try write(handle, bytes) }
    filesystem.release(handle)
  }

  func makeDirectory(_ path: String) throws {
    _ = try filesystem.makeDirectory(entry(path), mode: 0o700, caller: caller)
  }

  func rename(_ old: String, _ new: String, flags: UInt32 = 0) throws {
    try filesystem.rename(entry(old), to: entry(new), flags: flags)
  }

  func read(_ handle: UInt64, at offset: Int64 = 0, count: Int = 1 << 16) throws -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: count)
    let done = try buffer.withUnsafeMutableBytes { bytes throws in
      try filesystem.read(handle, at: offset, into: bytes)
    }
    return Array(buffer.prefix(done))
  }

  /// The content of a file as an uploader reads it.
  func contents(of id: FileID, count: Int = 1 << 16) throws -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: count)
    let done = try buffer.withUnsafeMutableBytes { bytes throws in
      try filesystem.openForReading(id).read(at: 0, into: bytes)
    }
    return Array(buffer.prefix(done))
  }

  func listing(_ path: String) throws -> [String] {
    let number = try filesystem.openDirectory(node(path))
    defer { filesystem.release(number) }
    return try filesystem.withListing(of: filesystem.directoryHandle(number), from: 0) { listing, _ in
      (0..<listing.count).map { index in listing.withName(at: index) { String(cString: $0) } ?? "" }
    }.filter { $0 != "." && $0 != ".." }.sorted()
  }
}

/// The errno that an operation failed with; nil when it did not.
func failure(_ body: () throws -> Void) -> Int32? {
  do {
    try body()
    return nil
  } catch {
    return (error as? SystemError)?.code ?? -1
  }
}

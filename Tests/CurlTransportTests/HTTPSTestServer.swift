import Foundation
import Synchronization
import Testing
import TransferModel

@testable import CurlTransport

/// A running ``httpsTestServerProgram`` with its certificates in a folder of its own. Both are gone after ``stop()``.
final class HTTPSTestServer: Sendable {
  /// One line that the server printed.
  struct Event: Decodable, Sendable {
    var event: String
    var target: String?
    var ports: [String: Int]?
  }

  /// The server's ports: `good`, `expired`, `foreign`, `other-name`, `tls12`, `plain`.
  let ports: [String: Int]
  /// The authority that signed all but `foreign`.
  var caFile: String { directory.appending(path: "ca.crt").path }

  private let directory: URL
  private let input: FileHandle
  private let lines: LineReader
  private let process: Process

  /// Starts a server and waits until it listens.
  init() throws {
    directory = try Self.makeTemporaryDirectory()
    try Self.run("/bin/sh", ["-c", certificateScript], in: directory)
    let program = directory.appending(path: "server.py")
    try Data(httpsTestServerProgram.utf8).write(to: program)
    process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["python3", program.path, directory.path]
    let stdin = Pipe()
    let stdout = Pipe()
    process.standardInput = stdin
    process.standardOutput = stdout
    try process.run()
    input = stdin.fileHandleForWriting
    lines = LineReader(stdout.fileHandleForReading.fileDescriptor, keepingOpen: stdout)
    let ready = try lines.next { $0.event == "ready" }
    ports = try #require(ready.ports)
  }

  /// Waits until the server has read the head of `count` requests for this target.
  func waitForRequests(_ count: Int = 1, to target: String) throws {
    for _ in 0..<count { _ = try lines.next { $0.event == "request" && $0.target == target } }
  }

  /// Lets go of everything that is held.
  func release() throws { try input.write(contentsOf: Data("release\n".utf8)) }

  /// Ends the server and removes its folder.
  func stop() {
    try? input.close()
    process.waitUntilExit()
    try? FileManager.default.removeItem(at: directory)
  }

  /// The URL of a path on one of the ports.
  func url(_ path: String, on port: String = "good") throws -> String {
    "\(port == "plain" ? "http" : "https")://127.0.0.1:\(try #require(ports[port]))\(path)"
  }

  private static func makeTemporaryDirectory() throws -> URL {
    var template = FileManager.default.temporaryDirectory.appending(path: "curl-transport-XXXXXX").path
    let path = template.withUTF8 { bytes -> String? in
      var name = bytes.map { CChar(bitPattern: $0) } + [0]
      return mkdtemp(&name).map { String(cString: $0) }
    }
    return URL(filePath: try #require(path, "mkdtemp failed: \(errno)"), directoryHint: .isDirectory)
  }

  private static func run(_ executable: String, _ arguments: [String], in directory: URL) throws {
    let process = Process()
    let stderr = Pipe()
    process.executableURL = URL(filePath: executable)
    process.arguments = arguments
    process.currentDirectoryURL = directory
    process.standardError = stderr
    try process.run()
    let said = try stderr.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "certificates: \(String(decoding: said, as: UTF8.self))")
  }
}

/// Reads lines of JSON from a descriptor, each wait with a deadline.
private final class LineReader: Sendable {
  private struct State {
    var pending: [UInt8] = []
    var events: [HTTPSTestServer.Event] = []
  }

  private let descriptor: Int32
  /// Kept for its deinit, which closes the descriptor.
  private let owner: Pipe
  private let state = Mutex(State())

  init(_ descriptor: Int32, keepingOpen owner: Pipe) {
    self.descriptor = descriptor
    self.owner = owner
  }

  /// Removes and returns the first event, seen or to come, that matches.
  func next(where matches: (HTTPSTestServer.Event) -> Bool) throws -> HTTPSTestServer.Event {
    try state.withLock { state in
      while true {
        if let index = state.events.firstIndex(where: matches) { return state.events.remove(at: index) }
        try readMore(&state)
      }
    }
  }

  private func readMore(_ state: inout State) throws {
    var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    try #require(poll(&poller, 1, 30_000) == 1, "the test server was silent for 30 s")
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = read(descriptor, &bytes, bytes.count)
    try #require(count > 0, "the test server has ended")
    state.pending += bytes.prefix(count)
    while let end = state.pending.firstIndex(of: 0x0a) {
      state.events.append(try JSONDecoder().decode(HTTPSTestServer.Event.self, from: Data(state.pending[..<end])))
      state.pending.removeSubrange(...end)
    }
  }
}

/// Memory that stays where it is, as the engine's chunk buffers do.
final class TestBody: PinnedBytes {
  let bytes: UnsafeRawBufferPointer

  /// No two blocks of 4 KiB are alike, so that a piece that is lost, doubled or moved is noticed.
  init(count: Int) {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 4096)
    for start in stride(from: 0, to: count, by: 4096) {
      let block = UnsafeMutableRawBufferPointer(rebasing: memory[start..<min(start + 4096, count)])
      block.initializeMemory(as: UInt8.self, repeating: UInt8(truncatingIfNeeded: start >> 12))
      withUnsafeBytes(of: UInt64(start)) { block.copyBytes(from: $0.prefix(block.count)) }
    }
    bytes = UnsafeRawBufferPointer(memory)
  }

  deinit { bytes.deallocate() }
}

// `bytes` is written before the object is shared and never again.
extension TestBody: @unchecked Sendable {}

extension CurlTransport {
  private static let lastID = Atomic<UInt64>(0)

  /// An id that no other request of this process has.
  static func nextID() -> HTTPRequestID { HTTPRequestID(lastID.add(1, ordering: .relaxed).newValue) }

  /// Sends a request and waits for its end.
  func send(
    _ request: HTTPRequest, id: HTTPRequestID = nextID()
  ) async -> Result<HTTPResponse, TransportError> {
    await withCheckedContinuation { continuation in
      start(request, id: id) { continuation.resume(returning: $0) }
    }
  }
}

/// A request that has been started, and whose end can be awaited later.
struct StartedRequest: Sendable {
  let id = CurlTransport.nextID()
  private let results: AsyncStream<Result<HTTPResponse, TransportError>>

  init(_ request: HTTPRequest, with transport: CurlTransport) {
    let (results, continuation) = AsyncStream.makeStream(of: Result<HTTPResponse, TransportError>.self)
    self.results = results
    transport.start(request, id: id) {
      continuation.yield($0)
      continuation.finish()
    }
  }

  /// The end of the request.
  var result: Result<HTTPResponse, TransportError>? {
    get async { await results.first { _ in true } }
  }
}

extension Result where Failure == TransportError {
  /// The error's kind; nil for a success.
  var failureKind: TransportError.Kind? {
    if case .failure(let error) = self { error.kind } else { nil }
  }

  /// The error's message; empty for a success.
  var failureMessage: String {
    if case .failure(let error) = self { error.message } else { "" }
  }
}

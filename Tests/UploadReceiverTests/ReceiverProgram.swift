import Foundation
import Glibc
import Testing

/// The real executable on a folder and a free port of its own; ended with its owner.
final class ReceiverProgram {
  /// Where the build put the executable: beside the test bundle.
  static let path: String = {
    var buffer = [CChar](repeating: 0, count: 4096)
    let count = readlink("/proc/self/exe", &buffer, buffer.count)
    let executable = String(decoding: buffer[..<max(0, count)].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return executable.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
      + "/uploadfs-receiver"
  }()

  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  let folder: TemporaryFolder
  private let arguments: [String]
  private var process = Process()
  private(set) var port = 0
  private(set) var lines: [String] = []

  var root: String { "\(folder.path)/root" }

  /// Starts the receiver; `arguments` replace `--development`.
  init(_ arguments: [String] = ["--development"], in folder: TemporaryFolder? = nil) throws {
    self.folder = try folder ?? TemporaryFolder()
    self.arguments = arguments
    try start()
  }

  deinit {
    if process.isRunning {
      Glibc.kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
    }
  }

  /// Starts it on a free port: the one that it had may be a client's by the next start.
  func start() throws {
    process = Process()
    process.executableURL = URL(fileURLWithPath: ReceiverProgram.path)
    process.arguments = ["serve", "--root", root, "--listen", "127.0.0.1:0"] + arguments
    let output = Pipe()
    let errors = try Self.handle(appendingTo: "\(folder.path)/log")
    process.standardOutput = output
    process.standardError = errors
    process.standardInput = FileHandle.nullDevice
    try process.run()
    // The write end is the child's alone now, so its end is an end of file.
    try output.fileHandleForWriting.close()
    var bytes: [UInt8] = []
    var byte: UInt8 = 0
    while Glibc.read(output.fileHandleForReading.fileDescriptor, &byte, 1) == 1 {
      guard byte == UInt8(ascii: "\n") else {
        bytes.append(byte)
        continue
      }
      let line = String(decoding: bytes, as: UTF8.self)
      lines.append(line)
      bytes = []
      if line.hasPrefix("listening https://"), let colon = line.lastIndex(of: ":") {
        port = Int(line[line.index(after: colon)...]) ?? 0
        return
      }
    }
    throw Failure(description: "\(command) ended without listening: \(log)")
  }

  private static func handle(appendingTo path: String) throws -> FileHandle {
    let number = Glibc.open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    guard number >= 0 else { throw Failure(description: "cannot open \(path)") }
    return FileHandle(fileDescriptor: number, closeOnDealloc: true)
  }

  var command: String {
    ([ReceiverProgram.path] + (process.arguments ?? [])).joined(separator: " ")
  }

  var log: String { String(decoding: folder.contents("log") ?? [], as: UTF8.self) }

  var token: String {
    String(decoding: TemporaryFolder.read("\(root)/.development/token") ?? [], as: UTF8.self)
      .trimmingCharacters(in: .whitespacesAndNewlines)
  }

  func signal(_ number: CInt) { Glibc.kill(process.processIdentifier, number) }

  func kill() {
    signal(SIGKILL)
    process.waitUntilExit()
  }

  /// Ends it and says its exit code.
  func stop() -> CInt {
    signal(SIGTERM)
    return wait()
  }

  func wait() -> CInt {
    process.waitUntilExit()
    return process.terminationStatus
  }

  /// A start that must fail: its exit code and what it says.
  static func failedStart(_ arguments: [String]) throws -> (code: CInt, words: String) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = ["serve"] + arguments
    let pipe = Pipe()
    process.standardOutput = FileHandle.nullDevice
    process.standardError = pipe
    process.standardInput = FileHandle.nullDevice
    try process.run()
    try pipe.fileHandleForWriting.close()
    let words = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: words, as: UTF8.self))
  }

  /// Runs a Python program against the receiver: ``clientProgram``, then the steps. It fails by an exception.
  func run(
    _ steps: String, token: String? = nil, ca: String? = nil, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    try await ReceiverProgram.runClient(
      steps, port: port, root: root, token: token ?? self.token, ca: ca ?? "\(root)/.development/ca.pem",
      pid: process.processIdentifier, log: "\(folder.path)/log", sourceLocation: sourceLocation)
  }

  /// Waits on a thread of its own: a receiver in this process needs those of the concurrency pool.
  static func runClient(
    _ steps: String, port: Int, root: String, token: String, ca: String, pid: CInt, log: String,
    sourceLocation: SourceLocation
  ) async throws {
    let failure: String? = try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread {
        continuation.resume(
          with: Result {
            try clientFailure(steps, [String(port), root, token, ca, String(pid)])
          })
      }
    }
    if let failure {
      let words = String(decoding: TemporaryFolder.read(log) ?? [], as: UTF8.self)
      Issue.record("\(failure)\nsteps:\n\(steps)\nreceiver's log:\n\(words)", sourceLocation: sourceLocation)
    }
  }

  private static func clientFailure(_ steps: String, _ arguments: [String]) throws -> String? {
    let client = Process()
    client.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    client.arguments = ["python3", "-c", clientProgram + "\n" + steps] + arguments
    let pipe = Pipe()
    client.standardOutput = pipe
    client.standardError = pipe
    client.standardInput = FileHandle.nullDevice
    try client.run()
    try pipe.fileHandleForWriting.close()
    let words = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    client.waitUntilExit()
    return client.terminationStatus == 0 ? nil : words
  }
}

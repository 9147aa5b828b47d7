import CurlTransport
import Destinations
import FileModel
import Glibc
import Logging
import Promises
import ReceiverCore
import Testing
import TransferModel
import UploadEngine
import UploadReceiver

@testable import UploadFS

/// Filesystem, engine, transport and receiver in one process, as they run in two: only the kernel's part of the mount is
/// missing. So a sanitizer sees every thread of both sides at work together.
@Suite struct DeliveryTests {
  private let folder: TemporaryFolder
  private let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

  init() throws {
    folder = try TemporaryFolder()
  }

  @Test(.promises("P1"), .timeLimit(.minutes(5)), arguments: [CurlTransportConfiguration.ProtocolChoice.http1, .http2])
  func whatSeveralWritersClose_arrivesAsItWas(http: CurlTransportConfiguration.ProtocolChoice) async throws {
    let setup = try DevelopmentSetup.prepare(root: "\(folder.path)/receiver")
    let receiver = try ReceiverServer(
      ReceiverConfiguration(
        root: "\(folder.path)/receiver", addresses: [ListenAddress(host: "127.0.0.1", port: 0)],
        certificateChainPEM: setup.certificateChainPEM,
        privateKeyPEM: setup.privateKeyPEM,
        credentials: [Credential(token: setup.token, root: "\(folder.path)/published")]),
      logger: logger)
    let (ports, portFound) = AsyncStream<Int>.makeStream()
    let (ends, end) = AsyncStream<Never>.makeStream()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask {
        defer { portFound.finish() }
        try await receiver.run(onReady: { portFound.yield($0[0].port) }, until: { for await _ in ends {} })
      }
      defer { end.finish() }
      for await port in ports {
        try await deliver(to: "https://127.0.0.1:\(port)", setup, http)
        break
      }
    }
  }

  private func deliver(
    to address: String, _ setup: DevelopmentSetup, _ http: CurlTransportConfiguration.ProtocolChoice
  ) async throws {
    let client = try Client(
      spool: "\(folder.path)/spool", address: address, token: setup.token, authority: setup.authorityPath, http: http,
      logger)
    client.filesystem.scanSpool()
    await withTaskGroup(of: Void.self) { writers in
      for writer in 0..<4 {
        writers.addTask { [client] in
          for number in 0..<6 { client.write("\(writer)-\(number)", Self.content(writer, number)) }
          client.write("\(writer)-large", Self.content(writer, 99))
        }
      }
    }
    await client.drain()
    for writer in 0..<4 {
      for number in 0..<6 { #expect(folder.contents("published/\(writer)-\(number)") == Self.content(writer, number)) }
      #expect(folder.contents("published/\(writer)-large") == Self.content(writer, 99))
    }
  }

  /// Empty, small, and of several chunks.
  private static func content(_ writer: Int, _ number: Int) -> [UInt8] {
    let count = number == 99 ? 1_000_001 : number * 13_001
    return (0..<count).map { UInt8(truncatingIfNeeded: ($0 &* 31) ^ ($0 >> 8) &+ writer) }
  }
}

/// The parts of a mount, without the mount.
private final class Client: Sendable {
  let filesystem: Filesystem
  private let engine: UploadEngine
  private let transport: CurlTransport
  private let tree: StatusTree
  private let catalog: Catalog

  init(
    spool: String, address: String, token: String, authority: String,
    http: CurlTransportConfiguration.ProtocolChoice, _ logger: Logger
  ) throws {
    mkdir(spool, 0o700)
    var connections = CurlTransportConfiguration(caFile: authority, protocolChoice: http)
    // Those that stall take the few bytes of this test.
    connections.http2Library = .any
    transport = try CurlTransport(configuration: connections)
    var options = ChunkProtocolOptions()
    options.chunkBytesMax = UploadConstants.chunkBytesMin
    options.wholeFileBytesMax = UploadConstants.chunkBytesMin
    var configuration = EngineConfiguration()
    configuration.limits.chunkBytes = UploadConstants.chunkBytesMin
    configuration.limits.bufferBytes = UploadConstants.chunkBytesMin
    let state = try StateDirectory(spool: spool)
    let place = try state.place(of: .main)
    catalog = try Catalog(path: place.catalogPath)
    tree = StatusTree(source: NoStatus(), controlFiles: [])
    engine = try UploadEngine(
      configuration: configuration,
      destination: try ChunkProtocolDestination(baseURL: address, credential: .bearer(token), options: options),
      transport: transport, catalog: catalog,
      resumeStore: try ResumeStore(directory: place.resumeDirectory, masterKeyFile: state.masterKeyFile),
      statusTree: tree, logger: logger)
    var files = FilesystemConfiguration(mountPoint: spool + "/mount", spoolDirectory: spool)
    files.reserveBytes = 0
    filesystem = try Filesystem(configuration: files, sink: engine, virtualTree: tree)
    engine.attach(contents: filesystem)
    engine.start()
  }

  /// What a tool does that makes a file, writes it in pieces and closes it.
  func write(_ name: String, _ bytes: [UInt8]) {
    let entry = DirectoryEntry(directory: .root, name: EntryName(name))
    let caller = Caller(user: geteuid(), group: getegid())
    do {
      let created = try filesystem.create(entry, mode: 0o600, flags: O_WRONLY, caller: caller)
      var position = 0
      while position < bytes.count {
        let piece = bytes[position..<min(position + 100_000, bytes.count)]
        position += try piece.withUnsafeBytes { piece throws in
          try filesystem.write(created.opened.handle, at: Int64(position), piece)
        }
      }
      filesystem.release(created.opened.handle)
      filesystem.forget(created.found.node, count: 1)
    } catch {
      Issue.record("\(name) could not be written: \(error)")
    }
  }

  /// Delivers what is left and ends every thread.
  func drain() async {
    let (ends, end) = AsyncStream<Void>.makeStream()
    engine.beginDraining { end.yield() }
    for await _ in ends { break }
    engine.stop()
    transport.stop()
    tree.stop()
    catalog.close()
  }
}

private struct NoStatus: StatusSource {
  func status(of id: FileID) -> FileStatus? { nil }
  func summary() -> MountSummary { MountSummary() }
}

import Glibc
import Logging
import ReceiverCore
import Testing

@testable import UploadReceiver

/// Suites that need limits other than the real ones: a receiver in this process.
protocol ReceiverWithLimits {}

extension ReceiverWithLimits {
  /// Runs the client's steps against a receiver whose configuration is adjusted. It knows the client's token and those
  /// given, each with a folder of that name.
  func serve(
    _ steps: String, tokens: [String] = [], sourceLocation: SourceLocation = #_sourceLocation,
    _ adjust: (inout ReceiverConfiguration) -> Void
  ) async throws {
    let folder = try TemporaryFolder()
    let setup = try DevelopmentSetup.prepare(root: folder.path)
    var configuration = ReceiverConfiguration(
      root: folder.path, addresses: [ListenAddress(host: "127.0.0.1", port: 0)],
      certificateChainPEM: setup.certificateChainPEM,
      privateKeyPEM: setup.privateKeyPEM, credentials: [Credential(token: setup.token, root: "\(folder.path)/files")])
    configuration.credentials += tokens.map { Credential(token: $0, root: "\(folder.path)/\($0)") }
    adjust(&configuration)
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    let server = try ReceiverServer(configuration, logger: logger)
    let (stopped, stop) = AsyncStream<Void>.makeStream()
    let (ready, becameReady) = AsyncStream<Int>.makeStream()
    try await withThrowingTaskGroup(of: Void.self) { tasks in
      tasks.addTask {
        try await server.run(onReady: { becameReady.yield($0[0].port) }, until: { for await _ in stopped { return } })
      }
      for await port in ready {
        try await ReceiverProgram.runClient(
          steps, port: port, root: folder.path, token: setup.token, ca: setup.authorityPath, pid: getpid(), log: "",
          sourceLocation: sourceLocation)
        break
      }
      stop.finish()
      try await tasks.waitForAll()
    }
    let socket = "\(folder.path)/.uploads/operator"
    #expect(access(socket, F_OK) != 0, "the operator's socket stays", sourceLocation: sourceLocation)
  }
}

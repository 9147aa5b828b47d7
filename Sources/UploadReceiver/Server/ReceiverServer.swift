import Glibc
import HummingbirdCore
public import Logging
import NIOCore
import NIOPosix
import NIOSSL
public import ReceiverCore
import Synchronization

/// What a receiver is started with.
public struct ReceiverConfiguration: Sendable {
  /// The folder of the receiver's state.
  public var root: String
  /// Where to listen.
  public var addresses: [ListenAddress]
  /// PEM: the certificate and the chain above it.
  public var certificateChainPEM: [UInt8]
  /// PEM. A secret.
  public var privateKeyPEM: [UInt8]
  /// Who may use the receiver.
  public var credentials: [Credential]
  /// The token that asks for the counts of all. A secret.
  public var operatorToken: String?
  /// What the core holds requests to.
  public var limits = CoreLimits()
  /// Memory for request bodies.
  public var bodyMemoryBytes = BodyMemory.most
  /// The most connections; nil for 4096, or what the process's descriptors allow (``DescriptorShares``).
  var connectionsMax: Int?
  /// The most connections of one peer; nil for a quarter of all.
  public var connectionsPerPeer: Int?
  /// Tests shorten it.
  var connections = ConnectionLimits()

  /// A configuration with the default limits.
  public init(
    root: String, addresses: [ListenAddress], certificateChainPEM: [UInt8], privateKeyPEM: [UInt8],
    credentials: [Credential]
  ) {
    self.root = root
    self.addresses = addresses
    self.certificateChainPEM = certificateChainPEM
    self.privateKeyPEM = privateKeyPEM
    self.credentials = credentials
  }
}

/// Why a receiver does not start.
public enum ReceiverStartError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The certificate or the key cannot be used.
  case certificate(String)
  /// The root cannot be used.
  case root(String)
  /// A credential's folder cannot be used.
  case credentialRoot(String)
  /// The address cannot be listened on.
  case listen(String)

  /// What is wrong, for people.
  public var description: String {
    switch self {
    case .certificate(let words), .root(let words), .credentialRoot(let words), .listen(let words): words
    }
  }
}

/// Why what was read anew is not used.
public struct ReceiverRenewalError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What is wrong, for people.
  public let description: String

  init(_ description: String) { self.description = description }
}

/// A receiver: the store, the core and its driver, behind TLS.
public final class ReceiverServer: Sendable {
  /// Who may use it, as that was read last.
  private struct Users {
    var credentials: [Credential]
    var roster: CredentialRoster
  }

  private let configuration: ReceiverConfiguration
  private let logger: Logger
  /// That of the present certificate.
  private let tls: Mutex<NIOSSLContext>
  private let users: Mutex<Users>
  /// A request is answered by what stands here when it arrives.
  private let responder: Mutex<RequestResponder>
  private let store: FileStore
  private let driver: ReceiverDriver
  private let budget: ByteBudget

  /// Opens the root and finds again what is there; does not listen yet.
  public init(_ configuration: ReceiverConfiguration, logger: Logger) throws(ReceiverStartError) {
    self.configuration = configuration
    self.logger = logger
    let (context, certificates) = try ReceiverServer.makeTLS(
      configuration.certificateChainPEM, configuration.privateKeyPEM)
    tls = Mutex(context)
    users = Mutex(
      Users(credentials: configuration.credentials, roster: CredentialRoster(configuration.credentials)))
    do throws(StoreOpeningError) {
      store = try FileStore(
        root: configuration.root, publishing: ReceiverServer.roots(of: configuration.credentials))
    } catch {
      if case .credentialRoot(let words) = error { throw .credentialRoot(words) }
      throw .root(error.description)
    }
    let clock = ReceiverClock()
    let numbers = UserNumbers(configuration.credentials)
    do throws(StoreFailure) {
      let (core, spools) = try ReceiverServer.makeCore(configuration, store, clock, logger)
      driver = ReceiverDriver(
        core: core, spools: spools, store: store, clock: clock, logger: logger, users: numbers)
    } catch {
      throw .root("\(configuration.root)/.uploads: \(error.words)")
    }
    if let shortage = DescriptorShares.shortageMessage(of: DescriptorShares.limit) { logger.warning("\(shortage)") }
    budget = ByteBudget(bytes: configuration.bodyMemoryBytes, clock: clock)
    let statistics = ReceiverStatistics(clock: clock)
    responder = Mutex(
      RequestResponder(
        driver: driver,
        translation: RequestTranslation(
          credentials: configuration.credentials, operatorToken: configuration.operatorToken,
          limits: configuration.limits),
        budget: budget, statistics: statistics, logger: logger, users: numbers, certificates: certificates,
        instance: FreshNames(count: 1)?.texts.first))
  }

  private static func roots(of credentials: [Credential]) -> [CredentialID: String] {
    Dictionary(
      credentials.flatMap { credential in credential.ids.map { ($0, credential.root) } },
      uniquingKeysWith: { first, _ in first })
  }

  /// Shows another certificate to those that connect from now on. Where it cannot be used, the one of before stays.
  public func renewCertificate(chainPEM: [UInt8], keyPEM: [UInt8]) throws(ReceiverStartError) {
    let (context, certificates) = try ReceiverServer.makeTLS(chainPEM, keyPEM)
    tls.withLock { $0 = context }
    responder.withLock { $0.certificates = certificates }
    reportCertificateProblem()
  }

  /// Lets these use it from now on. What those have begun goes on who were known already, whatever tokens they have now; where the
  /// credentials cannot be used, those of before stay. Not for two callers at the same time.
  public func renewCredentials(_ read: [Credential], operatorToken: String?) throws(ReceiverRenewalError) {
    let credentials: [Credential]
    do throws(CredentialChangeError) {
      credentials = try users.withLock(\.roster).renewed(read)
    } catch {
      throw ReceiverRenewalError(error.description)
    }
    do throws(StoreOpeningError) {
      try store.adopt(ReceiverServer.roots(of: credentials))
    } catch {
      throw ReceiverRenewalError(error.description)
    }
    users.withLock { users in
      users.credentials = credentials
      users.roster.note(credentials)
    }
    // The core knows them before a request of theirs is let in.
    driver.renew(credentials)
    let translation = RequestTranslation(
      credentials: credentials, operatorToken: operatorToken, limits: configuration.limits)
    responder.withLock { $0.translation = translation }
  }

  private static func makeTLS(
    _ chainPEM: [UInt8], _ keyPEM: [UInt8]
  ) throws(ReceiverStartError) -> (NIOSSLContext, CertificateLife) {
    do {
      let chain = try NIOSSLCertificate.fromPEMBytes(chainPEM)
      guard !chain.isEmpty else { throw ReceiverStartError.certificate("the certificate file holds no certificate") }
      let key = try NIOSSLPrivateKey(bytes: keyPEM, format: .pem)
      var tls = TLSConfiguration.makeServerConfiguration(
        certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
      tls.minimumTLSVersion = .tlsv13
      tls.applicationProtocols = ["h2", "http/1.1"]
      let life = CertificateLife(
        beginsAt: chain.map { Int64($0.notValidBefore) }.max() ?? .min,
        endsAt: chain.map { Int64($0.notValidAfter) }.min() ?? .max)
      return (try NIOSSLContext(configuration: tls), life)
    } catch let error as ReceiverStartError {
      throw error
    } catch {
      throw .certificate("the certificate or the key cannot be read, or they do not belong together (\(error))")
    }
  }

  private static func makeCore(
    _ configuration: ReceiverConfiguration, _ store: FileStore, _ clock: ReceiverClock, _ logger: Logger
  ) throws(StoreFailure) -> (ReceiverCore, SpoolMemory) {
    var core = ReceiverCore(limits: configuration.limits, credentials: configuration.credentials.map(\.core))
    let found = try store.recover(receiptsMax: configuration.limits.receiptsMax)
    core.recover(found)
    for name in found.strays {
      logger.warning(
        "\(configuration.root)/.uploads/sessions/\(name.debugDescription) is no upload session and is left alone; take it away"
      )
    }
    for why in found.strayReceipts {
      logger.error(
        "\(configuration.root)/.uploads/receipts: \(why); the receipts that it held are forgotten. Take it away")
    }
    if let trouble = found.spoolTrouble { logger.error("\(configuration.root)/.uploads: \(trouble)") }
    for session in found.quarantined {
      let note = CoreNote.quarantined(session, of: nil)
      logger.log(level: note.level, "\(note.words)")
    }
    logger.info(
      "\(found.open.count) uploads go on, \(found.published.count + found.wholeFiles.count) receipts are kept")
    for credential in configuration.credentials where credential.quotaBytes != nil {
      let bytes = try store.usedBytes(of: credential.id)
      _ = core.handle(.usageMeasured(credential.id, bytes: bytes), now: clock.now)
    }
    return (core, SpoolMemory(found.spools, owners: core.owners))
  }

  /// Listens and serves until `stop` returns, then lets running requests finish for at most 10 seconds. `onReady` is
  /// told the addresses with their ports once connections are accepted at all of them. `answering` is called in its time while the thread
  /// that keeps time and the core still answer.
  public func run(
    onReady: @escaping @Sendable ([ListenAddress]) -> Void, until stop: @escaping @Sendable () async -> Void,
    answering: (every: Duration, tell: @Sendable () -> Void)? = nil
  ) async throws(ReceiverStartError) {
    let statistics = responder.withLock(\.statistics)
    let channel = ReceiverChannel(
      tls: { [self] in tls.withLock { $0 } }, limits: configuration.connections,
      peers: PeerConnections(connectionsMax: connectionsPerPeer), statistics: statistics,
      responder: { [self] request, writer, channel in
        try await responder.withLock { $0 }.respond(request, writer, channel)
      })
    let group = MultiThreadedEventLoopGroup.singleton
    let listeners = Listeners(
      configuration.addresses, channel: channel,
      connectionsMax: configuration.connectionsMax ?? ReceiverServer.connectionsMax, group: group, logger: logger,
      onReady: onReady)
    let ticks = group.next().scheduleRepeatedTask(
      initialDelay: .milliseconds(100), delay: .milliseconds(100)
    ) { [driver, budget] _ in
      driver.tick()
      budget.tick()
    }
    let syncs = group.next().scheduleRepeatedTask(initialDelay: .seconds(1), delay: .seconds(1)) { [driver] _ in
      driver.syncWritten()
      driver.saveSpools()
      driver.checkFolders()
    }
    let answers = answering.map { answering in
      let pause = TimeAmount(answering.every)
      return group.next().scheduleRepeatedTask(initialDelay: pause, delay: pause) { [driver] _ in
        driver.tick()
        answering.tell()
      }
    }
    let memory = MemoryReturn(budget, statistics)
    let returns = group.next().scheduleRepeatedTask(initialDelay: .seconds(10), delay: .seconds(10)) { [driver] _ in
      if memory.isWorthwhile() { driver.returnMemory() }
    }
    reportCertificateProblem()
    let days = group.next().scheduleRepeatedTask(initialDelay: .hours(24), delay: .hours(24)) { [self] _ in
      reportCertificateProblem()
    }
    let listener = await OperatorSocket.listen(in: store.state, driver, users: { [self] in operatorUsers }, logger)
    let failure = await listeners.serve(until: stop, grace: configuration.connections.grace)
    ticks.cancel()
    syncs.cancel()
    returns.cancel()
    days.cancel()
    answers?.cancel()
    await OperatorSocket.close(listener, logger)
    await driver.shutDown()
    do throws(StoreFailure) {
      try store.syncWritten()
    } catch {
      logger.error("what was received last may not be on the disk: \(error.words)")
    }
    if let failure { throw .listen(failure) }
  }

  private var operatorUsers: [CredentialID: OperatorSocket.User] {
    Dictionary(
      users.withLock(\.credentials).enumerated().map { ($1.id, OperatorSocket.User(number: $0 + 1, root: $1.root)) },
      uniquingKeysWith: { first, _ in first })
  }

  private func reportCertificateProblem() {
    guard let trouble = responder.withLock(\.certificates).trouble(at: Int64(time(nil))) else { return }
    logger.log(level: trouble.level, "\(trouble.words)")
  }

  /// Beyond these, connections wait in the backlog: open uploads need descriptors, too.
  private static var connectionsMax: Int {
    DescriptorShares(limit: DescriptorShares.limit).connections
  }

  private var connectionsPerPeer: Int {
    configuration.connectionsPerPeer ?? max(16, ReceiverServer.connectionsMax / 4)
  }
}

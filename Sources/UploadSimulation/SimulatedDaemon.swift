import FileModel
import Lookup
import UploadEngine

/// Receives the events of the mount.
protocol CaptureSink: AnyObject {
  func handle(_ event: FileEvent)
  func contentWillChange(_ id: FileID) -> Bool
  /// A content without writers.
  func settled(_ file: SimulatedCapture.File)
  /// A program waits for a file.
  func wait(for file: SimulatedCapture.File)
  func publishedName(of id: FileID, at path: RelativePath) -> String
  /// More files may be found.
  var hasRoomForFiles: Bool { get }
  /// The file is not in memory.
  func isUnloaded(_ id: FileID) -> Bool
}

/// The process: one client for each destination, over one spool. They start and end together, and decisions about the
/// one copy of a file are made here, as `EngineGroup` does.
final class SimulatedDaemon: CaptureSink {
  /// The longest until a healthy destination has a complete file, whatever another one does.
  private static let heldUpMax: Int64 = 60_000_000_000

  private unowned let world: World
  private unowned let capture: SimulatedCapture
  let clients: [SimulatedClient]
  private var startedAt: Int64 = 0

  init(_ world: World, _ capture: SimulatedCapture, _ clients: [SimulatedClient]) {
    self.world = world
    self.capture = capture
    self.clients = clients
    for client in clients { client.daemon = self }
  }

  // MARK: Life

  var isUp: Bool { clients[0].isUp }

  func start() {
    startedAt = world.time.nanoseconds
    var hidden: LookupSet<FileID> = []
    for client in clients {
      client.start()
      if world.bug == .damagedRecordHidesFile { hidden = client.storage.unreadableRecords() }
    }
    capture.mounted(self, knowing: clients[0].storage, hiding: hidden)
    for client in clients { client.mounted() }
    if clients.count > 1 { tick(clients[0].life) }
  }

  /// The process dies; with the power, what its disk had not synced is lost as well.
  func crash() {
    guard isUp else { return }
    let takesPower = world.random.happens(world.scenario.powerCuts)
    world.trace("client: crashes\(takesPower ? " and loses power" : "")")
    if takesPower { losePower() }
    end()
  }

  /// An orderly end: the known state is written down, and the rest waits for the next start.
  func stop() {
    guard isUp else { return }
    world.trace("client: stops")
    for client in clients where isUp { client.flush() }
    guard isUp else { return }
    capture.endFlushing()
    for client in clients where isUp { client.endDisk() }
    end()
    if world.scenario.losesSpool, world.strikes(0.1) { capture.remount() }
  }

  private func losePower() {
    for client in clients { client.storage.disk.losePower(using: &world.random) }
    capture.losePower()
  }

  private func end() {
    for client in clients { client.end() }
    capture.unmounted()
    capture.editByHand()
    if world.scenario.losesSpool, world.strikes(0.1) {
      world.trace("client: loses power while it is down")
      losePower()
    }
    if world.scenario.bareCopies > 0, world.strikes(world.scenario.bareCopies) { capture.copyWithoutLabels() }
    if world.scenario.lostStates > 0, world.strikes(world.scenario.lostStates) {
      world.trace("client: catalog and records are lost")
      for client in clients {
        client.storage.lose()
        client.publications.lose()
      }
    }
    world.time.after(world.random.duration(.milliseconds(20)...(.seconds(20)))) { [self] in
      if !isUp { start() }
    }
  }

  // MARK: What the mount reports

  func handle(_ event: FileEvent) { for client in clients { client.handle(event) } }

  func contentWillChange(_ id: FileID) -> Bool {
    clients.filter { $0.contentWillChange(id) }.count == clients.count
  }

  func settled(_ file: SimulatedCapture.File) { for client in clients { client.waits?.settled(file) } }
  func wait(for file: SimulatedCapture.File) {
    capture.rescanIfUnloaded(file)
    for client in clients { client.waits?.begin(file, client) }
  }
  var hasRoomForFiles: Bool { clients.allSatisfy(\.hasRoomForFiles) }
  func isUnloaded(_ id: FileID) -> Bool { clients.contains { $0.isUnloaded(id) } }
  func publishedName(of id: FileID, at path: RelativePath) -> String { clients[0].publishedName(of: id, at: path) }

  // MARK: The one copy

  func evictionCandidates(countMax: Int) -> [EvictionCandidate] {
    SharedCopy.candidates(world.bug == .evictForOne ? Array(clients[...0]) : clients, countMax: countMax)
  }

  /// Once a second: no destination delays another.
  private func tick(_ life: Int) {
    world.time.after(.seconds(1)) { [self] in
      guard clients[0].life == life else { return }
      for client in clients where !client.site.isTroubled { checkHeldUp(client) }
      tick(life)
    }
  }

  private func checkHeldUp(_ client: SimulatedClient) {
    for name in capture.names where !TemporaryNameRule.standard.matches(name.lastComponent) {
      guard let file = capture.file(named: name), file.activity.isQuiet, file.integrity.interruption == nil,
        // A restored file is held where a later content was delivered.
        client.site.oracle.isFor(name), !file.isPutBack, !file.isReplaced
      else { continue }
      let waited = world.time.nanoseconds - max(file.settledAt, startedAt)
      guard waited > Self.heldUpMax, client.site.oracle.look(publishedName(of: file.id, at: name)) != file.bytes else {
        continue
      }
      world.fail(.destinations, "\(name.displayText) is not at a place that is well after \(waited / 1_000_000_000) s")
    }
  }
}

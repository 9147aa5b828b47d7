import Logging
import Lookup
import Synchronization
import TransferModel

/// Looks, at the start and once a day, for orphaned sessions at a destination where they stay until a client ends them. Has those
/// ended that this spool began (``OrphanedSessionPlan``).
///
/// It goes on with the ``Housekeeping`` of each second, where it may wait for the disk; the transport's thread only leaves an answer
/// here.
final class SessionSweep: Sendable {
  /// What it asks of the engine.
  struct Source: Sendable {
    var sessionsInUse: @Sendable () -> LookupSet<String>
    var endSessions: @Sendable ([String]) -> Void
    var makeRequestID: @Sendable () -> HTTPRequestID
  }

  private enum Phase: Sendable {
    case resting(untilNanoseconds: Int64)
    case asking(Query)
    case answered(Query, Result<HTTPResponse, TransportError>)
  }

  private struct Query: Sendable {
    var candidates: [String]
    var pages: [SessionPage] = []
  }

  private static let interval: Int64 = 86_400_000_000_000
  private static let intervalAfterFailure: Int64 = 3_600_000_000_000

  private let destination: any Destination
  private let transport: any HTTPTransport
  private let catalog: Catalog
  private let logger: Logger
  private let sessionAge: Duration
  private let phase = Mutex(Phase.resting(untilNanoseconds: 0))
  private let strangersToldOf = Mutex(0)

  init(
    destination: any Destination, transport: any HTTPTransport, catalog: Catalog, logger: Logger,
    sessionAge: Duration = UploadConstants.sessionMaxAge
  ) {
    self.sessionAge = sessionAge
    self.destination = destination
    self.transport = transport
    self.catalog = catalog
    self.logger = logger
  }

  /// Goes on as far as it can without waiting for the network. `now` is of a clock that never goes back.
  func tick(_ source: Source, nanoseconds now: Int64, secondsSince1970: Int64) {
    guard destination.abilities.sessionsStay else { return }
    switch phase.withLock({ $0 }) {
    case .asking: break
    case .resting(let until):
      guard now >= until else { return }
      rest(until: now + Self.interval)
      begin(source, secondsSince1970)
    case .answered(let query, .failure(_)):
      // The server is not there, so nothing can be ended either.
      guard !query.candidates.isEmpty else { return rest(until: now + Self.interval) }
      rest(until: now + Self.intervalAfterFailure)
    case .answered(var query, .success(let response)):
      rest(until: now + Self.interval)
      // Many may not list, and end what is theirs all the same.
      let page = destination.sessionPage(in: response)
      if let page { query.pages.append(page) } else { query.pages = [] }
      if let next = page?.next, query.pages.count < OrphanedSessionPlan.pagesMax, ask(query, after: next, source) {
        return
      }
      finish(query, source, secondsSince1970)
    }
  }

  private func rest(until nanoseconds: Int64) { phase.withLock { $0 = .resting(untilNanoseconds: nanoseconds) } }

  private func begin(_ source: Source, _ seconds: Int64) {
    do throws(StorageError) {
      let query = Query(
        candidates: try catalog.sessions(
          begunBefore: OrphanedSessionPlan.latestBegin(atSeconds: seconds, sessionAge),
          countMax: OrphanedSessionPlan.countMax))
      if !ask(query, after: nil, source) { finish(query, source, seconds) }
    } catch {
      logger.warning("cannot look for sessions that are left over", metadata: ["error": "\(error)"])
    }
  }

  /// False where no server can be asked.
  private func ask(_ query: Query, after next: String?, _ source: Source) -> Bool {
    guard let request = destination.sessionListRequest(after: next, at: .first) else { return false }
    phase.withLock { $0 = .asking(query) }
    transport.start(request, id: source.makeRequestID()) { [weak self] result in
      self?.phase.withLock { $0 = .answered(query, result) }
    }
    return true
  }

  private func finish(_ query: Query, _ source: Source, _ seconds: Int64) {
    let plan = OrphanedSessionPlan(
      candidates: query.candidates, inUse: source.sessionsInUse(), pages: query.pages, atSeconds: seconds,
      sessionAge: sessionAge, listedID: { destination.listedID(ofSession: $0) })
    if !plan.ended.isEmpty {
      logger.notice("ending uploads that nobody goes on with", metadata: ["uploads": "\(plan.ended.count)"])
      source.endSessions(plan.ended)
    }
    forget(plan.gone)
    let told = strangersToldOf.withLock { told in
      defer { told = plan.strangers }
      return told
    }
    guard plan.strangers > 0, plan.strangers != told else { return }
    logger.notice(
      "the destination holds unfinished uploads of others that are older than a week; they are left alone",
      metadata: ["uploads": "\(plan.strangers)", "destination": "\(destination.displayURL)"])
  }

  private func forget(_ sessions: [String]) {
    guard !sessions.isEmpty else { return }
    do throws(StorageError) {
      try catalog.note(sessions: LookupTable(sessions.map { ($0, nil) }))
    } catch {
      logger.warning("cannot forget sessions that have ended", metadata: ["error": "\(error)"])
    }
  }
}

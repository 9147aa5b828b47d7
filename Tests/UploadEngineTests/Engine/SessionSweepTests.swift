import FileModel
import Logging
import Lookup
import Promises
import Synchronization
import Testing
import TransferModel

@testable import UploadEngine

/// What is asked of a destination whose sessions stay until they are ended, and what is ended there.
@Suite struct SessionSweepTests {
  private static let now: Int64 = 2_000_000_000

  /// The list of its sessions has so many pages, with a session of another mount on each.
  private struct ListingDestination: Destination {
    let pages: Int

    var abilities: DestinationAbilities {
      var abilities = DestinationAbilities(
        parallelChunks: 1, replaceableChunks: true, unknownLength: true, wholeFileBytesMax: 1000, fileBytesMax: nil)
      abilities.sessionsStay = true
      return abilities
    }
    var displayURL: String { "memory:" }
    func publishedName(for path: RelativePath) -> String { path.displayText }
    func request(for step: DestinationStep, at endpoint: EndpointID) -> HTTPRequest { HTTPRequest(.put, "memory:") }
    func outcome(of step: DestinationStep, response: HTTPResponse) -> StepOutcome { .warmed }
    func sessionListRequest(after next: String?, at endpoint: EndpointID) -> HTTPRequest? {
      HTTPRequest(.get, next ?? "1")
    }
    func sessionPage(in response: HTTPResponse) -> SessionPage? {
      guard let number = Int(String(decoding: response.body, as: UTF8.self)) else { return nil }
      return SessionPage(
        sessions: [SessionPage.Session(id: "other \(number)", begunAtSeconds: 5)],
        next: number < pages ? "\(number + 1)" : nil)
    }
  }

  /// Answers at once with the number of the page that is asked for.
  private final class PageTransport: HTTPTransport {
    let asked = Mutex<[String]>([])

    func start(_ requests: [PendingHTTPRequest]) {
      for request in requests {
        asked.withLock { $0.append(request.request.url) }
        var response = HTTPResponse(status: 200, connection: HTTPConnectionMetrics(protocolName: "HTTP/1.1"))
        response.body = Array(request.request.url.utf8)
        request.onCompletion(.success(response))
      }
    }
    func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {}
  }

  @Test(.promises("DE33", "DE34"), arguments: [1, 16, 17, Int.max])
  func atMostSixteenPagesAreAskedFor_andWhatBeganHereIsEnded(pages: Int) throws {
    let folder = try ScratchFolder()
    let catalog = try Catalog(path: folder("catalog.sqlite"))
    defer { catalog.close() }
    try catalog.note(sessions: ["ours": 10])
    let transport = PageTransport()
    let sweep = SessionSweep(
      destination: ListingDestination(pages: pages), transport: transport, catalog: catalog,
      logger: Logger(label: "test"))
    let ended = Mutex<[[String]]>([])
    let source = SessionSweep.Source(
      sessionsInUse: { [] }, endSessions: { sessions in ended.withLock { $0.append(sessions) } },
      makeRequestID: { HTTPRequestID(1) })

    // Each answer is looked at with the tick after it.
    for _ in 0..<40 { sweep.tick(source, nanoseconds: 0, secondsSince1970: Self.now) }

    #expect(transport.asked.withLock { $0 } == (1...min(pages, 16)).map { "\($0)" })
    // A list of one page says that it is gone.
    #expect(ended.withLock { $0 } == (pages == 1 ? [] : [["ours"]]))
  }
}

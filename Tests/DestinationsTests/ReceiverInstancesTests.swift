import Promises
import Synchronization
import Testing
import TransferModel

@testable import Destinations

/// Which receivers answer at one address.
@Suite struct ReceiverInstancesTests {
  @Test("Regression: two receivers behind one address were not told from one", .promises("P120"))
  func nameThatComesAgain_isASecondReceiver() {
    var instances = ReceiverInstances()
    let said = ["a", "a", "b", "a", "b", "a"].map { instances.hear($0) }
    #expect(said == [false, false, false, true, false, false])
  }

  @Test func restarts_areNoSecondReceiver() {
    var instances = ReceiverInstances()
    // What is remembered has a bound, so that the first one is new again.
    let said = ((0..<100) + [0]).map { instances.hear("start \($0)") }
    #expect(!said.contains(true))
  }

  @Test(arguments: [
    ("3f", true), ("", false), ("a b", false), ("\u{e9}", false), (String(repeating: "a", count: 65), false),
  ])
  func name_isShortAndPrintable(_ value: String, _ isName: Bool) {
    #expect((ReceiverInstances.name(in: value) != nil) == isName)
  }

  @Test func transport_saysItOnceAndPassesAllOn() {
    let server = TurningServer(["a", "b", nil, "a", "b", "a"])
    let said = Mutex<[String]>([])
    let transport = InstanceTransport(server, server: "https://vault.example") { words in
      said.withLock { $0.append(words) }
    }
    let answers = Mutex(0)
    for number in 0..<6 {
      transport.start([
        PendingHTTPRequest(id: HTTPRequestID(UInt64(number)), request: HTTPRequest(.head, "https://vault.example/v1/"))
        { _ in
          answers.withLock { $0 += 1 }
        }
      ])
    }
    #expect(answers.withLock { $0 } == 6)
    #expect(said.withLock { $0 }.count == 1)
    #expect(said.withLock { $0 }.first?.contains("https://vault.example") == true)
  }
}

/// Answers as one receiver after the other.
private final class TurningServer: HTTPTransport {
  private let names: Mutex<[String?]>

  init(_ names: [String?]) { self.names = Mutex(names) }

  func start(_ requests: [PendingHTTPRequest]) {
    for request in requests {
      let name = names.withLock { $0.removeFirst() }
      request.onCompletion(
        .success(HTTPResponse(status: 204, headers: name.map { [HTTPHeader("x-instance", $0)] } ?? [])))
    }
  }

  func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {}
}

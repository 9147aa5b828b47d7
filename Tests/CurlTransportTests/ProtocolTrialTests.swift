import Synchronization
import Testing
import TransferModel

@testable import CurlTransport

@Suite("The trial of HTTP/2")
struct ProtocolTrialTests {
  /// A server and the way to it, with requests of one length, so many at a time.
  private struct Load {
    struct Request {
      var version: ProtocolTrial.Version
      var bodyBytes: Int
      var left: Double
      var begunAt: Double
    }

    var trial = ProtocolTrial()
    var now = ContinuousClock.now
    var seconds = 0.0
    var requests: [Request] = []
    var count = 12
    var bodyBytes = 1 << 20
    /// What a connection of HTTP/1.1, and the one of HTTP/2, carry in a second, and the line.
    var http1 = 1e6
    var http2 = 12e6
    var line = 12e6
    var hasHTTP2 = true
    var failsHTTP2 = false
    var decisions: [ProtocolStanding] = []
    /// Of requests that were answered.
    var delivered = 0
    var sawHTTP2 = 0
    var mostHTTP2 = 0

    /// Looks four times in a second, as the loop does.
    mutating func run(for time: Double) {
      let end = seconds + time
      while seconds < end { step() }
    }

    private mutating func step() {
      var moved = 0.0
      for _ in 0..<25 {
        moved += move(for: 0.01)
        for request in requests where request.left < 1 {
          delivered += request.bodyBytes
          end(request.version)
        }
        requests.removeAll { $0.left < 1 }
      }
      let decision = trial.look(acknowledged: Int(moved), at: now)
      note(decision)
      if decision?.finding == .behind { endSlow() }
    }

    private mutating func move(for time: Double) -> Double {
      while requests.count < count {
        let version = trial.begin(bodyBytes: bodyBytes)
        if version == .http2 { sawHTTP2 += 1 }
        requests.append(
          Request(version: version, bodyBytes: bodyBytes, left: Double(bodyBytes), begunAt: seconds))
      }
      let of2 = Double(requests.count { $0.version == .http2 })
      mostHTTP2 = max(mostHTTP2, Int(of2))
      let one = hasHTTP2 ? http2 / max(1, of2) : http1
      let asked = (Double(requests.count) - of2) * http1 + of2 * one
      let share = min(1, line / max(1, asked)) * time
      var moved = 0.0
      for index in requests.indices {
        let part = min(requests[index].left, (requests[index].version == .http1 ? http1 : one) * share)
        requests[index].left -= part
        moved += part
      }
      seconds += time
      now += .milliseconds(10)
      return moved
    }

    private mutating func endSlow() {
      for index in requests.indices.reversed() where requests[index].version == .http2 {
        let request = requests[index]
        guard
          trial.goesAgain(
            bodyBytes: request.bodyBytes, sent: request.bodyBytes - Int(request.left),
            age: .seconds(seconds - request.begunAt))
        else { continue }
        requests.remove(at: index)
        note(trial.end(.http2, .ended, at: now))
      }
    }

    private mutating func end(_ version: ProtocolTrial.Version) {
      let ending: ProtocolTrial.Ending =
        if version == .http2 { failsHTTP2 ? .failed : .answered(hasHTTP2 ? .http2 : .http1) } else { .answered(.http1) }
      note(trial.end(version, ending, at: now))
    }

    private mutating func note(_ decision: ProtocolStanding?) {
      if let decision { decisions.append(decision) }
    }

    var findings: [ProtocolStanding.Finding] { decisions.map(\.finding) }
  }

  @Test("HTTP/2 that carries more is kept")
  func better_isKept() throws {
    var load = Load()
    load.http1 = 0.5e6
    load.http2 = 8e6
    load.run(for: 100)
    #expect(load.findings == [.better])
    let standing = try #require(load.decisions.first)
    let rates = try (#require(standing.http1BytesPerSecond), #require(standing.http2BytesPerSecond))
    #expect(abs(rates.0 - 6e6) < 0.3e6 && abs(rates.1 - 8e6) < 0.4e6)
    #expect(load.requests.allSatisfy { $0.version == .http2 })
  }

  @Test("HTTP/2 that carries as much, or hardly more, is not", arguments: [12e6, 12.9e6])
  func equal_isNotKept(http2: Double) {
    var load = Load()
    load.line = 13e6
    load.http2 = http2
    load.run(for: 100)
    #expect(load.findings == [.notBetter] && load.requests.allSatisfy { $0.version == .http1 })
  }

  @Test("Nothing is tried before a minute under load")
  func aShortLoad_triesNothing() {
    var load = Load()
    load.run(for: 59)
    #expect(load.sawHTTP2 == 0 && load.trial.standing.finding == .unmeasured)
  }

  @Test("Few requests at a time are no load")
  func fewRequests_areNoLoad() {
    var load = Load()
    load.count = ProtocolTrial.loadMin - 1
    load.run(for: 200)
    #expect(load.sawHTTP2 == 0)
  }

  @Test("Nothing is tried where requests take long")
  func longRequests_areNotTried() {
    var load = Load()
    load.bodyBytes = 8 << 20
    load.run(for: 200)
    #expect(load.sawHTTP2 == 0)
  }

  @Test("One connection where loss bounds each of twelve: the trial ends before all requests are on it")
  func loss_isSeenWithAThird() {
    var load = Load()
    load.http1 = 0.2e6
    load.http2 = 0.2e6
    load.bodyBytes = 512 << 10
    load.run(for: 200)
    #expect(load.findings == [.behind] && load.mostHTTP2 <= 5)
  }

  @Test(
    "A trial in vain costs less than a twenty-fifth of the load before it, what is left under way included",
    arguments: [0.1, 0.3, 0.6, 0.9], [64 << 10, 1 << 20, 4 << 20])
  func aTrialInVain_costsLittle(part: Double, bodyBytes: Int) {
    var load = Load()
    // The server bounds what a connection of HTTP/2 carries; those of HTTP/1.1 fill the line.
    load.http1 = 2e6
    load.http2 = load.line * part
    load.bodyBytes = bodyBytes
    load.run(for: 150)
    #expect(load.findings == [.behind] || load.findings == [.notBetter])
    let others = { (load: Load) in
      Double(load.delivered) + load.requests.reduce(0) { $0 + Double($1.bodyBytes) - $1.left }
    }
    var without = Load()
    without.http1 = 2e6
    without.hasHTTP2 = false
    without.bodyBytes = bodyBytes
    without.run(for: 150)
    #expect(others(load) > others(without) - load.line * 0.04 * 60)
  }

  @Test("A server that does not speak HTTP/2 is asked once an hour")
  func notOffered_isAskedOncePerHour() {
    var load = Load()
    load.hasHTTP2 = false
    load.run(for: 3650)
    #expect(load.findings == [.notOffered] && load.sawHTTP2 == 1)
    load.run(for: 100)
    #expect(load.findings == [.notOffered, .notOffered])
  }

  @Test("What fails ends the trial, and what fails again and again the use")
  func failures_end() {
    var load = Load()
    load.failsHTTP2 = true
    load.run(for: 100)
    #expect(load.findings == [.failed] && load.sawHTTP2 == 1)
    var kept = Load()
    kept.http1 = 0.5e6
    kept.run(for: 100)
    #expect(kept.findings == [.better])
    kept.failsHTTP2 = true
    kept.run(for: 20)
    #expect(kept.findings == [.better, .failed] && kept.requests.allSatisfy { $0.version == .http1 })
  }

  @Test("HTTP/2 that falls behind what HTTP/1.1 had is given up")
  func fallenBehind_isGivenUp() {
    var load = Load()
    load.http1 = 0.5e6
    load.run(for: 100)
    load.http2 = 3e6
    load.run(for: 30)
    #expect(load.findings == [.better, .fellBehind] && load.requests.allSatisfy { $0.version == .http1 })
  }

  @Test("A line that became faster in the trial is no merit of HTTP/2")
  func aFasterLine_isNoMerit() {
    var load = Load()
    load.line = 4e6
    while load.trial.standing.finding != .trying { load.run(for: 0.25) }
    load.run(for: 3)
    load.line = 12e6
    load.http2 = 8e6
    load.run(for: 60)
    #expect(load.findings == [.notBetter] && load.requests.allSatisfy { $0.version == .http1 })
  }

  @Test("Requests that became longer decide nothing")
  func otherRequests_decideNothing() {
    var load = Load()
    load.http1 = 0.5e6
    while load.trial.standing.finding != .trying { load.run(for: 0.25) }
    load.bodyBytes *= 3
    load.run(for: 60)
    #expect(load.findings == [.undecided])
  }

  @Test("A load that ends decides nothing, and HTTP/1.1 is used after it")
  func anEnd_decidesNothing() {
    var load = Load()
    while load.trial.standing.finding != .trying { load.run(for: 0.25) }
    load.count = 1
    load.run(for: 10)
    #expect(load.findings == [.undecided])
  }

  @Test("After another way, and after an hour, it is measured again; not before")
  func isMeasuredAgain() {
    var load = Load()
    load.http1 = 0.5e6
    load.run(for: 100)
    #expect(load.findings == [.better])
    load.trial.restart()
    #expect(load.trial.standing == ProtocolStanding())
    load.run(for: 100)
    #expect(load.findings == [.better, .better])
    load.run(for: 3550)
    #expect(load.findings == [.better, .better])
    load.run(for: 100)
    #expect(load.findings == [.better, .better, .better])
  }

  @Test("What must not be sent twice, is long, or asks for a connection of its own, has HTTP/1.1")
  func othersHaveHTTP1() {
    func concerns(_ bytes: Int, streamed: Bool = false, once: Bool = false, opens: Bool = false) -> Bool {
      ProtocolTrial.concerns(bodyBytes: bytes, isStreamed: streamed, isSentOnce: once, opensConnection: opens)
    }
    #expect(concerns(0) && concerns(32 << 20) && !concerns(32 << 20 + 1))
    #expect(!concerns(1, streamed: true) && !concerns(1, once: true) && !concerns(1, opens: true))
  }

  /// Regression: what was known before the decision was said.
  @Test("What was decided is said, once")
  func decisions_areSaid() {
    let said = Mutex<[ServerProtocol]>([])
    let report = ProtocolReport { found in said.withLock { $0.append(found) } }
    var trials = ProtocolTrials(ProtocolTrial.Times(loaded: .seconds(1), window: .seconds(1)), to: report)
    let request = HTTPRequest(.put, "https://upload.example/a", body: .bytes([1]))
    var now = ContinuousClock.now
    var choices: [VersionChoice] = []
    while !choices.contains(.tried(.http2)), choices.count < 100 {
      for _ in 0..<ProtocolTrial.loadMin { choices.append(trials.choose(for: request)) }
      for choice in choices.dropLast(ProtocolTrial.loadMin).suffix(ProtocolTrial.loadMin) {
        trials.end(choice, .answered(.http1), of: "https://upload.example", at: now)
      }
      trials.add(1_000_000, of: "https://upload.example")
      now += .milliseconds(250)
      _ = trials.look(at: now)
    }
    #expect(report.servers.map(\.standing.finding) == [.trying] && said.withLock(\.isEmpty))
    trials.end(.tried(.http2), .failed, of: "https://upload.example", at: now)
    #expect(said.withLock { $0 }.map(\.standing.finding) == [.failed])
    #expect(report.servers == said.withLock { $0 } && report.servers.first?.words.contains("failed") == true)
  }
}

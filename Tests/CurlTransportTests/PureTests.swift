import Testing
import TransferModel

@testable import CurlTransport

@Suite("ResponseHead")
struct ResponseHeadTests {
  func head(_ lines: [String]) -> ResponseHead {
    var head = ResponseHead()
    for var line in lines {
      #expect(line.withUTF8 { head.consume(UnsafeRawBufferPointer($0)) })
    }
    return head
  }

  /// Regression: a name of 40 KB of marks on one letter was compared with each field that is looked for, for a second each.
  @Test func namesThatAreNotASCII_andLongValuesThatAreNot_areDropped() {
    let marks = String(repeating: "\u{316}\u{301}", count: 10_000)
    let long = String(repeating: "é", count: ResponseHead.textBytesMax)
    let read = head([
      "HTTP/1.1 200 OK", "\(marks): x", "é: x", "a: \(long)", "b: é", " \(long)",
      "c: \(long.utf8.map { _ in "c" }.joined())",
      "",
    ])
    #expect(read.headers.map(\.name) == ["b", "c"])
    #expect(read.headers.first?.value == "é")
  }

  @Test("Only the last response counts, and trailers do not")
  func lastResponse() {
    let result = head([
      "HTTP/1.1 100 Continue\r\n", "X-A: 1\r\n", "\r\n", "HTTP/2 201 \r\n", "x-b:  two words \r\n", "\r\n",
      "X-T: 3\r\n",
    ])
    #expect(result.status == 201)
    #expect(result.isComplete)
    #expect(result.headers == [HTTPHeader("x-b", "two words")])
  }

  @Test("An interim response alone is no answer")
  func interim() {
    #expect(!head(["HTTP/1.1 103 Early Hints\r\n", "\r\n"]).isComplete)
  }

  @Test("A folded line continues the value before it")
  func folded() {
    #expect(head(["HTTP/1.1 200 OK\r\n", "X-A: 1\r\n", "\t2\r\n"]).headers == [HTTPHeader("x-a", "1 2")])
  }

  @Test(
    "Nonsense neither traps nor counts",
    arguments: [
      "", "\r\n", ":", ": x\r\n", "HTTP/", "HTTP/1.1", "HTTP/1.1 2", "HTTP/1.1 -20 x", "HTTP/1.1 99\u{1F4A9}9", " x",
    ])
  func nonsense(_ line: String) {
    let result = head([line])
    #expect(result.status == 0)
    #expect(!result.isComplete)
  }

  @Test("Progress that a server tells by interim responses does not count as a long header, within limits")
  func manyInterims() {
    var head = ResponseHead()
    let interim = ["HTTP/1.1 104 Upload Resumption Supported\r\n", "Upload-Offset: 1048576\r\n", "\r\n"]
    func consume(_ lines: [String]) -> Bool {
      lines.allSatisfy { line in Array(line.utf8).withUnsafeBytes { head.consume($0) } }
    }
    let byteCount = interim.reduce(0) { $0 + $1.utf8.count }
    for _ in 0..<(2 * ResponseHead.bytesMax / byteCount) { #expect(consume(interim)) }
    #expect(consume(["HTTP/1.1 204 No Content\r\n", "Upload-Complete: ?0\r\n", "\r\n"]))
    #expect(head.status == 204 && head.headers == [HTTPHeader("upload-complete", "?0")])
    head = ResponseHead()
    let tooMany = ResponseHead.interimBytesMax / byteCount + 2
    #expect(!(0..<tooMany).allSatisfy { _ in consume(interim) })
  }

  @Test("More than the limit is refused, over all lines together")
  func limit() {
    var head = ResponseHead()
    let line = [UInt8](repeating: 0x61, count: ResponseHead.bytesMax / 2)
    #expect(line.withUnsafeBytes { head.consume($0) })
    #expect(line.withUnsafeBytes { head.consume($0) })
    #expect(!"\n".utf8.map(\.self).withUnsafeBytes { head.consume($0) })
  }
}

@Suite("RequestTarget")
struct RequestTargetTests {
  @Test(
    "Scheme and host are found, port and user are not part of the host",
    arguments: [
      ("https://Example.org/v1/", "https", "example.org"), ("HTTP://a:8080", "http", "a"),
      ("https://[::1]:443/x", "https", "::1"), ("https://user:p@ss@host/@", "https", "host"),
      ("tus+https://h?x", "tus+https", "h"),
    ])
  func parse(_ url: String, _ scheme: String, _ host: String) {
    let target = RequestTarget(url: url)
    #expect(target?.scheme == scheme)
    #expect(target?.host == host)
  }

  @Test("What is no URL has no target", arguments: ["", "host", "https:/host", "://host", "https://", "https:///x"])
  func refuse(_ url: String) {
    #expect(RequestTarget(url: url) == nil)
  }
}

@Suite("CurlTransportConfiguration")
struct CurlTransportConfigurationTests {
  @Test("Requests share a connection only where that is chosen")
  func protocolChoice() {
    #expect(!CurlTransportConfiguration().multiplexes)
    #expect(CurlTransportConfiguration(protocolChoice: .http2).multiplexes)
  }

  @Test("HTTP/2 is refused with a libcurl whose uploads stall, unless it is said to be repaired")
  func stallingLibraries() {
    var configuration = CurlTransportConfiguration(protocolChoice: .http2)
    #expect(!configuration.mayMultiplex(with: 0x07_58_01) && !configuration.mayMultiplex(with: 0x08_09_01))
    #expect(configuration.mayMultiplex(with: 0x08_0a_00) && configuration.mayMultiplex(with: 0x08_0e_01))
    configuration.http2Library = .any
    #expect(configuration.mayMultiplex(with: 0x07_58_01))
    let words = TransportConfigurationError.stallingHTTP2(version: "7.88.1").description
    #expect(words.contains("7.88.1") && words.contains("--expert http2-library=any"))
  }

  @Test("Values outside their range are named")
  func ranges() {
    #expect(throws: TransportConfigurationError.self) {
      try CurlTransport(configuration: CurlTransportConfiguration(maxConnections: 0))
    }
    #expect(throws: TransportConfigurationError.self) {
      try CurlTransport(configuration: CurlTransportConfiguration(inboxCapacity: 0))
    }
    #expect(throws: TransportConfigurationError.self) {
      try CurlTransport(configuration: CurlTransportConfiguration(userAgent: "a\nb"))
    }
  }

  @Test("A CA file that is missing or is none is found at the start")
  func caFile() {
    for path in ["/nonexistent/ca.pem", "/", "/dev/null"] {
      let error = #expect(throws: TransportConfigurationError.self, "\(path)") {
        try CurlTransport(configuration: CurlTransportConfiguration(caFile: path))
      }
      #expect(error?.description.contains(path) == true)
    }
  }
}

@Suite("CurlFailure")
struct CurlFailureTests {
  /// Regression: of a receiver with few descriptors, which closes connections that are too many, the log said that the
  /// handshake of TLS 1.3 had failed.
  @Test(arguments: [
    ("Recv failure: Connection reset by peer", true),
    ("OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to 127.0.0.1:8443 ", true),
    ("TLS connect error: error:0A000126:SSL routines::unexpected eof while reading", true),
    ("TLS connect error: error:0A000438:SSL routines::tlsv1 alert internal error", false),
    ("OpenSSL/3.0.17: error:0A00010B:SSL routines::wrong version number", false),
  ])
  func handshakeThatWasBrokenOff_isNoFailureOfTLS(detail: String, isEnded: Bool) {
    let message = CurlFailure.message(for: .tlsFailed, detail, host: "host")
    #expect(message.hasPrefix(isEnded ? "host ended the connection" : "no secure connection to host"))
    #expect(message.hasSuffix("(\(detail))"))
  }
}

extension CurlFailureTests {
  @Test(arguments: [
    (
      TransportError.Kind.tlsFailed, "error:0A00042E:SSL routines::tlsv1 alert protocol version",
      "host does not speak TLS 1.3"
    ),
    (.tlsFailed, "error:0A000102:SSL routines::unsupported protocol", "host does not speak TLS 1.3"),
    (.tlsFailed, "error:0A00010B:SSL routines::wrong version number", "no secure connection to host"),
    (
      .certificateRefused, "SSL: no alternative certificate subject name matches target host name 'host'",
      "the certificate of host is for another name"
    ), (.certificateRefused, "SSL certificate problem", "the certificate of host was refused"),
  ])
  func eachFaultHasItsWords(kind: TransportError.Kind, detail: String, words: String) {
    #expect(CurlFailure.message(for: kind, detail, host: "host").hasPrefix(words))
  }
}

@Suite("StallMeter")
struct StallMeterTests {
  let start = ContinuousClock.now
  let limits = HTTPRequestLimits(stall: .seconds(5), stallBytesPerSecond: 8192)

  /// The first of the given moments, in seconds, at which the meter says stalled. `others` is what other transfers to the server have
  /// moved by then.
  func stalled(
    body: Int, _ samples: [(at: Double, uploaded: Int, downloaded: Int)], others: (Double) -> Double = { _ in 0 }
  ) throws -> Double? {
    var meter = try #require(StallMeter(limits, bodyByteCount: body))
    for sample in samples {
      let now = start + .seconds(sample.at)
      let pathBytes = sample.uploaded + sample.downloaded + Int(others(sample.at))
      if meter.isStalled(at: now, uploaded: sample.uploaded, downloaded: sample.downloaded, pathBytes: pathBytes) {
        return sample.at
      }
    }
    return nil
  }

  @Test("Without a limit there is no meter")
  func noLimit() {
    #expect(StallMeter(HTTPRequestLimits(), bodyByteCount: 1) == nil)
  }

  @Test("A fast transfer that stops dead is stalled after the limit, not after the average has come down")
  func stopsDead() throws {
    let samples = stride(from: 0.0, to: 20, by: 0.25).map { (at: $0, uploaded: Int(min($0, 2) * 1e8), downloaded: 0) }
    #expect(try stalled(body: 1 << 40, samples) == 7)
  }

  @Test("A slow transfer above the limit is not stalled, one below it is")
  func slow() throws {
    func samples(_ rate: Double) -> [(at: Double, uploaded: Int, downloaded: Int)] {
      stride(from: 0.0, to: 60, by: 0.25).map { (at: $0, uploaded: Int($0 * rate), downloaded: 0) }
    }
    #expect(try stalled(body: 1 << 40, samples(8300)) == nil)
    #expect(try stalled(body: 1 << 40, samples(8000)) == 5)
    #expect(try stalled(body: 1 << 40, samples(0)) == 5)
  }

  /// Regression: twelve transfers that shared 1 Mbit/s got less than their limit each, and were broken off again and again.
  @Test("A transfer that rests while others to its server move is not stalled, and is as soon as they stop")
  func shared() throws {
    let samples = stride(from: 0.0, to: 60, by: 0.25).map { (at: $0, uploaded: Int($0 * 100), downloaded: 0) }
    #expect(try stalled(body: 1 << 40, samples, others: { $0 * 16_000 }) == nil)
    #expect(try stalled(body: 1 << 40, samples, others: { $0 * 4000 }) == 5)
    let stopped = try #require(try stalled(body: 1 << 40, samples, others: { min($0, 20) * 16_000 }))
    #expect(20...25 ~= stopped)
    // It has all of the body: its server's answer does not come over the others.
    let waiting = stride(from: 0.0, to: 60, by: 0.25).map { (at: $0, uploaded: 1000, downloaded: 0) }
    #expect(try stalled(body: 1000, waiting, others: { $0 * 16_000 }) == 20)
  }

  @Test("A server that has received everything may take its time, but not for ever")
  func waiting() throws {
    let samples = stride(from: 0.0, to: 60, by: 0.25).map { (at: $0, uploaded: Int(min($0, 1) * 1e6), downloaded: 0) }
    #expect(try stalled(body: 1_000_000, samples) == 21)
  }

  /// Regression: a program that had been stopped or frozen broke off all that it was sending when it went on.
  @Test("Time in which nothing could move is no stall")
  func pause() throws {
    let before = stride(from: 0.0, through: 2, by: 0.25).map { (at: $0, uploaded: 1000, downloaded: 0) }
    let after = stride(from: 100.0, to: 110, by: 0.25).map { (at: $0, uploaded: 1000, downloaded: 0) }
    #expect(try stalled(body: 1 << 40, before + after) == 105)
    #expect(try stalled(body: 1 << 40, before + after.map { ($0.at, Int($0.at * 1e6), 0) }) == nil)
  }

  @Test("A response that stops is stalled")
  func response() throws {
    let samples = stride(from: 0.0, to: 60, by: 0.25).map {
      (at: $0, uploaded: 1000, downloaded: Int(max(0, min($0, 12) - 10) * 1e6))
    }
    #expect(try stalled(body: 1000, samples) == 17)
  }
}

@Suite("ConnectionAges")
struct ConnectionAgesTests {
  @Test("What was there at a renewal is not used again, and what was made after it is")
  func renewal() {
    let start = SuspendingClock.now
    var ages = ConnectionAges()
    #expect(ages.reuse(at: start) == .any)
    ages.renew(at: start)
    #expect(ages.reuse(at: start) == .none && ages.reuse(at: start + .milliseconds(1999)) == .none)
    for milliseconds in stride(from: 2000, to: 300_000, by: 333) {
      guard case .youngerThan(let seconds) = ages.reuse(at: start + .milliseconds(milliseconds)) else {
        Issue.record("at \(milliseconds) ms")
        continue
      }
      // libcurl refuses what is older, by whole seconds or by milliseconds, and takes 0 for no limit.
      #expect(1...(milliseconds / 1000 - 1) ~= seconds)
      #expect(seconds >= milliseconds / 1000 - 1, "what was made two seconds after the renewal may be used")
    }
    #expect(ages.reuse(at: start + .seconds(300)) == .any)
    ages.renew(at: start + .seconds(400))
    #expect(ages.reuse(at: start + .seconds(400)) == .none)
  }
}

@Suite("ConnectLimits")
struct ConnectLimitsTests {
  let standard = UploadConstants.connectionTimeout

  private func limit(after handshake: Duration) -> Duration {
    var limits = ConnectLimits()
    limits.noteHandshake(handshake, with: "a")
    return limits.limit(standard, for: "a")
  }

  /// Regression: 600 ms behind a full queue of two seconds TCP and TLS took 5.2 s, each time, and no connection was ever made.
  @Test("A server whose handshakes take long has more time for them, within bounds")
  func follows() {
    #expect(limit(after: .milliseconds(2600)) == .milliseconds(10_400))
    #expect(limit(after: .milliseconds(20)) == standard && limit(after: .milliseconds(1250)) == standard)
    #expect(limit(after: .milliseconds(1300)) == .milliseconds(5200))
    #expect(limit(after: .seconds(4)) == .seconds(15) && limit(after: .seconds(300)) == .seconds(15))
  }

  @Test("The latest handshake counts, of each server; a connection that was there before is none")
  func latest() {
    var limits = ConnectLimits()
    #expect(limits.limit(standard, for: "a") == standard)
    limits.noteHandshake(.seconds(2), with: "a")
    limits.noteHandshake(.zero, with: "a")
    #expect(limits.limit(standard, for: "a") == .seconds(8) && limits.limit(standard, for: "b") == standard)
    limits.noteHandshake(.milliseconds(30), with: "a")
    #expect(limits.limit(standard, for: "a") == standard)
  }

  @Test("What a setting gives stays", arguments: [1, 4, 6, 300])
  func setting(seconds: Int) {
    var limits = ConnectLimits()
    limits.noteHandshake(.seconds(3), with: "a")
    #expect(limits.limit(.seconds(seconds), for: "a") == .seconds(seconds))
  }
}

import CurlTransport
import Glibc
import Testing
import TransferModel

@testable import Doctor

@Suite struct NetworkFindingTests {
  private let server = ServerAddress(url: "https://upload.example.org:8443/")

  private func connection(_ attempts: [NetworkProbe.Attempt]) throws -> Finding {
    var probe = NetworkProbe(resolution: .found(count: attempts.count, .milliseconds(1)))
    probe.addresses = attempts.enumerated().map {
      NetworkProbe.Address(text: "192.0.2.\($0.offset)", attempt: $0.element)
    }
    return .connection(to: try #require(server), probe)
  }

  @Test func anUnknownNameIsSaidToBeMisspelt() throws {
    let finding = Finding.names(of: try #require(server), NetworkProbe(resolution: .failed(code: EAI_NONAME)))
    #expect(finding.level == .problem && finding.message == "there is no host upload.example.org.")
  }

  @Test func nameServersThatDoNotAnswerAreSomethingElse() throws {
    let finding = Finding.names(of: try #require(server), NetworkProbe(resolution: .failed(code: EAI_AGAIN)))
    #expect(finding.level == .problem && finding.advice?.contains("/etc/resolv.conf") == true)
  }

  /// Regression: the resolver knows no name below localhost, which is how a bucket is named with virtual-host.
  @Test func namesBelowLocalhostAreThisMachine() throws {
    let probe = NetworkProbe.at(try #require(ServerAddress(url: "http://captures.localhost:1/")))
    #expect(Finding.names(of: try #require(server), probe).level == .ok)
    #expect(probe.addresses.contains { $0.text == "127.0.0.1" })
    #expect(HostName.isLoopback("captures.localhost") && HostName.isLoopback("127.1.2.3") && HostName.isLoopback("::1"))
    #expect(!HostName.isLoopback("127.evil.example") && !HostName.isLoopback("notlocalhost"))
  }

  @Test func anOfferOfHTTP3IsSaid() {
    func finding(_ offers: [AlternativeService]?) -> Finding {
      var connection = HTTPConnectionMetrics(protocolName: "HTTP/1.1", timeToFirstByte: .milliseconds(24))
      connection.alternatives = offers
      let response = HTTPResponse(status: 204, connection: connection)
      return .answer(StepAnswer(outcome: .warmed, responses: [response], time: .milliseconds(24)))
    }
    #expect(finding(nil).message == "the server answers over HTTP/1.1 (24 ms).")
    let offer = finding([AlternativeService("h2", port: 443), AlternativeService("h3", port: 443)])
    #expect(offer.message.hasSuffix(#"It offers HTTP/3 as well (h3=":443"), which this version does not use."#))
    #expect(offer.facts.last?.value == .texts([#"h2=":443""#, #"h3=":443""#]))
    #expect(finding([]).facts.count == finding(nil).facts.count && offer.level == .ok)
  }

  @Test func whyHTTP2IsNotTriedIsSaid() {
    let response = HTTPResponse(status: 204, connection: HTTPConnectionMetrics(protocolName: "HTTP/1.1"))
    let answer = StepAnswer(outcome: .warmed, responses: [response], time: .milliseconds(24))
    let stalls = Finding.answer(answer, hindranceOfHTTP2: .stalls(version: "7.88.1"))
    #expect(stalls.level == .ok && stalls.message.contains("HTTP/2 is not tried") && stalls.message.contains("7.88.1"))
    #expect(!Finding.answer(answer).message.contains("HTTP/2"))
  }

  @Test func aProxyThatFailsIsNamed() throws {
    let failure = StepFailure(.transport(.proxyFailed), "the proxy opens no way to upload.example.org: it answered 503")
    let finding = Finding.proxy(to: try #require(server), .refused(failure))
    #expect(finding.level == .problem && finding.check == .connection && finding.advice?.contains("--no-proxy") == true)
    #expect(Finding.proxy(to: try #require(server), .refused(StepFailure(.forbidden, "no"))).level == .skipped)
  }

  @Test func eachCauseOfAMissingConnectionHasItsAdvice() throws {
    for (attempt, advice) in [
      (NetworkProbe.Attempt.failed(errno: ECONNREFUSED), "Nothing listens at port 8443"),
      (.failed(errno: ENETUNREACH), "has no way there"), (.timedOut, "firewall"),
    ] {
      let finding = try connection([attempt])
      #expect(finding.level == .problem && finding.advice?.contains(advice) == true, "\(attempt)")
    }
  }

  @Test func anAddressOfAFamilyWithoutARouteIsNoFault() throws {
    #expect(try connection([.failed(errno: ENETUNREACH), .connected(.milliseconds(3))]).level == .ok)
  }

  @Test func anAddressThatIsDeadBesideOthersIsAWarning() throws {
    let finding = try connection([.timedOut, .connected(.milliseconds(3))])
    #expect(finding.level == .warning && finding.message.contains("192.0.2.0: no answer in 5 s"))
  }

  @Test func clocks() {
    #expect(Finding.clock(difference: nil).level == .skipped)
    #expect(Finding.clock(difference: -3).level == .ok)
    let hours = Finding.clock(difference: 7200)
    #expect(hours.level == .warning && hours.message == "the server's clock is 2.0 h ahead of this machine's.")
    #expect(
      ClockDifference.seconds(serverSeconds: 100, nowNanoseconds: 95_400_000_000, roundTrip: .seconds(2)) == 6)
  }

  @Test func aRefusalUnderAWrongClockNamesTheClockFirst() {
    let failure = StepFailure(.unauthorized, "refused.")
    #expect(Finding.refusal(failure, of: .testFile, clockDifference: 3).advice == nil)
    let finding = Finding.refusal(failure, of: .testFile, clockDifference: -8000)
    #expect(finding.check == .credentials && finding.advice?.contains("clocks differ by 2.2 h") == true)
    #expect(Finding.refusal(StepFailure(.badRequest, "no."), of: .testFile, clockDifference: nil).check == .testFile)
  }
}

@Suite struct SecurityFindingTests {
  private static let now: Int64 = 1_800_000_000
  private static let refusal = TransportError(.certificateRefused, "refused (unable to get local issuer certificate)")

  private func certificate(_ change: (inout PeerCertificate) -> Void = { _ in }) -> PeerCertificate {
    var certificate = PeerCertificate()
    certificate.subject = "CN = upload"
    certificate.issuer = "CN = somebody"
    certificate.names = ["DNS:*.example.org", "IP Address:192.0.2.1"]
    certificate.validFromSeconds = Self.now - 86_400 * 100
    certificate.validUntilSeconds = Self.now + 86_400 * 100
    change(&certificate)
    return certificate
  }

  private func finding(
    _ certificate: PeerCertificate?, host: String = "upload.example.org", refusal: TransportError? = refusal,
    serverSeconds: Int64? = nil, handshake: HandshakeReport? = nil, older: ServerProbe? = nil,
    other: ServerProbe? = nil, scheme: String = "https"
  ) throws -> Finding {
    var verified: ServerProbe?
    if let handshake {
      verified = ServerProbe()
      verified?.handshake = handshake
    }
    var current = ServerProbe()
    current.certificates = certificate.map { [$0] } ?? []
    return .security(
      of: try #require(ServerAddress(url: "\(scheme)://\(host):8443/")),
      SecurityProbe(
        current: current, verified: verified, older: older, other: other, refusal: refusal, nowSeconds: Self.now,
        serverSeconds: serverSeconds))
  }

  @Test func aGoodCertificateIsShownWithItsEnd() throws {
    let finding = try finding(certificate(), refusal: nil)
    #expect(finding.level == .ok && finding.message.hasSuffix("is valid until 2027-04-25."))
  }

  /// The reasons are words of the transport; what is to be done is not.
  @Test func whatPoliciesRefuseHasItsAdvice() throws {
    for (kind, advice) in [
      (TransportError.Kind.pinMismatch, "--pin"), (.transparencyRefused, "logs of two operators"),
      (.certificateRevoked, "Have a new certificate made"), (.stapleMissing, "OCSP stapling"),
    ] {
      let finding = try finding(certificate(), refusal: TransportError(kind, "the reason"))
      #expect(finding.level == .problem && finding.message == "the reason.")
      #expect(finding.advice?.contains(advice) == true)
    }
  }

  @Test func whatAHandshakeHasShownIsSaid() throws {
    var report = HandshakeReport()
    report.keys = [1, 2].compactMap { PublicKeyPin(digest: Array(repeating: $0, count: 32)) }
    report.transparency = .notNeeded(.withoutList)
    report.staple = StapleVerdict.none
    let plain = try finding(certificate(), refusal: nil, handshake: report)
    #expect(plain.level == .ok && plain.message.hasSuffix("no OCSP response came with it."))
    #expect(
      plain.message.contains("2027-04-25. Not pinned; Certificate Transparency is not enforced: there is no list"))
    report.pinned = 1
    report.transparency = .accepted(timestamps: 3, operators: ["Elm", "Oak"])
    report.staple = .good(untilSeconds: Self.now)
    let best = try finding(certificate(), refusal: nil, handshake: report)
    #expect(best.message.contains("Pinned (1 of 2 keys); 3 timestamps of certificate logs, of Elm and Oak; the OCSP"))
    #expect(best.level == .ok && best.message.hasSuffix("says good until 2027-01-15."))
    report.transparency = .notNeeded(.listTooOld(days: 80))
    #expect(try finding(certificate(), refusal: nil, handshake: report).level == .warning)
    report.transparency = .exempt
    report.staple = .unusable("has expired")
    let finding = try finding(certificate(), refusal: nil, handshake: report)
    #expect(finding.level == .warning && finding.message.hasSuffix("has expired, and does not count."))
  }

  @Test func aCertificateThatEndsSoonIsAWarning() throws {
    let finding = try finding(certificate { $0.validUntilSeconds = Self.now + 86_400 * 3 }, refusal: nil)
    #expect(finding.level == .warning && finding.message.contains("3 days"))
  }

  @Test func anExpiredOneIsTheServersFault() throws {
    let finding = try finding(certificate { $0.validUntilSeconds = Self.now - 1 }, serverSeconds: Self.now)
    #expect(finding.level == .problem && finding.advice == "Have the server's certificate renewed.")
  }

  @Test func oneThatIsValidByTheServersClockIsThisMachinesFault() throws {
    let finding = try finding(
      certificate { $0.validFromSeconds = Self.now + 3600 }, serverSeconds: Self.now + 86_400)
    #expect(finding.level == .problem && finding.advice?.contains("this machine's clock") == true)
  }

  @Test func oneForAnotherHostNamesWhomItIsFor() throws {
    let finding = try finding(certificate(), host: "other.example.net")
    #expect(finding.message.contains("*.example.org") && finding.message.contains("not for other.example.net"))
  }

  @Test func oneOfAnUnknownAuthorityLeadsToTheSetting() throws {
    #expect(try finding(certificate()).advice?.contains("--ca FILE") == true)
    #expect(try finding(certificate { $0.issuer = $0.subject }).message.contains("signed by itself"))
  }

  @Test func whatIsNoTLSIsNamed() throws {
    var older = ServerProbe()
    older.certificates = [certificate()]
    #expect(try finding(nil, older: older).message.contains("before 1.3"))
    var plain = ServerProbe()
    plain.status = 400
    #expect(try finding(nil, older: ServerProbe(), other: plain).message.contains("answers plain HTTP"))
    #expect(try finding(nil, older: ServerProbe(), other: ServerProbe()).advice?.contains("Check the port") == true)
    #expect(try finding(nil, other: older, scheme: "http").advice == "Write https instead of http in --to.")
  }
}

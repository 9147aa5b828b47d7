import CurlTransport
import FileModel
import MountConfiguration
import Testing
import TransferModel

@testable import Doctor

@Suite struct FindingsTests {
  private static func findings(_ all: Finding...) -> Findings {
    var findings = Findings(destinations: [Findings.Subject(.main, "https://upload.example.org")])
    for finding in all { findings.add(finding) }
    return findings
  }

  private static let good = Finding(.spool, .ok, "a sentence.")
  private static let warning = Finding(.spool, .warning, "a sentence.", status: .usage)

  @Test func warningsAreNoFailure() {
    let findings = Self.findings(Self.good, Self.warning, Finding(.spool, .skipped, "a sentence."))
    #expect(findings.exitStatus == .success)
    #expect(findings.summary == "1 warning found; captures can be delivered.")
    #expect(Self.findings(Self.good).summary == "All is well.")
  }

  @Test func theFirstProblemDecidesTheExitCode() {
    let findings = Self.findings(
      Self.warning, Finding(.fuse, .problem, "a sentence.", status: .fuseUnavailable),
      Finding(.spool, .problem, "a sentence.", status: .spoolUnusable))
    #expect(findings.exitStatus == .fuseUnavailable)
    #expect(findings.summary == "2 problems and 1 warning found.")
  }

  @Test func wordsAreOneLineAndWhatToDoNextAnother() {
    let finding = Finding(.tls, .problem, "bad\u{1b}[2J.", advice: "Do this.")
    #expect(finding.words == "PROBLEM  tls          bad\\u{1b}[2J.\n                     → Do this.")
  }

  @Test func jsonHoldsEverythingThatTheWordsSay() {
    var findings = Findings(destinations: [Findings.Subject(.main, "https://upload.example.org")])
    findings.add(
      Finding(.clock, .warning, "a “clock”.", advice: "Set it.", facts: [.init(key: "seconds", value: .number(-7))]))
    #expect(
      String(decoding: findings.json, as: UTF8.self) == """
        {
          "destination": "https://upload.example.org",
          "ok": true,
          "exit_code": 0,
          "problems": 0,
          "warnings": 1,
          "findings": [{"check": "clock", "level": "warning", "message": "a “clock”.", "advice": "Set it.", \
        "facts": {"seconds": -7}}]
        }

        """)
  }

  @Test func jsonOfSeveralDestinationsSaysWhichOneAFindingIsAbout() throws {
    let archive = try #require(DestinationName("archive"))
    var findings = Findings(destinations: [.init(.main, "https://a"), .init(archive, "s3+https://b/c")])
    findings.add(Finding(.names, .ok, "a."), about: .main)
    findings.add(Finding(.tls, .problem, "b."), about: archive)
    findings.add(Finding(.memory, .skipped, "c."))
    #expect(findings.exitStatus == .destinationUnusable)
    #expect(
      String(decoding: findings.json, as: UTF8.self) == """
        {
          "destination": "https://a",
          "ok": false,
          "exit_code": 15,
          "problems": 1,
          "warnings": 0,
          "destinations": [{"name": "main", "to": "https://a", "ok": true, "problems": 0, "warnings": 0}, \
        {"name": "archive", "to": "s3+https://b/c", "ok": false, "problems": 1, "warnings": 0}],
          "findings": [{"destination": "main", "check": "names", "level": "ok", "message": "a.", "advice": null}, \
        {"destination": "archive", "check": "tls", "level": "problem", "message": "b.", "advice": null}, \
        {"destination": null, "check": "memory", "level": "skipped", "message": "c.", "advice": null}]
        }

        """)
  }

  @Test(arguments: [true, false]) func abilitiesAreSaidInWordsAndAsFacts(isStreaming: Bool) {
    var abilities = DestinationAbilities(
      parallelChunks: 9, replaceableChunks: false, unknownLength: false, wholeFileBytesMax: 1 << 20, fileBytesMax: nil)
    abilities.streamsWholeFiles = isStreaming
    abilities.appendSequences = isStreaming ? .none : .one
    let finding = Finding.abilities(abilities)
    #expect(finding.message.contains(isStreaming ? "9 files at the same time" : "9 chunks at the same time"))
    #expect(finding.message.contains(isStreaming ? "begins anew" : "goes on where it was"))
    let facts = Dictionary(uniqueKeysWithValues: finding.facts.map { ($0.key.description, $0.value) })
    #expect(facts["resumes"] == .flag(!isStreaming) && facts["streams_whole_files"] == .flag(isStreaming))
    #expect(facts["chunk_rows"] == .text(isStreaming ? "none" : "one"))
    #expect(facts["parallel_chunks"] == .number(9) && facts["whole_file_bytes_max"] == .number(1 << 20))
  }

  /// Regression: lengths of chunks below zero ended the program.
  @Test(arguments: [-5 ... -1, -1...(4 << 20), Int.min...Int.max] as [ClosedRange<Int>])
  func lengthsBelowZero_areNothing(chunkBytes: ClosedRange<Int>) {
    let abilities = DestinationAbilities(
      parallelChunks: 1, replaceableChunks: true, unknownLength: true, wholeFileBytesMax: 0, fileBytesMax: nil)
    let limits = DestinationLimits(chunkBytes: chunkBytes, wholeFileBytesMax: -1)
    let finding = Finding.limits(abilities, limits, fileBytesMax: 1 << 40)
    #expect(finding.level == .ok && finding.message.hasPrefix("chunks of 0 B to "))
  }

  @Test func secretsOfAnAddressAreNotItsHost() throws {
    let server = try #require(ServerAddress(url: "https://[2001:db8::7]:8443/v1/"))
    #expect(server.host == "2001:db8::7" && server.port == 8443 && server.authority == "[2001:db8::7]:8443")
    #expect(try #require(ServerAddress(url: "http://localhost/a:b?c")).authority == "localhost:80")
    #expect(try #require(ServerAddress(url: "https://Host.Example")).authority == "host.example:443")
    #expect(ServerAddress(url: "ftp://host/") == nil && ServerAddress(url: "https://host:99999/") == nil)
  }

  @Test func proxiesAreReadAsLibcurlReadsThem() throws {
    let server = try #require(ServerAddress(url: "https://upload.example.org"))
    let own = try #require(ServerAddress(url: "https://127.0.0.1:1"))
    let uses = { (environment: [String: String], server: ServerAddress) in
      ProxyUse(CurlProxy(), environment).holds(forHost: server.host, isEncrypted: server.isEncrypted)
    }
    #expect(!uses([:], server))
    #expect(uses(["HTTPS_PROXY": "http://proxy:3128"], server))
    #expect(!uses(["https_proxy": "http://proxy:3128", "no_proxy": ".example.org"], server))
    #expect(!uses(["http_proxy": "http://proxy:3128"], server))
    #expect(!uses(["https_proxy": "http://proxy:3128"], own))
    let proxy = CurlProxy(url: "http://proxy:3128", exceptions: "example.org")
    #expect(ProxyUse(proxy, [:]).holds(forHost: own.host, isEncrypted: true))
    #expect(!ProxyUse(proxy, [:]).holds(forHost: server.host, isEncrypted: true))
  }

  /// Regression: a connection past the proxy was taken for one through it.
  @Test func networksAreExceptionsForAddresses() {
    for (host, exceptions, isDirect) in [
      ("10.1.2.3", "10.0.0.0/8", true), ("11.1.2.3", "10.0.0.0/8", false), ("192.0.2.129", "a, 192.0.2.128/25", true),
      ("192.0.2.127", "192.0.2.128/25", false), ("192.0.2.1", "0.0.0.0/0", true),
      ("2001:db8::7", "2001:db8::/32", true),
      ("2001:db9::7", "2001:db8::/32", false), ("::1", "0.0.0.0/0", false), ("10.1.2.3", "10.0.0.0/33", false),
      ("host", "10.0.0.0/8", false), ("10.0.0.1", "10.0.0.0/", false),
    ] {
      let proxy = CurlProxy(url: "http://proxy:3128", exceptions: exceptions)
      #expect(ProxyUse(proxy, [:]).holds(forHost: host, isEncrypted: true) != isDirect, "\(host) \(exceptions)")
    }
  }
}

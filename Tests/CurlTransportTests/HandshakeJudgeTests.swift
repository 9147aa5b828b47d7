import Testing
import TransferModel

@testable import CurlTransport

private let day: Int64 = 86_400
private let now: Int64 = 1_800_000_000

/// A list with logs whose keys are single bytes: `1` and `3` of Elm, `2` of Oak, `4` retired, `5` rejected, `6` of another year.
private func list() throws -> TransparencyLogList {
  let text = """
    {"log_list_timestamp": "2027-01-10T00:00:00Z", "operators": [
      {"name": "Elm", "logs": [
        {"description": "one", "key": "AQ==", "state": {"usable": {"timestamp": "2020-01-01T00:00:00Z"}}},
        {"key": "Aw==", "state": {"readonly": {}}}]},
      {"name": "Oak", "email": [], "tiled_logs": [
        {"description": "two", "key": "Ag==", "state": {"qualified": {}}, "more": 1,
         "temporal_interval": {"start_inclusive": "2027-01-01T00:00:00Z", "end_exclusive": "2028-01-01T00:00:00Z"}}]},
      {"name": "Ash", "logs": [
        {"description": "four", "key": "BA==", "state": {"retired": {"timestamp": "2027-01-01T00:00:00Z"}}},
        {"description": "five", "key": "BQ==", "state": {"of the future": {}}},
        {"description": "six", "key": "Bg==", "state": {"usable": {}},
         "temporal_interval": {"start_inclusive": "2026-01-01T00:00:00Z", "end_exclusive": "2027-01-01T00:00:00Z"}}]}]}
    """
  return try TransparencyLogList(json: Array(text.utf8))
}

/// The SHA-256 of a key of one byte, as the list has it.
private func log(_ key: UInt8, in list: TransparencyLogList) throws -> [UInt8] {
  try #require(list.all.first { $0.key == [key] }).id
}

@Suite struct TransparencyLogListTests {
  @Test func theFormOfBrowsersIsUnderstood() throws {
    let list = try list()
    #expect(
      list.all.count == 6 && list.ageDays(at: list.madeAtSeconds + 70 * day - 1) == 69 && list.ageDays(at: 0) == 0)
    let two = try #require(list[try log(2, in: list)])
    #expect(two.operatorName == "Oak" && two.isInUse && two.ends?.contains(now) == true)
    let three = try #require(list[try log(3, in: list)])
    #expect(three.name == "Aw==" && three.isInUse)
    #expect(list[try log(5, in: list)]?.state == .rejected)
    #expect(list.openSSLConfiguration.hasPrefix("enabled_logs = log0,log1,log2,log3,log4,log5\n[log0]\n"))
    #expect(list[[]] == nil)
  }

  @Test(arguments: [
    ("{", "it is no JSON"), ("[]", "another kind of value"),
    ("{\"log_list_timestamp\": \"\"}", "“operators” is missing"),
    ("{\"operators\": []}", "Apple's list"), ("{\"operators\": [], \"log_list_timestamp\": \"soon\"}", "of when it is"),
    ("{\"operators\": [], \"log_list_timestamp\": \"2027-01-01T00:00:00Z\"}", "names no log"),
    (entry("\"key\": \"?\", \"state\": {\"usable\": {}}"), "is no base64, at the log ?"),
    (entry("\"key\": \"AQ==\""), "which state a log has"),
    (entry("\"key\": \"AQ==\", \"state\": {\"usable\": {}, \"retired\": {}}"), "which state a log has"),
    (entry("\"key\": \"AQ==\", \"log_id\": \"AQ==\", \"state\": {\"usable\": {}}"), "not the key's SHA-256"),
    (
      entry(
        "\"key\": \"AQ==\", \"state\": {\"usable\": {}}, \"temporal_interval\": {\"start_inclusive\": \"a\", \"end_exclusive\": \"b\"}"
      ), "temporal_interval"
    ),
    (entry("\"state\": {\"usable\": {}}"), "operators.Index 0.logs.Index 0"),
  ])
  func whatIsNoListSaysWhy(text: String, words: String) {
    let error = #expect(throws: TransparencyLogList.Problem.self) { try TransparencyLogList(json: Array(text.utf8)) }
    #expect(error?.words.contains(words) == true, "\(error?.words ?? "")")
  }

  private static func entry(_ members: String) -> String {
    "{\"log_list_timestamp\": \"2027-01-01T00:00:00Z\", \"operators\": [{\"name\": \"o\", \"logs\": [{\(members)}]}]}"
  }

  /// OpenSSL reads what was written for it, and refuses a key that is none.
  @Test func keysThatAreNoneAreRefused() {
    let text = Self.entry("\"description\": \"x\", \"key\": \"AQ==\", \"state\": {\"usable\": {}}")
    #expect(throws: TransparencyLogList.Problem.self) { try TransparencyLogs(json: Array(text.utf8)) }
  }
}

@Suite struct TransparencyVerdictTests {
  private func verdict(
    _ timestamps: [(key: UInt8, TimestampFacts.Validity, isEmbedded: Bool, seconds: Int64)]
  ) throws -> TransparencyVerdict {
    let list = try list()
    let facts = try timestamps.map { timestamp in
      TimestampFacts(
        log: timestamp.key == 0 ? [] : try log(timestamp.key, in: list), validity: timestamp.1,
        isEmbedded: timestamp.isEmbedded, millisecondsSince1970: UInt64(timestamp.seconds) * 1000)
    }
    return .of(facts, list, endSeconds: now)
  }

  private func good(_ key: UInt8) -> (key: UInt8, TimestampFacts.Validity, isEmbedded: Bool, seconds: Int64) {
    (key, .valid, true, now - 300 * day)
  }

  @Test func twoOperatorsAreEnough() throws {
    #expect(try verdict([good(1), good(2)]) == .accepted(timestamps: 2, operators: ["Elm", "Oak"]))
    #expect(try verdict([good(3), good(0), good(2), good(1)]) == .accepted(timestamps: 3, operators: ["Elm", "Oak"]))
  }

  @Test func aRetiredLogCountsForWhatCannotBeNewer() throws {
    #expect(try verdict([good(1), good(4)]) == .accepted(timestamps: 2, operators: ["Ash", "Elm"]))
    for (isEmbedded, seconds) in [(false, now - 300 * day), (true, now)] {
      let refused = try verdict([good(1), (4, .valid, isEmbedded, seconds)])
      guard case .refused(let words) = refused else {
        Issue.record("\(refused)")
        continue
      }
      #expect(words.contains("“four”, which was retired on 2027-01-01"))
    }
  }

  @Test func eachFaultIsNamed() throws {
    let cases: [([(key: UInt8, TimestampFacts.Validity, isEmbedded: Bool, seconds: Int64)], String)] = [
      ([], "it shows no timestamps of certificate logs"),
      ([good(1)], "one timestamp counts, that of the log “one” (Elm)"),
      ([good(1), good(1)], "one timestamp counts, that of the log “one” (Elm)"),
      ([good(1), good(3)], "all timestamps that count are of logs of one operator, Elm"),
      (
        [good(0), (2, .unknownLog, true, 0)], "none of its 2 timestamps counts; one is of a log that is not in the list"
      ),
      ([good(1), (2, .forged, true, now)], "one is forged"),
      ([good(1), (2, .unreadable, true, now)], "cannot be read"),
      ([good(1), good(5)], "“five”, which is rejected"),
      ([good(1), good(6)], "“six”, which takes no certificates that end on 2027-01-15"),
    ]
    for (timestamps, expected) in cases {
      guard case .refused(let words) = try verdict(timestamps) else {
        Issue.record("accepted: \(expected)")
        continue
      }
      #expect(words.contains(expected), "\(words)")
    }
  }

  @Test func aListOfMoreThan70DaysIsNotEnforced() {
    func standing(_ policy: TransparencyPolicy, _ madeAt: Int64?) -> TransparencyStanding {
      TransparencyStanding(policy, listMadeAtSeconds: madeAt, nowSeconds: now)
    }
    #expect(standing(.publicOnly, nil) == .withoutList && standing(.off, now) == .off)
    #expect(standing(.always, now - 71 * day + 1) == .enforced(days: 70))
    #expect(standing(.always, now - 71 * day) == .listTooOld(days: 71))
    #expect(standing(.publicOnly, now + 5 * day) == .enforced(days: 0))
  }
}

@Suite struct StapleVerdictTests {
  private func verdict(_ status: StapleFacts.Status, _ from: Int64?, _ until: Int64?) -> StapleVerdict {
    .of(.signed(status, validFromSeconds: from, validUntilSeconds: until), nowSeconds: now)
  }

  @Test func clocksMayDifferByFiveMinutes() {
    #expect(verdict(.good, now + 300, now - 300) == .good(untilSeconds: now - 300))
    #expect(verdict(.good, now + 301, nil) == .unusable("begins on 2027-01-15"))
    #expect(verdict(.good, nil, now - 301) == .unusable("has expired on 2027-01-15"))
    #expect(verdict(.good, nil, nil) == .good(untilSeconds: nil))
  }

  @Test func aRevocationDoesNotExpire() {
    #expect(verdict(.revoked(atSeconds: 5), nil, now - 90 * day) == .revoked(atSeconds: 5))
  }

  @Test func whatSaysNothingDoesNotCount() {
    for facts in [
      StapleFacts.unreadable, .forged, .foreign, .signed(.unknown, validFromSeconds: nil, validUntilSeconds: nil),
    ] {
      guard case .unusable = StapleVerdict.of(facts, nowSeconds: now) else {
        Issue.record("\(facts)")
        continue
      }
    }
    #expect(StapleVerdict.of(.none, nowSeconds: now) == StapleVerdict.none)
  }
}

@Suite struct HandshakeJudgeTests {
  private let keys = [[UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32)].compactMap {
    PublicKeyPin(digest: $0)
  }

  private func judge(
    pins: [PublicKeyPin] = [], _ policy: TransparencyPolicy = .publicOnly,
    _ standing: TransparencyStanding = .enforced(days: 1),
    hasOwnAuthorities: Bool = false
  ) throws -> HandshakeJudge {
    var trust = ServerTrust()
    trust.pins = pins
    trust.transparency = policy
    return HandshakeJudge(host: "host", trust, standing, try list(), hasOwnAuthorities: hasOwnAuthorities)
  }

  private func chain(_ change: (inout ChainFacts) -> Void = { _ in }) -> ChainFacts {
    var chain = ChainFacts()
    chain.keys = keys
    chain.validUntilSeconds = now
    change(&chain)
    return chain
  }

  @Test func pinsAreWrittenAsCurlWritesThem() throws {
    let pin = try #require(PublicKeyPin("sha256//AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="))
    #expect(pin == keys[0] && PublicKeyPin(pin.description) == pin)
    for text in ["", "sha256//", "sha256//AQ==", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "SHA256//AQ=="] {
      #expect(PublicKeyPin(text) == nil, "\(text)")
    }
  }

  @Test func oneKeyOfTheChainMustBePinned() throws {
    var judge = try judge(pins: [keys[1]], .off, .off)
    var goesOn = judge.see(chain())
    #expect(goesOn && judge.report.pinned == 1 && judge.refusal == nil)
    judge = try self.judge(pins: [keys[1]], .off, .off)
    goesOn = judge.see(chain { $0.keys.removeLast() })
    #expect(!goesOn && judge.refusal?.kind == .pinMismatch)
    #expect(judge.refusal?.message.contains(keys[0].description) == true)
  }

  @Test func aChainThatIsNotTrustedIsRefusedWhateverIsPinned() throws {
    for (error, words) in [
      (Int32(10), "has expired on 2027-01-15"), (9, "is not yet valid"), (18, "signed by itself"),
      (20, "authority that this machine does not trust"), (1, "was refused (words)"),
    ] {
      var judge = try judge(pins: keys)
      let facts = chain {
        $0.error = error
        $0.errorText = "words"
      }
      let goesOn = judge.see(facts)
      #expect(!goesOn && judge.refusal?.kind == .certificateRefused)
      #expect(judge.refusal?.message.contains(words) == true, "\(judge.refusal?.message ?? "")")
    }
  }

  /// A handshake whose timestamps nobody asked about must not count as one with enough.
  @Test func whereTimestampsAreNeededTheVerdictIsAwaited() throws {
    var judge = try judge()
    #expect(!judge.lacksVerdict)
    var goesOn = judge.see(chain())
    #expect(goesOn && judge.lacksVerdict)
    goesOn = judge.see([])
    #expect(!goesOn && !judge.lacksVerdict && judge.refusal?.kind == .transparencyRefused)
  }

  @Test func addedAuthoritiesAreExemptUnlessAllNeedTimestamps() throws {
    for (policy, hasOwn, isAdded, isExempt) in [
      (TransparencyPolicy.publicOnly, true, false, true), (.publicOnly, false, true, true),
      (.publicOnly, false, false, false), (.always, true, true, false),
    ] {
      var judge = try judge(policy, hasOwnAuthorities: hasOwn)
      var goesOn = judge.see(chain { $0.isAddedAuthority = isAdded })
      #expect(goesOn && judge.lacksVerdict != isExempt)
      goesOn = judge.see([])
      #expect(goesOn == isExempt)
    }
  }

  @Test func aCertificateThatIsItsOwnAuthorityHasNoTimestamps() throws {
    var judge = try judge(.always)
    let goesOn = judge.see(chain { $0.keys.removeLast() })
    #expect(!goesOn && judge.refusal?.kind == .transparencyRefused)
  }

  @Test func withoutAListNothingIsAskedFor() throws {
    for standing in [TransparencyStanding.off, .withoutList, .listTooOld(days: 80)] {
      var judge = try judge(standing)
      var goesOn = judge.see(chain())
      #expect(goesOn && !judge.lacksVerdict)
      goesOn = judge.see([])
      #expect(goesOn)
      #expect(judge.report.transparency == .notNeeded(standing))
    }
  }

  private func judge(_ standing: TransparencyStanding) throws -> HandshakeJudge { try judge(.publicOnly, standing) }

  @Test func aStapleIsNeededWhereTheCertificateSaysSo() throws {
    let expired = StapleFacts.signed(.good, validFromSeconds: nil, validUntilSeconds: 5)
    for (isRequired, facts, kind) in [
      (false, StapleFacts.none, TransportError.Kind?.none), (false, expired, nil), (false, .forged, nil),
      (true, .none, .stapleMissing), (true, expired, .stapleMissing), (true, .forged, .stapleMissing),
      (true, .signed(.good, validFromSeconds: nil, validUntilSeconds: nil), nil),
      (false, .signed(.revoked(atSeconds: nil), validFromSeconds: nil, validUntilSeconds: nil), .certificateRevoked),
    ] {
      var judge = try judge(.off, .off)
      var goesOn = judge.see(chain { $0.requiresStaple = isRequired })
      #expect(goesOn)
      goesOn = judge.see(facts, nowSeconds: now)
      #expect(goesOn == (kind == nil) && judge.refusal?.kind == kind)
    }
  }
}

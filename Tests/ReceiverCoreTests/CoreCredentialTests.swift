import ChunkProtocol
import Integrity
import Promises
import ReceiverCore
import Testing

/// One user with several tokens.
@Suite struct CoreCredentialTests {
  private func opening(_ core: CoreHarness) -> SessionRecord? {
    let request = core.open()
    core.runEffects()
    guard case .sessionOpened(let facts, _, _, _, _)? = core.replies[request]?.last else { return nil }
    return facts
  }

  @Test("Regression: the sessions of a token that was exchanged go on", .promises("P5", "P89a", "SE11"))
  func exchangedToken_keepsItsSessions() throws {
    let before = CoreHarness()
    let facts = try #require(opening(before))
    let user = Credential(token: "new", formerTokens: [CoreHarness.token], root: "/files")
    let core = CoreHarness()
    core.core = ReceiverCore(limits: core.limits, credentials: [user.core, core.other.core])
    core.core.recover(open: facts, lastChange: core.now)
    // MACs under the token that opened the session, and under the new one.
    for (index, token) in [CoreHarness.token, "new"].enumerated() {
      let bytes: [UInt8] = [1, 2, 3, UInt8(index)]
      let mac = core.mac(bytes, index: UInt32(index), session: facts.id, token: token)
      let request = core.begin(facts.sessionID, UInt32(index), bytes, mac: mac, by: user)
      core.runEffects()
      core.send(.chunkArrived(request, CoreHarness.facts(bytes)))
      core.runEffects()
      guard case .chunkStored(wasHeld: false)? = core.replies[request]?.last else {
        Issue.record("\(token): \(String(describing: core.replies[request]))")
        continue
      }
    }
    let mac = core.mac([9], index: 2, session: facts.id, token: CoreHarness.otherToken)
    let request = core.begin(facts.sessionID, 2, [9], mac: mac, by: user)
    core.send(.chunkArrived(request, CoreHarness.facts([9])))
    #expect(core.refusal(request) == .tagMismatch)
    #expect(core.refusal(core.query(facts.sessionID, by: core.other)) == .sessionGone)
    // The key of then gives the session of then.
    let again = core.open(by: user)
    guard case .sessionOpened(let found, isNew: false, _, _, _)? = core.replies[again]?.last else {
      Issue.record("\(String(describing: core.replies[again]))")
      return
    }
    #expect(found.id == facts.id)
  }

  @Test("Regression: a token that is exchanged while the receiver runs takes nothing from its user")
  func credentialsThatChange_keepWhatIsUnderWay() throws {
    let core = CoreHarness()
    let facts = try #require(opening(core))
    let before: [UInt8] = [1, 2, 3, 4]
    // Its body is on its way while the tokens are read anew.
    let request = core.begin(
      facts.sessionID, 0, before, mac: core.mac(before, index: 0, session: facts.id, token: CoreHarness.token))
    core.runEffects()
    let file = core.beginFile([7], name: "small", key: "small", by: core.other)
    core.runEffects()
    let roster = CredentialRoster([core.credential, core.other])
    let renewed = try roster.renewed([
      Credential(token: "new", formerTokens: [CoreHarness.token], root: "/files", quotaBytes: 1000)
    ])
    let user = try #require(renewed.first)
    #expect(user.id == core.credential.id)
    core.send(.credentialsChanged(renewed.map(\.core)))
    // A quota that is new counts what lies there.
    #expect(core.measurements == 1)
    core.send(.chunkArrived(request, CoreHarness.facts(before)))
    core.runEffects()
    guard case .chunkStored(wasHeld: false)? = core.replies[request]?.last else {
      Issue.record("\(String(describing: core.replies[request]))")
      return
    }
    let after: [UInt8] = [5, 6, 7, 8]
    let next = core.begin(
      facts.sessionID, 1, after, mac: core.mac(after, index: 1, session: facts.id, token: "new"), by: user)
    core.send(.chunkArrived(next, CoreHarness.facts(after)))
    core.runEffects()
    guard case .chunkStored(wasHeld: false)? = core.replies[next]?.last else {
      Issue.record("\(String(describing: core.replies[next]))")
      return
    }
    // What was let in of a user who is gone since is answered.
    core.send(.wholeFileArrived(file, CoreHarness.facts([7])))
    core.runEffects()
    guard case .receipt? = core.replies[file]?.last else {
      Issue.record("\(String(describing: core.replies[file]))")
      return
    }
  }

  @Test("Regression: what is begun after an exchange is found by the new token alone")
  func sessionAfterAnExchange_isRecordedUnderTheNewToken() throws {
    let core = CoreHarness()
    let roster = CredentialRoster([core.credential])
    let user = try #require(
      try roster.renewed([Credential(token: "new", formerTokens: [CoreHarness.token], root: "/files")]).first)
    core.send(.credentialsChanged([user.core]))
    _ = core.open(by: user)
    let recorded = core.pending.compactMap { effect -> SessionRecord? in
      if case .createSession(let facts) = effect { facts } else { nil }
    }
    #expect(recorded.map(\.credentialID) == [Credential(token: "new", root: "/files").id])
    #expect(user.id == core.credential.id)
  }

  @Test("Regression: two spellings of one name are two names", .promises("P75a"))
  func names_areComparedByBytes() throws {
    let core = CoreHarness()
    let first = core.beginFile([1], name: "caf\u{e9}", key: "a")
    let second = core.beginFile([2], name: "cafe\u{301}", key: "b")
    core.send(.wholeFileArrived(second, CoreHarness.facts([2])))
    core.send(.wholeFileArrived(first, CoreHarness.facts([1])))
    // Neither waits for the other.
    let publications = core.pending.count { if case .publishWholeFile = $0 { true } else { false } }
    #expect(publications == 2)
  }
}

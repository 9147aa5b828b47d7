import ReceiverCore
import Testing

/// Who is whom when a token file is read anew.
@Suite struct CredentialRosterTests {
  private func user(_ token: String, also others: [String] = [], was former: [String] = []) -> Credential {
    Credential(token: token, otherTokens: others, formerTokens: former, root: "/files")
  }

  @Test func userWithAKnownToken_keepsItsName() throws {
    var roster = CredentialRoster([user("a"), user("b")])
    let first = try roster.renewed([user("new", was: ["a"]), user("b", also: ["c"])])
    #expect(first.map(\.id) == [user("a").id, user("b").id])
    #expect(Set(first[0].ids) == Set([user("new").id, user("a").id]))
    roster.note(first)
    // The old token is taken out: the new one is known by now.
    let second = try roster.renewed([user("new"), user("c"), user("d")])
    #expect(second.map(\.id) == [user("a").id, user("b").id, user("d").id])
    #expect(second[0].ids.contains(user("a").id))
    roster.note(second)
    // One that was taken out comes back.
    #expect(try roster.renewed([user("b")]).map(\.id) == [user("b").id])
  }

  @Test func usersThatAreJoinedOrDivided_areRefused() {
    let roster = CredentialRoster([user("a"), user("b", also: ["c"])])
    #expect(throws: CredentialChangeError.joins(user: 1)) { try roster.renewed([user("a", was: ["b"])]) }
    #expect(throws: CredentialChangeError.divides(user: 3)) {
      try roster.renewed([user("a"), user("b"), user("c")])
    }
  }
}

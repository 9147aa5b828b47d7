import Logging
import Promises
import ReceiverCore
import Testing

@testable import UploadReceiver

@Suite struct CredentialTests {
  @Test(.promises("P3")) func authorization_isRecognisedExactly() {
    let table = CredentialTable([Credential(token: "one", root: "/1"), Credential(token: "two", root: "/2")])
    #expect(table.credential(authorization: "Bearer one") == Credential(token: "one", root: "").id)
    #expect(table.credential(authorization: "bearer  two") == Credential(token: "two", root: "").id)
    for wrong in [nil, "", "Bearer", "Bearer ", "Bearer on", "Bearer onee", "Basic one", "one", "Bearer one two"] {
      #expect(table.credential(authorization: wrong) == nil, "\(wrong ?? "nothing")")
    }
  }

  @Test func openReceiver_takesEveryone() {
    let table = CredentialTable([Credential(token: nil, root: "/1")])
    #expect(table.credential(authorization: nil) == Credential(token: nil, root: "").id)
    #expect(table.credential(authorization: "Bearer x") == Credential(token: nil, root: "").id)
  }

  /// What was begun under a former token is still its user's.
  @Test func user_isItsPlaceInTheTokenFile_byEachOfItsTokens() {
    let credentials = [
      Credential(token: "one", otherTokens: ["second"], root: "/1"),
      Credential(token: "two", formerTokens: ["old"], root: "/2"),
    ]
    let users = UserNumbers(credentials)
    for (token, number) in [("one", 1), ("second", 1), ("two", 2), ("old", 2)] {
      #expect(users.metadata(of: Credential(token: token, root: "").id) == ["user": "\(number)"])
    }
    #expect(users.metadata(of: CredentialID("another")) == nil && users.metadata(of: nil) == nil)
  }

  @Test("Regression: the user of --development was counted before those of the token file")
  func userOfTheDevelopmentToken_isCountedBehindTheFile() {
    let setup = DevelopmentSetup(
      authorityPath: "", tokenPath: "", certificateChainPEM: [], privateKeyPEM: [], token: "development", replaced: [])
    let file = [Credential(token: "one", root: "/1"), Credential(token: "two", root: "/2")]
    let credentials = setup.users(after: file, publishing: "/files")
    #expect(credentials == file + [Credential(token: "development", root: "/files")])
    let users = UserNumbers(credentials)
    for (token, number) in [("one", 1), ("two", 2), ("development", 3)] {
      #expect(users.metadata(of: Credential(token: token, root: "").id) == ["user": "\(number)"])
    }
  }

  @Test func byteBudget_servesInOrderAndRefusesTheLate() async throws {
    let budget = ByteBudget(bytes: 10, clock: ReceiverClock())
    let owner = CredentialID("one")
    let first = try #require(await budget.take(10, of: owner))
    async let second = budget.take(4, of: owner)
    // Serves the clients that have come by then; a later one finds it free.
    budget.give(of: first)
    budget.give(of: try #require(await second))
    #expect(budget.freeBytes == 10)
  }
}

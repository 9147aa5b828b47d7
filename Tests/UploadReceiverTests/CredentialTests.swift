import ReceiverCore
import Testing

@testable import UploadReceiver

@Suite struct CredentialTests {
  @Test func tokenFile_isReadWithCommentsAndQuotas() throws {
    let text = "# who\n\nscanner  tok-1\n/srv/audio tok-2 quota=1000 # ten minutes\n\tlab/a\ttok-3\r\n"
    let credentials = try TokenFile.parse(text, base: "/root")
    #expect(
      credentials == [
        Credential(token: "tok-1", root: "/root/scanner"),
        Credential(token: "tok-2", root: "/srv/audio", quotaBytes: 1000),
        Credential(token: "tok-3", root: "/root/lab/a"),
      ])
  }

  @Test(
    arguments: [
      ("scanner", 1), ("\nscanner tok extra more", 2), ("../x tok", 1), ("a/../../x tok", 1), ("a tok quota=many", 1),
      ("a tok limit=3", 1), ("a tok\nb tok", 2), ("a t\u{e9}k", 1), ("# nothing\n", 0), ("", 0),
    ])
  func wrongTokenFile_namesTheLineAndNoToken(text: String, line: Int) {
    #expect {
      _ = try TokenFile.parse(text, base: "/root")
    } throws: { error in
      (error as? TokenFileError)?.line == line && !"\(error)".contains("tok ")
    }
  }

  @Test func authorization_isRecognisedExactly() {
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

  @Test func byteBudget_servesInOrderAndRefusesTheLate() async {
    let budget = ByteBudget(bytes: 10, clock: ReceiverClock())
    #expect(await budget.take(10))
    async let second = budget.take(4)
    // The first give serves whoever has come by then; the second one whoever came later.
    budget.give(10)
    #expect(await second)
    budget.give(4)
    #expect(budget.freeBytes == 10)
  }
}

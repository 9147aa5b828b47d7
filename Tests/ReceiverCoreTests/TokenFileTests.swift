import ReceiverCore
import Testing

@Suite struct TokenFileTests {
  @Test func tokenFile_isReadWithCommentsAndQuotas() throws {
    let text = "# who\n\nscanner  tok-1\n/srv/audio tok-2 quota=1000 # ten minutes\n\tlab/a\ttok-3 quota=50MB\r\n"
    let credentials = try TokenFile.parse(text, base: "/root")
    #expect(
      credentials == [
        Credential(token: "tok-1", root: "/root/scanner"),
        Credential(token: "tok-2", root: "/srv/audio", quotaBytes: 1000),
        Credential(token: "tok-3", root: "/root/lab/a", quotaBytes: 50_000_000),
      ])
  }

  @Test(
    "Regression (NM9): a token was cut at its `#`, and let in what was shorter; the folder of the receiver's key was a root"
  )
  func aTokenWithANumberSign_isWhole_andNobodyPublishesBesideTheKey() throws {
    let credentials = try TokenFile.parse("a o2Xk#9f also=x#y # was=no\n.developments tok#\n#b tok", base: "/root")
    #expect(
      credentials == [
        Credential(token: "o2Xk#9f", otherTokens: ["x#y"], root: "/root/a"),
        Credential(token: "tok#", root: "/root/.developments"),
      ])
    for root in [".development", "./.development/x", "/root/.development", "/root//.development/"] {
      let error = #expect(throws: TokenFileError.self) { _ = try TokenFile.parse("a ok\n\(root) tok", base: "/root/") }
      #expect(error?.line == 2 && error?.reason.contains("key") == true)
    }
  }

  @Test("Regression (PR19): a line names one user with the tokens that it has and had")
  func line_namesOneUserWithSeveralTokens() throws {
    let credentials = try TokenFile.parse("a new also=second was=old quota=7 was=older", base: "/root")
    #expect(
      credentials == [
        Credential(
          token: "new", otherTokens: ["second"], formerTokens: ["old", "older"], root: "/root/a", quotaBytes: 7)
      ])
    let table = CredentialTable(credentials)
    for token in ["new", "second"] {
      #expect(table.credential(authorization: "Bearer \(token)") == credentials[0].id)
    }
    for token in ["old", "older"] { #expect(table.credential(authorization: "Bearer \(token)") == nil) }
  }

  @Test(
    arguments: [
      ("a tok also=", 1), ("a tok was=tok", 1), ("a tok also=x\nb x", 2), ("a tok quota=1 quota=2", 1),
      ("scanner", 1), ("\nscanner tok extra more", 2), ("../x tok", 1), ("a/../../x tok", 1), ("a/../\u{301}x tok", 1),
      ("a\u{0}b tok", 1),
      ("a tok quota=many", 1),
      ("a tok limit=3", 1), ("a tok\nb tok", 2), ("a t\u{e9}k", 1), ("# nothing\n", 0), ("", 0),
    ])
  func wrongTokenFile_namesTheLineAndNoToken(text: String, line: Int) {
    #expect {
      _ = try TokenFile.parse(text, base: "/root")
    } throws: { error in
      (error as? TokenFileError)?.line == line && !"\(error)".contains("tok ")
    }
  }
}

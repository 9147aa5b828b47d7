import ReceiverCore
import Testing

@Suite struct TokenFileTests {
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

import ReceiverCore
import Testing

@Suite struct TokenFileTests {
  @Test func tokenFile_isReadWithCommentsAndQuotas() throws {
    let text =
      "# who\n\nscanner  token-no-1\n/srv/audio token-no-2 quota=1000 # ten minutes\n\tlab/a\ttoken-no-3 quota=50MB\r\n"
    let credentials = try TokenFile.parse(text, base: "/root")
    #expect(
      credentials == [
        Credential(token: "token-no-1", root: "/root/scanner"),
        Credential(token: "token-no-2", root: "/srv/audio", quotaBytes: 1000),
        Credential(token: "token-no-3", root: "/root/lab/a", quotaBytes: 50_000_000),
      ])
  }

  /// Regression: the root became another folder, with U+FFFD in its name, without a word.
  @Test func lineThatIsNoUTF8_isRefused() throws {
    let lines = Array("one token-one\n/srv/".utf8) + [0xe9] + Array(" token-two\n".utf8)
    #expect {
      try TokenFile.parse(lines, base: "/base")
    } throws: { error in
      "\(error)" == "line 2: the line is no UTF-8; use a root whose path is"
    }
    let marked = try TokenFile.parse([0xef, 0xbb, 0xbf] + Array("é token-one\n".utf8), base: "/base")
    #expect(marked.map(\.root) == ["/base/é"])
  }

  @Test(
    "Regression: a root ended at a blank beyond ASCII, and lost the mark that it begins with",
    arguments: [
      "\u{301}x", "a\u{3000}b", "a\u{a0}b", "a\u{2028}b", "a\u{85}b", "\u{200d}x/\u{301}", "\u{3000}", "a\u{fe0f}",
    ])
  func root_isCutAtNoCharacter(root: String) throws {
    let text =
      "one token-one\n\t \(root) token-two\r\n\(root)/c\ttoken-three quota=7\n/srv/\(root) token-four # \u{301}\n"
    for credentials in [
      try TokenFile.parse(text, base: "/base"), try TokenFile.parse(Array(text.utf8), base: "/base"),
    ] {
      let roots = ["/base/one", "/base/\(root)", "/base/\(root)/c", "/srv/\(root)"]
      #expect(credentials.map { Array($0.root.utf8) } == roots.map { Array($0.utf8) })
      #expect(credentials.map(\.token) == ["token-one", "token-two", "token-three", "token-four"])
    }
  }

  @Test(arguments: ["a token-one\rb token-two\r", "a token-one\r\nb token-two\r\n", "# \r\ra token-one\n\nb token-two"])
  func linesEnd_withAnyLineBreak(text: String) throws {
    #expect(try TokenFile.parse(text, base: "/base").map(\.root) == ["/base/a", "/base/b"])
    #expect(throws: TokenFileError.self) { _ = try TokenFile.parse("a token\u{b}-one", base: "/base") }
    #expect(throws: TokenFileError.self) { _ = try TokenFile.parse("a\u{b}b token-one", base: "/base") }
  }

  @Test(
    "Regression: a token was cut at its `#`, and let in what was shorter; the folder of the receiver's key was a root"
  )
  func aTokenWithANumberSign_isWhole_andNoClientPublishesBesideTheKey() throws {
    let credentials = try TokenFile.parse(
      "a o2Xk#9fQ also=abcdef#y # was=no\n.developments a-token#\n#b tok", base: "/root")
    #expect(
      credentials == [
        Credential(token: "o2Xk#9fQ", otherTokens: ["abcdef#y"], root: "/root/a"),
        Credential(token: "a-token#", root: "/root/.developments"),
      ])
    for root in [".development", "./.development/x", "/root/.development", "/root//.development/"] {
      let error = #expect(throws: TokenFileError.self) {
        _ = try TokenFile.parse("a tok-tok-\n\(root) tok-tok-", base: "/root/")
      }
      #expect(error?.line == 2 && error?.reason.contains("key") == true)
    }
  }

  @Test("Regression: a line names one user with the tokens that it has and had")
  func line_namesOneUserWithSeveralTokens() throws {
    let credentials = try TokenFile.parse("a token-new also=token-second was=old quota=7 was=older", base: "/root")
    #expect(
      credentials == [
        Credential(
          token: "token-new", otherTokens: ["token-second"], formerTokens: ["old", "older"], root: "/root/a",
          quotaBytes: 7)
      ])
    let table = CredentialTable(credentials)
    for token in ["token-new", "token-second"] {
      #expect(table.credential(authorization: "Bearer \(token)") == credentials[0].id)
    }
    for token in ["old", "older"] { #expect(table.credential(authorization: "Bearer \(token)") == nil) }
  }

  @Test(
    arguments: [
      ("a tok-tok- also=", 1), ("a tok-tok- was=tok-tok-", 1), ("a tok-tok- also=tok+tok+\nb tok+tok+", 2),
      ("a tok-tok- quota=1 quota=2", 1), ("a tok-tok-\nb tok-tok", 2), ("a tok-tok- also=x", 1),
      ("scanner", 1), ("\nscanner tok-tok- extra more", 2), ("../x tok-tok-", 1), ("a/../../x tok-tok-", 1),
      ("a/../\u{301}x tok-tok-", 1),
      ("a\u{0}b tok-tok-", 1),
      ("a tok-tok- quota=many", 1),
      ("a tok-tok- limit=3", 1), ("a tok-tok-\nb tok-tok-", 2), ("a tok-t\u{e9}k-tok", 1), ("# nothing\n", 0), ("", 0),
    ])
  func wrongTokenFile_namesTheLineAndNoToken(text: String, line: Int) {
    #expect {
      _ = try TokenFile.parse(text, base: "/root")
    } throws: { error in
      (error as? TokenFileError)?.line == line && !"\(error)".contains("tok-")
    }
  }

  @Test(
    "Regression: a file that was cut in the middle of a token let in what was left of it, were it one byte",
    arguments: 1...70)
  func aFileThatWasCutInAToken_isRefusedOrWarnedOf(bytes: Int) throws {
    let whole = "files " + String(repeating: "0123456789abcdef", count: 4) + "\n"
    let text = String(whole.prefix(bytes))
    guard bytes >= "files 01234567".count else {
      #expect(throws: TokenFileError.self) { _ = try TokenFile.parse(text, base: "/root") }
      return
    }
    let warnings = TokenFile.warnings(of: text, try TokenFile.parse(text, base: "/root"))
    #expect(warnings.contains { $0.contains("no end") } == (bytes <= whole.count - 1))
    #expect(warnings.contains { $0.contains("fewer than 32") } == (bytes < "files ".count + 32))
  }

  @Test func aShortTokenOfBefore_canBeExchanged() throws {
    let text = "files \(String(repeating: "a", count: 32)) was=x\n"
    #expect(TokenFile.warnings(of: text, try TokenFile.parse(text, base: "/root")).isEmpty)
  }

  @Test("Regression: a line that is read differently from before was counted, and not named")
  func linesWithANumberSign_areNamed() throws {
    let token = String(repeating: "a", count: 40)
    let text =
      "# all\nfiles \(token)b # one\nother \(token)#c\nmore \(token)d also=\(token)#e\né \(token)f # \u{a0}\n"
      + "a\u{a0}b \(token)g\n \u{301}a \(token)h\n"
    let warnings = TokenFile.warnings(of: text, try TokenFile.parse(text, base: "/root"))
    #expect(warnings.count == 1 && warnings[0].hasSuffix(": line 3, 4, 6, 7"), "\(warnings)")
  }
}

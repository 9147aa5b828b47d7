import Integrity
import Promises
import Testing
import TransferModel

@testable import Destinations

@Suite struct CredentialMaskTests {
  /// Regression: a server that repeated what it was sent put the token into log, status and receipt.
  @Test(.promises("SE14")) func credential_isHiddenInEachFormInWhichItIsSent() {
    let mask = CredentialMask()
    mask.learn(.bearer("first-token-123"))
    mask.learn(.basic(user: "camera", password: "open sesame"))
    mask.learn(.bearer("second-token-456"))
    let basic = Base64.encode(Array("camera:open sesame".utf8))
    let said = "401: Bearer first-token-123, second-token-456, Basic \(basic), open sesame; camera"
    let hidden = "[credential]"
    #expect(mask.hide(in: said) == "401: Bearer \(hidden), \(hidden), Basic \(hidden), \(hidden); camera")
    #expect(mask.hide(in: "nothing") == "nothing")
  }

  /// Regression: servers repeat it in a redirect, in JSON of PHP, or in a page; and what a session's key goes with was no credential at all.
  @Test(.promises("SE14"), arguments: ["T0ken+SECRET/abc==", "T0ken plain~"])
  func credential_isHiddenAsItStandsInAddressesJSONAndPages(token: String) throws {
    let mask = CredentialMask()
    mask.learn(.bearer("another one"))
    mask.learn(try S3Credentials(accessKeyID: "A", secretAccessKey: "0123456789abcdef", sessionToken: "session/of+it"))
    mask.learn(.bearer(token))
    let html = token.replacing("+", with: "&#43;").replacing("/", with: "&#47;").replacing("=", with: "&#61;")
      .replacing(" ", with: "&#32;")
    let percent = token.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
      .replacing(" ", with: "%20")
    for form in [
      token, html, percent,
      percent.lowercased().replacing("t0ken", with: "T0ken")
        .replacing("secret", with: "SECRET"), token.replacing("/", with: "\\/"),
    ] {
      #expect(mask.hide(in: "said \(form).") == "said [credential].", "\(form)")
    }
    #expect(mask.hide(in: "0123456789abcdef session/of+it A") == "[credential] [credential] A")
  }

  @Test("Regression: of many credentials a longer one was forgotten the moment it was learnt", .promises("SE14"))
  func theOldestCredentialsAreForgotten_howeverLongTheyAre() {
    let mask = CredentialMask()
    for number in 0..<90 { mask.learn(.bearer("token-\(number)")) }
    mask.learn(.bearer("a-much-longer-token"))
    // Used again, it is no old one.
    mask.learn(.bearer("token-9"))
    for number in 90..<140 { mask.learn(.bearer("token-\(number)")) }
    #expect(mask.hide(in: "a-much-longer-token, token-9, token-139") == "[credential], [credential], [credential]")
    #expect(mask.hide(in: "token-8") == "token-8")
  }

  @Test("Regression: of a credential that a message was cut in all but the end was shown", .promises("SE14"))
  func aCredentialThatAMessageIsCutIn_isHidden() throws {
    let mask = CredentialMask()
    let token = "0123456789-abcdefghij-0123456789"
    mask.learn(.bearer(token))
    let plain = [HTTPHeader("content-type", "text/plain")]
    for before in 160...200 {
      let text = String(repeating: ".", count: before) + token + " was refused"
      let answers = [
        RefusedAnswer(server: "It", response: Fixture.answer(500, text: text, headers: plain), isOfServer: true)
          .failure,
        FormAnswer(Fixture.answer(500, text: text, headers: plain)).failure(at: "h", sizeBytes: 1, digestField: "sha"),
      ]
      for answer in answers {
        let message = mask.hide(in: try #require(answer).message)
        #expect(
          !message.contains("0123") && (before > 196 || message.contains("[credential]")), "\(before): \(message)")
      }
    }
    // Nor where a page was read only so far.
    let page = String(repeating: "\n", count: (16 << 10) - 20) + token
    let long = RefusedAnswer(server: "It", response: Fixture.answer(500, text: page, headers: plain), isOfServer: true)
      .failure
    #expect(!mask.hide(in: long.message).contains("0123"))
    #expect(mask.hide(in: "so… on…") == "so… on…")
  }

  @Test("Regression: a credential whose last character a server had put a mark on was shown", .promises("SE14"))
  func aCredentialWithAMarkBehindIt_isHidden() {
    let mask = CredentialMask()
    mask.learn(.bearer("first-token-123"))
    mask.learn(.basic(user: "camera", password: "open s\u{e9}same"))
    let said = "first-token-123\u{301} \u{200d}first-token-123"
    #expect(mask.hide(in: said) == "[credential]\u{301} \u{200d}[credential]")
    #expect(mask.hide(in: "open s\u{e9}same\u{301}…") == "[credential]\u{301}…")
    #expect(mask.hide(in: "first-toke\u{301}… and first-token-12…") == "first-toke\u{301}… and [credential]…")
  }

  @Test func whatIsTooShortToBeASecret_staysInTexts() {
    let mask = CredentialMask()
    mask.learn(.basic(user: "u", password: "the"))
    #expect(mask.hide(in: "the answer") == "the answer")
  }

  @Test func aCredentialWithinAnother_leavesNothingOfEither() {
    let mask = CredentialMask()
    mask.learn(.bearer("secret"))
    mask.learn(.bearer("secret-and-more"))
    #expect(mask.hide(in: "x secret-and-more") == "x [credential]")
  }
}

import Integrity
import Promises
import Testing

@testable import Destinations

@Suite struct CredentialMaskTests {
  /// Regression (DS27): a server that repeated what it was sent put the token into log, status and receipt.
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

import FileModel
import Integrity
import Promises
import Testing
import TransferModel

@testable import Destinations

/// What a server says of a failure reaches the person.
@Suite struct ServerErrorTextTests {
  private func quoted(_ status: Int, _ text: String, type: String? = nil, phrase: String = "") -> String {
    var response = Fixture.answer(status, text: text, headers: type.map { [HTTPHeader("content-type", $0)] } ?? [])
    response.reasonPhrase = phrase
    return ServerErrorText(response).quoted
  }

  /// Regression: “Bad Request” was shown, and not what was wrong.
  @Test(
    .promises("DE114"),
    arguments: [
      (#"{"error":"Bad Request","message":"Label is required"}"#, " (“Label is required”)"),
      (#"{"error":"validation_failed","message":"Label is required"}"#, " (“Label is required”, “validation_failed”)"),
      (#"{"detail":[{"loc":["body","label"],"msg":"field required","type":"x"}]}"#, " (“label: field required”)"),
      (#"{"detail":"Not enough rights","title":"Bad Request"}"#, " (“Not enough rights”)"),
      (#"{"errors":["a is wrong","b is wrong"]}"#, " (“a is wrong; b is wrong”)"),
      (#"{"errors":{"label":["is required"]},"title":"Invalid"}"#, " (“label: is required”, “Invalid”)"),
      (#"{"errors":[{"field":"label","message":"is required"}]}"#, " (“label: is required”)"),
      (#"{"label":["This field is required."]}"#, " (“label: This field is required.”)"),
      (#"{"error":{"code":7,"message":"quota"}}"#, " (“quota”)"), (#"{"error":"Bad Request"}"#, " (“Bad Request”)"),
      (#"{"message":["a","b"]}"#, " (“a; b”)"), (#""just so""#, " (“just so”)"), ("{\"id\":7}", ""), ("", ""),
      ("Label is required\n", " (“Label is required”)"),
      ("<title>400 Bad Request</title><h1>Bad Request</h1><p>Label is required</p>", " (“Label is required”)"),
      ("<html><h1>400 Bad Request</h1></html>", " (“400 Bad Request”)"),
    ])
  func theMostSpecificText_isSaid(body: String, expected: String) {
    #expect(quoted(400, body) == expected)
  }

  @Test(.promises("DE114")) func theReasonPhrase_isTheLast() {
    #expect(quoted(400, "", phrase: "Label is required") == " (“Label is required”)")
    #expect(quoted(400, "", phrase: "BAD REQUEST").isEmpty)
    #expect(quoted(400, #"{"error":"Bad Request"}"#, phrase: "Label is required") == " (“Label is required”)")
  }

  @Test(.promises("DE114")) func aWarningOfPHP_isNamed() {
    let page =
      "<br />\n<b>Warning</b>:  POST Content-Length of 9437343 bytes exceeds the limit of 8388608 bytes in <b>Unknown</b> "
      + "on line <b>0</b><br />\n{\"message\":\"Server Error\"}"
    #expect(
      quoted(500, page, type: "text/html")
        == " (“Warning: POST Content-Length of 9437343 bytes exceeds the limit of 8388608 bytes”)")
    let words = ServerErrorText(Fixture.answer(500, text: page))
    #expect(words.limitOfPHP.isNamed && words.limitOfPHP.bytes == 8_388_608)
    let bare = ServerErrorText(Fixture.answer(500, text: #"{"message":"The file exceeds upload_max_filesize"}"#))
    #expect(bare.limitOfPHP.isNamed && bare.limitOfPHP.bytes == nil)
  }

  @Test func whateverIsSaid_isOneShortLine() {
    for text in ["<", "<p>", "{", "\u{1b}[2J", String(repeating: "<p>", count: 9000), "<p><p></p>", "\u{0}"] {
      #expect(quoted(500, text).unicodeScalars.count < 420)
    }
  }
}

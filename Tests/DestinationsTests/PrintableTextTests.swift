import Testing
import TransferModel

@testable import Destinations

/// What servers say, where it gets into messages for people.
@Suite struct PrintableTextTests {
  /// U+009B begins a terminal's commands as ESC [ does; one character can hold thousands of marks.
  private static let rude = "a\u{9b}2J\u{7f}b" + String(repeating: "\u{301}", count: 5000)

  @Test func marksOfDirection_areNoPartOfAMessage() {
    #expect(PrintableText.beginning(of: "a\u{202e}b\u{2066}c\u{2028}d\u{200d}e") == "a b c d\u{200d}e")
    #expect(PrintableText.beginning(of: String(repeating: "x", count: 200)).hasSuffix("x"))
    #expect(PrintableText.beginning(of: String(repeating: "x", count: 201)).hasSuffix("x…"))
  }

  @Test func wordsOfAServer_moveNoCursorAndFillNoLog() throws {
    let plain = [HTTPHeader("content-type", "text/plain; charset=utf-8")]
    let s3 = "<Error><Code>\(Self.rude)</Code><Message>\(Self.rude)</Message></Error>"
    let failures = [
      RefusedAnswer(server: "It", response: Fixture.answer(500, text: Self.rude, headers: plain), isOfServer: true)
        .failure,
      S3Answer(Fixture.answer(400, text: s3)).failure(at: "h", region: "r", renewsCredentials: false),
      FormAnswer(Fixture.answer(500, text: Self.rude, headers: plain)).failure(
        at: "h", sizeBytes: 1, digestField: "sha"),
      FormAnswer(Fixture.answer(302, headers: [HTTPHeader("location", Self.rude)])).failure(
        at: "h", sizeBytes: 1, digestField: "sha"),
    ]
    for message in failures.map({ $0?.message ?? "" }) {
      // The letter behind it carries the marks: to Swift it is no plain b.
      #expect(message.contains("a 2J "), "\(message.debugDescription)")
      #expect(message.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) })
      #expect(message.utf8.count < 1500)
    }
  }
}

import ChunkProtocol
import Testing

/// What values write of themselves is what the encoder makes of them, whatever texts they hold.
@Suite struct JSONTextTests {
  /// Anything that a text may hold, with the rare ones often.
  private static func text(_ random: inout SplitMix) -> String {
    let rare: [Unicode.Scalar] = [
      "\"", "\\", "/", "\u{0}", "\u{1}", "\u{8}", "\t", "\n", "\u{c}", "\r", "\u{1f}", "\u{7f}", "\u{85}", "é",
      "e\u{301}",
      "\u{2028}", "\u{feff}", "\u{ffff}", "\u{10ffff}", "😀",
    ].flatMap { Array(String($0).unicodeScalars) }
    var text = ""
    for _ in 0..<Int.random(in: 0...20, using: &random) {
      let scalar =
        Bool.random(using: &random)
        ? rare.randomElement(using: &random) : Unicode.Scalar(UInt32.random(in: 0...0x2fff, using: &random))
      text.unicodeScalars.append(scalar ?? "a")
    }
    return text
  }

  @Test(arguments: 0..<500)
  func receipt_isWrittenAsTheEncoderDoes_andReadBack(seed: UInt64) throws {
    var random = SplitMix(state: seed)
    let receipt = ReceiptBody(
      id: Self.text(&random), name: Self.text(&random),
      sizeBytes: [0, 9, 10, .max, UInt64.random(in: 0...(.max), using: &random)].randomElement(using: &random) ?? 0,
      merkleRoot: Self.text(&random), chainTip: Self.text(&random),
      publishedAtMilliseconds: [0, -1, .min, .max, Int64.random(in: .min...(.max), using: &random)].randomElement(
        using: &random) ?? 0)
    let written = WireJSON.encode(receipt)
    #expect(written == encoded(receipt), "seed \(seed): \(String(decoding: written, as: UTF8.self))")
    #expect(try WireJSON.decode(ReceiptBody.self, from: written) == receipt, "seed \(seed)")
  }

  private func encoded(_ value: some Encodable) -> [UInt8] { WireJSON.encode(value) }
}

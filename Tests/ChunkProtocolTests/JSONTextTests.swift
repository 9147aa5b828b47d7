import ChunkProtocol
import Promises
import SeededRandom
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

  @Test(.promises("P45"), arguments: 0..<500)
  func receipt_isWrittenAsTheEncoderDoes_andReadBack(seed: UInt64) throws {
    var random = SplitMix(seed: seed)
    let receipt = ReceiptBody(
      id: Self.text(&random), name: Self.text(&random),
      sizeBytes: [0, 9, 10, .max, UInt64.random(in: 0...(.max), using: &random)].randomElement(using: &random) ?? 0,
      merkleRoot: Self.text(&random), chainTip: Self.text(&random),
      publishedAtMilliseconds: [0, -1, .min, .max, Int64.random(in: .min...(.max), using: &random)].randomElement(
        using: &random) ?? 0, fileID: Bool.random(using: &random) ? Self.text(&random) : nil,
      replaced: Bool.random(using: &random) ? Self.text(&random) : nil)
    let written = WireJSON.encode(receipt)
    #expect(written == encoded(receipt), "seed \(seed): \(String(decoding: written, as: UTF8.self))")
    #expect(try WireJSON.decode(ReceiptBody.self, from: written) == receipt, "seed \(seed)")
  }

  /// Whatever the bytes are, receipts are read as the decoder does, or refused with it.
  @Test(arguments: 0..<500)
  func damagedReceipt_isReadAsTheDecoderDoes(seed: UInt64) {
    var random = SplitMix(seed: seed)
    let receipt = ReceiptBody(
      id: "0123", name: seed.isMultiple(of: 2) ? "a/b c" : "ü\"", sizeBytes: 40_960, merkleRoot: "00ff",
      chainTip: "ff00",
      publishedAtMilliseconds: seed.isMultiple(of: 3) ? -1_700_000_000_000 : 1_700_000_000_000,
      fileID: seed.isMultiple(of: 5) ? nil : "0f")
    var bytes = WireJSON.encode(receipt)
    let replacements = Array("\"\\{}[]:,-+.eE0019 \n\u{0}\u{7f}é".utf8) + [0xff, 0xc3]
    for _ in 0..<Int.random(in: 0...3, using: &random) {
      let position = Int.random(in: 0..<bytes.count, using: &random)
      switch Int.random(in: 0..<3, using: &random) {
      case 0: bytes[position] = replacements.randomElement(using: &random) ?? 0
      case 1: bytes.remove(at: position)
      default: bytes.insert(replacements.randomElement(using: &random) ?? 0, at: position)
      }
    }
    let text = String(decoding: bytes, as: UTF8.self)
    let quickly = try? WireJSON.decode(ReceiptBody.self, from: bytes)
    let slowly: ReceiptBody? = decoded(bytes)
    #expect(quickly == slowly, "seed \(seed): \(text)")
  }

  private func decoded<Value: Decodable>(_ bytes: [UInt8]) -> Value? { try? WireJSON.decode(Value.self, from: bytes) }

  private func encoded(_ value: some Encodable) -> [UInt8] { WireJSON.encode(value) }
}

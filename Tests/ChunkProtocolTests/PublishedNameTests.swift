import ChunkProtocol
import Integrity
import Promises
import SeededRandom
import Testing

@Suite struct PublishedNameTests {
  @Test(
    .promises("P73"),
    arguments: [
      "a", "scan42.mov", "day 1/take 2/x.mov", ".hidden", "...", "..a", "a/.b", "Zoë/日本語.mov", "100%", "%~", "a\\b",
      String(repeating: "x", count: 255), "\u{a0}",
    ])
  func validate_acceptsOrdinaryNames(name: String) {
    #expect(PublishedName.validate(name) == nil)
  }

  @Test(
    .promises("P73"),
    arguments: [
      ("", PublishedNameViolation.empty),
      ("/a", .emptyComponent), ("a/", .emptyComponent), ("a//b", .emptyComponent), ("/", .emptyComponent),
      (".", .dotComponent), ("..", .dotComponent), ("a/../b", .dotComponent), ("a/.", .dotComponent),
      ("../../etc/passwd", .dotComponent),
      ("a\nb", .controlCharacter), ("a\u{0}b", .controlCharacter), ("\u{7f}", .controlCharacter),
      ("a\u{85}", .controlCharacter), ("\r\n", .controlCharacter),
      (String(repeating: "x", count: 256), .componentTooLong),
      (String(repeating: "é", count: 128), .componentTooLong),
      (String(repeating: "x/", count: 2048) + "x", .tooLong),
    ])
  func validate_namesTheBrokenRule(name: String, violation: PublishedNameViolation) {
    #expect(PublishedName.validate(name) == violation)
  }

  @Test(.promises("P73")) func validate_acceptsTheLongestName() {
    let name = String(repeating: "x/", count: 2047) + "xx"
    #expect(name.utf8.count == ProtocolLimits.nameBytesMax)
    #expect(PublishedName.validate(name) == nil)
  }

  @Test(
    .promises("P76"),
    arguments: [
      ("scan 42.mov", "scan 42.mov"), ("Zoë.mov", "Zoë.mov"), ("100%.txt", "100%25.txt"), ("a\nb", "a%0Ab"),
      ("%41", "%2541"), ("a\u{85}b", "a%C2%85b"), ("%~x", "%25~x"), ("e\u{301}", "e\u{301}"),
    ])
  func encode_changesOnlyWhatIsForbidden(path: String, name: String) {
    #expect(PublishedName.encode(Array(path.utf8)).utf8.elementsEqual(name.utf8))
  }

  @Test(.promises("P76")) func encode_escapesBytesThatAreNoUTF8() {
    #expect(PublishedName.encode([0x61, 0xff, 0x62]) == "a%FFb")
    // A cut-off sequence, an overlong slash, a surrogate.
    #expect(PublishedName.encode([0xe2, 0x82]) == "%E2%82")
    #expect(PublishedName.encode([0xc0, 0xaf]) == "%C0%AF")
    #expect(PublishedName.encode([0xed, 0xa0, 0x80]) == "%ED%A0%80")
  }

  @Test(.promises("P77")) func encode_keepsALongComponentUniqueAndItsExtension() {
    let first = PublishedName.encode([UInt8](repeating: 0x0a, count: 200) + Array("1.mov".utf8))
    let second = PublishedName.encode([UInt8](repeating: 0x0a, count: 200) + Array("2.mov".utf8))
    #expect(first != second)
    for name in [first, second] {
      #expect(PublishedName.validate(name) == nil)
      #expect(name.hasPrefix("%0A%0A"))
      #expect(name.contains("%~"))
      #expect(name.hasSuffix(".mov"))
      #expect(name.utf8.count <= 255)
      #expect(PublishedName.decode(name) == nil)
    }
  }

  @Test func encode_neverTearsACharacterApart() {
    // 254 bytes of two-byte characters and a percent sign: 257 after encoding, so it is cut between characters.
    let name = PublishedName.encode(Array((String(repeating: "é", count: 127) + "%").utf8))
    #expect(PublishedName.validate(name) == nil)
    #expect(name.prefix { $0 == "é" }.utf8.count + 18 == name.utf8.count)
  }

  @Test(.promises("P78")) func encode_keepsALongPathUniqueAndItsLastComponent() {
    let folder = [UInt8](repeating: 0x01, count: 80)
    let deep = Array(repeating: folder, count: 40).flatMap { $0 + [UInt8(ascii: "/")] }
    let first = PublishedName.encode(Array("a/".utf8) + deep + Array("scan.mov".utf8))
    let second = PublishedName.encode(Array("b/".utf8) + deep + Array("scan.mov".utf8))
    for name in [first, second] {
      #expect(PublishedName.validate(name) == nil)
      #expect(name.hasSuffix("/scan.mov"))
      #expect(name.utf8.count > 3700)
    }
    #expect(first != second)
    #expect(first.split(separator: "/").dropLast().last != second.split(separator: "/").dropLast().last)
  }

  @Test(.promises("P78")) func encode_ofALongPathIsValidWhereverTheLimitFalls() {
    let rest = Array(repeating: "/" + String(repeating: "x", count: 250), count: 16).joined() + "/scan.mov"
    for count in 1...255 {
      let name = PublishedName.encode(Array((String(repeating: "y", count: count) + rest).utf8))
      #expect(PublishedName.validate(name) == nil, "first folder of \(count) bytes")
      #expect(name.hasSuffix("/scan.mov"))
    }
  }

  @Test func encode_hasANameEvenForWhatIsNoPath() {
    for bytes in [[], Array("/".utf8), Array("//".utf8), Array("..".utf8), Array("a/./b".utf8)] as [[UInt8]] {
      #expect(PublishedName.validate(PublishedName.encode(bytes)) == nil, "\(bytes)")
    }
    #expect(PublishedName.encode(Array("../x".utf8)) == "%2E%2E/x")
  }

  @Test(.promises("P79")) func encode_ofRandomPathsIsValidUniqueAndReversible() {
    let seed: UInt64 = 1
    var generator = SplitMix(seed: seed)
    var names: [String: [UInt8]] = [:]
    for _ in 0..<3000 {
      let bytes = randomPath(&generator)
      let name = PublishedName.encode(bytes)
      #expect(PublishedName.validate(name) == nil, "seed \(seed): \(bytes)")
      if let other = names.updateValue(bytes, forKey: name) { #expect(other == bytes, "seed \(seed)") }
      if !name.contains("%~") { #expect(PublishedName.decode(name) == bytes, "seed \(seed): \(bytes)") }
    }
  }

  @Test func components_lieBetweenSlashes_whateverFollowsThem() {
    #expect(PublishedName.components(of: "a/\u{301}b//c") == ["a", "\u{301}b", "c"])
    #expect(PublishedName.components(of: "/") == [] && PublishedName.components(of: "\u{301}/") == ["\u{301}"])
  }

  private func randomPath(_ generator: inout SplitMix) -> [UInt8] {
    let alphabet = Array("ab.%~ é\n\u{85}日".utf8) + [0xff, 0xc3, 0x80, 0x00 &+ 1]
    let components = (0..<Int.random(in: 1...6, using: &generator)).map { _ -> [UInt8] in
      let count = Int.random(in: 1...(Bool.random(using: &generator) ? 12 : 255), using: &generator)
      return (0..<count).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &generator)] }
    }
    return Array(components.joined(separator: [UInt8(ascii: "/")]))
  }
}

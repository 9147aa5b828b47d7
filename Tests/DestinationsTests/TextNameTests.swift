import FileModel
import Promises
import SeededRandom
import Testing

@testable import Destinations

/// Names for servers that take text alone.
@Suite struct TextNameTests {
  private static let alphabet: [[UInt8]] =
    ["a", "4", "F", ".", "%", "%", "~", "\"", "\\", "\n", "\u{301}", "é", "\u{85}", "%22", "%E9"].map { Array($0.utf8) }
    + [[0xe9], [0xff]]

  private static func path(_ random: inout SplitMix) -> RelativePath {
    var path = RelativePath.root
    for _ in 0..<Int.random(in: 1...3, using: &random) {
      let units = (0..<Int.random(in: 1...6, using: &random)).flatMap { _ in
        alphabet.randomElement(using: &random) ?? []
      }
      // No directory has these.
      path = path.appending(units.allSatisfy { $0 == UInt8(ascii: ".") } ? [0x61] : units)
    }
    return path
  }

  /// What a `%` and two digits stand for; any other `%` stands for itself.
  private static func decode(_ text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "%"), rest.count >= 2,
        let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16),
        !rest.prefix(2).contains(UInt8(ascii: "+"))
      {
        bytes.append(value)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return bytes
  }

  /// Regression: names that are no UTF-8 failed at tus for good, and two names arrived as one at a form: `\xe9` and `%E9`, a
  /// line break and `%0A`, a quote and `%22`.
  @Test(.promises("DE146"), arguments: [0, 1, 2, 3] as [UInt64]) func noTwoPathsHaveOneName(seed: UInt64) {
    var random = SplitMix(seed: seed)
    for name in [TextName.usual, .quoted] {
      var paths: [String: RelativePath] = [:]
      for _ in 0..<5000 {
        let path = Self.path(&random)
        let text = name.of(path)
        #expect(Self.decode(text) == path.bytes, "\(path.bytes)")
        #expect(paths.updateValue(path, forKey: text).map { $0 == path } ?? true, "\(text)")
        #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) })
        #expect(
          text.utf8.split(separator: UInt8(ascii: "/")).last.map { Array($0) } == Array(name.ofLastComponent(path).utf8)
        )
      }
    }
  }

  @Test(
    .promises("DE146"),
    arguments: [
      ("100%.mov", "100%.mov", "100%.mov"), ("ü.mov", "ü.mov", "ü.mov"), ("%41", "%2541", "%2541"),
      ("%~a", "%25~a", "%25~a"),
      ("a\"b\\c", "a\"b\\c", "a%22b%5Cc"), ("a\nb", "a%0Ab", "a%0Ab"), ("%22/50%", "%2522/50%", "%2522/50%"),
    ])
  func whatCanBeSaidIsSaidAsItIs(path: String, usual: String, quoted: String) {
    #expect(TextName.usual.of(RelativePath(path)) == usual)
    #expect(TextName.quoted.of(RelativePath(path)) == quoted)
  }

  @Test(.promises("DE146")) func bytesThatAreNoText_areEncoded() {
    let path = RelativePath(bytes: Array("day ".utf8) + [0xe9] + Array("/100%.mov".utf8))
    #expect(TextName.usual.of(path) == "day %E9/100%.mov")
    #expect(TextName.usual.ofLastComponent(path) == "100%.mov")
  }

  /// Regression: to Swift a dot and a combining mark behind it are one character, and the name had no extension.
  @Test func anExtensionBeginsWithItsDot_whateverFollows() {
    let (stem, ext) = "a.\u{301}mov".splitAtExtension
    #expect(stem == "a" && ext.unicodeScalars.first == "\u{301}")
    #expect(".hidden".splitAtExtension.stem == ".hidden" && "a.b.mov".splitAtExtension.ext == "mov")
  }

  /// Regression: with `{time}-{stem}.{ext}` a name of 255 bytes became one of 262, which no filesystem of a server takes.
  @Test func nameThatATemplateMadeTooLong_isShortened() {
    let stems = [
      String(repeating: "x", count: 260), String(repeating: "x", count: 261), String(repeating: "\u{e9}", count: 140),
    ]
    for name in [TextName.usual, .quoted] {
      let names = stems.map { name.of(RelativePath.root.appending(Array("\($0).bin".utf8))) }
      #expect(names.allSatisfy { $0.utf8.count <= 255 && $0.contains("%~") && $0.hasSuffix(".bin") }, "\(names)")
      #expect(Set(names).count == stems.count)
    }
    let longest = String(repeating: "x", count: 255)
    #expect(TextName.usual.of(RelativePath.root.appending(Array(longest.utf8))) == longest)
  }

  private static func quoted(_ component: [UInt8]) -> String {
    TextName.quoted.of(RelativePath.root.appending(component))
  }

  /// Regression: `"` and `\` were encoded after a name had been shortened, and 255 of them were 765 bytes.
  @Test(.promises("DE146")) func nameThatItsEncodingMadeTooLong_isShortened() throws {
    #expect(Self.quoted([UInt8](repeating: 0x22, count: 85)) == String(repeating: "%22", count: 85))
    func many(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }
    let components: [(String, String)] = [
      (many("\"", 86), ""), (many("\"", 255), ""), (many("\\", 255), ""), (many("\"\\é", 63), ""),
      ("\(many("\"", 100)).mov", ".mov"), ("\(many("\\", 300)).mov", ".mov"), ("\(many("x", 300)).\"m\"", ".%22m%22"),
      ("\(many("\"", 100))\n.b", ".b"), ("\(many("\"", 100)).\(many("e", 24))", ""), (".\(many("\"", 100))", ""),
    ]
    var names: [String] = []
    for (component, ext) in components {
      let name = Self.quoted(Array(component.utf8))
      names.append(name)
      let parts = Array(name.utf8).split(separator: Array("%~".utf8), omittingEmptySubsequences: false)
      #expect(name.utf8.count <= 255, "\(name)")
      try #require(parts.count == 2, "\(name)")
      // What is left of it is its beginning, whole characters and whole `%XX`, and as much as there is room for.
      let start = Self.decode(String(decoding: parts[0], as: UTF8.self))
      #expect(component.utf8.starts(with: start), "\(name)")
      #expect(String(validating: start, as: UTF8.self) != nil && name.utf8.count > 255 - 3, "\(name)")
      #expect(Array(parts[1].dropFirst(16)) == Array(ext.utf8), "\(name)")
    }
    #expect(Set(names).count == components.count)
  }

  @Test(.promises("DE146"), arguments: [0, 1] as [UInt64]) func noTwoLongPathsHaveOneName(seed: UInt64) {
    var random = SplitMix(seed: seed)
    for name in [TextName.usual, .quoted] {
      var paths: [String: RelativePath] = [:]
      for _ in 0..<2000 {
        let units = (0..<Int.random(in: 60...255, using: &random)).flatMap { _ in
          Self.alphabet.randomElement(using: &random) ?? []
        }
        let path = RelativePath(bytes: units)
        let text = name.of(path)
        #expect(text.utf8.count <= 255, "\(path.bytes)")
        #expect(paths.updateValue(path, forKey: text).map { $0 == path } ?? true, "\(text)")
        if !text.utf8.contains(where: { $0 == UInt8(ascii: "~") }) { #expect(Self.decode(text) == path.bytes) }
      }
    }
  }
}

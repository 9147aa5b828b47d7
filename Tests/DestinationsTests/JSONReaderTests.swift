import ChunkProtocol
import FoundationEssentials
import Lookup
import Promises
import SeededRandom
import Testing

@testable import Destinations

/// What servers answer in JSON is read as `JSONDecoder` reads it, at a cost that its length bounds.
@Suite struct JSONReaderTests {
  private func read(_ text: String) -> JSONValue? { JSONReader.value(of: Array(text.utf8)) }

  @Test func everyKindOfValue_isRead() {
    let value = read("\u{feff}" + #" {"a":[1,-2.5e3,true,false,null," "],"b":{"c":"x\n\u00e9\ud83d\ude00\/"},"a":0} "#)
    #expect(
      value
        == .object([
          "a": .array([.integer(1), .integer(-2500), .bool(true), .bool(false), .null, .string(" ")]),
          "b": .object(["c": .string("x\né😀/")]),
        ]))
    #expect(read("9223372036854775807") == .integer(.max))
    #expect(read("9223372036854775808") == .number(0x1p63))
    #expect(read("1.5") == .number(1.5))
    #expect(read("1.0") == .integer(1))
  }

  @Test(arguments: [
    "", " ", "x", "nul", "truex", "01", "-", "1.", ".5", "+1", "1e", "1.e1", "1e309", "NaN", "[", "[1", "[1 2]", "[1]]",
    "[] []", "[,]", "{",
    #"{"a"}"#, #"{"a" 1}"#, #"{"a":}"#, #"{1:2}"#, #"{a:1}"#, #"""#, #""\x""#, #""\u12""#, #""\ud83d""#, #""\ude00""#,
    #""\ud83d\u0041""#, "\"\t\"",
    "[1//x\n]", "\u{b}1",
  ])
  func whatIsNoJSON_isRefused(text: String) {
    #expect(read(text) == nil)
  }

  @Test func bytesThatAreNoText_areRefused() {
    #expect(JSONReader.value(of: [0x22, 0xff, 0x22]) == nil)
    #expect(JSONReader.value(of: [0x22, 0xed, 0xa0, 0x80, 0x22]) == nil)
    #expect(JSONReader.value(of: [0x7b, 0x22, 0xc3, 0x22, 0x3a, 0x31, 0x7d]) == nil)
  }

  @Test func everyCut_isRefused() {
    let whole = Array(#"{"a":[1,{"b":"\u00e9\\"},null],"c":false}"#.utf8)
    for length in 0..<whole.count {
      #expect(JSONReader.value(of: Array(whole.prefix(length))) == nil, "\(length) bytes")
    }
    #expect(JSONReader.value(of: whole) != nil)
  }

  /// Regression: 1,000 bytes of lists in lists took seconds, 64 KiB of them minutes, on the thread that serves all destinations: one server
  /// held up the uploads to all others.
  @Test(.promises("S75a"), .timeLimit(.minutes(1)), arguments: [("[", "", "]"), (#"{"":"#, "1", "}")])
  func whatIsNestedDeeply_isRefusedAtOnce(begin: String, inner: String, end: String) {
    func nested(_ depth: Int) -> String {
      String(repeating: begin, count: depth) + inner + String(repeating: end, count: depth)
    }
    let one = nested(500)
    let many = "[" + Array(repeating: one, count: (64 << 10) / (one.utf8.count + 1)).joined(separator: ",") + "]"
    #expect(ServerErrorText(Fixture.answer(400, text: many)).quoted.utf8.count < 2000)
    #expect(read(many) == nil)
    #expect(read(nested(100_000)) == nil)
    #expect(read(nested(JSONReader.depthMax - 1)) != nil)
  }

  /// Nothing that is looked for has such a name, and a table may take long to find one.
  @Test(.promises("S75a"), .timeLimit(.minutes(1))) func memberWithALongName_isLeftOut() {
    let marks = String(repeating: "a\u{316}\u{301}", count: 1 << 18)
    let name = String(repeating: "n", count: 256)
    #expect(read(#"{"\#(marks)":{"a":1},"\#(name)":2,"\#(name)n":3}"#) == .object([name: .integer(2)]))
    #expect(read(#"{"\#(marks)":}"#) == nil)
  }

  /// Regression: a server's word was compared with each that means something, for a second each.
  @Test(.promises("S75a"), .timeLimit(.minutes(1))) func manyMarksOnOneLetter_areNoText() {
    #expect(read("\"\(String(repeating: "\u{316}\u{301}", count: 1 << 20))\"") == nil)
    #expect(read("\"\(String(repeating: #"\u0316"#, count: 257))\"") == nil)
    #expect(read("\"\(String(repeating: "a\u{316}", count: 257))\"") != nil)
  }

  @Test func randomJSON_isReadAsADecoderReadsIt() throws {
    var random = SplitMix(seed: 30)
    for round in 0..<2000 {
      let value = Self.draw(&random, depth: 0)
      let text = WireJSON.encode(value)
      #expect(JSONReader.value(of: text) == value, "round \(round): \(String(decoding: text, as: UTF8.self))")
      // One byte of it is another one: both refuse it, or both read it.
      var changed = text
      // (Not a zero, for which the decoder takes it for UTF-16.)
      changed[Int(random.next() % UInt64(text.count))] = UInt8(1 + random.next() % 255)
      let isJSON = (try? JSONDecoder().decode(Anything.self, from: Data(changed))) != nil
      #expect(
        (JSONReader.value(of: changed) != nil) == isJSON, "round \(round): \(String(decoding: changed, as: UTF8.self))")
    }
  }

  private static func draw(_ random: inout SplitMix, depth: Int) -> JSONValue {
    switch random.next() % (depth < 4 ? 8 : 6) {
    case 0: return .null
    case 1: return .bool(random.next() % 2 == 0)
    case 2: return .integer(Int64(truncatingIfNeeded: random.next()))
    case 3: return .number(Double(random.next() % 1000) + 0.5)
    case 4, 5: return .string(["", "a", "é\u{301}\"\\/\n\u{0}", "😀 \u{202e}"][Int(random.next() % 4)])
    case 6: return .array((0..<random.next() % 4).map { _ in draw(&random, depth: depth + 1) })
    default:
      var members: LookupTable<String, JSONValue> = [:]
      for name in ["a", "b", "é"].prefix(Int(random.next() % 4)) { members[name] = draw(&random, depth: depth + 1) }
      return .object(members)
    }
  }
}

/// Any JSON to `JSONDecoder`.
private struct Anything: Decodable {
  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() || (try? container.decode(Bool.self)) != nil { return }
    if (try? container.decode(Int64.self)) != nil { return }
    if let number = try? container.decode(Double.self), number.isFinite { return }
    if (try? container.decode(String.self)) != nil { return }
    if (try? container.decode([Anything].self)) != nil { return }
    _ = try container.decode([String: Anything].self)
  }
}

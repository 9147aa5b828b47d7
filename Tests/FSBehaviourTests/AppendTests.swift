import FilesystemCalls
import Promises
import Testing

/// Writes to the end of a file.
@Suite struct AppendTests {
  @Test(.promises("S9")) func appendsOfSeveralProcessesDoNotOverwriteEachOther() async throws {
    try await mounted { side in
      let (count, size) = (400, 113)
      try side(.put("log", ""))
      let writers = try ["a", "b", "c"].map { tag in
        let writer = try side.another(tag)
        try writer(.open("log", [.writeOnly, .append], as: "log"))
        return try writer.begin(
          .sequence(
            (0..<count).map { index in
              let text = "\(tag) \(index) "
              return .write("log", .bytes(Bytes(text + String(repeating: ".", count: size - 1 - text.count) + "\n")))
            }))
      }
      let whole = Answer.several(Array(repeating: .number(Int64(size)), count: count))
      for writer in writers { #expect(try writer.answer() == whole) }
      // Line by line: what is read at once is shown whole up to 4096 bytes.
      try side(.open("log", .readOnly, as: "reader"))
      guard case .several(let lines) = try side(.sequence(Array(repeating: .read("reader", size), count: 3 * count)))
      else {
        Issue.record("no lines")
        return
      }
      let seen = lines.compactMap { line -> Substring? in
        guard case .content(let content) = line else { return nil }
        return String(decoding: content.head.bytes, as: UTF8.self).split(separator: ".").first
      }
      for tag in ["a", "b", "c"] {
        #expect(seen.filter { $0.hasPrefix(tag) } == (0..<count).map { "\(tag) \($0) " })
      }
      #expect(try side(.read("reader", 1)) == .content(""))
    }
  }

  @Test(.promises("S9")) func largeAppendsKeepTheirOrder() async throws {
    try await comparison { side in
      try side(.put("f", "start"))
      for flags: OpenFlags in [.writeOnly, .readWrite, [.writeOnly, .direct]] {
        try side(.open("f", flags.union(.append), as: "file"))
        // O_DIRECT wants to begin at a block.
        if flags.contains(.direct) { try side(.ftruncate("file", 4096 * 4096)) }
        try side(.write("file", .random(seed: 9, count: 5 << 20)))
        try side(.close("file"))
      }
      try side(.get("f"))
    }
  }

  @Test(.promises("S9")) func processesThatOpenForEachAppend_doNotOverwriteEachOther() async throws {
    try await mounted { side in
      let (count, size) = (300, 800)
      func mark(_ tag: String, _ number: Int) -> String { "\(tag)\(1_000_000 + number)" }
      let appends = try ["a", "b"].map { tag in
        try side.another(tag).begin(
          .sequence(
            (0..<count).map { number in
              .sequence([
                .open("log", [.writeOnly, .append, .create], as: "log"),
                .write("log", .bytes(Bytes(String(repeating: mark(tag, number), count: size / 8)))), .close("log"),
              ])
            }))
      }
      let whole = Answer.several(Array(repeating: .several([.done, .number(Int64(size)), .done]), count: count))
      for append in appends { #expect(try append.answer() == whole) }
      try side(.open("log", .readOnly, as: "reader"))
      guard case .several(let lines) = try side(.sequence(Array(repeating: .read("reader", size), count: 2 * count)))
      else {
        Issue.record("no lines")
        return
      }
      let seen = lines.compactMap { line -> String? in
        guard case .content(let content) = line else { return nil }
        let first = String(decoding: content.head.bytes.prefix(8), as: UTF8.self)
        return content == Content(Array(String(repeating: first, count: size / 8).utf8)) ? first : "torn"
      }
      for tag in ["a", "b"] { #expect(seen.filter { $0.hasPrefix(tag) } == (0..<count).map { mark(tag, $0) }) }
      #expect(try side(.read("reader", 1)) == .content(""))
    }
  }
}

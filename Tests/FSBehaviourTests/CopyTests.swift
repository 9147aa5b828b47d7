import FilesystemCalls
import Promises
import Testing

/// Copies that the kernel makes.
@Suite struct CopyTests {
  @Test(.promises("S16a")) func copyFileRange_actsAsLocallyWithinAFileAndBetweenFiles() async throws {
    try await comparison { side in
      try side(.put("a", .random(seed: 16, count: 2_000_000)))
      try side(.open("a", .readWrite, as: "a"))
      try side(.open("b", [.readWrite, .create], as: "b"))
      try side(.open("a", .readOnly, as: "reader"))
      // Forwards, backwards, onto itself, beyond the end, and with descriptors that may not.
      let copies: [(Slot, Slot, Int, Int64, Int64)] = [
        ("a", "b", 1_000_000, 0, 0), ("a", "b", 300_001, 777, 999_999), ("a", "a", 4096, 0, 100_000),
        ("a", "a", 4096, 0, 100), ("a", "a", 500_000, 1_900_000, 1_950_000), ("b", "a", 5000, 3_000_000, 0),
        ("b", "a", 100_000, 1_250_000, 2_500_000), ("a", "reader", 100, 0, 0), ("a", "b", 0, 0, 0),
        ("reader", "b", 70_000, 5, 5),
      ]
      for (from, to, count, reading, writing) in copies {
        try side(.copyFileRange(from: from, to: to, count, readingAt: reading, writingAt: writing))
        try side(.get("a"))
        try side(.get("b"))
      }
      // By the descriptors' own offsets, which move.
      try side(.lseek("a", 1_000_000, .start))
      #expect(try side(.copyFileRange(from: "a", to: "b", 1000)) == .number(1000))
      #expect(try side(.lseek("a", 0, .current)) == .number(1_001_000))
      #expect(try side(.lseek("b", 0, .current)) == .number(1000))
      try side(.open("c", [.writeOnly, .create, .append], as: "c"))
      try side(.copyFileRange(from: "a", to: "c", 100))
      try side(.sendfile(from: "a", to: "c", at: 0, 100))
      for slot: Slot in ["a", "b", "c", "reader"] { try side(.close(slot)) }
    }
  }

  @Test(.promises("S16a")) func sendfileAndSplice_copyEverything() async throws {
    try await comparison { side in
      let size = 3_000_001
      let content = Content(.random(seed: 17, count: size))
      try side(.put("source", .random(seed: 17, count: size)))
      try side(.open("source", .readOnly, as: "source"))
      for flags: OpenFlags in [.writeOnly, .readWrite] {
        try side(.open("sent", flags.union([.create, .truncate]), as: "target"))
        try Self.copyAll(size, side) { done in .sendfile(from: "source", to: "target", at: done, size - Int(done)) }
        try side(.close("target"))
        #expect(try side(.get("sent")) == .content(content))
      }
      try side(.pipe(reading: "out", writing: "in"))
      try side(.open("spliced", [.writeOnly, .create], as: "target"))
      try Self.copyAll(size, side) { _ in
        .sequence([.splice(from: "source", to: "in", 65_536), .splice(from: "out", to: "target", 65_536)])
      }
      #expect(try side(.get("spliced")) == .content(content))
      try side(.splice(from: "source", to: "target", 1))
      for slot: Slot in ["source", "target", "out", "in"] { try side(.close(slot)) }
    }
  }

  @Test(.promises("S16a")) func copiesLeaveAndEnterTheMount() async throws {
    try await mounted { side in
      let size = 3_000_001
      let content = Content(.random(seed: 18, count: size))
      let outside = side.mount.plain
      try side(.put("inside", .random(seed: 18, count: size)))
      for (source, target) in [
        (Path("inside"), Path("\(outside)/sent")), (Path("\(outside)/sent"), Path("back")),
      ] {
        try side(.open(source, .readOnly, as: "source"))
        try side(.open(target, [.writeOnly, .create, .truncate], as: "target"))
        try Self.copyAll(size, side) { done in .sendfile(from: "source", to: "target", at: done, size - Int(done)) }
        try side(.close("target"))
        #expect(try side(.get(target)) == .content(content))
        // Across filesystems the kernel may leave it to the caller; it does not copy half.
        try side(.open(target, [.writeOnly, .truncate], as: "target"))
        let copied = try side(.copyFileRange(from: "source", to: "target", size))
        if case .number(let count) = copied {
          #expect(try side(.stat(target)).status?.size == count)
        } else {
          #expect([.failed(.otherFilesystem), .failed(.notSupported), .failed(.invalid)].contains(copied))
          #expect(try side(.stat(target)).status?.size == 0)
        }
        try side(.close("target"))
        try side(.unlink(target))
        try side(.put(target, .random(seed: 18, count: size)))
        try side(.close("source"))
      }
    }
  }

  @Test(.promises("S16b")) func reflinksAreRefused() async throws {
    try await mounted { side in
      try side(.put("source", .repeated(1, count: 65_536)))
      try side(.open("source", .readOnly, as: "source"))
      for flags: OpenFlags in [.writeOnly, .readWrite] {
        try side(.open("target", flags.union(.create), as: "target"))
        #expect(try side(.clone(from: "source", to: "target")) == .failed(.notSupported))
        #expect(try side(.fstat("target")).status?.size == 0)
        try side(.close("target"))
      }
      try side(.close("source"))
    }
  }

  /// Repeats a copy until everything is copied, or a call says that it does no more.
  private static func copyAll(_ size: Int, _ side: Side, _ call: (Int64) -> Call) throws {
    var done: Int64 = 0
    while done < size {
      let answer = try side(call(done))
      let count = if case .several(let answers) = answer { answers.last?.number } else { answer.number }
      done += try #require(count.flatMap { $0 > 0 ? $0 : nil }, "\(answer) after \(done) bytes")
    }
  }
}

import FilesystemCalls
import Promises
import Testing

/// What readdir(3) shows while names come and go.
@Suite struct ListingTests {
  @Test(.promises("S7a")) func aListingIsCompleteWhileOthersComeAndGo() async throws {
    try await mounted { side in
      let kept = Set((0..<3000).map { Bytes("kept-\($0)") })
      try side(.sequence(kept.map { .mknod(Path($0), .file) }))
      let disturber = try side.another("disturber").begin(
        .untilStopped((0..<50).flatMap { [.put(Path("passing-\($0)"), ""), .unlink(Path("passing-\($0)"))] }))
      for _ in 0..<5 {
        guard case .names(let names) = try side(.list(".")) else {
          Issue.record("no listing")
          break
        }
        #expect(names.count == Set(names).count)
        #expect(kept.isSubset(of: names))
        // By the kinds that the listing itself says.
        let files = try side(.run(["find", ".", "-type", "f", "-name", "kept-*", "-printf", "."]))
        #expect(files == .ended(status: 0, output: Bytes(String(repeating: ".", count: kept.count))))
      }
      try disturber.stop()
      // rm -r reads and removes at the same time.
      try side(.mkdir("all"))
      try side(.sequence((0..<3000).map { .rename(Path("kept-\($0)"), Path("all/kept-\($0)")) }))
      #expect(try side(.run(["rm", "-r", "all"])) == .ended(status: 0, output: ""))
      #expect(try side(.list(".")) == .names([]))
    }
  }

  @Test(.promises("S7b")) func positionsStayValid() async throws {
    try await mounted { side in
      try side(.sequence((0..<500).map { .mknod(Path("f\($0)"), .file) }))
      try side(.opendir(".", as: "stream"))
      let first = try side(.readdir("stream", 200)).names
      guard case .number(let position) = try side(.telldir("stream")) else {
        Issue.record("no position")
        return
      }
      let rest = try side(.readdir("stream")).names
      try side(.seekdir("stream", Int(position)))
      #expect(try side(.readdir("stream")).names == rest)
      #expect(first.count == 200 && Set(first + rest).count == 502)
      try side(.put("late", ""))
      try side(.rewinddir("stream"))
      #expect(try side(.readdir("stream")).names.contains("late"))
      #expect(try side(.closedir("stream")) == .done)
    }
  }
}

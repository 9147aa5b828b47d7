import FilesystemCalls
import FilesystemFixtures
import Promises
import Testing

/// Reading what others still write.
@Suite struct FollowingTests {
  @Test(.promises("S17")) func aGrowingFileIsFollowed() async throws {
    try await comparison { side in
      let follower = try side.another("follower")
      for flags: OpenFlags in [.writeOnly, .readWrite, [.writeOnly, .append]] {
        try side(.open("log", flags.union([.create, .truncate]), as: "writer"))
        try follower(.open("log", .readOnly, as: "reader"))
        for index in 0..<100 {
          let line = String(repeating: "line \(index) ", count: 1 + index % 7)
          try side(.write("writer", .bytes(Bytes(line))))
          #expect(try follower(.read("reader", 65_536)) == .content(Content(Array(line.utf8))))
          #expect(try follower(.read("reader", 65_536)) == .content(""))
        }
        try side(.close("writer"))
        try follower(.close("reader"))
      }
    }
  }

  @Test(.promises("S17"), arguments: [OpenFlags.writeOnly, .readWrite])
  func aFollowerThatCameFirst_neverReadsZeros(flags: OpenFlags) async throws {
    try await comparison { side in
      // The reader has the last page before a writer opens the file.
      try side(.put("log", .repeated(UInt8(ascii: "s"), count: 100)))
      let followers = try (0..<2).map { try side.another("follower \($0)") }
      for follower in followers {
        try follower(.open("log", .readOnly, as: "reader"))
        try follower(.read("reader", 65_536))
      }
      let following = try followers.map { try $0.begin(.untilStopped([.countZeros("reader", 65_536)])) }
      try side(.open("log", flags.union(.append), as: "writer"))
      let count = 6000
      try side(.sequence(Array(repeating: .write("writer", .repeated(UInt8(ascii: "x"), count: 37)), count: count)))
      for (follower, reading) in zip(followers, following) {
        guard case .rounds(_, let distinct) = try reading.stop() else {
          Issue.record("no rounds")
          continue
        }
        #expect(distinct == [.several([.number(0)])])
        try follower(.countZeros("reader", 1 << 20))
        #expect(try follower(.lseek("reader", 0, .current)) == .number(100 + Int64(count) * 37))
      }
      try side(.close("writer"))
    }
  }

  @Test(.promises("S33a")) func readersHoldNothingUp() async throws {
    try await mounted { side in
      let size = 1_000_000
      try side(.put("film", .random(seed: 33, count: size)))
      try side(.open("film", .readOnly, as: "reader"))
      #expect(try side(.mmap("reader", size, .sharedReadOnly, as: "mapped")) == .done)
      try side(.load("mapped", size))
      _ = try #require(side.mount.sink.settled("work/film"))
      _ = side.mount.sink.takeNames()
      let writer = try side.another("writer")
      try writer(.open("film", .writeOnly, as: "file"))
      try writer(.pwrite("file", "changed", at: 5000))
      try writer(.close("file"))
      #expect(side.mount.sink.settled("work/film") != nil)
      #expect(try side(.pread("reader", 7, at: 5000)) == .content("changed"))
      #expect(try side(.load("mapped", at: 5000, 7)) == .content("changed"))
      try side(.munmap("mapped"))
      try side(.close("reader"))
    }
  }
}

import FilesystemCalls
import Promises
import Testing

/// Space that is allocated and given back in any order.
@Suite struct AllocationTests {
  @Test(.promises("S12a")) func everyModeActsAsLocally_atEveryPlace() async throws {
    try await comparison { side in
      let modes: [AllocationMode] = [
        [], .keepSize, [.punchHole, .keepSize], .punchHole, .zero, [.zero, .keepSize],
        [.zero, .punchHole, .keepSize], AllocationMode(rawValue: 1 << 20),
      ]
      var draw = SeededGenerator(seed: 12)
      try side(.put("f", .random(seed: 12, count: 1_500_000)))
      for step in 0..<120 {
        // Descriptors of both kinds, and none in between.
        try side(.open("f", step % 2 == 0 ? .readWrite : .writeOnly, as: "file"))
        let (offset, count): (Int64, Int64) =
          switch Int.random(in: 0..<19, using: &draw) {
          case 0: (-1, 5)
          case 1: (5, 0)
          case 2: (5, -1)
          case 3..<11:
            (Int64.random(in: 0..<2_000_000, using: &draw), [1, 4096, 100_000].randomElement(using: &draw) ?? 1)
          default: (Int64.random(in: 0..<400, using: &draw) * 4096, 65_536)
          }
        try side(
          .fallocate("file", modes.randomElement(using: &draw) ?? [], at: offset, count: count))
        try side(.fstat("file"))
        try side(.close("file"))
        try side(.get("f"))
      }
    }
  }
}

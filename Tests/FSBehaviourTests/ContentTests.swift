import FilesystemCalls
import FilesystemFixtures
import Synchronization
import Promises
import Testing

/// What is written, and what others read of it.
@Suite struct ContentTests {
  @Test(.promises("S8a")) func whatWasWrittenIsThereAtOnce() async throws {
    try await comparison { side in
      let other = try side.another("other process")
      try side(.open("f", [.writeOnly, .create], as: "writer"))
      try side(.open("f", .readOnly, as: "reader"))
      var size: Int64 = 0
      for index in 0..<200 {
        let payload = Payload.random(seed: UInt64(index), count: 1 + index * 37)
        let content = Answer.content(Content(payload))
        let count = payload.bytes.count
        #expect(try side(.write("writer", payload)) == .number(Int64(count)))
        #expect(try side(.pread("reader", count, at: size)) == content)
        try other(.open("f", .readOnly, as: "file"))
        #expect(try other(.pread("file", 1 << 20, at: size)) == content)
        size += Int64(count)
        #expect(try side(.stat("f")).status?.size == size)
      }
      try side(.close("writer"))
      try side(.close("reader"))
    }
  }

  @Test(.promises("S8b")) func whatWasWrittenIsInTheSpoolAtOnce() async throws {
    try await mounted { side in
      let writer = try side.another("writer")
      let spool = try Actor(in: side.mount.captures + "/work")
      defer { spool.leave() }
      func inSpool() throws -> Answer {
        let call = Call.get("f")
        return try spool.answer(spool.begin(call, onThread: false), of: call)
      }
      for flags: OpenFlags in [.writeOnly, .readWrite, [.writeOnly, .append]] {
        try writer(.open("f", flags.union(.create), as: "file"))
        for count in [1, 5000, 300_000] {
          try writer(.write("file", .random(seed: UInt64(count), count: count)))
          let here = try side(.get("f"))
          #expect(try inSpool() == here)
        }
      }
      let here = try side(.get("f"))
      writer.kill()
      #expect(try inSpool() == here)
    }
  }

  @Test(.promises("S26")) func noCallWaitsForADelivery() async throws {
    // Nothing is ever delivered here: a call that waited for that would be late.
    try await comparison { side in
      side.mount.sink.deliveries.hold()
      side.mount.sink.isDelivering.store(true, ordering: .relaxed)
      for index in 0..<50 {
        let path = Path("f\(index)")
        try side(.open(path, [.create, .readWrite], as: "file"))
        try side(.write("file", .random(seed: UInt64(index), count: 10_000)))
        try side(.fsync("file"))
        #expect(try side(.close("file")) == .done)
        try side(.rename(path, "renamed"))
        try side(.get("renamed"))
        try side(.truncate("renamed", 100))
        try side(.unlink("renamed"))
      }
    }
  }

  @Test(.promises("S8a")) func readersThatHoldPagesSeeEveryKindOfWriter() async throws {
    try await comparison { side in
      try side(.put("f", .repeated(UInt8(ascii: "a"), count: 10_000)))
      try side(.open("f", .readOnly, as: "reader"))
      try side(.open("f", .readWrite, as: "cached"))
      try side(.read("reader", 10_000))
      try side(.open("f", .writeOnly, as: "writer"))
      try side(.pwrite("writer", .repeated(UInt8(ascii: "b"), count: 5000), at: 2000))
      try side(.pread("reader", 10_000))
      try side(.pwrite("cached", .repeated(UInt8(ascii: "c"), count: 100), at: 2500))
      try side(.pread("reader", 10_000))
      try side(.pwrite("writer", .repeated(UInt8(ascii: "d"), count: 100), at: 9950))
      try side(.pread("cached", 20_000))
      try side(.truncate("f", 3000))
      try side(.pread("reader", 20_000))
      try side(.get("f"))
    }
  }

  @Test(.promises("S10")) func truncationAndCreationFlags_actAsLocally() async throws {
    try await comparison { side in
      try side(.put("f", .random(seed: 10, count: 10_000)))
      for size: Int64 in [10_000, 5000, 4096, 4095, 1, 0, 70_000, 3, -1] {
        try side(.truncate("f", size))
        try side(.get("f"))
      }
      try side(.open("f", .readWrite, as: "file"))
      try side(.ftruncate("file", 100))
      try side(.pwrite("file", "end", at: 200))
      try side(.get("f"))
      try side(.ftruncate("file", -1))
      try side(.close("file"))
      let flags: [OpenFlags] = [
        [.truncate, .writeOnly], [.truncate, .readWrite, .create], [.create], [.truncate], [.truncate, .create],
      ]
      for flags in flags {
        try side(.put("f", "full"))
        try side(.tryOpen("f", flags, mode: 0o600))
        try side(.get("f"))
        try side(.stat("f"))
      }
      try side(.tryOpen("f", [.create, .exclusive, .readWrite]))
      try side(.tryOpen("empty", .create, mode: 0o640))
      try side(.tryOpen("created", [.create, .exclusive, .writeOnly], mode: 0o604))
      try side(.truncate(".", 0))
      try side(.put("f", "full"))
      try side(.open("f", .readOnly, as: "file"))
      try side(.ftruncate("file", 0))
      try side(.write("file", "x"))
      try side(.get("f"))
      try side(.close("file"))
    }
  }

  @Test(.promises("S11")) func holesAreFoundAsLocally() async throws {
    try await comparison { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.pwrite("file", .repeated(1, count: 4096), at: 1 << 20))
      try side(.pwrite("file", .repeated(2, count: 4096), at: 3 << 20))
      try side(.ftruncate("file", 5 << 20))
      for whence: Whence in [.data, .hole] {
        for offset: Int64 in [
          0, 4096, 1 << 20, (1 << 20) + 5, 2 << 20, 3 << 20, 4 << 20, 5 << 20, 6 << 20,
        ] { try side(.lseek("file", offset, whence)) }
      }
      let blocks = try side(.fstat("file")).status?.blocks ?? .max
      #expect(blocks * 512 < 1 << 20)
      try side(.close("file"))
    }
  }

  @Test(.promises("S12a")) func fallocate_actsAsLocally() async throws {
    try await comparison { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.write("file", .repeated(1, count: 50_000)))
      let changes: [(AllocationMode, Int64, Int64)] = [
        ([], 0, 100_000), (.keepSize, 0, 400_000), ([.punchHole, .keepSize], 4096, 8192), (.punchHole, 0, 4096),
        (.zero, 20_000, 3000), ([.zero, .keepSize], 0, 10), ([], 0, 0), ([], 200_000, 50), ([], -1, 5),
      ]
      for (mode, offset, count) in changes {
        try side(.fallocate("file", mode, at: offset, count: count))
        try side(.fstat("file"))
        try side(.get("f"))
      }
      // All that was allocated but for the hole.
      #expect(try side(.fstat("file")).status?.blocks ?? 0 >= (400_000 - 8192) / 512)
      try side(.close("file"))
    }
  }

  @Test(.promises("S12b")) func rangesCannotBeCollapsedOrInserted() async throws {
    try await mounted { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.write("file", .repeated(1, count: 65_536)))
      for mode: AllocationMode in [.collapse, .insert, [.collapse, .keepSize]] {
        #expect(try side(.fallocate("file", mode, at: 0, count: 4096)) == .failed(.notSupported))
      }
      #expect(try side(.get("f")) == .content(Content(.repeated(1, count: 65_536))))
      try side(.close("file"))
    }
  }

  @Test(.promises("S13a", "S13b")) func writesOfEverySizePlaceAndFlag_giveTheSameBytes() async throws {
    try await comparison { side in
      var draw = SeededGenerator(seed: 13)
      let sizes = [1, 100, 4095, 4096, 4097, 131_072, 1 << 20, (1 << 20) + 1, 3 << 20]
      for (number, flags) in [OpenFlags.writeOnly, .readWrite, [.readWrite, .sync], [.writeOnly, .dataSync]]
        .enumerated()
      {
        let path = Path("f\(number)")
        try side(.open(path, flags.union(.create), as: "file"))
        for _ in 0..<60 {
          let count = sizes.randomElement(using: &draw) ?? 1
          try side(
            .pwrite("file", .random(seed: draw.next(), count: count), at: Int64.random(in: 0..<4 << 20, using: &draw)))
        }
        try side(.writev("file", ["aaaaaaaaaa", .repeated(2, count: 5000), "c"]))
        try side(.close("file"))
        try side(.get(path))
      }
    }
  }

  @Test(.promises("S13a")) func directWritesAndReadsWork() async throws {
    try await comparison { side in
      try side(.open("f", [.readWrite, .create, .direct], as: "file"))
      try side(.write("file", .random(seed: 14, count: 5 << 20)))
      try side(.pwrite("file", .random(seed: 15, count: 4096), at: 8192))
      try side(.pread("file", 5 << 20))
      try side(.close("file"))
      try side(.get("f"))
    }
  }

  @Test(.promises("S13b")) func parallelWritersOfOneFile_eachGetTheirPart() async throws {
    try await comparison { side in
      let (parts, size) = (8, 700_001)
      try side(.put("f", ""))
      let writes = try (0..<parts).map { part in
        let slot = Slot("file \(part)")
        try side(.open("f", part % 2 == 0 ? .readWrite : .writeOnly, as: slot))
        return try side.first.begin(
          .sequence(
            stride(from: 0, to: size, by: 65_537).map { done in
              .pwrite(
                slot, .repeated(UInt8(part + 1), count: min(65_537, size - done)), at: Int64(part * size + done))
            }))
      }
      for write in writes { try write.answer() }
      for part in 0..<parts {
        try side(.close(Slot("file \(part)")))
        try side(.open("f", .readOnly, as: "reader"))
        #expect(
          try side(.pread("reader", size, at: Int64(part * size)))
            == .content(Content(.repeated(UInt8(part + 1), count: size))))
      }
    }
  }
}

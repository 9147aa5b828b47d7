import FileModel
import FilesystemCalls
import FilesystemFixtures
import Promises
import Testing

/// Files that are read and written through mappings.
@Suite struct MappingTests {
  @Test(.promises("S14a", "S14b")) func mappedFilesAreReadAndWritten() async throws {
    try await comparison { side in
      let size = 100_000
      try side(.put("f", .repeated(UInt8(ascii: "."), count: size)))
      try side(.open("f", .readWrite, as: "file"))
      #expect(try side(.mmap("file", size, .sharedReadWrite, as: "shared")) == .done)
      try side(.store("shared", at: 50_000, "store"))
      #expect(try side(.msync("shared")) == .done)
      #expect(try side.another()(.get("f")) == side(.load("shared", size)))
      try side(.store("shared", at: 10, "later"))
      #expect(try side(.pread("file", 5, at: 10)) == .content("later"))
      try side(.pwrite("file", "written", at: 70_000))
      #expect(try side(.load("shared", at: 70_000, 7)) == .content("written"))
      #expect(try side(.munmap("shared")) == .done)
      try side(.close("file"))
      try side(.get("f"))
      for flags: OpenFlags in [.readOnly, .readWrite] {
        try side(.open("f", flags, as: "file"))
        #expect(try side(.mmap("file", size, .sharedReadOnly, as: "shared")) == .done)
        #expect(try side(.mmap("file", size, .privateReadOnly, as: "private")) == .done)
        #expect(try side(.mmap("file", size, .privateReadWrite, as: "own")) == .done)
        try side(.store("own", "own"))
        #expect(try side(.load("own", 20)) == .content("own.......later....."))
        for mapping: Slot in ["shared", "private"] {
          #expect(try side(.load(mapping, 20)) == .content("..........later....."))
        }
        for mapping: Slot in ["shared", "private", "own"] { try side(.munmap(mapping)) }
        try side(.close("file"))
      }
      #expect(try side(.open("f", .readOnly, as: "file")) == .done)
      try side(.mmap("file", size, .sharedReadWrite, as: "refused"))
      try side(.close("file"))
      try side(.open("f", .writeOnly, as: "file"))
      try side(.mmap("file", size, .privateReadOnly, as: "refused"))
      try side(.close("file"))
    }
  }

  @Test(.promises("S14b")) func aMappingOutlivesItsDescriptor() async throws {
    try await comparison { side in
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.ftruncate("file", 8192))
      try side(.mmap("file", 8192, .sharedReadWrite, as: "shared"))
      try side(.close("file"))
      try side(.store("shared", "late"))
      try side(.msync("shared"))
      #expect(try side(.open("f", .readOnly, as: "reader")) == .done)
      #expect(try side(.pread("reader", 10)) == .content("late\0\0\0\0\0\0"))
      try side(.store("shared", at: 8188, "last"))
      try side(.munmap("shared"))
      #expect(try side(.pread("reader", 10, at: 8188)) == .content("last"))
      try side(.close("reader"))
    }
  }

  @Test(.promises("S14b")) func storesAreInTheSpoolOnceTheyHaveToBe() async throws {
    try await mounted { side in
      let spool = try Actor(in: side.mount.captures + "/work")
      defer { spool.leave() }
      func inSpool(_ offset: Int64) throws -> Answer {
        let calls = Call.sequence([.open("f", .readOnly, as: "file"), .pread("file", 5, at: offset)])
        guard case .several(let answers) = try spool.answer(spool.begin(calls, onThread: false), of: calls) else {
          return .done
        }
        return answers[1]
      }
      try side(.open("f", [.readWrite, .create], as: "file"))
      try side(.ftruncate("file", 100_000))
      try side(.mmap("file", 100_000, .sharedReadWrite, as: "shared"))
      try side(.store("shared", at: 5000, "msync"))
      try side(.store("shared", at: 50_000, "whole"))
      try side(.msync("shared", at: 4096, 4096))
      #expect(try inSpool(5000) == .content("msync"))
      try side(.msync("shared"))
      #expect(try inSpool(50_000) == .content("whole"))
      try side(.store("shared", at: 60_000, "fsync"))
      try side(.fsync("file"))
      #expect(try inSpool(60_000) == .content("fsync"))
      try side(.store("shared", at: 70_000, "close"))
      try side(.close("file"))
      #expect(try inSpool(70_000) == .content("close"))
      try side(.store("shared", at: 80_000, "unmap"))
      try side(.munmap("shared"))
      #expect(try inSpool(80_000) == .content("unmap"))
    }
  }

  @Test(.promises("S14a", "S14c")) func besideAWriteOnlyWriter_onlyAnOldLibfuseRefusesSharedMappings() async throws {
    try await mounted { side in
      let size = 8192
      try side(.open("f", [.writeOnly, .create], as: "writer"))
      try side(.write("writer", .repeated(UInt8(ascii: "x"), count: size)))
      try side(.open("f", .readOnly, as: "reader"))
      #expect(try side(.mmap("reader", size, .privateReadOnly, as: "private")) == .done)
      #expect(try side(.load("private", 4)) == .content("xxxx"))
      let shared = try side(.mmap("reader", size, .sharedReadOnly, as: "shared"))
      if Ability.oldLibfuse.lack == nil {
        #expect(shared == .failed(.noDevice))
      } else {
        #expect(shared == .done)
        #expect(try side(.load("shared", 4)) == .content("xxxx"))
        try side(.munmap("shared"))
      }
      try side(.munmap("private"))
      try side(.close("reader"))
      try side(.close("writer"))
      try side(.open("f", .readOnly, as: "reader"))
      #expect(try side(.mmap("reader", size, .sharedReadOnly, as: "shared")) == .done)
      #expect(try side(.load("shared", at: size - 4, 4)) == .content("xxxx"))
      try side(.munmap("shared"))
      try side(.close("reader"))
    }
  }

  @Test(.promises("S14b")) func storesOfEveryPlaceAndProcess_giveTheSameBytes() async throws {
    try await comparison { side in
      var draw = SeededGenerator(seed: 14)
      try side(.open("grown", [.readWrite, .create], as: "grown"))
      for size in [8192, 100_000, 1 << 20, (3 << 20) + 17] {
        try side(.ftruncate("grown", Int64(size)))
        try side(.mmap("grown", size, .sharedReadWrite, as: "mapped"))
        for _ in 0..<40 {
          try side(
            .store("mapped", at: Int.random(in: 0..<size - 100, using: &draw), .random(seed: draw.next(), count: 100)))
        }
        try side(.msync("mapped", at: 0, 4096))
        try side(.munmap("mapped"))
        try side(.get("grown"))
      }
      let size = 1 << 20
      try side(.open("shared", [.readWrite, .create], as: "shared"))
      try side(.ftruncate("shared", Int64(size)))
      try side(.mmap("shared", size, .sharedReadWrite, as: "target"))
      let copy = try side.first.fork("copy")
      try side(.store("target", "outside"))
      #expect(try copy(.load("target", 7)) == .content("outside"))
      try copy(.store("target", at: 500_000, "inside"))
      #expect(try side(.pread("shared", 6, at: 500_000)) == .content("inside"))
      copy.leave()
      try side(.mmap("grown", size, .sharedReadWrite, as: "source"))
      try side(.transfer(from: "source", loadingAt: 2000, to: "target", storingAt: 1000, 299_000))
      for mapping: Slot in ["source", "target"] { try side(.munmap(mapping)) }
      for file: Slot in ["grown", "shared"] { try side(.close(file)) }
    }
  }

  @Test(.promises("S33a", "S14b"), arguments: [true, false])
  func aFileIsNotCompleteWhileItIsMapped(isNew: Bool) async throws {
    try await mounted(.inOrder) { side in
      let size = 1_500_000
      if !isNew {
        try side(.put("film", .random(seed: 33, count: size)))
        _ = side.mount.sink.settled("work/film")
      }
      try side(.open("film", [.readWrite, .create], as: "file"))
      if isNew { try side(.ftruncate("file", Int64(size))) }
      try side(.mmap("file", size, .sharedReadWrite, as: "mapped"))
      _ = side.mount.sink.takeNames()
      try side(.close("file"))
      try side(.store("mapped", "first"))
      try side(.msync("mapped"))
      // A second writer comes and goes: the mapping still holds the file open.
      try side(.open("film", .readWrite, as: "file"))
      try side(.pwrite("file", "F", at: 0))
      try side(.close("file"))
      try side.afterEveryRelease()
      #expect(side.mount.sink.takeNames() == (isNew ? [] : ["willChange", "changed"]))
      try side(.store("mapped", at: 700_000, "last"))
      #expect(side.mount.sink.takeNames() == [])
      try side(.munmap("mapped"))
      let whole = try #require(side.mount.sink.settled("work/film"))
      #expect(whole.sizeBytes == size && side.mount.sink.takeNames() == ["settled"])
      try side(.open("film", .readOnly, as: "file"))
      #expect(try side(.pread("file", 5)) == .content("First"))
      #expect(try side(.pread("file", 4, at: 700_000)) == .content("last"))
      try side(.close("file"))
    }
  }
}

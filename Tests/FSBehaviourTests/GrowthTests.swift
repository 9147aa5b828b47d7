import FileModel
import FilesystemCalls
import FilesystemFixtures
import Foundation
import Promises
import Testing
import UploadFS

/// What an uploader is told of a file that is being written: by this it sends again what was written again.
@Suite struct GrowthTests {
  @Test(.promises("S60b"), arguments: [60, 61]) func everyChangeIsToldOfItsChunks(seed: UInt64) async throws {
    try await mounted { side in
      var draw = SeededGenerator(seed: seed)
      let size = 1 << 20
      let other = try side.another("other")
      try side(.put("source", .random(seed: seed, count: size)))
      try side(.open("source", .readOnly, as: "source"))
      try side(.open("f", [.readWrite, .create], as: "file"))
      let id = try #require(side.mount.sink.lastSnapshot?.id)
      var copy = FollowedCopy(path: side.mount.captures + "/work/f")
      try other(.open("f", .writeOnly, as: "file"))
      try side(.ftruncate("file", Int64(size)))
      try side(.mmap("file", size, .sharedReadWrite, as: "mapped"))
      for _ in 0..<150 {
        let place = Int.random(in: 0..<size - 200_000, using: &draw)
        let count = [1, 4096, 70_000, 200_000].randomElement(using: &draw) ?? 1
        let payload = Payload.random(seed: draw.next(), count: count)
        let (offset, length) = (Int64(place), Int64(count))
        switch Int.random(in: 0..<40, using: &draw) {
        case 0..<8: try side(.pwrite("file", payload, at: offset))
        case 8..<12: try other(.pwrite("file", payload, at: offset))
        case 12..<20:
          try side(.store("mapped", at: place, payload))
          try side(.msync("mapped"))
        case 20..<24:
          try side(.copyFileRange(from: "source", to: "file", count, readingAt: offset, writingAt: length))
        case 24..<28:
          try other(.lseek("file", offset, .start))
          try side(.sendfile(from: "source", to: "file", at: length, count))
        case 28..<38:
          let modes: [AllocationMode] = [[.punchHole, .keepSize], .zero, [.zero, .keepSize], []]
          try side(.fallocate("file", modes.randomElement(using: &draw) ?? [], at: offset, count: length))
        case 38:
          try other(.truncate("f", offset))
          try side(.ftruncate("file", Int64(size)))
        default:
          try other(.tryOpen("f", [.writeOnly, .truncate]))
          try side(.ftruncate("file", Int64(size)))
        }
        try copy.take(#require(side.mount.served?.growth(of: id, chunkBytes: FollowedCopy.chunkBytes, anew: false)))
        try #require(copy.differences() == [])
      }
      try side(.munmap("mapped"))
      for slot: Slot in ["file", "source"] { try side(.close(slot)) }
    }
  }
}

/// What an uploader has of a file: each chunk as it was when it was last told of it.
private struct FollowedCopy {
  static let chunkBytes = 65_536

  private let path: String
  private var chunks: [Int: Data] = [:]

  init(path: String) { self.path = path }

  mutating func take(_ report: GrowthReport) throws {
    if report.isFirst || report.wasEmptied { chunks = [:] }
    let content = try Data(contentsOf: URL(fileURLWithPath: path))
    for change in report.changes { chunks[change.index] = Self.chunk(change.index, of: content) }
  }

  /// The chunks that are not as they were; one of which nothing was told is a hole.
  func differences() throws -> [Int] {
    let content = try Data(contentsOf: URL(fileURLWithPath: path))
    return (0..<(content.count + Self.chunkBytes - 1) / Self.chunkBytes).filter { index in
      let chunk = Self.chunk(index, of: content)
      let known = chunks[index] ?? Data()
      return known + Data(count: max(0, chunk.count - known.count)) != chunk
    }
  }

  private static func chunk(_ index: Int, of content: Data) -> Data {
    let start = min(index * chunkBytes, content.count)
    return content[start..<min(start + chunkBytes, content.count)]
  }
}

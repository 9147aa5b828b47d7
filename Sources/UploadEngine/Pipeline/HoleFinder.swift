package import FileModel

/// Finds the chunks of a settled file that lie in holes of the spool's file.
///
/// A hole is what the file's reader gets zeros for, and so its content, unless the parts were given up or a power cut has taken them: a
/// file of which anything of that kind is known has no holes here. That nothing was written meanwhile is seen as when a chunk is read.
struct HoleFinder {
  let contents: any FileContents
  let io: HybridIOEngine

  /// Of a file in more pieces than this the rest is read: each costs two system calls.
  static let holesMax = 100_000

  /// The chunks that lie wholly in holes, in ascending order. None where the file is not, or is no longer, what was asked for.
  func chunks(of order: HoleOrder) -> [Range<Int>] {
    guard let before = contents.snapshot(of: order.file), order.isTrusted(before) else { return [] }
    do throws(FileContentsError) {
      let file = try io.begin(order.file, isKept: true)
      defer { io.end(file, isLastChunk: false) }
      guard file.opened.inode == before.inode, file.opened.sizeBytes == before.sizeBytes,
        let holes = file.file.descriptor.flatMap({ SpoolHoles(of: $0) })
      else { return [] }
      let found = HoleFinder.chunks(in: holes, order)
      // After the search, as after a read.
      let kept = found.filter { chunks in
        !contents.isReleased(order.file, order.offset(of: chunks.lowerBound)..<order.offset(of: chunks.upperBound))
      }
      guard let after = contents.snapshot(of: order.file), order.isTrusted(after),
        try file.file.identity() == file.opened
      else { return [] }
      return kept
    } catch {
      // Its chunks are read, which says what is wrong with it.
      return []
    }
  }

  private static func chunks(in holes: SpoolHoles, _ order: HoleOrder) -> [Range<Int>] {
    var chunks: [Range<Int>] = []
    var position: UInt64 = 0
    // Many holes may be shorter than a chunk.
    for _ in 0..<holesMax {
      guard position < order.sizeBytes, let hole = holes.next(from: position, sizeBytes: order.sizeBytes) else { break }
      let size = UInt64(order.chunkBytes)
      let first = Int(clamping: (hole.lowerBound + size - 1) / size)
      let last = Int(clamping: hole.upperBound / size)
      if first < last { chunks.append(first..<last) }
      position = hole.upperBound
    }
    return chunks
  }
}

extension HoleOrder {
  func offset(of index: Int) -> UInt64 { UInt64(index) * UInt64(chunkBytes) }

  /// The file is what was asked for, is at rest, and lacks nothing.
  package func isTrusted(_ snapshot: FileSnapshot) -> Bool {
    snapshot.epoch == epoch && snapshot.sizeBytes == sizeBytes && snapshot.mutationsInFlight == 0
      && !snapshot.isPartlyReleased && snapshot.diskErrno == nil && snapshot.missing == nil
      && snapshot.interruption == nil && chunkBytes > 0
  }
}

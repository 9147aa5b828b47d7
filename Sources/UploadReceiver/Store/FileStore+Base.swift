import CLinux
import ChunkProtocol
import Glibc
import Integrity
import ReceiverCore

extension FileStore {
  /// Copies what is published of a session's file into the session, as far as the file is to be long, and says which chunks that makes. The
  /// copy may be cut off, or be of a file that is changed meanwhile: it counts as what is read of it afterwards. Nothing where nothing is
  /// published that says to be of the same file, and where the disk has no room for a copy of a file of which its length is not known.
  func copyBase(of facts: SessionRecord, into data: FileDescriptor) throws(StoreFailure) -> ChunkTable {
    guard !facts.opening.fileID.isEmpty,
      let (file, content) = try tree(of: facts.credentialID).published(facts.opening.name, of: facts.opening.fileID)
    else { return ChunkTable() }
    let bytes = min(content.sizeBytes, facts.opening.sizeBytes ?? content.sizeBytes)
    if facts.opening.sizeBytes == nil, try freeBytes() / 2 <= bytes { return ChunkTable() }
    try data.copy(file, bytes: bytes)
    return try data.chunks(of: facts.opening.chunkBytes, upTo: bytes)
  }
}

extension FileDescriptor {
  /// Copies the first bytes of another file to the same places. On a filesystem that can the two share them, and nothing is written;
  /// on others copy_file_range(2) writes zeros for holes, which are therefore made here, also in space that was reserved.
  func copy(_ other: FileDescriptor, bytes: UInt64) throws(StoreFailure) {
    var done: UInt64 = 0
    while done < bytes {
      let start = min(other.firstData(from: done) ?? bytes, bytes)
      if start > done {
        guard UInt64(clamping: try other.status().st_size) >= start else { throw .io("the file became shorter") }
        try makeZeros([done..<start])
      }
      let end = min(other.firstHole(from: start) ?? bytes, bytes)
      try copy(other, start..<end)
      done = end
    }
  }

  private func copy(_ other: FileDescriptor, _ range: Range<UInt64>) throws(StoreFailure) {
    var done = range.lowerBound
    while done < range.upperBound {
      guard let offset = off_t(exactly: done) else { throw .io("copy_file_range: the file is too large") }
      let count = uploadfs_copy_file_range(
        other.raw, raw, offset, Int(min(range.upperBound - done, UInt64(FileDescriptor.copiedAtOnceMax))))
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw count < 0 ? .last("copy_file_range") : .io("the file became shorter") }
      done += UInt64(count)
    }
  }

  /// The kernel copies no more at once, however much it is asked for.
  private static let copiedAtOnceMax = 1 << 30

  /// The whole chunks of the first bytes, as they are.
  func chunks(of chunkBytes: Int, upTo bytes: UInt64) throws(StoreFailure) -> ChunkTable {
    var chunks = ChunkTable()
    guard let count = UInt32(exactly: bytes / UInt64(max(1, chunkBytes))) else { return chunks }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
    defer { buffer.deallocate() }
    for index in 0..<count {
      guard let chunk = try chunk(at: UInt64(index) * UInt64(chunkBytes), bytes: chunkBytes, buffer) else { break }
      chunks.insert(chunk, at: index)
    }
    return chunks
  }

  /// What lies there, read piece by piece; nil where the file ends before.
  func chunk(
    at start: UInt64, bytes: Int, _ buffer: UnsafeMutableRawBufferPointer
  ) throws(StoreFailure) -> ChunkChecksums? {
    var hasher = ChunkHasher(blockBytes: 128 << 10)
    var done = 0
    while done < bytes {
      let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<min(buffer.count, bytes - done)])
      guard try read(into: piece, at: start &+ UInt64(done)) == piece.count else { return nil }
      hasher.update(UnsafeRawBufferPointer(piece))
      done += piece.count
    }
    let digests = hasher.finalize()
    return ChunkChecksums(sha256: digests.sha256, crc32c: digests.crc32c, sizeBytes: UInt32(clamping: bytes))
  }
}

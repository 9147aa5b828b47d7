public import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc
import Integrity
public import Lookup
import Synchronization

/// Chunks are written, and it shows where another program has written to the same files.
extension FileStore {
  /// Data first, then the record: a record never tells of bytes that were not written.
  public func write(
    _ body: any BodyBytes, to session: SessionID, index: UInt32, offset: UInt64, facts: ChunkChecksums
  ) throws(StoreFailure) {
    try requireState()
    let files = try ownFiles(of: session)
    beginWriting(files, session)
    let written = Result { () throws(StoreFailure) in try FileStore.write(body, to: files.data, at: offset) }
    endWriting(files, session)
    try written.get()
    try files.journal.append(JournalRecord.chunk(index: index, facts).bytes)
    try noteWritten(files, session)
  }

  /// Likewise: the holes first.
  public func writeZeros(
    to session: SessionID, _ chunks: IndexRanges, chunkBytes: UInt64
  ) throws(StoreFailure) {
    try requireState()
    let files = try ownFiles(of: session)
    beginWriting(files, session)
    let written = Result { () throws(StoreFailure) in
      try files.data.makeZeros(
        chunks.ranges.map { UInt64($0.lowerBound) * chunkBytes..<UInt64($0.upperBound) * chunkBytes })
    }
    endWriting(files, session)
    try written.get()
    _ = try files.journal.append(
      chunks.ranges.map { JournalRecord.zeros(first: $0.lowerBound, last: $0.upperBound - 1).bytes })
    try noteWritten(files, session)
  }

  /// Another program has changed the data since this one wrote to it last: it is read again before it is published.
  func beginWriting(_ files: SessionFiles, _ id: SessionID) {
    openFiles.withLock { open in
      FileStore.compare(files, id, &open)
      open.writing[id, default: 0] += 1
    }
  }

  /// While this process writes there is nothing to compare with.
  static func compare(_ files: SessionFiles, _ id: SessionID, _ open: inout OpenFiles) {
    guard open.writing[id] == nil, let known = open.stamps[id] else { return }
    if DataStamp(files.data) != known { open.failed.insert(id) }
  }

  /// While others write there is nothing to compare with. Under the lock, so that no stamp is older than the last write.
  func endWriting(_ files: SessionFiles, _ id: SessionID) {
    openFiles.withLock { open in
      let running = open.writing[id, default: 1] - 1
      open.writing[id] = running > 0 ? running : nil
      if running == 0 { open.stamps[id] = DataStamp(files.data) }
    }
  }

  /// Reads the data again where another program has changed it, or may have.
  func requireOwnContent(
    _ files: SessionFiles, _ id: SessionID, sizeBytes: UInt64
  ) throws(StoreFailure) {
    let isKnown = openFiles.withLock { open in open.stamps[id].map { $0 == DataStamp(files.data) } ?? false }
    guard !isKnown else { return }
    let (recorded, facts) = try recordedChunks(files)
    let chunkBytes = UInt64(clamping: facts?.opening.chunkBytes ?? 0)
    let held = try verify(files, id)
    let isPublished = { (index: UInt32) in
      let start = UInt64(index).multipliedReportingOverflow(by: chunkBytes)
      return !start.overflow && start.partialValue < sizeBytes
    }
    guard !recorded.keys.contains(where: { held[$0] == nil && isPublished($0) }) else {
      openFiles.withLock { _ = $0.failed.insert(id) }
      throw .io("another program has changed the data of the upload session \(id.text)")
    }
  }

  static func write(
    _ body: any BodyBytes, to file: FileDescriptor, at offset: UInt64
  ) throws(StoreFailure) {
    var position = offset
    try body.forEachPiece { (piece) throws(StoreFailure) in
      try file.write(piece, at: position)
      position &+= UInt64(piece.count)
    }
  }
}

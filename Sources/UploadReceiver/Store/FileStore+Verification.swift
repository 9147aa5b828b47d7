public import ReceiverCore
import CLinux
import ChunkProtocol
import Glibc
import Integrity
import Lookup
import Synchronization

/// What a start finds of a session's chunks.
extension FileStore {
  /// Hashes what the journal tells of. The journal is not synced with the data, so after a power cut either may be
  /// missing; only what matches counts.
  public func verify(_ session: SessionID, takesBase: Bool) throws(StoreFailure) -> ChunkTable {
    let files = try presentFiles(of: session)
    if takesBase, let held = try takeBase(files, session) { return held }
    return try verify(files, session)
  }

  func verify(_ files: SessionFiles, _ session: SessionID) throws(StoreFailure) -> ChunkTable {
    let stamp = DataStamp(files.data)
    try syncLock(of: session).withLock { () throws(StoreFailure) in
      // What memory holds may be lost on the disk, and who was told of it may have been an earlier process: only what is read from
      // the disk counts. What is not written back stays in memory.
      try files.data.syncData()
      files.data.dropCache()
      try files.journal.rereadFromDisk()
      openFiles.withLock { _ = $0.failed.remove(session) }
    }
    let (chunks, facts) = try recordedChunks(files)
    let chunkBytes = UInt64(clamping: facts?.opening.chunkBytes ?? 0)
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
    defer { buffer.deallocate() }
    var held = ChunkTable()
    for (index, chunk) in chunks.written.sorted() {
      let start = UInt64(index).multipliedReportingOverflow(by: chunkBytes)
      guard !start.overflow else { continue }
      if try FileStore.isPresent(chunk, at: start.partialValue, in: files.data, buffer) {
        held.insert(chunk, at: index)
      }
    }
    let zero = ChunkChecksums.zeros(Int(clamping: chunkBytes))
    for range in chunks.zeros.ranges {
      for zeros in try FileStore.presentZeros(zero, range, in: files.data, buffer) { held.insertZeros(zeros, of: zero) }
    }
    // As it was before the first byte was read: what changes it meanwhile shows.
    openFiles.withLock { open in if open.writing[session] == nil { open.stamps[session] = stamp } }
    return held
  }

  /// What the journal tells of.
  func recordedChunks(
    _ files: SessionFiles
  ) throws(StoreFailure) -> (chunks: ChunkTable, facts: SessionRecord?) {
    var chunks = ChunkTable()
    var opened: SessionRecord?
    let journal = try FileDescriptor.openOwn("journal", in: files.directory, O_RDWR)
    for payload in try Journal.recover(journal) {
      switch JournalRecord(payload) {
      case .session(let facts): opened = facts
      case .chunk(let index, let chunk): chunks.insert(chunk, at: index)
      case .zeros(let first, let last):
        chunks.insertZeros(first..<(last + 1), of: .zeros(opened?.opening.chunkBytes ?? 0))
      default: break
      }
    }
    return (chunks, opened)
  }

  private static let recordsAtOnceMax = 1000

  /// Begins a session that holds nothing yet with what is published of its file; nil where it does not.
  private func takeBase(_ files: SessionFiles, _ session: SessionID) throws(StoreFailure) -> ChunkTable? {
    let (recorded, facts) = try recordedChunks(files)
    guard let facts, facts.opening.takesBase == true, recorded.isEmpty else { return nil }
    beginWriting(files, session)
    let copied = Result { () throws(StoreFailure) in try copyBase(of: facts, into: files.data) }
    endWriting(files, session)
    // What it begins with is a help: what cannot be had of it is sent.
    guard case .success(let held) = copied, !held.isEmpty else { return nil }
    // A file may have a hundred thousand chunks.
    var records: [[UInt8]] = []
    for (index, chunk) in held.written.sorted() {
      records.append(JournalRecord.chunk(index: index, chunk).bytes)
      guard records.count == FileStore.recordsAtOnceMax else { continue }
      _ = try files.journal.append(records)
      records.removeAll(keepingCapacity: true)
    }
    _ = try files.journal.append(records)
    try noteWritten(files, session)
    return held
  }

  /// Of chunks that are recorded as zeros, those that are. What is a hole is not read.
  private static func presentZeros(
    _ zero: ChunkChecksums, _ chunks: Range<UInt32>, in file: FileDescriptor, _ buffer: UnsafeMutableRawBufferPointer
  ) throws(StoreFailure) -> [Range<UInt32>] {
    let chunkBytes = UInt64(zero.sizeBytes)
    let fileBytes = UInt64(clamping: try file.status().st_size)
    guard chunkBytes > 0 else { return [] }
    var present: [Range<UInt32>] = []
    var index = chunks.lowerBound
    while index < chunks.upperBound, (UInt64(index) + 1) * chunkBytes <= fileBytes {
      let data = file.firstData(from: UInt64(index) * chunkBytes) ?? fileBytes
      let end = max(index, min(chunks.upperBound, UInt32(clamping: min(data, fileBytes) / chunkBytes)))
      if end > index {
        present.append(index..<end)
        index = end
      } else {
        if try isPresent(zero, at: UInt64(index) * chunkBytes, in: file, buffer) { present.append(index..<(index + 1)) }
        index += 1
      }
    }
    return present
  }

  private static func isPresent(
    _ chunk: ChunkChecksums, at start: UInt64, in file: FileDescriptor, _ buffer: UnsafeMutableRawBufferPointer
  ) throws(StoreFailure) -> Bool {
    try file.chunk(at: start, bytes: Int(chunk.sizeBytes), buffer) == chunk
  }
}

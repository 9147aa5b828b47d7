import CLinux
public import FileModel
import Glibc
import Synchronization

/// Files that are larger than the disk (spec H6): what a server holds of a file that is not delivered yet may be given back
/// to the disk, by rule. The file keeps its size; reading what is gone fails with EIO, as does a change that would need it,
/// and the uploader is told that it is gone instead of being given zeros.
extension Filesystem {
  /// So much is released at once where there is so much, because each look at the disk costs time.
  static let releaseBytesMin: UInt64 = 32 << 20

  /// Gives chunks back, so that so much may be written.
  func releaseChunks(for bytes: UInt64) {
    guard canRelease.load(ordering: .relaxed) else { return }
    for candidate in sink.releaseCandidates(bytesMax: max(bytes, Self.releaseBytesMin)) {
      guard let file = file(of: candidate.id) else { continue }
      release(candidate, of: file)
    }
  }

  private func release(_ candidate: ReleaseCandidate, of file: CapturedFile) {
    namespaceLock.shared {
      file.state.withLock { state in
        readMark(of: file, &state)
        // What the file's label says of it is known, or it would be written over.
        guard state.mark != nil, !state.activity.isGone, state.unseenWriters == 0, state.backing == nil,
          let descriptor = writableDescriptor(of: file, state)
        else { return }
        let known = state.pointer
        if let pointer = candidate.pointer { state.pointer = pointer }
        defer { if state.released == nil { state.pointer = known } }
        for chunk in candidate.chunks where state.isStill(chunk, of: candidate) {
          guard release(chunk.index, of: candidate.chunkBytes, file, &state, descriptor) else { return }
        }
      }
    }
  }

  /// A file of an earlier run is met: which parts of it are not there. Where a person has put bytes by hand they are, if that was done
  /// to all of a part: giving one back may have been cut off in the middle. The file's lock and the namespace lock are held.
  func noteReleased(
    _ known: ReleasedChunks?, of file: CapturedFile, _ state: inout CapturedFile.State, sizeBytes: UInt64
  ) {
    guard var released = known else { return }
    released.cut(at: sizeBytes)
    do throws(SystemError) {
      let reader = try openByName(file)
      for run in released.runs {
        for index in run {
          if try Self.holdsBytes(reader, chunk: index, of: released.chunkBytes) { released.remove(index) }
        }
      }
    } catch {
      // What the attribute names and cannot be looked at counts as missing.
    }
    guard !released.isEmpty else { return }
    state.released = released
    file.isPartlyReleased.store(true, ordering: .sequentiallyConsistent)
  }

  /// Which parts of a file may be missing that has lost its label on the way here: those that hold nothing but zeros. Nil where they
  /// are too many to be kept track of, or cannot be read.
  func chunksWithoutBytes(
    of file: CapturedFile, chunkBytes: Int, sizeBytes: UInt64
  ) -> ReleasedChunks? {
    guard chunkBytes <= ReleasedChunks.chunkBytesMax else { return nil }
    var released = ReleasedChunks(chunkBytes: chunkBytes)
    do throws(SystemError) {
      let reader = try openByName(file)
      // The first one and the last ones are never given up.
      for index in 1..<max(1, sizeBytes / UInt64(chunkBytes)) {
        guard try !Self.holdsBytes(reader, chunk: index, of: chunkBytes, inEachBlock: false) else { continue }
        guard released.insert(Int(clamping: index)) else { return nil }
      }
      return released
    } catch {
      return nil
    }
  }

  /// Each of its blocks does, or any. One that the filesystem has filled with zeros instead of a hole holds none.
  private static func holdsBytes(
    _ reader: FileDescriptor, chunk index: UInt64, of chunkBytes: Int, inEachBlock: Bool = true
  ) throws(SystemError) -> Bool {
    let start = Int64(index) * Int64(chunkBytes)
    let hole = lseek(reader.number, off_t(start), uploadfs_seek_hole)
    let end = min(start + Int64(chunkBytes), Int64(try reader.status().st_size))
    guard !inEachBlock || hole < 0 || Int64(hole) >= end else { return false }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: chunkBytes, alignment: 16)
    defer { buffer.deallocate() }
    let count = try readFully(reader, at: start, into: buffer)
    guard count > 0 else { return false }
    guard inEachBlock else { return buffer[..<count].contains { $0 != 0 } }
    return stride(from: 0, to: count, by: blockBytes).allSatisfy { block in
      buffer[block..<min(block + blockBytes, count)].contains { $0 != 0 }
    }
  }

  private static let blockBytes = 4096

  /// One chunk that nobody is writing to, and nobody can begin to as long as the file's lock is held.
  private func release(
    _ index: Int, of chunkBytes: Int, _ file: CapturedFile, _ state: inout CapturedFile.State,
    _ descriptor: FileDescriptor
  ) -> Bool {
    let offset = UInt64(index) * UInt64(chunkBytes)
    let status: stat
    do throws(SystemError) {
      status = try descriptor.status()
    } catch {
      // Nothing is given up of what cannot be looked at.
      return false
    }
    guard offset + UInt64(chunkBytes) <= UInt64(clamping: status.st_size) else { return false }
    let known = state.released
    var released = known ?? ReleasedChunks(chunkBytes: chunkBytes)
    guard released.chunkBytes == chunkBytes, released.insert(index) else { return false }
    state.released = released
    guard putLabel(of: file, state, on: descriptor) else {
      state.released = known
      canRelease.store(false, ordering: .relaxed)
      return false
    }
    // Whoever has read zeros out of the hole looks at this afterwards.
    file.isPartlyReleased.store(true, ordering: .sequentiallyConsistent)
    let mode = uploadfs_falloc_punch_hole | uploadfs_falloc_keep_size
    guard uploadfs_fallocate(descriptor.number, mode, off_t(offset), off_t(chunkBytes)) == 0 else {
      let isPassing = errno == EINTR
      state.released = known
      // Where that fails it names a chunk that is there, which the next start finds out.
      _ = putLabel(of: file, state, on: descriptor)
      file.isPartlyReleased.store(known != nil, ordering: .sequentiallyConsistent)
      if !isPassing { canRelease.store(false, ordering: .relaxed) }
      return false
    }
    let times = [timespec(tv_sec: 0, tv_nsec: Int(uploadfs_utime_omit)), status.st_mtim]
    // For its writer nothing has changed. Where that fails the file looks changed, and is read again.
    _ = futimens(descriptor.number, times)
    return true
  }

  /// The namespace lock is held.
  private func writableDescriptor(of file: CapturedFile, _ state: CapturedFile.State) -> FileDescriptor? {
    if let shared = state.descriptor, shared.isWritable { return shared }
    do throws(SystemError) {
      let number = try open(file, at: location(of: file.node), O_WRONLY)
      return FileDescriptor(owning: number, isReadable: false, isWritable: true)
    } catch {
      // Nothing is given up of what cannot be opened.
      return nil
    }
  }

  /// Between a mutation's begin and its system call: one that needs what is gone cannot be carried out. What it concerns
  /// can no longer be released by then. A writer learns that its file will not be whole.
  func requirePresent(_ extent: ContentExtent, of file: CapturedFile) throws(SystemError) {
    guard file.isPartlyReleased.load(ordering: .sequentiallyConsistent),
      file.state.withLock({ $0.released?.isNeeded(for: extent) ?? false })
    else { return }
    announce(file) { state in
      let known = state.fate.interruption
      state.fate.lostContent(.changeRefused)
      return state.fate.interruption == known ? nil : .writeFailed(.changeRefused)
    }
    throw .inputOutput
  }

  /// After a read: zeros that nobody wrote are no answer.
  func requirePresent(_ range: Range<UInt64>, of file: CapturedFile) throws(SystemError) {
    if isReleased(file, range) { throw .inputOutput }
  }

  /// Whether any byte of a range is gone from the spool.
  public func isReleased(_ id: FileID, _ range: Range<UInt64>) -> Bool {
    file(of: id).map { isReleased($0, range) } ?? false
  }

  private func isReleased(_ file: CapturedFile, _ range: Range<UInt64>) -> Bool {
    guard file.isPartlyReleased.load(ordering: .sequentiallyConsistent) else { return false }
    return file.state.withLock { $0.released?.intersects(range) ?? false }
  }

  /// A mutation has given the file another size. The file's lock is held.
  func cutReleased(
    of file: CapturedFile, _ state: inout CapturedFile.State, at sizeBytes: UInt64, through descriptor: FileDescriptor
  ) {
    guard var released = state.released else { return }
    released.cut(at: sizeBytes)
    guard released != state.released else { return }
    state.released = released.isEmpty ? nil : released
    // Where that fails it names chunks behind the end, which the next start leaves out.
    _ = putLabel(of: file, state, on: descriptor)
    file.isPartlyReleased.store(state.released != nil, ordering: .sequentiallyConsistent)
  }
}

extension CapturedFile.State {
  /// The chunk is what was sent of it, and nothing is writing to it.
  fileprivate func isStill(_ chunk: ReleaseCandidate.Chunk, of candidate: ReleaseCandidate) -> Bool {
    guard candidate.isGrowing else { return activity.epoch == chunk.epoch && activity.isQuiet }
    return chunks.isQuiet(
      at: UInt64(chunk.index) * UInt64(candidate.chunkBytes), chunkBytes: candidate.chunkBytes, since: chunk.epoch)
  }
}

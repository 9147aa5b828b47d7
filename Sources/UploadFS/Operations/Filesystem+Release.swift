import CLinux
public import FileModel
import Glibc
import Synchronization

/// Files that are larger than the disk (docs/semantics.md, S70): what a server holds of a file that is not delivered yet
/// may be given back to the disk, by rule. The file keeps its size; reading what is gone fails with EIO, as does a change
/// that would need it, and the uploader is told that it is gone instead of being given zeros.
extension Filesystem {
  /// So much is released at once where there is so much, because each check of the disk costs time.
  static let releaseBytesMin: UInt64 = 32 << 20

  /// Gives chunks back, so that so much may be written.
  func releaseChunks(for bytes: UInt64) {
    guard chunkRelease.isPossible else { return }
    for candidate in sink.releaseCandidates(bytesMax: max(bytes, Self.releaseBytesMin)) {
      guard let file = file(of: candidate.id) else { continue }
      release(candidate, of: file)
    }
  }

  /// The label names what is to go, and is on the disk, before a hole is made: no power cut leaves a hole that nothing tells from zeros
  /// that a writer wrote. The disk is waited for without a lock. What is named is missing from then on, for all that read or change
  /// it, so that only cutting the file there can bring other bytes to its place meanwhile; then it stays.
  private func release(_ candidate: ReleaseCandidate, of file: CapturedFile) {
    guard let named = name(candidate, of: file) else { return }
    do throws(SystemError) {
      try chunkRelease.disk.synchronize(named.descriptor)
    } catch {
      file.state.withLock { state in
        if let refusal = error.asRefusal { noteRefusal(of: file, &state, refusal) }
        withdraw(named, of: file, &state)
      }
      return
    }
    file.state.withLock { state in
      var left = named
      while let chunk = left.chunks.popFirst() {
        guard state.isStill(chunk, of: candidate), !state.handles.hasPassthroughWriter, state.handles.backing == nil
        else { continue }
        guard punch(chunk.index, of: candidate.chunkBytes, file, state, named.descriptor) else {
          left.chunks = [chunk] + left.chunks
          return withdraw(left, of: file, &state)
        }
      }
    }
  }

  /// Chunks that the label names, through what it was put, and what it said before of where they are.
  private struct Named {
    var chunks: ArraySlice<ReleaseCandidate.Chunk> = []
    var descriptor: FileDescriptor
    var formerPointer: SessionPointer?
  }

  /// Nil where nothing is to go, or the disk does not take the label.
  private func name(_ candidate: ReleaseCandidate, of file: CapturedFile) -> Named? {
    namespaceLock.shared {
      file.state.withLock { state in
        readMark(of: file, &state)
        // What the file's label says of it is known, or it would be written over.
        guard state.disk.mark != nil, !state.activity.isGone, !state.handles.hasPassthroughWriter,
          state.handles.backing == nil,
          let descriptor = writableDescriptor(of: file, state)
        else { return nil }
        return nameStill(candidate, of: file, &state, on: descriptor)
      }
    }
  }

  /// Chunks that no writer is at, and no writer can begin with once they are named.
  private func nameStill(
    _ candidate: ReleaseCandidate, of file: CapturedFile, _ state: inout CapturedFile.State,
    on descriptor: FileDescriptor
  ) -> Named? {
    let chunkBytes = candidate.chunkBytes
    var released = state.label.released ?? ReleasedChunks(chunkBytes: chunkBytes)
    guard released.chunkBytes == chunkBytes else { return nil }
    var named = Named(descriptor: descriptor, formerPointer: state.label.pointer)
    do throws(SystemError) {
      let sizeBytes = UInt64(clamping: try descriptor.status().st_size)
      for chunk in candidate.chunks where state.isStill(chunk, of: candidate) {
        guard UInt64(chunk.index + 1) * UInt64(chunkBytes) <= sizeBytes,
          released.insert(chunk.index, digest: chunk.digest)
        else { break }
        named.chunks.append(chunk)
      }
    } catch {
      // Nothing is given up of what cannot be examined.
      return nil
    }
    guard !named.chunks.isEmpty else { return nil }
    let known = state.label
    state.label.lacks(released)
    if let pointer = candidate.pointer { state.label.point(to: pointer) }
    guard putLabel(of: file, &state, on: descriptor) else {
      state.label = known
      chunkRelease.wasRefused()
      return nil
    }
    // A reader that has got zeros out of a hole looks at this afterwards.
    file.isPartlyReleased.store(true, ordering: .sequentiallyConsistent)
    return named
  }

  /// Named chunks stay where they are. The file's lock is held.
  private func withdraw(_ named: Named, of file: CapturedFile, _ state: inout CapturedFile.State) {
    guard var released = state.label.released else { return }
    for chunk in named.chunks { released.remove(UInt64(chunk.index), digest: chunk.digest) }
    state.label.lacks(released)
    if released.isEmpty { state.label.point(to: named.formerPointer) }
    // Where that fails it names chunks that are there, which the next start finds out.
    _ = putLabel(of: file, &state, on: named.descriptor)
    file.isPartlyReleased.store(state.label.released != nil, ordering: .sequentiallyConsistent)
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
      // What the attribute names and cannot be examined counts as missing.
    }
    guard !released.isEmpty else { return }
    state.label.lacks(released)
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

  /// One chunk that the label on the disk names. False where the disk does not take it. The file's lock is held.
  private func punch(
    _ index: Int, of chunkBytes: Int, _ file: CapturedFile, _ state: CapturedFile.State, _ descriptor: FileDescriptor
  ) -> Bool {
    let start = UInt64(index) * UInt64(chunkBytes)
    let bytes = start..<start + UInt64(chunkBytes)
    guard state.label.released?.intersects(bytes) == true else { return true }
    let status: stat
    do throws(SystemError) {
      // Nothing is given up of what cannot be examined.
      status = try descriptor.status()
      try chunkRelease.disk.punch(descriptor, bytes)
    } catch {
      if error != .interrupted { chunkRelease.wasRefused() }
      return false
    }
    let times = [timespec(tv_sec: 0, tv_nsec: Int(uploadfs_utime_omit)), status.st_mtim]
    // For its writer nothing has changed. Where that fails the file looks changed, and is read again.
    _ = futimens(descriptor.number, times)
    return true
  }

  /// The namespace lock is held.
  private func writableDescriptor(of file: CapturedFile, _ state: CapturedFile.State) -> FileDescriptor? {
    if let shared = state.handles.descriptor, shared.isWritable { return shared }
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
      file.state.withLock({ $0.label.released?.isNeeded(for: extent) ?? false })
    else { return }
    announce(file) { state in
      let known = state.integrity.present.interruption
      state.integrity.present.lostContent(.changeRefused)
      return state.integrity.present.interruption == known ? nil : .writeFailed(.changeRefused)
    }
    throw .inputOutput
  }

  /// After a read: zeros that no program wrote are no answer.
  func requirePresent(_ range: Range<UInt64>, of file: CapturedFile) throws(SystemError) {
    if isReleased(file, range) { throw .inputOutput }
  }

  /// Whether any byte of a range is gone from the spool.
  public func isReleased(_ id: FileID, _ range: Range<UInt64>) -> Bool {
    file(of: id).map { isReleased($0, range) } ?? false
  }

  private func isReleased(_ file: CapturedFile, _ range: Range<UInt64>) -> Bool {
    guard file.isPartlyReleased.load(ordering: .sequentiallyConsistent) else { return false }
    return file.state.withLock { $0.label.released?.intersects(range) ?? false }
  }

  /// A mutation has given the file another size. The file's lock is held.
  func cutReleased(
    of file: CapturedFile, _ state: inout CapturedFile.State, at sizeBytes: UInt64, through descriptor: FileDescriptor
  ) {
    guard var released = state.label.released else { return }
    released.cut(at: sizeBytes)
    guard released != state.label.released else { return }
    state.label.lacks(released)
    // Where that fails it names chunks behind the end, which the next start leaves out.
    _ = putLabel(of: file, &state, on: descriptor)
    file.isPartlyReleased.store(state.label.released != nil, ordering: .sequentiallyConsistent)
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

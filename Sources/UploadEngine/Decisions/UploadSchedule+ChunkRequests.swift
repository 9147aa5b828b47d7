import FileModel
import Lookup
import TransferModel

/// Which chunk is sent next, and which is read. The answers are handled in `UploadSchedule+Chunks`.
extension UploadSchedule {
  /// What a file costs beside its bytes, so that a thousand tiny files do not count as nothing.
  private static let fileOverheadBytes: UInt64 = 64 << 10

  /// The chunk to send next: of the files whose bytes are in a buffer, the one that was given the fewest bytes.
  func nextChunkToSend(at now: ClockReading) -> (FileID, Int)? {
    guard memory.buffers.chunkBytesInUse > 0 || destination.abilities.streamsWholeFiles else { return nil }
    var best: (id: FileID, index: Int, time: UInt64)?
    let hasStream = requests.chunkCount < link.streams + requestsAwaited(at: now)
    for id in queues.working where !queues.passedOver.contains(id) {
      guard let entry = files.entry(id), let transfer = entry.file.transfer,
        !transfer.readIndices.isEmpty || entry.file.isStreamed,
        mayProbe(with: entry.file), best.map({ $0.time > turnTime(of: entry.file) }) ?? true
      else { continue }
      let file = entry.file
      if file.isStreamed {
        if mayStream(file, transfer) { best = (id, 0, turnTime(of: file)) }
        continue
      }
      if file.isWholeFile {
        guard file.publishing == nil, !file.isOpen, let path = file.nextPath(limits),
          mayPublish(path, of: file)
        else { continue }
      } else {
        guard file.session?.isOpen == true, !file.isPublishingOlderContent, hasStream, mayGoOut(ofFile: file) else {
          continue
        }
      }
      guard let index = nextToSend(of: file, transfer), mayPublish(withChunk: index, of: file) else { continue }
      best = (id, index, turnTime(of: file))
    }
    return best.map { ($0.id, $0.index) }
  }

  private func turnTime(of file: FileUpload) -> UInt64 {
    destination.gate.isOpen ? file.turn.virtualTime : trialOrder(of: file)
  }

  /// Sends the chunk. False when nothing was sent, which the choice should have prevented.
  mutating func sendChunk(_ id: FileID, _ index: Int, at now: ClockReading) -> Bool {
    if files[id]?.isStreamed == true { return stream(id, at: now) }
    guard var file = files[id], case .read(let read, let digest)? = file.transfer?.states[index] else { return false }
    if file.isWholeFile {
      guard let path = file.nextPath(limits) else { return false }
      sendWholeFiles([WholeFileTurn(id: id, path: path, digest: digest, read: read)], at: now)
      return true
    }
    guard let identity = file.session?.identity else { return false }
    let chunks = run(from: index, of: file, at: now).compactMap { index -> ChunkOrder? in
      guard case .read(let read, let digest)? = file.transfer?.states[index] else { return nil }
      return ChunkOrder(index: index, digest: digest, read: read)
    }
    let position = takePosition(of: index, in: file)
    let request = send(
      chunks.count > 1
        ? .run(chunks.map { SessionChunk(session: identity, $0) })
        : .chunk(
          SessionChunk(session: identity, ChunkOrder(index: index, digest: digest, read: read), position: position)),
      for: id,
      byteCount: chunks.reduce(0) { $0 + (file.transfer?.plan.byteCount(of: $1.index) ?? 0) },
      opensConnection: file.turn.needsNewConnection, at: now)
    for chunk in chunks {
      file.transfer?.set(.sending(request, chunk.read, chunk.digest), at: chunk.index)
      file.session?.chunkSent(chunk.index)
    }
    file.progress.begin(at: now)
    files[id] = file
    actions.append(.showStatus(id))
    return true
  }

  /// The file to read from next. Reading may run ahead of the session's opening, which hides a round trip. It never
  /// runs ahead of a query, whose answer decides what needs to be sent at all.
  func nextFileToRead() -> FileID? {
    var best: (id: FileID, time: UInt64)?
    for id in queues.working {
      guard let entry = files.entry(id), let transfer = entry.file.transfer, !entry.file.isOpen,
        !entry.file.isStreamed, best.map({ $0.time > entry.file.turn.virtualTime }) ?? true
      else { continue }
      if !entry.file.isWholeFile {
        switch entry.file.session?.state {
        case .wanted, .opening, .open, .published: break
        case .unconfirmed, .querying, nil: continue
        }
      }
      guard nextPending(of: entry.file, transfer) != nil, !waitsForHoles(entry.file),
        entry.file.isWholeFile || mayReadAhead(ofFile: entry.file)
      else { continue }
      best = (id, entry.file.turn.virtualTime)
    }
    return best?.id
  }

  /// The next chunk to read of those that go in any order. After a restart most of a file may be at the server already,
  /// and is read only to be compared: what the server lacks comes first, and comparing continues beside it while there
  /// is enough of that for the line.
  func nextPending(lowest: Int, of file: FileUpload, _ transfer: ChunkTransfer) -> Int? {
    guard file.phase == .ready, let session = file.session, session.isOpen, !session.held.isEmpty,
      !hasEnoughToSend(transfer)
    else { return lowest }
    return transfer.nextPending(lackedBy: session.held) ?? lowest
  }

  /// What a request carries, or half of what is read ahead, is read and waits for a stream. Bytes that are still being
  /// read may only be compared.
  private func hasEnoughToSend(_ transfer: ChunkTransfer) -> Bool {
    let (ahead, chunkBytes) = (pipeline.bytesReadAhead / 2, max(1, transfer.plan.chunkBytes))
    return transfer.readIndices.count >= max(1, max(limits.bufferBytes, ahead) / chunkBytes)
  }

  /// `isForItself`: the file waits for no shared frame.
  mutating func readChunk(of id: FileID, isSmall: Bool, isForItself: Bool = false, at now: ClockReading) {
    guard let entry = files.entry(id), let transfer = entry.file.transfer,
      let index = nextPending(of: entry.file, transfer)
    else { return }
    let byteCount = transfer.plan.byteCount(of: index)
    let bufferByteCount = bufferBytes(for: transfer.plan)
    let chunkEpoch = entry.file.growth.map { $0.epoch(of: index) ?? 0 }
    let isForFrame = isSmall && !isForItself && waitsForSharedFrame(entry.file, byteCount: byteCount, at: now)
    let reading = ReadBuffers.Reading(file: id, index: index, isOfGrowingFile: chunkEpoch != nil)
    let read = memory.buffers.begin(
      reading, in: isSmall ? .small(isForFrame: isForFrame) : .chunk(byteCount: bufferByteCount))
    transfer.set(.reading(read), at: index)
    // Early sending costs a file nothing: its turn begins when it is complete.
    if !isSmall, entry.file.phase == .ready {
      queues.served(at: entry.file.turn.virtualTime)
      files.update(id) { $0.turn.give(UInt64(byteCount) + Self.fileOverheadBytes) }
    }
    actions.append(
      .read(
        ReadOrder(
          id: read, file: id, epoch: chunkEpoch ?? entry.file.snapshot.epoch, isOfGrowingFile: chunkEpoch != nil,
          offset: transfer.plan.offset(of: index),
          byteCount: byteCount, compression: isForFrame ? .none : compression(of: entry.file, at: now),
          isSmall: isSmall, bufferBytes: bufferByteCount)))
  }

  /// How a chunk of a file may travel compressed.
  func compression(of file: FileUpload, at now: ClockReading) -> ChunkCompression {
    // A file that is only compared is not sent.
    guard file.progress.delivered == nil else { return .none }
    var compression = compression(of: file, lineBytesPerSecond: link.lineBytesPerSecond(at: now.monotonic))
    compression.isEarly = file.growth != nil
    return compression
  }

  /// What the file's setting makes of the receiver's offer, on a line of this rate.
  func compression(of file: FileUpload, lineBytesPerSecond: Double?) -> ChunkCompression {
    let rules = limits.rules
    let setting =
      rules.haveCompressions
      ? rules.settings(for: file.snapshot.names.first ?? file.path).compress : rules.defaults.compress
    return ChunkCompression(setting, offered: destination.forms.encodings, lineBytesPerSecond: lineBytesPerSecond)
  }

  /// The length of a chunk's buffer: one of few lengths, so that buffers are reused, and no longer than necessary.
  func bufferBytes(for plan: ChunkPlan) -> Int {
    let longest = Int(clamping: min(plan.sizeBytes, UInt64(plan.chunkBytes)))
    return min(Self.roundedBufferBytes(longest), max(longest, limits.bufferBytes))
  }

  private static func roundedBufferBytes(_ byteCount: Int) -> Int {
    guard byteCount > UploadConstants.chunkBytesMin else {
      var power = 1
      while power < byteCount { power *= 2 }
      return power
    }
    let step =
      byteCount > UploadConstants.runChunkBytesMax ? UploadConstants.runChunkBytesMax : UploadConstants.chunkBytesMin
    return byteCount > .max - step ? byteCount : (byteCount + step - 1) / step * step
  }

  mutating func release(_ read: ReadID) {
    memory.buffers.release(read)
    actions.append(.release(read))
  }
}

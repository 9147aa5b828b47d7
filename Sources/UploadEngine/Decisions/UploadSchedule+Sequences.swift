import FileModel
import Lookup
import TransferModel

/// Chunks that a server takes only one after another (``AppendSequences``).
extension UploadSchedule {
  /// Busy sequences that are passed over in search of a chunk to read; there are no more requests than this.
  private static let sequencesPassedMax = 32

  /// The next chunk of a file to read. Only one chunk of a sequence is read at a time: chunks waiting behind one that
  /// fails would hold the buffer that it needs.
  func nextPending(of file: FileUpload, _ transfer: ChunkTransfer) -> Int? {
    guard let first = transfer.nextPending(), !file.isWholeFile else { return transfer.nextPending() }
    guard destination.abilities.appendSequences != .none else { return nextPending(lowest: first, of: file, transfer) }
    var sequence = destination.abilities.appendSequences.sequence(of: first)
    if destination.abilities.appendSequences == .one, file.growth != nil {
      guard first > 0 else { return transfer.nextPending(in: sequence) }
      // The chunk before it may have changed again, and is not sealed then.
      guard case .done = transfer.states[first - 1] else { return nil }
      return transfer.nextPending(in: sequence)
    }
    // The length of the last sequence of a growing file is not known.
    let end =
      file.growth == nil
      ? Int.max : Int(clamping: transfer.plan.sizeBytes / UInt64(max(1, transfer.plan.chunkBytes)))
    for _ in 0..<Self.sequencesPassedMax where sequence.upperBound <= end {
      if let index = transfer.nextPending(in: sequence) { return index }
      guard sequence.upperBound < transfer.states.count else { return nil }
      sequence = destination.abilities.appendSequences.sequence(of: sequence.upperBound)
    }
    return nil
  }

  /// The chunk of a file to send next, of those in a buffer.
  func nextToSend(of file: FileUpload, _ transfer: ChunkTransfer) -> Int? {
    // Two requests for one index must not overtake each other: an earlier content's may still be in flight.
    let busy = file.session?.chunksInFlight ?? []
    guard !file.isWholeFile, destination.abilities.appendSequences != .none else {
      return transfer.readIndices.first { !busy.contains($0) }
    }
    return transfer.readIndices.first { index in
      let sequence = destination.abilities.appendSequences.sequence(of: index)
      guard !busy.contains(where: sequence.contains) else { return false }
      guard index > sequence.lowerBound else { return true }
      guard case .done = transfer.states[index - 1] else { return false }
      return file.session?.held.token(of: index - 1) != nil
    }
  }

  /// The append position of a chunk that is about to be sent. With the first chunk of a sequence all acknowledgements
  /// of an earlier one are dropped, also of requests that were still in flight when that was given up.
  func takePosition(of index: Int, in file: FileUpload) -> AppendPosition {
    guard let transfer = file.transfer, let session = file.session, destination.abilities.appendSequences != .none
    else {
      return AppendPosition()
    }
    let sequence = destination.abilities.appendSequences.sequence(of: index)
    let chunkBytes = UInt64(transfer.plan.chunkBytes)
    let chunks = sequence.clamped(to: 0..<transfer.plan.count)
    let end = min(UInt64(chunks.upperBound) * chunkBytes, transfer.plan.sizeBytes)
    let start = min(UInt64(chunks.lowerBound) * chunkBytes, end)
    var position = AppendPosition(
      sequenceOffset: UInt64(index - sequence.lowerBound) * chunkBytes, sequenceBytes: end - start)
    if index > sequence.lowerBound {
      position.after = session.held.token(of: index - 1)
    } else if destination.abilities.appendSequences == .growing {
      forget(sequence, in: session, transfer)
    }
    return position
  }

  /// A chunk was read whose bytes differ from those that its sequence holds, there or further on: the sequence is
  /// restarted. True when the chunk has to wait for those before it, and the read is given up.
  mutating func restartsSequence(_ id: FileID, with index: Int, read: ReadID, at now: ClockReading) -> Bool {
    guard destination.abilities.appendSequences != .none, var file = files[id], !file.isWholeFile,
      let transfer = file.transfer,
      let session = file.session
    else { return false }
    let sequence = destination.abilities.appendSequences.sequence(of: index)
    guard session.held.hasAcknowledged(from: index, in: sequence) else { return false }
    guard destination.abilities.appendSequences == .one else {
      forget(sequence, in: session, transfer)
      guard index > sequence.lowerBound else { return false }
      transfer.set(.pending, at: index)
      release(read)
      return true
    }
    transfer.set(.pending, at: index)
    release(read)
    file.note(
      FileStatus.Failure(
        code: "rewritten", message: "Bytes that the server had taken already were changed; the upload begins anew.",
        at: now))
    leaveTransfer(&file)
    abortSession(&file, at: now)
    file.progress.rowBegunAnew()
    // The file is rewritten again and again: nothing more is sent in vain.
    if file.phase == .writing, file.progress.rowsBegunAnew > FileGrowth.rewrittenMax {
      file.progress.leaveForTheEnd()
    }
    if file.phase == .held { sendHeld(&file, at: now) }
    files[id] = file
    if file.phase == .ready { makeReady(id, at: now) }
    if file.phase == .writing { planSession(id, at: now) }
    actions.append(.showStatus(id))
    return true
  }

  /// The acknowledged bytes of a chunk's sequence are no longer there.
  func forgetSequence(of index: Int, in file: FileUpload, _ transfer: ChunkTransfer) {
    guard destination.abilities.appendSequences == .growing, let session = file.session else { return }
    forget(destination.abilities.appendSequences.sequence(of: index), in: session, transfer)
  }

  private func forget(_ sequence: Range<Int>, in session: UploadSession, _ transfer: ChunkTransfer) {
    for index in sequence {
      session.held.remove(index)
      _ = transfer.deny(index)
    }
  }

  /// Chunks that were read behind a chunk of their sequence that is sent again give their buffers back.
  mutating func releaseReads(of transfer: ChunkTransfer, behind index: Int) {
    guard destination.abilities.appendSequences == .growing else { return }
    let sequence = destination.abilities.appendSequences.sequence(of: index)
    for other in transfer.readIndices where other > index && sequence.contains(other) {
      guard case .read(let read, _) = transfer.states[other] else { continue }
      transfer.set(.pending, at: other)
      release(read)
    }
  }

  /// The server has reported its abilities.
  mutating func learn(_ abilities: DestinationAbilities, at now: ClockReading) {
    guard abilities != destination.abilities else { return }
    let freesNames = destination.abilities.bindsNameAtOpening && !abilities.bindsNameAtOpening
    destination.abilities = abilities
    if freesNames {
      for file in Array(files.values) where file.session?.boundPath != nil { files[file.id]?.session?.unbind() }
    }
    for id in openFiles.open { planSession(id, at: now) }
    for var file in Array(files.values) where file.phase == .held {
      sendHeld(&file, at: now)
      files[file.id] = file
    }
  }
}

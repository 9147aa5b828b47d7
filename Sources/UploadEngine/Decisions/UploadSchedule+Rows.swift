import FileModel
import Lookup

/// Chunks that a server takes only one after another (``ChunkRows``).
extension UploadSchedule {
  /// Busy rows that are passed over in search of a chunk to read; there are no more requests than this.
  private static let rowsPassedMax = 32

  /// The next chunk of a file to read. Of a row there is only one at a time: what waited behind a chunk that fails would hold
  /// the buffer that this one needs.
  func nextPending(of file: FileUpload, _ transfer: ChunkTransfer) -> Int? {
    guard let first = transfer.nextPending(), !file.isWholeFile else { return transfer.nextPending() }
    guard destination.abilities.rows != .none else { return nextPending(lowest: first, of: file, transfer) }
    var row = destination.abilities.rows.row(of: first)
    if destination.abilities.rows == .one, file.growth != nil {
      guard first > 0 else { return transfer.nextPending(in: row) }
      // What is before it may have been touched again, and is not sealed then.
      guard case .done = transfer.states[first - 1] else { return nil }
      return transfer.nextPending(in: row)
    }
    // Of a file that still grows the length of the last row is not known.
    let end =
      file.growth == nil
      ? Int.max : Int(clamping: transfer.plan.sizeBytes / UInt64(max(1, transfer.plan.chunkBytes)))
    for _ in 0..<Self.rowsPassedMax where row.upperBound <= end {
      if let index = transfer.nextPending(in: row) { return index }
      guard row.upperBound < transfer.states.count else { return nil }
      row = destination.abilities.rows.row(of: row.upperBound)
    }
    return nil
  }

  /// The chunk of a file to send next, of those in a buffer.
  func nextToSend(of file: FileUpload, _ transfer: ChunkTransfer) -> Int? {
    // Two requests for one index must not overtake each other: an earlier content's may still be under way.
    let busy = file.session?.chunksInFlight ?? []
    guard !file.isWholeFile, destination.abilities.rows != .none else {
      return transfer.readIndices.first { !busy.contains($0) }
    }
    return transfer.readIndices.first { index in
      let row = destination.abilities.rows.row(of: index)
      guard !busy.contains(where: row.contains) else { return false }
      guard index > row.lowerBound else { return true }
      guard case .done = transfer.states[index - 1] else { return false }
      return file.session?.held.token(of: index - 1) != nil
    }
  }

  /// The place of a chunk that is about to be sent. With the first one of a row everything is forgotten that was acknowledged
  /// of an earlier one, also what was still under way when that was given up.
  func takePlace(of index: Int, in file: FileUpload) -> ChunkPlace {
    guard let transfer = file.transfer, let session = file.session, destination.abilities.rows != .none else {
      return ChunkPlace()
    }
    let row = destination.abilities.rows.row(of: index)
    let chunkBytes = UInt64(transfer.plan.chunkBytes)
    let chunks = row.clamped(to: 0..<transfer.plan.count)
    let end = min(UInt64(chunks.upperBound) * chunkBytes, transfer.plan.sizeBytes)
    let start = min(UInt64(chunks.lowerBound) * chunkBytes, end)
    var place = ChunkPlace(rowOffset: UInt64(index - row.lowerBound) * chunkBytes, rowBytes: end - start)
    if index > row.lowerBound {
      place.after = session.held.token(of: index - 1)
    } else if destination.abilities.rows == .growing {
      forget(row, in: session, transfer)
    }
    return place
  }

  /// A chunk was read that has other bytes than those that its row holds, there or further on: the row begins anew. True when
  /// the chunk has to wait for those before it, and the read is given up.
  mutating func beginsRowAnew(_ id: FileID, with index: Int, read: ReadID, at now: Moment) -> Bool {
    guard destination.abilities.rows != .none, var file = files[id], !file.isWholeFile, let transfer = file.transfer,
      let session = file.session
    else { return false }
    let row = destination.abilities.rows.row(of: index)
    guard session.held.hasAcknowledged(from: index, in: row) else { return false }
    guard destination.abilities.rows == .one else {
      forget(row, in: session, transfer)
      guard index > row.lowerBound else { return false }
      transfer.set(.pending, at: index)
      release(read)
      return true
    }
    transfer.set(.pending, at: index)
    release(read)
    file.lastFailure = FileStatus.Failure(
      code: "rewritten", message: "Bytes that the server had taken already were changed; the upload begins anew.",
      at: now)
    leaveTransfer(&file)
    abortSession(&file, at: now)
    file.progress.rowsBegunAnew += 1
    // It is rewritten again and again: that much was sent in vain for the last time.
    if file.phase == .writing, file.progress.rowsBegunAnew > FileGrowth.rewrittenMax {
      file.progress.isLeftForTheEnd = true
    }
    if file.phase == .held { sendHeld(&file, at: now) }
    files[id] = file
    if file.phase == .ready { makeReady(id, at: now) }
    if file.phase == .writing { planSession(id, at: now) }
    actions.append(.showStatus(id))
    return true
  }

  /// What was acknowledged of a chunk's row is not there any more.
  func forgetRow(of index: Int, in file: FileUpload, _ transfer: ChunkTransfer) {
    guard destination.abilities.rows == .growing, let session = file.session else { return }
    forget(destination.abilities.rows.row(of: index), in: session, transfer)
  }

  private func forget(_ row: Range<Int>, in session: UploadSession, _ transfer: ChunkTransfer) {
    for index in row {
      session.held.remove(index)
      _ = transfer.deny(index)
    }
  }

  /// What was read behind a chunk of its row that is to be sent again gives its buffer back.
  mutating func releaseReads(of transfer: ChunkTransfer, behind index: Int) {
    guard destination.abilities.rows == .growing else { return }
    let row = destination.abilities.rows.row(of: index)
    for other in transfer.readIndices where other > index && row.contains(other) {
      guard case .read(let read, _) = transfer.states[other] else { continue }
      transfer.set(.pending, at: other)
      release(read)
    }
  }

  /// The server has said what it can do.
  mutating func learn(_ abilities: DestinationAbilities, at now: Moment) {
    guard abilities != destination.abilities else { return }
    let freesNames = destination.abilities.bindsNameAtOpening && !abilities.bindsNameAtOpening
    destination.abilities = abilities
    if freesNames {
      for file in Array(files.values) where file.session?.boundPath != nil { files[file.id]?.session?.boundPath = nil }
    }
    for id in openFiles.open { planSession(id, at: now) }
    for var file in Array(files.values) where file.phase == .held {
      sendHeld(&file, at: now)
      files[file.id] = file
    }
  }
}

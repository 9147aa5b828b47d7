import FileModel
import Lookup
import TransferModel

/// Small files that travel together are compressed together (docs/design/scheduling.md#turns): what they have in
/// common, their heads first of all, is sent once.
extension UploadSchedule {
  /// Whether the files of a request are compressed together.
  mutating func shareFrame(_ turns: [WholeFileTurn], at now: ClockReading) -> Bool {
    guard turns.count > 1 else { return false }
    let mayAll = turns.allSatisfy { turn in files.entry(turn.id).map { mayShareFrame($0.file, at: now) } ?? false }
    return mayAll && destination.forms.sharedFrames.isTried()
  }

  /// A file is read uncompressed because it will be compressed with others: there are some, and the next request tries
  /// it.
  func waitsForSharedFrame(_ file: FileUpload, byteCount: Int, at now: ClockReading) -> Bool {
    let hasCompany = memory.buffers.smallInUse > 0 || requests.smallCount > 0
    return byteCount <= UploadConstants.sharedFrameFileBytes && destination.sizes.filesPerRequest > 1 && hasCompany
      && !file.turn.goesAlone
      && destination.forms.sharedFrames.isDue && mayShareFrame(file, at: now)
  }

  /// The files that an unframed request sends as they are. The others return when they have been read once more.
  mutating func withoutThoseReadForThemselves(_ turns: [WholeFileTurn], at now: ClockReading) -> [WholeFileTurn] {
    var ready: [WholeFileTurn] = []
    for turn in turns where !readForItself(turn, at: now) { ready.append(turn) }
    return ready
  }

  /// A file was read uncompressed for a frame, and there is none: it is read once more, to be compressed alone. A trial
  /// does not wait for that. False when the file is sent as it is.
  private mutating func readForItself(_ turn: WholeFileTurn, at now: ClockReading) -> Bool {
    guard destination.gate.isOpen, !memory.budget.readsPlainly, let read = turn.read, memory.buffers.isForFrame(read),
      let entry = files.entry(turn.id), let transfer = entry.file.transfer,
      transfer.plan.byteCount(of: 0) >= ChunkCompressor.chunkBytesMin, compression(of: entry.file, at: now).isPossible
    else { return false }
    transfer.set(.pending, at: 0)
    release(read)
    readChunk(of: turn.id, isSmall: true, isForItself: true, at: now)
    return true
  }

  private func mayShareFrame(_ file: FileUpload, at now: ClockReading) -> Bool {
    guard destination.forms.sharedFrames.isOffered, destination.abilities.takesSharedFrames,
      !memory.budget.readsPlainly, isSmall(file)
    else { return false }
    let line = link.lineBytesPerSecond(at: now.monotonic) ?? lineOfShortRequests(at: now)
    return compression(of: file, lineBytesPerSecond: line).zstd
  }

  /// The rate that the line has shown while it was never idle, where that is little. Machines at both ends may limit
  /// small files, and short requests show that more than the line.
  private func lineOfShortRequests(at now: ClockReading) -> Double? {
    guard let shown = link.shownBytesPerSecond(at: now.monotonic) else { return nil }
    switch SpeedTier(bytesPerSecond: shown) {
    case .slow, .normal: return shown
    case .fast, .ultrafast, .unknown: return nil
    }
  }
}

import FileModel
import Lookup

extension UploadSchedule {
  /// What the spool's disk has lost of a recording that a user wants as it is, where the server may have that; nil where nothing is
  /// known of either.
  ///
  /// Only of a recording in its first writing: then a chunk that the record and the server agree on stands there as its writer left it,
  /// because a chunk that is rewritten is taken out of the record (``takeGrowth(_:at:)``). What was written anew between the last look
  /// at the growth and the power cut, and lost, counts as it was before.
  func lostPlaces(of file: FileUpload) -> MissingBytes? {
    guard isInFirstWriting(file), file.session?.isOfFirstWriting == true,
      file.snapshot.interruption == .notOnDisk
    else { return nil }
    return file.snapshot.missing
  }

  /// Its record names what stands in the file as well. What was given up here is named whatever happens, and does not change.
  func isInFirstWriting(_ file: FileUpload) -> Bool { provesContents && file.revision == 0 && !file.lacksParts }

  /// The server has confirmed what it holds: what the disk has lost of that counts as the server has it, and is not read here.
  mutating func takeOverLostPlaces(of file: inout FileUpload) {
    guard let lost = file.progress.lost, let transfer = file.transfer, let held = file.session?.held else { return }
    for index in transfer.plan.wholeChunks(touching: lost.ranges) {
      guard case .pending = transfer.states[index], let digest = held.acknowledged[index] else { continue }
      transfer.set(.done(digest), at: index)
      file.progress.takenOverChunks += 1
    }
    guard file.progress.takenOverChunks > 0 else { return }
    actions.append(.report(.takenOver(file.id, file.path, chunks: file.progress.takenOverChunks)))
  }

  /// It is delivered. Where the server had what the copy here has not, the copy stays what it is: damaged. Otherwise it is what its user
  /// wanted, and counts as whole.
  mutating func settleLostPlaces(of file: inout FileUpload) {
    guard file.progress.lost != nil else { return }
    file.progress.lost = nil
    if file.progress.takenOverChunks > 0 {
      file.snapshot.interruption = file.progress.acceptedInterruption
      file.progress.acceptedInterruption = nil
    } else {
      spool.orders.append(.accept(EvictionCandidate(file.snapshot), file.progress.acceptedInterruption))
    }
  }
}

extension ChunkPlan {
  /// The chunks in which any of these places lies and which are as long as a chunk can be: what the last one was like when it was sent
  /// is not known.
  fileprivate func wholeChunks(touching places: [Range<UInt64>]) -> [Int] {
    let wholeCount = Int(clamping: sizeBytes / UInt64(chunkBytes))
    var indices: [Int] = []
    for place in places where !place.isEmpty {
      let first = Int(clamping: place.lowerBound / UInt64(chunkBytes))
      let end = Int(clamping: (place.upperBound - 1) / UInt64(chunkBytes)) + 1
      indices += (max(first, (indices.last ?? -1) + 1)..<max(first, end)).prefix { $0 < wholeCount }
    }
    return indices
  }
}

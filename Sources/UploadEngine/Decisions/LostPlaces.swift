import FileModel
import Lookup

extension UploadSchedule {
  /// The bytes that the spool's disk has lost of a recording that a user wants as it is, where the server may have
  /// them; nil where nothing is known of either.
  ///
  /// Only of a recording in its first writing. Then a chunk that the record and the server agree on is as its writer
  /// left it, because a rewritten chunk is taken out of the record (``takeGrowth(_:at:)``). What was rewritten between
  /// the last growth check and the power cut, and lost, counts as it was before.
  func lostPlaces(of file: FileUpload) -> MissingBytes? {
    guard isInFirstWriting(file), file.session?.isOfFirstWriting == true,
      file.snapshot.interruption == .notOnDisk
    else { return nil }
    return file.snapshot.missing
  }

  /// The record of a first writing names what the file holds as well. What was given up here is named in any case, and
  /// does not change.
  func isInFirstWriting(_ file: FileUpload) -> Bool { provesContents && file.revision == 0 && !file.lacksParts }

  /// The server has confirmed what it holds. What the disk has lost of that counts as held by the server, and is not
  /// read here.
  mutating func takeOverLostPlaces(of file: inout FileUpload) {
    guard let lost = file.progress.lost, let transfer = file.transfer, let held = file.session?.held else { return }
    for index in transfer.plan.wholeChunks(touching: lost.ranges) {
      guard case .pending = transfer.states[index], let digest = held.acknowledged[index] else { continue }
      transfer.set(.done(digest), at: index)
      file.progress.chunkTakenOver()
    }
    guard file.progress.takenOverChunks > 0 else { return }
    actions.append(.report(.takenOver(file.id, file.path, chunks: file.progress.takenOverChunks)))
  }

  /// The file is delivered. Where the server had what the local copy lacks, the copy stays damaged. Otherwise it is
  /// what its user wanted, and counts as whole.
  mutating func settleLostPlaces(of file: inout FileUpload) {
    guard file.progress.lost != nil else { return }
    let accepted = file.progress.acceptedInterruption
    if file.progress.takenOverChunks > 0 {
      file.judge(accepted)
    } else {
      spool.orders.append(.accept(EvictionCandidate(file.snapshot), accepted))
    }
    file.progress.endLost()
  }
}

extension ChunkPlan {
  /// The full-length chunks that any of these ranges touches. What the last, shorter one was like when it was sent is
  /// not known.
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

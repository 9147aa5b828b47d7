import FileModel
import Lookup
import OrderedCollections
import TransferModel

/// Whole files that are read while one request sends them: for destinations that take a file of any size in one piece.
///
/// Nothing of such a file counts before the answer. What the network took of it is shown, and lost when the request fails.
extension UploadSchedule {
  /// Requests that may be streams at the same time: some are left to files that end soon.
  private var streamsMax: Int { max(1, pipeline.parallelism - max(1, pipeline.parallelism / 4)) }

  /// Whether the stream may begin now.
  func mayStream(_ file: FileUpload, _ transfer: ChunkTransfer) -> Bool {
    guard requests.streamCount < streamsMax, file.publishing == nil, !file.isOpen, transfer.nextPending() != nil,
      let path = file.nextPath(limits)
    else { return false }
    return mayPublish(path, of: file)
  }

  /// Sends the file; false when it has no name to be published under.
  mutating func stream(_ id: FileID, at now: ClockReading) -> Bool {
    guard let file = files.entry(id)?.file, let path = file.nextPath(limits) else { return false }
    queues.served(at: file.turn.virtualTime)
    files.update(id) {
      $0.turn.give($0.snapshot.sizeBytes)
      $0.progress.streamed(0)
    }
    sendWholeFiles([WholeFileTurn(id: id, path: path, digest: CommitProof.emptyDigest, read: nil)], at: now)
    return true
  }

  /// So many bytes of its request have been sent, those around the file included. The last one is shown with the
  /// receipt.
  mutating func streamed(_ bytes: UInt64, of id: FileID, _ request: HTTPRequestID, at now: ClockReading) {
    guard let file = files.entry(id)?.file, file.publishing?.request == request, file.snapshot.sizeBytes > 0 else {
      return
    }
    let bytes = min(bytes, file.snapshot.sizeBytes - 1)
    guard bytes > file.progress.streamedBytes else { return }
    files.update(id) { $0.progress.streamed(bytes) }
    requests.arrived(bytes, of: request)
    count(bytes, of: id, at: now)
    actions.append(.showStatus(id))
  }

  /// The content of the stream is no longer wanted. It has not been published, as long as its end was not sent.
  mutating func cancelStream(of file: FileUpload) {
    guard let request = file.publishing?.request, let underway = requests[request], underway.streams == file.id else {
      return
    }
    endEarly(request, underway)
  }
}

import FileModel
public import Lookup
import OrderedCollections
public import TransferModel

/// The progress of files, for users: what has arrived counts before its chunk is acknowledged.
extension UploadSchedule {
  /// How many bytes of its body the network took of each request; answers ``UploadAction/checkProgress``.
  public mutating func progressed(_ sent: LookupTable<HTTPRequestID, SentBody>, at now: ClockReading) {
    // What has arrived makes room on the line.
    defer { pump(at: now) }
    for (request, underway) in requests {
      guard let body = sent[request] else { continue }
      watchdog.sent(body.bytes, after: body.answered, by: request, at: now.monotonic)
      pathTook(body, of: request, at: now)
      if let id = underway.streams {
        streamed(body.bytes, of: id, request, at: now)
      } else if underway.byteCount > 0, body.bodyBytes > 0 {
        let bytes = max(underway.sentBytes, body.plainBytes(of: underway.byteCount))
        guard bytes != underway.sentBytes else { continue }
        requests.arrived(bytes, of: request)
        link.arrived(Int(clamping: bytes - min(bytes, underway.sentBytes)), at: now.monotonic)
        // Of several files in one request it is not known whose bytes these are.
        guard let id = underway.onlyFile else { continue }
        countSent(of: id, at: now)
        actions.append(.showStatus(id))
      }
    }
  }

  /// Bytes of the present content that are acknowledged or have arrived. Fewer after a request has failed.
  func sentBytes(of file: FileUpload) -> UInt64 {
    if file.isStreamed { return file.publishing == nil ? 0 : min(file.snapshot.sizeBytes, file.progress.streamedBytes) }
    guard let transfer = file.transfer else { return 0 }
    let underWay = requests.reduce(UInt64(0)) { sum, entry in
      let (request, underway) = entry
      guard underway.sentBytes > 0, underway.onlyFile == file.id else { return sum }
      let present = underway.chunkIndices.reduce(0) { bytes, index in
        bytes + (transfer.isSending(request, at: index) ? transfer.plan.byteCount(of: index) : 0)
      }
      return sum + min(underway.sentBytes, UInt64(clamping: present))
    }
    return min(file.snapshot.sizeBytes, transfer.doneBytes + underWay)
  }

  /// Bytes that would be sent again, at most, if the connections broke or either side ended now (docs/destinations.md,
  /// DE150). That is all that a request has brought, but of a run only the chunk that has not arrived whole. Where
  /// chunks follow one another, the server may keep the beginning of one, which only this run of the daemon can
  /// continue: an end of the daemon costs the sequence up to there.
  func bytesAtStake(of file: FileUpload) -> UInt64 {
    let sent = sentBytes(of: file)
    guard !file.isStreamed, let plan = file.transfer?.plan else { return sent }
    let bytes = requests.values.reduce(UInt64(0)) { sum, underway in
      guard underway.sentBytes > 0, underway.onlyFile == file.id else { return sum }
      let chunks = underway.chunkIndices
      var arrived = underway.sentBytes
      for index in chunks.dropLast() {
        let whole = UInt64(clamping: plan.byteCount(of: index))
        guard arrived >= whole else { break }
        arrived -= whole
      }
      let first = chunks.first ?? 0
      return sum + arrived + plan.offset(of: first)
        - plan.offset(of: destination.abilities.appendSequences.sequence(of: first).lowerBound)
    }
    return min(sent, bytes)
  }

  /// A chunk that had travelled in this encoding was acknowledged.
  mutating func noteSaving(_ saving: CompressionSaving, of id: FileID, at index: Int) {
    guard let transfer = files.entry(id)?.file.transfer else { return }
    transfer.saved(saving.bytes, at: index)
    guard saving.bytes > 0, files.entry(id)?.file.progress.encoding != saving.encoding else { return }
    files.update(id) { $0.progress.travelled(in: saving.encoding) }
  }

  /// What compression has saved of what ``sentBytes(of:)`` counts.
  func savedBytes(of file: FileUpload) -> UInt64 {
    guard let transfer = file.transfer else { return file.progress.savedBytes }
    let underWay = requests.values.reduce(UInt64(0)) { sum, underway in
      guard underway.savedBytes > 0, underway.sentBytes > 0, underway.byteCount > 0,
        underway.onlyFile == file.id
      else { return sum }
      let part = min(1, Double(underway.sentBytes) / Double(underway.byteCount))
      return sum + UInt64(part * Double(underway.savedBytes))
    }
    return transfer.savedBytes + underWay
  }

  /// What compression has saved of a file that is published: requests with its last chunks may not have been answered yet.
  func savedBytes(ofPublished file: FileUpload) -> UInt64 {
    guard let transfer = file.transfer else { return file.progress.savedBytes }
    var bytes = transfer.savedBytes
    for (request, underway) in requests where underway.savedBytes > 0 {
      guard underway.file == file.id, let chunks = underway.order.chunks?.chunks,
        chunks.contains(where: { transfer.isSending(request, at: $0.index) })
      else { continue }
      bytes += UInt64(underway.savedBytes)
    }
    return bytes
  }

  /// Some of a file was acknowledged, or has arrived: the rates count what was not counted before.
  mutating func countSent(of id: FileID, at now: ClockReading) {
    guard let file = files.entry(id)?.file else { return }
    count(sentBytes(of: file), of: id, at: now)
  }

  /// Some of a file was found at the server, and was not sent.
  mutating func countFound(of id: FileID) {
    guard let file = files.entry(id)?.file else { return }
    let sent = sentBytes(of: file)
    files.update(id) { $0.progress.found(sent) }
  }

  /// So much of a file has arrived by now.
  mutating func count(_ sent: UInt64, of id: FileID, at now: ClockReading) {
    guard let known = files.entry(id)?.file.progress.countedBytes, sent != known else { return }
    let more = sent > known ? Int(clamping: sent - known) : 0
    files.update(id) {
      $0.progress.sent(sent, more: more, at: now.monotonic)
    }
    totals.rate.add(more, at: now.monotonic)
  }

  /// Bytes acknowledged or arrived since the start.
  var sentBytes: UInt64 { requests.values.reduce(totals.acknowledgedBytes) { $0 + $1.sentBytes } }
}

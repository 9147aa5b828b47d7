import FileModel
import Lookup
import TransferModel

/// The state of an upload in progress that outlives the process (docs/design/durability.md#resume-records).
extension FileUpload {
  /// True while there is a session that a later run could continue.
  var hasResumableSession: Bool {
    guard session?.id != nil else { return false }
    switch session?.state {
    case .open, .unconfirmed, .querying: return true
    case .wanted, .opening, .published, nil: return false
    }
  }

  /// What a resume record is to say; only what has changed, when the changes since `mark` are still known.
  func resumeSnapshot(since mark: ResumeSnapshot.Mark?, estimator: SpeedEstimate.State?) -> ResumeSnapshot? {
    guard hasResumableSession, let session, let sessionID = session.id else { return nil }
    let held = session.held
    let changes = mark.flatMap { $0.sessionID == sessionID ? held.changes(since: $0.changeCount) : nil }
    let commitment = held.commitment(sessionID: sessionID)
    var record = ResumeRecord(
      fileID: id, sessionID: sessionID, nonce: session.nonce, chunkBytes: session.chunkBytes,
      epochRevision: revision, path: session.boundPath ?? path, sizeBytes: snapshot.sizeBytes,
      openedAtSeconds: session.openedAtSeconds,
      expiresAtSeconds: session.expiresAtSeconds, owner: session.owner, acknowledged: [], merkle: commitment.merkle,
      chainTip: commitment.chainTip, contiguousCount: commitment.contiguousCount, estimator: estimator)
    if changes == nil {
      // A server that was restored from an older copy may have older bytes of what was given up here.
      let known = lacksParts ? held.everAcknowledged : held.acknowledged
      record.acknowledged = known.sorted().map {
        .init(index: $0.key, digest: $0.value, token: held.token(of: $0.key))
      }
    }
    return ResumeSnapshot(
      record: record, changes: changes, mark: .init(sessionID: sessionID, changeCount: held.changeCount))
  }
}

extension UploadSchedule {
  /// Makes the resume record durable at every tenth acknowledgement, four times a second at most. On a fast line ten
  /// chunks are a few milliseconds, and each record costs the spool's disk a sync.
  mutating func checkpointInTime(_ file: inout FileUpload, at now: ClockReading) {
    guard let session = file.session,
      session.acknowledgedSinceRecord >= UploadConstants.resumeCheckpointInterval
    else { return }
    let due = session.recordedAt.map { $0 + UploadConstants.resumeCheckpointPause } ?? now.monotonic
    if due <= now.monotonic {
      file.session?.requestRecord(at: now.monotonic)
      checkpoint(&file)
    } else if !session.isRecordPlanned {
      file.session?.planRecord()
      timers.insert(.checkpoint(file.id), at: due)
    }
  }

  /// Makes the resume record durable where it lacks an acknowledgement: at every tenth, and whenever the upload changes its
  /// state.
  mutating func checkpoint(_ file: inout FileUpload) {
    guard file.hasResumableSession, let session = file.session, session.acknowledgedSinceRecord > 0 else { return }
    file.session?.recordBegan()
    actions.append(.saveResume(file.id))
  }
}

extension FileUpload {
  /// The session that has the parts that are, or may be, given up in the spool; nil without a session that could hold
  /// them.
  var pointer: SessionPointer? {
    guard receipt == nil, hasResumableSession, let session, let sessionID = session.id else { return nil }
    return SessionPointer(
      chunkBytes: session.chunkBytes, sessionID: sessionID, nonce: session.nonce, address: session.owner?.address ?? "",
      credentialMark: session.owner?.credentialMark)
  }
}

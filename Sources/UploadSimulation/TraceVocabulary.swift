import FileModel
import Integrity
import Lookup
import TransferModel
import UploadEngine

// The words of a trace. They are written out, also where they equal those of the present code: a trace is compared with
// that of another build, whose types and cases may have other names.

extension FileEvent {
  var brief: TraceLine {
    switch self {
    case .opened(let file): "opened \(file.brief)"
    case .changed(let file): "changed \(file.brief)"
    case .grown(let report): "grown \(report.brief)"
    case .settled(let file): "settled \(file.brief)"
    case .namesChanged(let file): "names changed \(file.brief)"
    case .attributesChanged(let file): "attributes changed \(file.brief)"
    case .onDisk(let file): "on disk \(file.brief)"
    case .removed(let id): "removed \(id)"
    case .writeFailed(let id, let cause): "write failed \(id): \(cause.text)"
    case .unsettled(let file): "unsettled \(file.brief)"
    case .vanished(let id): "vanished \(id)"
    case .evicted(let id): "evicted \(id)"
    case .found(let file): "found \(file.brief)"
    case .scanFailing(let path, let errno): "scan failing at \(path.displayText): \(errno)"
    case .scanEnded: "scan ended"
    }
  }
}

extension FileSnapshot {
  var brief: TraceLine {
    "\(id) epoch \(epoch) \(sizeBytes) bytes \(list: names.lazy.map { "\($0.displayText)" }, separator: " = ")"
  }
}

extension GrowthReport {
  var brief: TraceLine { "\(file) to \(sizeBytes), chunks \(list: changes.lazy.map(\.index))" }
}

extension UploadAction {
  /// Nil for actions that only show something, which a simulation ignores, and for those that have lines of their own.
  var brief: TraceLine? {
    switch self {
    case .read(let order):
      "read \(order.id.value) of \(order.file) epoch \(order.epoch): \(order.byteCount) at \(order.offset)"
    case .findHoles(let order): "find holes of \(order.file) epoch \(order.epoch) by \(order.chunkBytes)"
    case .release(let read): "release read \(read.value)"
    case .cancel(let request): "cancel request \(request.value)"
    case .cancelUnsent(let request, _): "cancel request \(request.value) unless it is out"
    case .record(let id): "record \(id)"
    case .forget(let id): "forget \(id)"
    case .forgetEntry(let id): "forget entry \(id)"
    case .saveResume(let id): "save resume record \(id)"
    case .removeResume(let id): "remove resume record \(id)"
    case .noteDiscarded(let session): "session to be ended \(session.id.prefix(6))"
    case .forgetDiscarded(let id): "session no longer to be ended \(id.prefix(6))"
    case .measure(let id): "measure \(id)"
    case .checkGrowth(let id, let chunkBytes, let anew):
      "look at growth \(id) by \(chunkBytes)\(anew ? ", anew" : "")"
    case .checkProgress: "look at progress"
    case .renewConnections: "renew connections"
    case .networkChanged: "network changed"
    case .unload(let ids): "unload \(ids.map(\.description).joined(separator: " "))"
    case .load(let ids): "load \(ids.map(\.description).joined(separator: " "))"
    case .seek: "seek"
    case .send, .report, .forgetNames, .showNames, .showStatus, .showSummary, .hide, .resizeBuffers, .askForLimits,
      .askForNames:
      nil
    }
  }
}

extension ReadOutcome {
  var brief: TraceLine {
    switch self {
    case .success(let digest): "has \(digest.brief)"
    case .changed: "the file has changed"
    case .failed: "cannot be read"
    }
  }
}

extension ChunkDigest {
  fileprivate var brief: TraceLine { "sha \(list: sha256.bytes.prefix(3).lazy.map(Int.init))" }
}

extension RequestOrder {
  var brief: TraceLine {
    "request \(id.value)\(opensConnection ? ", anew" : "")\(endpoint == .first ? "" : ", elsewhere"): \(order.brief)"
  }
}

extension SendOrder {
  fileprivate var brief: TraceLine {
    switch self {
    case .prewarm: "prewarm"
    case .openSession(let opening):
      "open session for \(opening.fileID) \(opening.path.displayText) revision \(opening.revision)"
    case .querySession(let session): "query \(session.id.prefix(6))"
    case .secureSession(let session): "secure \(session.id.prefix(6))"
    case .chunk(let one):
      "chunk \(one.chunk.index) of \(one.session.id.prefix(6)) \(one.chunk.digest.brief)"
    case .run(let several):
      "run of \((several.first?.session.id ?? "").prefix(6)): \(list: several.lazy.map(\.chunk.brief))"
    case .zeros(let zeros):
      "zeros of \(zeros.session.id.prefix(6)): \(list: zeros.ranges.lazy.flatMap { [$0.lowerBound, $0.upperBound] })"
    case .commit(let commit):
      "commit \(commit.session.id.prefix(6)) as \(commit.path.displayText), \(commit.sizeBytes) bytes"
    case .abort(let session): "abort \(session.id.prefix(6))"
    case .wholeFile(let file): file.brief
    case .bundle(let files): "bundle of \(list: files.lazy.map(\.brief))"
    }
  }
}

extension ChunkOrder {
  fileprivate var brief: TraceLine { "chunk \(index) \(digest.brief)" }
}

extension WholeFileOrder {
  fileprivate var brief: TraceLine { "whole file \(file) epoch \(epoch) as \(path.displayText)" }
}

extension StepOutcome {
  var brief: TraceLine {
    switch self {
    case .warmed: "warmed"
    case .sessionOpened(let id, let chunkBytes, _, _, _, _): "session \(id.prefix(6)) opened, chunks of \(chunkBytes)"
    case .held(let digests, _, _, _, _, let isDurable):
      "held \(list: digests.keys.sorted())\(isDurable ? ", durable" : "")"
    case .stillThere: "still there"
    case .chunkStored: "chunk stored"
    case .chunkStoredAs(let token, _, let isCopied): "chunk \(isCopied ? "copied" : "stored") as \(token)"
    case .published(let receipt): "published \(receipt.name), receipt \(receipt.id)"
    case .incomplete(let missing): "incomplete, missing \(list: missing)"
    case .each(let outcomes): "each: \(list: outcomes.lazy.map(\.brief), separator: "; ")"
    case .ended: "ended"
    case .refused(let failure): "refused, \(failure.kind)"
    }
  }
}

extension StepFailure.Kind: TraceWord {
  var word: String {
    switch self {
    case .unauthorized: "unauthorized"
    case .forbidden: "forbidden"
    case .sessionGone: "session gone"
    case .sessionDamaged: "session damaged"
    case .sequenceLost: "row lost"
    case .notReplaceable: "not replaceable"
    case .nameTaken: "name taken"
    case .conflict: "conflict"
    case .tooLarge: "too large"
    case .requestTooLarge: "request too large"
    case .digestMismatch: "digest mismatch"
    case .tagMismatch: "tag mismatch"
    case .nameRefused: "name refused"
    case .badRequest: "bad request"
    case .encodingRefused: "encoding refused"
    case .addressRefused: "address refused"
    case .misdirected: "misdirected"
    case .tooEarly: "too early"
    case .busy: "busy"
    case .insufficientStorage: "insufficient storage"
    case .serverError: "server error"
    case .unexpectedAnswer: "unexpected answer"
    case .unclearEnd: "unclear end"
    case .transport(let kind): kind.word
    }
  }
}

extension TransportError.Kind: TraceWord {
  var word: String {
    switch self {
    case .unknownHost: "unknown host"
    case .connectFailed: "connect failed"
    case .proxyFailed: "proxy failed"
    case .tlsFailed: "TLS failed"
    case .certificateRefused: "certificate refused"
    case .pinMismatch: "pin mismatch"
    case .transparencyRefused: "transparency refused"
    case .certificateRevoked: "certificate revoked"
    case .stapleMissing: "staple missing"
    case .timedOut: "timed out"
    case .stalled: "stalled"
    case .connectionLost: "connection lost"
    case .pathLost: "path lost"
    case .protocolViolation: "protocol violation"
    case .cancelled: "cancelled"
    case .answeredEarly: "answered early"
    case .bodyUnavailable: "body unavailable"
    case .overloaded: "overloaded"
    case .stopped: "stopped"
    case .other: "other"
    }
  }
}

extension FileStatus.State: TraceWord {
  var word: String {
    switch self {
    case .writing: "writing"
    case .held: "held"
    case .ignored: "ignored"
    case .interrupted: "interrupted"
    case .queued: "queued"
    case .uploading: "uploading"
    case .waiting: "waiting"
    case .complete: "complete"
    case .failed: "failed"
    case .cancelled: "cancelled"
    }
  }
}

extension UploadReport {
  var brief: TraceLine {
    switch self {
    case .delivered(let id, let path, _): "delivered \(id) \(path.displayText)"
    case .setBack(let id, let path, let failure, let count, _):
      "set back \(id) \(path.displayText): \(failure.code), \(count)"
    case .chunkSentAgain(let id, let path, let failure): "sent again \(id) \(path.displayText): \(failure.code)"
    case .leftForTheEnd(let id, let path, let failure, let count):
      "left for the end \(id) \(path.displayText): \(failure.code), \(count)"
    case .retrying(let id, let path, let failure): "retrying \(id) \(path.displayText): \(failure.code)"
    case .failed(let id, let path, let failure): "failed \(id) \(path.displayText): \(failure.code)"
    case .destinationUnavailable(let failure): "destination unavailable: \(failure.code)"
    case .credentialsRefused(let failure): "credentials refused, \(failure.code)"
    case .destinationAvailable: "destination available"
    case .resumed(let pause): "resumed after \(pause.components.seconds) s"
    case .scanFailing(let path, let failure): "scan failing at \(path.displayText): \(failure.code)"
    case .refusedByDisk(let id, let path, _): "refused by disk \(id) \(path.displayText)"
    case .takenByDisk(let id, let path): "taken by disk \(id) \(path.displayText)"
    case .outgrown(let id, let path, _): "outgrown \(id) \(path.displayText)"
    case .interrupted(let id, _, let failure): "interrupted \(id) \(failure.code)"
    case .unproven(let count): "unproven \(count)"
    case .beyondMemory(let filesMax): "beyond memory, which holds \(filesMax)"
    case .forgotten(let count, let compared): "forgotten \(count), \(compared) compared"
    case .discarded(let id, _, let failure): "discarded \(id) \(failure.code)"
    case .notResumed(let id, let path, _): "not resumed \(id) \(path.displayText)"
    case .takenOver(let id, let path, let count): "taken over \(id) \(path.displayText): \(count) chunks"
    case .releasing(let id, let path): "releasing \(id) \(path.displayText)"
    case .notReleasing(let id, let path, _): "not releasing \(id) \(path.displayText)"
    case .straggling(let id, let path): "straggling \(id) \(path.displayText)"
    case .stuck(let id, let path): "stuck \(id) \(path.displayText)"
    case .publishing(let id, _, let time): "\(id) is being published for \(time.components.seconds) s"
    case .requestsShortened(let bytes, let failure): "requests of at most \(bytes), \(failure.code)"
    case .notSent(let id, let path): "not sent \(id) \(path.displayText)"
    case .contradiction(let text): "contradiction: \(text)"
    case .missingFromSpool(let id, let path): "missing \(id) \(path.displayText)"
    }
  }
}

extension EffectKind: TraceWord {
  var word: String {
    switch self {
    case .write: "write"
    case .sync: "sync"
    case .rename: "rename"
    case .read: "read"
    case .send: "send"
    case .catalog: "catalog"
    case .look: "look"
    case .recall: "recall"
    case .writeBack: "write-back"
    }
  }
}

extension Side: TraceWord {
  var word: String {
    switch self {
    case .client: "client"
    case .receiver: "receiver"
    }
  }
}

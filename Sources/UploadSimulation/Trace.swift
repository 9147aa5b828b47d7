import FileModel
import UploadEngine

// One line for people about each thing that happens.

extension FileEvent {
  var brief: String {
    switch self {
    case .opened(let file): "opened \(file.brief)"
    case .changed(let file): "changed \(file.brief)"
    case .grown(let report): "grown \(report.file.short) to \(report.sizeBytes)"
    case .settled(let file): "settled \(file.brief)"
    case .namesChanged(let file): "names changed \(file.brief)"
    case .attributesChanged(let file): "attributes changed \(file.brief)"
    case .removed(let id): "removed \(id.short)"
    case .writeFailed(let id, let cause): "\(cause.text) \(id.short)"
    case .evicted(let id): "evicted \(id.short)"
    case .found(let file): "found \(file.brief)"
    case .scanEnded: "scan ended"
    }
  }
}

extension FileSnapshot {
  var brief: String {
    "\(id.short) epoch \(epoch) \(sizeBytes) bytes \(names.map(\.displayText).joined(separator: " = "))"
  }
}

extension FileID {
  var short: String { String(description.prefix(6)) }
}

extension SendOrder {
  var brief: String {
    switch self {
    case .prewarm: "prewarm"
    case .openSession(let opening):
      "open session for \(opening.fileID.short) \(opening.path.displayText) revision \(opening.revision)"
    case .querySession(let session): "query \(session.id.prefix(6))"
    case .secureSession(let session): "secure \(session.id.prefix(6))"
    case .chunk(let session, let index, let digest, _, _):
      "chunk \(index) of \(session.id.prefix(6)) sha \(digest.sha256.prefix(3))"
    case .commit(let commit):
      "commit \(commit.session.id.prefix(6)) as \(commit.path.displayText), \(commit.sizeBytes) bytes"
    case .abort(let session): "abort \(session.id.prefix(6))"
    case .wholeFile(let file): "whole file \(file.file.short) epoch \(file.epoch) as \(file.path.displayText)"
    case .bundle(let files): files.map { "\(SendOrder.wholeFile($0))" }.joined(separator: ", ")
    }
  }
}

extension StepOutcome {
  var brief: String {
    switch self {
    case .published(let receipt): "published \(receipt.name), receipt \(receipt.id)"
    case .refused(let failure): "refused, \(failure.kind)"
    case .held(let digests, _, _, _, _, _): "held \(digests.keys.sorted())"
    default: "\(self)"
    }
  }
}

extension UploadReport {
  var brief: String {
    switch self {
    case .delivered(let id, let path, _): "delivered \(id.short) \(path.displayText)"
    case .retrying(let id, let path, let failure): "retrying \(id.short) \(path.displayText): \(failure.code)"
    case .failed(let id, let path, let failure): "failed \(id.short) \(path.displayText): \(failure.code)"
    case .destinationUnavailable(let failure): "destination unavailable: \(failure.code)"
    case .destinationAvailable: "destination available"
    case .interrupted(let id, _, let failure): "interrupted \(id.short) \(failure.code)"
    case .discarded(let id, _, let failure): "discarded \(id.short) \(failure.code)"
    case .notResumed(let id, let path, let reason): "not resumed \(id.short) \(path.displayText): \(reason)"
    case .releasing(let id, let path): "releasing \(id.short) \(path.displayText)"
    case .stuck(let id, let path): "stuck \(id.short) \(path.displayText)"
    case .missingFromSpool(let id, let path): "missing \(id.short) \(path.displayText)"
    }
  }
}

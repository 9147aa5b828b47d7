import Integrity
import TransferModel

/// Whether the server keeps checksums, learned from its answers to the first requests that carry one.
extension S3Destination {
  /// What a request that begins something is to carry.
  func checksum(for kind: S3ChecksumMemory.Kind, nonce: [UInt8]) -> S3Options.Checksum {
    options.checksum == .auto ? checksums.choice(for: kind, nonce: nonce) : options.checksum
  }

  /// What an upload was begun with.
  func checksum(of session: SessionIdentity) -> S3Options.Checksum {
    S3Upload(sessionID: session.id)?.checksum ?? .none
  }

  /// What the answers to an opening mean.
  enum OpeningAnswer {
    /// The upload is to be continued, or was refused for another reason.
    case opened(S3Answer)
    /// The server does not take the checksum.
    case refused
    /// It took the opening, and did not say that it will keep the checksum.
    case ignored(S3Upload)
  }

  func answers(to opening: SessionOpening, of key: String, _ responses: [HTTPResponse]) -> OpeningAnswer {
    guard let first = responses.first, let last = responses.last else { return .refused }
    let answer = S3Answer(first)
    guard isTrial(opening.nonce) else { return .opened(answer) }
    if answer.refusesField { return responses.count > 1 ? .opened(S3Answer(last)) : .refused }
    guard let upload = begunUpload(key, answer), upload.checksum == .none else { return .opened(answer) }
    return responses.count > 2 ? .opened(S3Answer(last)) : .ignored(upload)
  }

  /// The upload that an answer to an opening names; nil for any other answer.
  func begunUpload(_ key: String, _ answer: S3Answer) -> S3Upload? {
    // rclone calls it InitiateMultipartUpload.
    guard answer.isSuccess, answer.root?.name.hasPrefix("InitiateMultipartUpload") == true else { return nil }
    var checksum = options.checksum
    if checksum == .auto {
      let wanted = S3ChecksumMemory.wanted
      checksum = answer.response.header("x-amz-checksum-algorithm")?.lowercased() == wanted.rawValue ? wanted : .none
    }
    return S3Upload(
      key: key, uploadID: answer.root?.child("UploadId")?.text ?? "", checksum: checksum)
  }

  /// A step with its answers has said something of the server.
  func learn(from opening: SessionOpening, _ upload: S3Upload?) {
    guard isTrial(opening.nonce), let upload else { return }
    checksums.learn(.upload, upload.checksum)
  }

  func learn(from sending: WholeFileSending, _ put: S3Answer) {
    guard isTrial(sending.nonce), put.isSuccess else { return }
    let wanted = S3ChecksumMemory.wanted
    // One that is kept is the right one, and shown.
    let isKept = put.response.header(wanted.field) == wanted.value(of: sending.digest)
    checksums.learn(.object, isKept ? wanted : .none)
  }

  /// The server refuses for its checksum what belongs to an upload that it had let begin with one; nil when that is not so.
  func refusal(of session: SessionIdentity, _ answer: S3Answer) -> StepFailure? {
    guard options.checksum == .auto, answer.refusesField, checksum(of: session) != .none else { return nil }
    checksums.learn(.upload, .none)
    return StepFailure(
      .sessionGone,
      "The S3 server at \(address.text) does not take the checksums with which the upload began; it begins anew without."
    )
  }

  func isTrial(_ nonce: [UInt8]) -> Bool { options.checksum == .auto && checksums.isTrial(nonce) }
}

extension S3Answer {
  /// It does not know a field of the request, or does not want it.
  var refusesField: Bool {
    switch code {
    case "NotImplemented", "InvalidRequest", "InvalidArgument", "BadRequest", "UnsupportedArgument", "XNotImplemented":
      status == 400 || status == 501
    case nil: status == 400 || status == 501
    default: false
    }
  }
}

extension S3Options.Checksum {
  var field: String { "x-amz-checksum-\(rawValue)" }

  /// As S3 writes it; nil for none.
  func value(of digest: ChunkDigest) -> String? {
    switch self {
    case .auto, .none: nil
    case .crc32c: Base64.encode(withUnsafeBytes(of: digest.crc32c.bigEndian) { Array($0) })
    case .sha256: Base64.encode(digest.sha256)
    }
  }
}

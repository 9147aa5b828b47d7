import FileModel
import Integrity
import Lookup
import OrderedCollections
import Synchronization
import TransferModel

/// The objects that this run has published in parts, by their captures: an upload of a later content has the server copy those parts that
/// are the same (UploadPartCopy).
///
/// Their digests are known to the run alone, for S3 cannot be asked for them: after a start the first revision is sent whole. A copy is made
/// on condition of the object's ETag, so that what has taken its place since is not taken for it; and because servers ignore that condition
/// (moto 5.2), a copy counts only if it is proven to have the part's bytes, by its ETag, which mostly is their MD5, or a checksum.
final class S3PublishedParts: Sendable {
  private struct Object {
    var source: ChunkSource
    var partBytes: Int
    var sizeBytes: UInt64
    /// SHA-256 of each part.
    var digests: [Digest32]
    /// The ETags of those that have 32 hexadecimal digits, 16 bytes each; zeros for the others.
    var tags: [UInt8]

    /// Where the part is; nil where the object does not have it.
    func source(of sending: ChunkSending) -> ChunkSource? {
      guard holds(sending) else { return nil }
      let start = sending.index * S3PublishedParts.tagBytes
      let tag = tags[start..<start + S3PublishedParts.tagBytes]
      var source = source
      if tag.contains(where: { $0 != 0 }) { source.token = "\"\(Hex.encode(Array(tag)))\"" }
      return source
    }

    /// All of the part is in the object, and has these bytes there.
    private func holds(_ sending: ChunkSending) -> Bool {
      guard sending.plainBytes == partBytes, digests.indices.contains(sending.index),
        sizeBytes / UInt64(partBytes) > UInt64(sending.index)
      else { return false }
      return digests[sending.index] == sending.digest.sha256
    }
  }

  private struct Upload {
    var file: FileID
    /// Parts of which a copy failed: their bytes are sent the next time.
    var failed: LookupSet<Int> = []
    var hasCopied = false
  }

  private struct State {
    /// That which was published last comes last.
    var objects: OrderedDictionary<FileID, Object> = [:]
    var digestCount = 0
    /// Uploads that may copy, by their nonces.
    var uploads: LookupTable<[UInt8], Upload> = [:]
    var copiesNothing = false
    /// In a row: copies that failed, and uploads of which no object was of use.
    var failures = 0
    var useless = 0
  }

  fileprivate static let tagBytes = 16
  /// 3 MiB, and some for each object: 640 GiB in parts of 10 MiB. What was published longest ago is forgotten first.
  static let digestsMax = 65_536
  /// Beyond it all are forgotten: what would be copied is sent.
  private static let uploadsMax = 4096
  /// After so many failed copies in a row, three of each request that goes at once, the run copies nothing more.
  static let failuresMax = 3 * UploadConstants.maxParallelChunkUploads
  /// Likewise after so many uploads in a row of which nothing could be copied: with an encryption of which ETags say nothing each would be one.
  static let uselessMax = 3

  private let state = Mutex(State())

  /// An upload begins that may take parts from what was published of its capture.
  func begin(_ opening: SessionOpening) {
    guard opening.takesBase else { return }
    state.withLock { state in
      guard !state.copiesNothing, let object = state.objects[opening.fileID], object.partBytes == opening.chunkBytes
      else { return }
      if state.uploads.count >= Self.uploadsMax { state.uploads = [:] }
      state.uploads[opening.nonce] = Upload(file: opening.fileID)
    }
  }

  /// Where the server has the same bytes at the same place; nil where none is known.
  func source(of sending: ChunkSending) -> ChunkSource? {
    state.withLock { state in
      guard !state.copiesNothing, let upload = state.uploads[sending.session.nonce],
        !upload.failed.contains(sending.index), let object = state.objects[upload.file]
      else { return nil }
      return object.source(of: sending)
    }
  }

  /// What came of the copy of a part.
  func copied(_ sending: ChunkSending, _ end: S3CopyEnd) {
    let nonce = sending.session.nonce
    state.withLock { state in
      switch end {
      case .copied:
        state.uploads[nonce]?.hasCopied = true
        (state.failures, state.useless) = (0, 0)
      case .isUnknown: state.copiesNothing = true
      case .isUseless:
        // Requests that were in flight together count once.
        guard let upload = state.uploads.removeValue(forKey: nonce) else { return }
        remove(upload.file, &state)
        state.useless += 1
        if state.useless >= Self.uselessMax { state.copiesNothing = true }
      case .failed:
        state.uploads[nonce]?.failed.insert(sending.index)
        state.failures += 1
        if state.failures >= Self.failuresMax { state.copiesNothing = true }
      }
    }
  }

  /// The server refuses to publish an upload; true where that may be for its copied parts. From now on parts are sent.
  func isRefusedForCopies(_ session: SessionIdentity) -> Bool {
    state.withLock { state in
      guard state.uploads[session.nonce]?.hasCopied == true else { return false }
      state.uploads[session.nonce] = nil
      state.copiesNothing = true
      return true
    }
  }

  private func remove(_ file: FileID, _ state: inout State) {
    state.digestCount -= state.objects.removeValue(forKey: file)?.digests.count ?? 0
  }

  /// An upload has been published as this object.
  func published(_ commit: SessionCommit, as source: ChunkSource) {
    guard let file = commit.fileID, let partBytes = commit.chunkBytes, partBytes > 0,
      commit.sizeBytes >= UInt64(partBytes), commit.chunks.count <= Self.digestsMax
    else { return ended(commit.session) }
    let object = Object(
      source: source, partBytes: partBytes, sizeBytes: commit.sizeBytes,
      digests: commit.chunks.map(\.digest.sha256), tags: commit.chunks.flatMap { Self.tag($0.token) })
    state.withLock { state in
      state.uploads[commit.session.nonce] = nil
      remove(file, &state)
      while state.digestCount + commit.chunks.count > Self.digestsMax, let oldest = state.objects.keys.first {
        remove(oldest, &state)
      }
      state.objects[file] = object
      state.digestCount += commit.chunks.count
    }
  }

  private static func tag(_ token: String) -> [UInt8] {
    let digits = token.utf8.count == 2 * tagBytes + 2 ? token.dropFirst().dropLast() : ""
    guard let tag = Hex.decode(String(digits)), "\"\(Hex.encode(tag))\"" == token else {
      return [UInt8](repeating: 0, count: tagBytes)
    }
    return tag
  }

  /// An upload has ended otherwise.
  func ended(_ session: SessionIdentity) { state.withLock { $0.uploads[session.nonce] = nil } }
}

/// What the answer to a copy means (https://docs.aws.amazon.com/AmazonS3/latest/API/API_UploadPartCopy.html).
enum S3CopyEnd: Equatable {
  /// The part is there, under this ETag.
  case copied(entityTag: String)
  /// The server does not copy, or not for these credentials: the part is sent.
  case isUnknown
  /// The object is another one, may not be read, or nothing proves that the copy has the part's bytes: the part is sent.
  case isUseless
  /// Anything else, as it may meet every request.
  case failed

  /// The answer to the copy of a part. The digest is that of the bytes that it is to have.
  init(_ answer: S3Answer, to sending: ChunkSending) {
    // Behind a status of 200 there may be an error: it was sent before it was known how this would end.
    if answer.isSuccess, answer.code == nil {
      // One that does not know what the request asks for has taken its body, which is empty, for the part.
      guard answer.root?.name.hasPrefix("CopyPart") == true,
        let tag = S3Answer.entityTag(answer.root?.child("ETag")?.text)
      else {
        self = .isUnknown
        return
      }
      let isProven = tag == sending.copied?.token || Self.hasChecksum(of: sending.digest, answer)
      self = isProven ? .copied(entityTag: tag) : .isUseless
      return
    }
    if answer.isPage || answer.isExpired || answer.isTransient {
      self = .failed
    } else {
      self = answer.refusesCopies ? .isUnknown : .isUseless
    }
  }

  private static func hasChecksum(of digest: ChunkDigest, _ answer: S3Answer) -> Bool {
    [S3Options.Checksum.crc32c, .sha256].contains { checksum in
      let text = answer.root?.child("Checksum\(checksum.rawValue.uppercased())")?.text
      return text != nil && text == checksum.value(of: digest)
    }
  }
}

extension S3Answer {
  /// Any request may meet it, and may succeed later.
  fileprivate var isTransient: Bool {
    switch code {
    case "NoSuchUpload", "RequestTimeout", "RequestTimeoutException", "RequestTimeTooSkewed", "InternalError",
      "SlowDown",
      "ServiceUnavailable", "Throttling", "ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded",
      "TooManyRequests", "OperationAborted", "XMinioServerNotInitialized":
      true
    case nil: status == 408 || status == 429 || status >= 500 && status != 501
    default: false
    }
  }

  /// It does not copy parts, whatever they are of.
  fileprivate var refusesCopies: Bool {
    refusesField || status == 405 || status == 411 || ["MethodNotAllowed", "MissingContentLength"].contains(code)
      || ["NotImplemented", "XNotImplemented", "InvalidRequest", "InvalidArgument", "UnsupportedArgument"].contains(
        code)
  }
}

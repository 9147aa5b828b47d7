import FileModel
import Integrity
import Lookup
import OrderedCollections
import Synchronization
import UploadEngine

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
    /// SHA-256 of each part, 32 bytes each.
    var digests: [UInt8]
    /// The ETags of those that have 32 hexadecimal digits, 16 bytes each; zeros for the others.
    var tags: [UInt8]

    var digestCount: Int { digests.count / S3PublishedParts.digestBytes }

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
      let start = sending.index.multipliedReportingOverflow(by: Self.digestBytes)
      guard sending.plainBytes == partBytes, sending.index >= 0, sending.index < digestCount, !start.overflow,
        sizeBytes / UInt64(partBytes) > UInt64(sending.index)
      else { return false }
      return digests[start.partialValue..<start.partialValue + Self.digestBytes].elementsEqual(sending.digest.sha256)
    }

    private static var digestBytes: Int { S3PublishedParts.digestBytes }
  }

  private struct Upload {
    var file: FileID
    /// Copies that failed, one after another.
    var failures = 0
  }

  private struct State {
    /// That which was published last comes last.
    var objects: OrderedDictionary<FileID, Object> = [:]
    var digestCount = 0
    /// Uploads that may copy, by their nonces.
    var uploads: LookupTable<[UInt8], Upload> = [:]
    var copiesNothing = false
    /// Copies that were not proven to be what they should be.
    var unproven = 0
  }

  fileprivate static let digestBytes = 32
  fileprivate static let tagBytes = 16
  /// With an encryption of which ETags say nothing each copy would be one, and in vain.
  private static let unprovenMax = 3
  /// 3 MiB: 640 GiB in parts of 10 MiB. What was published longest ago is forgotten first.
  static let digestsMax = 65_536
  /// Beyond it all are forgotten: what would be copied is sent.
  private static let uploadsMax = 4096
  /// After so many failures in a row that say nothing of copying, three of each request that goes at once, the upload sends what it has.
  static let failuresMax = 3 * UploadConstants.maxParallelChunkUploads

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
        let object = state.objects[upload.file]
      else { return nil }
      return object.source(of: sending)
    }
  }

  /// What came of a copy.
  func copied(in session: SessionIdentity, _ end: S3CopyEnd) {
    state.withLock { state in
      switch end {
      case .copied:
        state.uploads[session.nonce]?.failures = 0
        state.unproven = 0
      case .isUnknown: state.copiesNothing = true
      case .isChanged: forget(session, &state)
      case .isUnproven:
        forget(session, &state)
        state.unproven += 1
        if state.unproven >= Self.unprovenMax { state.copiesNothing = true }
      case .failed:
        state.uploads[session.nonce]?.failures += 1
        if state.uploads[session.nonce].map({ $0.failures >= Self.failuresMax }) ?? false {
          state.uploads[session.nonce] = nil
        }
      }
    }
  }

  /// The object is not what it was.
  private func forget(_ session: SessionIdentity, _ state: inout State) {
    guard let upload = state.uploads.removeValue(forKey: session.nonce) else { return }
    remove(upload.file, &state)
  }

  private func remove(_ file: FileID, _ state: inout State) {
    state.digestCount -= state.objects.removeValue(forKey: file)?.digestCount ?? 0
  }

  /// An upload has been published as this object.
  func published(_ commit: SessionCommit, as source: ChunkSource) {
    guard let file = commit.fileID, let partBytes = commit.chunkBytes, partBytes > 0,
      commit.sizeBytes >= UInt64(partBytes), commit.chunks.count <= Self.digestsMax,
      commit.chunks.allSatisfy({ $0.digest.sha256.count == Self.digestBytes })
    else { return ended(commit.session) }
    state.withLock { state in
      state.uploads[commit.session.nonce] = nil
      remove(file, &state)
      while state.digestCount + commit.chunks.count > Self.digestsMax, let oldest = state.objects.keys.first {
        remove(oldest, &state)
      }
      state.objects[file] = Object(
        source: source, partBytes: partBytes, sizeBytes: commit.sizeBytes,
        digests: commit.chunks.flatMap(\.digest.sha256), tags: commit.chunks.flatMap { Self.tag($0.token) })
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
  /// Another object lies there: the part is sent.
  case isChanged
  /// There is a part now of which nothing proves that it is the right one: the part is sent.
  case isUnproven
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
      self = isProven ? .copied(entityTag: tag) : .isUnproven
      return
    }
    switch (answer.status, answer.code) {
    case (412, _), (_, "PreconditionFailed"), (_, "NoSuchKey"), (_, "NoSuchVersion"), (_, "InvalidRange"), (416, _):
      self = .isChanged
    case (501, _): self = .isUnknown
    case (408, _), (429, _), (500..., _), (_, "NoSuchUpload"), (_, "RequestTimeout"), (_, "RequestTimeTooSkewed"):
      self = .failed
    // What it does not know, and does not allow, servers say in many ways. If the credentials are at fault, sending will show it.
    default: self = answer.isExpired || answer.isSuccess || answer.status < 400 ? .failed : .isUnknown
    }
  }

  private static func hasChecksum(of digest: ChunkDigest, _ answer: S3Answer) -> Bool {
    [S3Options.Checksum.crc32c, .sha256].contains { checksum in
      let text = answer.root?.child("Checksum\(checksum.rawValue.uppercased())")?.text
      return text != nil && text == checksum.value(of: digest)
    }
  }
}

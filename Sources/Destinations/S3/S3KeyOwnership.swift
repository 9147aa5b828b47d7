import FileModel
import Integrity
import TransferModel

/// Whose a key is, by what HEAD says of it (docs/destinations.md, DE26c).
enum S3KeyOwnership: Equatable {
  case free
  /// Who asks may not see it, or HEAD is not known there: the condition alone decides.
  case unseen
  /// This very upload has made the object, in an answer that never arrived, or an earlier one of the same content that the spool has
  /// forgotten.
  case made
  /// What this spool has published there before.
  case replaceable(entityTag: String)
  /// Anything else.
  case taken
  /// The server is not to be had, or this is none.
  case unanswered
}

/// What a publication knows of objects that are its own.
struct S3Claim {
  /// The session's, or the upload's of a whole file; empty where nothing was sent yet.
  var nonce: [UInt8]
  var sizeBytes: UInt64
  var replaces: [EarlierPublication]
  /// The capture with the Merkle root of its content, where both are known: an object that has both is this publication,
  /// of which the spool has lost the record.
  var content: (file: FileID, merkleRoot: Digest32)?

  func standing(_ probe: HTTPResponse) -> S3KeyOwnership {
    switch probe.status {
    case 404: return .free
    case 429, 500...: return .unanswered
    case 200: break
    default: return .unseen
    }
    guard let tag = S3Answer(probe).entityTag else { return .unanswered }
    if isMade(probe) { return .made }
    if replaces.contains(where: { Self.isObject(probe, of: $0) }) { return .replaceable(entityTag: tag) }
    return hasContent(probe) ? .made : .taken
  }

  private func hasContent(_ probe: HTTPResponse) -> Bool {
    guard let content, probe.header("content-length") == String(sizeBytes) else { return false }
    return probe.header(S3Metadata.file) == content.file.description
      && probe.header(S3Metadata.merkleRoot) == Hex.encode(content.merkleRoot)
  }

  /// The object of this session, with the size that is to be published.
  private func isMade(_ probe: HTTPResponse) -> Bool {
    !nonce.isEmpty && probe.header(S3Metadata.session) == Hex.encode(nonce)
      && probe.header("content-length") == String(sizeBytes)
  }

  /// By the id in its receipt; by the session that made it; or by the capture and the digest of its content, where it has one. The
  /// capture alone says nothing: a copy of the spool on another machine has it as well.
  private static func isObject(_ probe: HTTPResponse, of publication: EarlierPublication) -> Bool {
    if let id = publication.receiptID, id == S3Answer(probe).publicationID { return true }
    guard probe.header("content-length") == String(publication.sizeBytes) else { return false }
    if let nonce = publication.nonce, !nonce.isEmpty, probe.header(S3Metadata.session) == Hex.encode(nonce) {
      return true
    }
    return probe.header(S3Metadata.file) == publication.fileID.description
      && probe.header(S3Metadata.merkleRoot) == publication.merkleRoot
  }
}

extension S3Answer {
  /// What a receipt calls the object that this answer names by its ETag: the version, where the bucket keeps versions.
  var publicationID: String? { entityTag.map { Self.publicationID(response, $0) } }

  /// S3's are of at most 1,024 bytes of the letters of addresses; it goes to the catalog, to status files and into questions.
  private static func isVersion(_ text: String) -> Bool {
    (1...1024).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
  }

  static func publicationID(_ response: HTTPResponse, _ entityTag: String) -> String {
    // A bucket that keeps no versions may say so by this word, the same for every object.
    let version = response.header("x-amz-version-id").flatMap { $0 == "null" || !isVersion($0) ? nil : $0 }
    return version ?? entityTag.replacing("\"", with: "")
  }
}

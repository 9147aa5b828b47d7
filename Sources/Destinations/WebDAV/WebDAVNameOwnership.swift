import Integrity
import TransferModel

/// Whose a name is, by what the server says of the resource that has it (docs/destinations.md, DE163).
enum WebDAVNameOwnership: Equatable {
  case free
  /// A folder: what moves onto it would take it away with all that is in it (RFC 4918, 9.9.3).
  case folder
  /// This very upload, moved by an earlier request whose answer never arrived.
  case made
  /// What this spool has published there before.
  case replaceable
  /// Anything else.
  case taken
}

/// What an upload knows of resources that are its own.
struct WebDAVClaim {
  /// What a server that keeps marks has with the file.
  var mark: String
  var sizeBytes: UInt64
  var replaces: [EarlierPublication]
  /// What earlier uploads of this run were called by the server, whose answers never arrived.
  var sent: (_ nonce: [UInt8]) -> WebDAVResource?

  /// `upload` is what lay under the temporary name, where that is gone.
  func standing(of resource: WebDAVResource, moved upload: WebDAVResource?) -> WebDAVNameOwnership {
    if resource.isFolder { return .folder }
    let isOfSize = resource.sizeBytes.map { $0 == sizeBytes } ?? true
    if isOfSize, resource.mark == mark { return .made }
    if isOfSize, let upload, upload.version != nil, upload.version == resource.version { return .made }
    return replaces.contains { isResource(resource, of: $0) } ? .replaceable : .taken
  }

  /// By the mark of the upload that made it; else by the version in its receipt, or the one that its upload had.
  private func isResource(_ resource: WebDAVResource, of publication: EarlierPublication) -> Bool {
    guard resource.sizeBytes.map({ $0 == publication.sizeBytes }) ?? true else { return false }
    if let mark = resource.mark, let nonce = publication.nonce, mark == Hex.encode(nonce) { return true }
    guard let version = resource.version else { return false }
    return publication.receiptID == version || publication.nonce.flatMap(sent)?.version == version
  }
}

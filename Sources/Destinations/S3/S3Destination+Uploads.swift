import ChunkProtocol
import Quantities
public import TransferModel

/// The multipart uploads that are in progress below the prefix.
extension S3Destination {
  /// ListMultipartUploads; at most 1000 to a page.
  public func sessionListRequest(after next: String?, at endpoint: EndpointID) -> HTTPRequest? {
    var query = [("uploads", "")]
    if !address.prefix.isEmpty { query.append(("prefix", address.prefix)) }
    if let next, let mark = S3UploadMark(next) {
      query.append(("key-marker", mark.key))
      if !mark.uploadID.isEmpty { query.append(("upload-id-marker", mark.uploadID)) }
    }
    return bucketRequest(query: query)
  }

  /// Without the checksum.
  public func listedID(ofSession id: String) -> String { S3Upload(sessionID: id)?.listedID ?? id }

  /// An answer to ListMultipartUploads.
  public func sessionPage(in response: HTTPResponse) -> SessionPage? {
    guard response.status == 200, let root = XMLElement(response.body), root.name.hasPrefix("ListMultipartUploads")
    else { return nil }
    let sessions = root.children.filter { $0.name == "Upload" }.compactMap { upload -> SessionPage.Session? in
      guard let key = upload.child("Key")?.text, let id = upload.child("UploadId")?.text,
        let session = S3Upload(key: key, uploadID: id)
      else { return nil }
      return SessionPage.Session(
        id: session.listedID, begunAtSeconds: upload.child("Initiated").flatMap { Timestamp.seconds($0.text) })
    }
    guard root.child("IsTruncated")?.text == "true" else { return SessionPage(sessions: sessions) }
    guard let key = root.child("NextKeyMarker")?.text, !key.isEmpty else { return nil }
    let mark = S3UploadMark(key: key, uploadID: root.child("NextUploadIdMarker")?.text ?? "")
    return SessionPage(sessions: sessions, next: mark.text)
  }
}

/// Where a page of uploads ends. Unlike an upload it need not have an id.
private struct S3UploadMark {
  let key: String
  let uploadID: String

  init(key: String, uploadID: String) {
    self.key = key
    self.uploadID = uploadID
  }

  init?(_ text: String) {
    let parts = text.split(separator: "?", omittingEmptySubsequences: false)
    guard parts.count == 2, let key = PercentCoding.decode(parts[0]), let id = PercentCoding.decode(parts[1])
    else { return nil }
    self.init(key: key, uploadID: id)
  }

  var text: String { "\(PercentCoding.encode(key))?\(PercentCoding.encode(uploadID))" }
}

import UploadEngine

/// Keys that must not be taken twice (`S3Options.IfExists.refuse`).
///
/// A server may ignore `If-None-Match` for one request and know it for another (Ceph 16 ignores it where an upload is completed), and
/// would replace the object without a word. So the key is looked for before; the condition is left for the moment between.
extension S3Destination {
  /// A look at the key that a step publishes; nil for a step that needs none.
  func lookRequest(of step: UploadStep) -> HTTPRequest? {
    guard looksFirst, let key = publishedKey(of: step) else { return nil }
    return request(.head, key: key)
  }

  /// The responses to what a step sends behind its look, if it has one; nil where the look was the end.
  func responses(behindLookOf step: UploadStep, _ responses: [HTTPResponse]) -> [HTTPResponse]? {
    guard looksFirst, publishedKey(of: step) != nil, let look = responses.first else { return responses }
    // A key that may only write sees nothing (403); what else is wrong, the next request says better.
    return look.status == 200 || look.status >= 500 ? nil : Array(responses.dropFirst())
  }

  private func publishedKey(of step: UploadStep) -> String? {
    switch step {
    case .commit(let commit): S3Upload(sessionID: commit.session.id)?.key
    case .sendWholeFile(let sending): publishedName(for: sending.path)
    case .prewarm, .openSession, .querySession, .secureSession, .sendChunk, .abort, .sendBundle: nil
    }
  }
}

extension S3Answer {
  /// It completed an upload and does not name the object: Ceph 16 answers so the first time.
  var isNamelessPublication: Bool {
    isSuccess && root?.name.hasPrefix("CompleteMultipartUpload") == true
      && Self.entityTag(root?.child("ETag")?.text) == nil
  }
}

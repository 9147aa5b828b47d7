/// What a session's id says: an upload of the draft's. Behind the first word it is that of a tus session that is one upload.
struct ResumableSession: Hashable {
  let upload: String
  let chunkBytes: Int
  /// The upload's own, where it was declared when the upload began.
  let lengthBytes: UInt64?

  private static let mark = "ietf "

  /// Whether a session is one of these.
  static func isOne(_ id: String) -> Bool { id.hasPrefix(mark) }

  init?(_ id: String) {
    guard Self.isOne(id),
      case .one(let upload, let chunkBytes, let lengthBytes)? = TusSession(String(id.dropFirst(Self.mark.count)))
    else { return nil }
    self.upload = upload
    self.chunkBytes = chunkBytes
    self.lengthBytes = lengthBytes
  }

  static func id(_ upload: String, chunkBytes: Int, lengthBytes: UInt64?) -> String {
    mark + TusSession.id(one: upload, chunkBytes: chunkBytes, lengthBytes: lengthBytes)
  }
}

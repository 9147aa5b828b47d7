import Fuzzing
import TransferModel

@testable import Destinations

let sessionParsers: [FuzzedParser] = [
  FuzzedParser(
    "Sessions", bytesMax: 512, words: ["one ", "rows ", "ietf ", "#", "/", "?", "%2F", "sha256", "crc32c", " 9/18 "],
    texts: [
      "one 9 /files/u1", "one 4194304/10000000 https://h/files/u 1", "rows 00ff", "/files/p1#4194304", "ietf one 9 /u",
      "day%201/a.mov?up%2Fload%2B1", "a?b?sha256", "one 9/ x", "one 0 x", "ietf rows 00", "#",
      "one 9/18446744073709551616 x",
    ]
  ) { input in
    let text = input.text
    switch TusSession(text) {
    case .one(let upload, let chunkBytes, let lengthBytes)?:
      require((1...UploadConstants.chunkBytesMax).contains(chunkBytes), "chunks have a length")
      let again = TusSession(TusSession.id(one: upload, chunkBytes: chunkBytes, lengthBytes: lengthBytes))
      require(again == .one(upload: upload, chunkBytes: chunkBytes, lengthBytes: lengthBytes), "an upload comes back")
    case .partial?:
      guard let partial = TusPartial(token: text) else { fatalError("a partial upload is one") }
      require(TusPartial(token: partial.token) == partial, "a partial upload comes back")
    case .sequences?, nil: break
    }
    if let session = ResumableSession(text) {
      require(ResumableSession.isOne(text), "a session of the draft is told apart")
      let again = ResumableSession.id(session.upload, chunkBytes: session.chunkBytes, lengthBytes: session.lengthBytes)
      require(ResumableSession(again) == session, "a session of the draft comes back")
    }
    if let upload = S3Upload(sessionID: text) {
      guard let again = S3Upload(sessionID: upload.sessionID) else { fatalError("an upload to S3 comes back") }
      require(
        again.key.utf8.elementsEqual(upload.key.utf8) && again.uploadID.utf8.elementsEqual(upload.uploadID.utf8)
          && again.checksum == upload.checksum, "an upload to S3 comes back")
      require(upload.sessionID.utf8.allSatisfy { (0x21...0x7e).contains($0) }, "a session's id is plain ASCII")
    }
  }
]

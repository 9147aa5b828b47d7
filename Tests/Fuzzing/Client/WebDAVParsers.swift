import Fuzzing
import TransferModel

@testable import Destinations

private let multistatus =
  "HTTP/1.1 207 x\r\nContent-Type: application/xml\r\n\r\n<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/</D:href>"
  + "<D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype><D:getcontentlength>5</D:getcontentlength>"
  + "<D:getetag>W/\"a\"</D:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"

let webDAVParsers: [FuzzedParser] = [
  FuzzedParser(
    "WebDAVResource", bytesMax: 4096,
    words: responseWords + ["<D:prop>", "<D:propstat>", "<D:status>", "</D:status>", "W/\"", "<D:getetag>"],
    texts: [multistatus, multistatus.replacing("200 OK", with: "404"), "HTTP/1.1 207 x\r\n\r\n"]
  ) { input in
    let response = response(input.bytes)
    _ = WebDAVAnswer(response).failure(at: "server", to: "say").message
    guard let resource = WebDAVResource(response) else { return }
    for text in [resource.version, resource.entityTag, resource.mark, resource.modified].compactMap(\.self) {
      require(text.utf8.allSatisfy { (0x20...0x7e).contains($0) }, "what is kept is plain ASCII")
    }
  },
  FuzzedParser(
    "AuthenticationChallenge", words: ["Digest ", "Basic ", "realm=\"", "nonce=", "qop=", "\\", "\"", ", ", "="],
    texts: [
      "Digest realm=\"a\", qop=\"auth, auth-int\", algorithm=SHA-256, nonce=\"n\", opaque=\"o\", stale=true, userhash=true",
      "Basic realm=\"a\\\"b\", Digest nonce=n", "Negotiate dG9rZW4=",
    ]
  ) { input in
    for challenge in AuthenticationChallenge.all(in: input.text) {
      guard let digest = DigestAuthentication(challenge) else { continue }
      let authorization = digest.authorization(
        user: "u", password: "p", method: "PUT", target: "/", count: .max, clientNonce: "c")
      require(authorization.utf8.starts(with: "Digest username=".utf8), "a challenge is answered")
    }
  },
]

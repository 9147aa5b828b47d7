import Integrity
import Promises
import Synchronization
import Testing
import TransferModel

@testable import Destinations

@Suite struct DigestAuthenticationTests {
  /// RFC 7616, 3.9.1.
  private static let example =
    "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=%, "
    + "nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""

  private static func response(_ fields: [String], status: Int = 401) -> HTTPResponse {
    HTTPResponse(status: status, headers: fields.map { HTTPHeader("www-authenticate", $0) })
  }

  private static func authorization(_ digest: DigestAuthentication, password: String = "Circle of Life") -> String {
    digest.authorization(
      user: "Mufasa", password: password, method: "GET", target: "/dir/index.html", count: 1,
      clientNonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ")
  }

  @Test(
    .promises("DE165"),
    arguments: [
      ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
      ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ])
  func theVectorsOfRFC7616(algorithm: String, response: String) throws {
    let digest = try #require(
      DigestAuthentication(Self.response([Self.example.replacing("%", with: algorithm)])))
    #expect(
      Self.authorization(digest)
        == "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", "
        + "uri=\"/dir/index.html\", response=\"\(response)\", algorithm=\(algorithm), "
        + "opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\", qop=auth, nc=00000001, "
        + "cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\"")
  }

  /// RFC 2617, 3.5.
  @Test(.promises("DE165")) func theVectorOfRFC2617() throws {
    let field =
      "Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", "
      + "opaque=\"5ccc069c403ebaf9f0171e9517f40e41\""
    let digest = try #require(DigestAuthentication(Self.response([field])))
    let authorization = digest.authorization(
      user: "Mufasa", password: "Circle Of Life", method: "GET", target: "/dir/index.html", count: 1,
      clientNonce: "0a4f113b")
    #expect(authorization.contains("response=\"6629fae49393a05397450978507c4ef1\""))
  }

  @Test(.promises("DE165")) func theStrongestIsChosen_andOthersAreLeft() throws {
    let both = [
      "Basic realm=\"x\"", Self.example.replacing("%", with: "MD5"), Self.example.replacing("%", with: "SHA-256"),
    ]
    let digest = try #require(DigestAuthentication(Self.response(both)))
    #expect(Self.authorization(digest).contains("algorithm=SHA-256"))
    let joined = try #require(DigestAuthentication(Self.response([both.joined(separator: ", ")])))
    #expect(joined == digest)
    #expect(DigestAuthentication(Self.response(["Basic realm=\"a, Digest b\""])) == nil)
    #expect(DigestAuthentication(Self.response(["Digest realm=\"a\", nonce=\"b\", qop=\"auth-int\""])) == nil)
    #expect(DigestAuthentication(Self.response(["Digest realm=\"a\", nonce=\"b\", algorithm=SHA-512-256"])) == nil)
    #expect(DigestAuthentication(Self.response(["Digest realm=\"a\", nonce="])) == nil)
  }

  @Test func challenges_areReadAsTheyAreWritten() {
    let read = AuthenticationChallenge.all(in: ", Negotiate , Basic realm=\"a \\\"b\\\"\" , charset=UTF-8, Digest x=y")
    #expect(read.map(\.scheme) == ["negotiate", "basic", "digest"])
    #expect(read[1]["realm"] == "a \"b\"" && read[1]["charset"] == "UTF-8" && read[2]["x"] == "y")
    #expect(AuthenticationChallenge.all(in: "\u{7f}").isEmpty && AuthenticationChallenge.all(in: "a=\"").count == 1)
  }

  @Test func md5_isThatOfRFC1321() {
    let vectors = [
      "": "d41d8cd98f00b204e9800998ecf8427e", "abc": "900150983cd24fb0d6963f7d28e17f72",
      "message digest": "f96b697d7cb7938d525a2f31aaf161d0",
      "12345678901234567890123456789012345678901234567890123456789012345678901234567890":
        "57edf4a22be3c955ac49da2e2107b67a",
    ]
    for (text, digest) in vectors { #expect(Hex.encode(MD5.digest(of: Array(text.utf8))) == digest) }
  }

  // MARK: - On the way

  /// Answers what it is told to, and keeps what it was sent.
  private final class Server: HTTPTransport {
    let seen = Mutex<[HTTPRequest]>([])
    private let answer: @Sendable (HTTPRequest) -> Result<HTTPResponse, TransportError>

    init(_ answer: @escaping @Sendable (HTTPRequest) -> Result<HTTPResponse, TransportError>) { self.answer = answer }

    func start(_ requests: [PendingHTTPRequest]) {
      for request in requests {
        seen.withLock { $0.append(request.request) }
        request.onCompletion(answer(request.request))
      }
    }

    func cancel(_ id: HTTPRequestID, unsentBelow: UInt64) {}

    var words: [String] {
      seen.withLock { seen in
        seen.map { "\($0.method.rawValue) \(($0.header("Authorization") ?? "-").prefix { $0 != " " })" }
      }
    }
  }

  private static let folder = "https://h/dav"

  private func answers(_ server: Server, to requests: [HTTPRequest]) throws -> [Int] {
    let transport = WebDAVTransport(
      server, address: try WebDAVAddress("webdav+https://h/dav", allowPlainHTTP: false), clientNonce: { "c" },
      later: { _, work in work() })
    let statuses = Mutex<[Int]>([])
    for (index, request) in requests.enumerated() {
      transport.start(request, id: HTTPRequestID(UInt64(index))) { result in
        statuses.withLock { $0.append((try? result.get().status) ?? 0) }
      }
    }
    return statuses.withLock { $0 }
  }

  private static func put(_ name: String = "a") -> HTTPRequest {
    HTTPRequest(
      .put, "\(folder)/\(name)",
      headers: [HTTPHeader("Authorization", Credential.basic(user: "u", password: "p:w").authorization)])
  }

  @Test(.promises("DE165")) func aServerWithDigest_isNeverShownThePassword() throws {
    let server = Server { request in
      let isRight = request.header("Authorization")?.hasPrefix("Digest username=\"u\"") ?? false
      return .success(isRight ? HTTPResponse(status: 201) : Self.response([Self.example.replacing("%", with: "MD5")]))
    }
    #expect(try answers(server, to: [Self.put(), Self.put("b")]) == [201, 201])
    #expect(server.words == ["PROPFIND -", "PUT Digest", "PUT Digest"])
    let counts = server.seen.withLock { $0.compactMap { $0.header("Authorization")?.contains("nc=00000002") } }
    #expect(counts == [false, true])
  }

  @Test(.promises("DE165")) func aNonceThatIsTooOld_costsOneRequest_andAWrongPasswordNone() throws {
    let nonces = Mutex(0)
    let stale = Server { request in
      guard request.header("Authorization")?.contains("nonce=\"n2\"") != true else {
        return .success(HTTPResponse(status: 201))
      }
      let number = nonces.withLock { nonces in
        nonces += 1
        return nonces
      }
      return .success(Self.response(["Digest realm=\"r\", nonce=\"n\(number)\", qop=auth, stale=\(number > 1)"]))
    }
    #expect(try answers(stale, to: [Self.put()]) == [201])
    #expect(stale.words == ["PROPFIND -", "PUT Digest", "PUT Digest"])
    let wrong = Server { _ in .success(Self.response(["Digest realm=\"r\", nonce=\"n\", qop=auth"])) }
    #expect(try answers(wrong, to: [Self.put()]) == [401])
    #expect(wrong.words == ["PROPFIND -", "PUT Digest"])
  }

  @Test(.promises("DE165")) func aServerThatAsksForNothingElse_getsBasic() throws {
    let server = Server { request in
      .success(
        request.header("Authorization") == nil ? Self.response(["Basic realm=\"x\""]) : HTTPResponse(status: 201))
    }
    #expect(try answers(server, to: [Self.put()]) == [201])
    #expect(server.words == ["PROPFIND -", "PUT Basic"])
    let bearer = HTTPRequest(.put, "\(Self.folder)/a", headers: [HTTPHeader("Authorization", "Bearer t")])
    let open = Server { _ in .success(HTTPResponse(status: 201)) }
    #expect(try answers(open, to: [bearer]) == [201])
    #expect(open.words == ["PUT Bearer"])
  }

  /// Regression: a gateway's error, a redirect or a challenge that is not known here counted as a wish for Basic authentication.
  @Test(
    .promises("DE165"),
    arguments: [
      HTTPResponse(status: 503),
      HTTPResponse(status: 302, headers: [HTTPHeader("location", "https://sso.example/login/")]),
      HTTPResponse(status: 429),
      DigestAuthenticationTests.response(["Digest realm=\"a\", nonce=\"b\", qop=\"auth-int\""]),
      DigestAuthenticationTests.response(["Negotiate"]),
    ])
  func anAnswerThatIsNotTheServersOwn_isShownNoPassword(answer: HTTPResponse) throws {
    let server = Server { _ in .success(answer) }
    #expect(try answers(server, to: [Self.put(), Self.put("b")]) == [answer.status, answer.status])
    #expect(server.words == ["PROPFIND -", "PROPFIND -"], "and it is asked again each time")
  }

  /// Regression: what only asks for a name that begins as a temporary one does, or is below a folder of such a name, was followed by DELETE.
  @Test(.promises("DE168")) func aNameThatIsNoUploads_isNeverTakenAway() throws {
    let upload = WebDAVTemporaryName.of([UInt8](repeating: 7, count: 32))
    #expect(WebDAVTemporaryName.isOf("\(Self.folder)/\(upload)"))
    for name in [".uploadfs-notes", "\(upload)/", "x\(upload)", "\(upload)0", "\(upload)/a.mov"] {
      #expect(!WebDAVTemporaryName.isOf("\(Self.folder)/\(name)"), "\(name)")
    }
    for method in [HTTPRequest.Method.propfind, .mkcol, .options, .get] {
      let server = Server {
        $0.url.hasSuffix(upload)
          ? .failure(TransportError(.cancelled, "cancelled")) : .success(HTTPResponse(status: 207))
      }
      var request = Self.put(upload)
      request.method = method
      #expect(try answers(server, to: [request]) == [0])
      #expect(!server.words.contains("DELETE Basic"), "\(method)")
    }
  }

  @Test(.promises("DE168")) func anUploadThatIsBrokenOff_isTakenAway() throws {
    let name = WebDAVTemporaryName.of([UInt8](repeating: 7, count: 32))
    let server = Server { request in
      request.method == .put ? .failure(TransportError(.cancelled, "cancelled")) : .success(HTTPResponse(status: 401))
    }
    #expect(try answers(server, to: [Self.put(name)]) == [0])
    #expect(server.words == ["PROPFIND -", "PUT Basic", "DELETE Basic", "DELETE Basic", "DELETE Basic"])
    let lost = Server { request in
      request.method == .put ? .failure(TransportError(.connectionLost, "lost")) : .success(HTTPResponse(status: 401))
    }
    #expect(try answers(lost, to: [Self.put(name)]) == [0])
    #expect(lost.words == ["PROPFIND -", "PUT Basic"])
  }
}

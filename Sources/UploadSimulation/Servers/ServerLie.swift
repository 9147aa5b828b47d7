import UploadEngine

/// What a server says again and again in the words of its protocol although it is not so, until the faults end.
///
/// None of them says of a file that it is there although it is not, which cannot be found out; but one has zeros in place of bytes that were
/// never sent.
enum ServerLie: String, CaseIterable, TraceWord {
  /// Offsets that are anything, fall, or jump.
  case offsets
  /// The upload is not there, says the server, or something in between.
  case notFound, gone
  /// Another request is at it; it is locked; the bytes were damaged.
  case conflict, locked, damaged
  /// It fails for good, or only with bodies.
  case broken, fails, busy
  /// It asks for nonsensical pauses.
  case pauses
  /// A success that is no answer to this.
  case page, nonsense
  /// A refusal by something in between, for what was completed.
  case deniesTheEnd
  /// Uploads are forgotten in mid-upload.
  case expires
  /// A list without an end.
  case endless
  /// The upload is not there, now and then or always, in the protocol's own words.
  case deniesUpload, deniesUploads
  /// What the upload consists of is not there, or not as it was said, in these words.
  case deniesParts
  /// A failure in the clothes of an answer to the end of an upload.
  case failsAtTheEnd
  /// Parts are called otherwise than they are; an upload goes further than it can.
  case misnames
  /// Where a request breaks off, an upload goes further than was sent, in zeros.
  case jumps

  /// What needs the protocol's own words.
  static let ofProtocol: [ServerLie] = [.deniesUpload, .deniesUploads, .deniesParts, .failsAtTheEnd, .misnames]
  static let general = allCases.filter { !ofProtocol.contains($0) && $0 != .jumps }
  /// What ends a file's tries where it is said of this file alone.
  static let refusals: [ServerLie] = [.conflict, .nonsense]

  /// One of these is told in a run of `scenario`.
  static func choice(in scenario: Scenario) -> [ServerLie] {
    if scenario.jumpsWhereItBreaks { return [.jumps] }
    if scenario.refusesEachBody { return refusals }
    return scenario.liesInOwnWords ? ofProtocol : general
  }

  var word: String { rawValue }

  /// It is told about what was done.
  var isOfAnswer: Bool { [.offsets, .endless, .deniesTheEnd, .misnames].contains(self) }

  func strikes(_ request: ForeignRequest, _ random: inout SeededGenerator) -> Bool {
    let hasBody = !request.body.isEmpty
    switch self {
    case .offsets: return random.happens(0.5)
    case .broken, .endless: return true
    case .fails, .busy, .pauses: return hasBody
    case .notFound, .gone, .conflict, .locked, .damaged, .page, .nonsense: return random.happens(hasBody ? 0.7 : 0.2)
    case .deniesTheEnd: return request.method != "GET" && random.happens(0.5)
    case .expires, .jumps: return false
    case .deniesUpload: return random.happens(0.25)
    case .deniesUploads, .deniesParts, .failsAtTheEnd: return true
    case .misnames: return random.happens(0.7)
    }
  }

  /// `honest` is the answer to what was done, if it was; `lengthBytes` how long the upload is to be that it is about.
  func answer(
    to request: ForeignRequest, _ honest: HTTPResponse?, lengthBytes: Int?, _ random: inout SeededGenerator
  ) -> HTTPResponse {
    switch self {
    case .offsets: honest.map { twisted($0, lengthBytes, &random) } ?? HTTPResponse(status: 409)
    case .notFound: HTTPResponse(status: 404)
    case .gone: HTTPResponse(status: 410)
    case .conflict: HTTPResponse(status: 409)
    case .locked: HTTPResponse(status: 423)
    case .damaged: HTTPResponse(status: 460)
    case .broken, .fails: HTTPResponse(status: 500)
    case .busy: HTTPResponse(status: 503)
    case .pauses:
      HTTPResponse(
        status: 503,
        headers: [
          HTTPHeader(
            "retry-after",
            ["0", "0.001", "-5", "soon", "99999999", "Thu, 01 Jan 1970 00:00:00 GMT"]
              .randomElement(using: &random) ?? "0")
        ])
    case .page:
      HTTPResponse(
        status: 200, headers: [HTTPHeader("content-type", "text/html")], body: Array("<html>Sign in</html>".utf8))
    case .nonsense: HTTPResponse(status: 202, body: Array("{\"status\":[[[".utf8))
    case .deniesTheEnd: HTTPResponse(status: [404, 502, 500].randomElement(using: &random) ?? 404)
    case .endless: honest.map(endless) ?? HTTPResponse(status: 500)
    // Where the protocol has no words for it, that is no lie.
    case .expires, .deniesUpload, .deniesUploads, .deniesParts, .failsAtTheEnd, .misnames, .jumps:
      honest ?? HTTPResponse(status: 500)
    }
  }

  /// With another offset, but never with that of a complete upload.
  private func twisted(
    _ response: HTTPResponse, _ lengthBytes: Int?, _ random: inout SeededGenerator
  ) -> HTTPResponse {
    guard let place = response.headers.firstIndex(where: { $0.name == "upload-offset" }),
      let offset = Int(response.headers[place].value)
    else { return response }
    let length = response.header("upload-length").flatMap { Int($0) } ?? lengthBytes
    let other = [0, offset / 2, offset + 1, offset + 64, offset * 3, Int.max / 2].randomElement(using: &random) ?? 0
    // How long the upload is to be is not known of each; then an offset only falls.
    guard other < length ?? offset else { return response }
    var response = response
    response.headers[place] = HTTPHeader("upload-offset", "\(other)")
    return response
  }

  /// As far as `response` says that an upload goes, and further than its length: that can be found out.
  static func beyond(_ response: HTTPResponse) -> HTTPResponse? {
    guard let place = response.headers.firstIndex(where: { $0.name == "upload-offset" }),
      let offset = Int(response.headers[place].value)
    else { return nil }
    let length = response.header("upload-length").flatMap { Int($0) }
    var response = response
    response.headers[place] = HTTPHeader("upload-offset", "\((length ?? offset) * 2 + 1_000_000)")
    return response
  }

  /// Its list goes on behind its end.
  private func endless(_ response: HTTPResponse) -> HTTPResponse {
    var response = response
    let text = String(decoding: response.body, as: UTF8.self)
    response.body = Array(
      text.replacing("<IsTruncated>false</IsTruncated>", with: "<IsTruncated>true</IsTruncated>").utf8)
    return response
  }
}

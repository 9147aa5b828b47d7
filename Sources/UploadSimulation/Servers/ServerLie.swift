import TransferModel

/// What a server falsely answers again and again in the words of its protocol until the faults end.
///
/// None of these lies claims that a file is there although it is not, which cannot be detected. But one has zeros for
/// bytes that were never sent.
enum ServerLie: String, CaseIterable, TraceWord {
  /// Offsets that are arbitrary, fall, or jump.
  case offsets
  /// The upload is not there, by the server's or a proxy's answer.
  case notFound, gone
  /// Another request is in progress; the upload is locked; the bytes were damaged.
  case conflict, locked, damaged
  /// The server fails for good, or only with bodies.
  case broken, fails, busy
  /// The server asks for nonsensical pauses.
  case pauses
  /// A success that does not answer this request.
  case page, nonsense
  /// A refusal by a proxy, for a completed request.
  case deniesTheEnd
  /// Uploads are dropped midway.
  case expires
  /// A list without an end.
  case endless
  /// The upload is not there, now and then or always, in the protocol's own words.
  case deniesUpload, deniesUploads
  /// Parts of the upload are missing, or differ, in the protocol's own words.
  case deniesParts
  /// A failure in the form of an answer to the end of an upload.
  case failsAtTheEnd
  /// Parts have other names than reported; an upload goes further than it can.
  case misnames
  /// Where a request breaks off, an upload goes further than was sent, in zeros.
  case jumps

  /// Lies that need the protocol's own words.
  static let ofProtocol: [ServerLie] = [.deniesUpload, .deniesUploads, .deniesParts, .failsAtTheEnd, .misnames]
  static let general = allCases.filter { !ofProtocol.contains($0) && $0 != .jumps }
  /// Refusals that end a file's attempts where they concern this file alone.
  static let refusals: [ServerLie] = [.conflict, .nonsense]

  /// One of these is chosen for a run of `scenario`.
  static func choice(in scenario: Scenario) -> [ServerLie] {
    if scenario.jumpsWhereItBreaks { return [.jumps] }
    if scenario.refusesEachBody { return refusals }
    return scenario.liesInOwnWords ? ofProtocol : general
  }

  var word: String { rawValue }

  /// The lie is told about a completed request.
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

  /// `honest` is the answer to the completed request, if it was carried out; `lengthBytes` is the length of its upload.
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
    // Where the protocol has no words for the lie, there is none.
    case .expires, .deniesUpload, .deniesUploads, .deniesParts, .failsAtTheEnd, .misnames, .jumps:
      honest ?? HTTPResponse(status: 500)
    }
  }

  /// The answer with another offset, but never with that of a complete upload.
  private func twisted(
    _ response: HTTPResponse, _ lengthBytes: Int?, _ random: inout SeededGenerator
  ) -> HTTPResponse {
    guard let place = response.headers.firstIndex(where: { $0.name == "upload-offset" }),
      let offset = Int(response.headers[place].value)
    else { return response }
    let length = response.header("upload-length").flatMap { Int($0) } ?? lengthBytes
    let other = [0, offset / 2, offset + 1, offset + 64, offset * 3, Int.max / 2].randomElement(using: &random) ?? 0
    // The length of some uploads is not known; then an offset only falls.
    guard other < length ?? offset else { return response }
    var response = response
    response.headers[place] = HTTPHeader("upload-offset", "\(other)")
    return response
  }

  /// The answer with an offset behind the upload's length: that can be detected.
  static func beyond(_ response: HTTPResponse) -> HTTPResponse? {
    guard let place = response.headers.firstIndex(where: { $0.name == "upload-offset" }),
      let offset = Int(response.headers[place].value)
    else { return nil }
    let length = response.header("upload-length").flatMap { Int($0) }
    var response = response
    response.headers[place] = HTTPHeader("upload-offset", "\((length ?? offset) * 2 + 1_000_000)")
    return response
  }

  /// The server's list continues behind its end.
  private func endless(_ response: HTTPResponse) -> HTTPResponse {
    var response = response
    let text = String(decoding: response.body, as: UTF8.self)
    response.body = Array(
      text.replacing("<IsTruncated>false</IsTruncated>", with: "<IsTruncated>true</IsTruncated>").utf8)
    return response
  }
}

import Lookup
import TransferModel

/// What a response of a WebDAV server says of a failure, and what follows from it (RFC 4918, 11).
struct WebDAVAnswer {
  let response: HTTPResponse

  var status: Int { response.status }
  /// By its status: servers put pages into their successes (Apache). What was done is asked for afterwards.
  var isSuccess: Bool { (200..<300).contains(status) && status != 202 && status != 207 }
  /// Nothing is there, as servers say it.
  var isNotThere: Bool { status == 404 || status == 410 }
  /// It leads to the same name with a slash behind it, which only a folder has. A page for a login may stand behind a slash as well.
  func leads(toFolder name: String) -> Bool {
    guard [301, 302, 307, 308].contains(status), let location = response.header("location") else { return false }
    let slash = UInt8(ascii: "/")
    guard location.utf8.last == slash, let last = location.utf8.split(separator: slash).last,
      let asked = name.utf8.split(separator: slash).last
    else { return false }
    return Self.decoded(last).elementsEqual(asked)
  }

  private static func decoded(_ text: Substring.UTF8View) -> [UInt8] {
    var (bytes, rest) = ([UInt8](), text[...])
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "%"), let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) {
        bytes.append(value)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return bytes
  }

  /// To the request that marks an upload: the next try may be answered otherwise.
  var saysNothingOfMarks: Bool {
    switch status {
    case 401, 407, 408, 423, 425, 429: true
    case 300..<400: true
    case 500..<600: status != 501
    default: false
    }
  }

  init(_ response: HTTPResponse) { self.response = response }

  /// A precondition or postcondition that is named (RFC 4918, 16): the server itself has said it.
  private var isOfServer: Bool { XMLElement(response.body)?.name == "error" }

  /// What went wrong, for decisions and for people. `what` is what it did not do.
  func failure(at address: String, to what: String) -> StepFailure {
    let said = "The WebDAV server at \(address) answered \(status)\(ServerErrorText(response).quoted) to \(what)"
    let retryAfter = RetryAfter.duration(of: response)
    switch status {
    case 423:
      return StepFailure(
        .conflict, "\(said): another program has locked it. It is tried again.", retryAfter: retryAfter)
    case 412: return StepFailure(.conflict, "\(said); it is asked again.", retryAfter: retryAfter)
    default: break
    }
    if !isOfServer {
      if let page = StepFailure.page(response, at: address) { return page }
      if let unmarked = StepFailure.unmarked(response, said) { return unmarked }
    }
    if let common = CommonStatus(status) {
      return common.failure(response, said, own: ownWords(for: common, said))
    }
    switch status {
    case 413:
      return StepFailure(
        .tooLarge(limitBytes: nil),
        "\(said): the file is too large for it, or for a proxy before it. Raise the limit there; it is usually one of: "
          + "\(RequestLimitAdvice.settings).")
    case 409: return StepFailure(.conflict, "\(said): a folder on the way is not there.", retryAfter: retryAfter)
    case 415: return StepFailure(.badRequest, "\(said): it does not take such files.")
    case 501: return StepFailure(.badRequest, "\(said): it does not know the method. Check that it is a WebDAV server.")
    case 400..<500: return StepFailure(.badRequest, "\(said).")
    // One failing request says little about the next file.
    case 500..<600: return StepFailure(.unexpectedAnswer, "\(said).", retryAfter: retryAfter)
    default: return StepFailure(.unexpectedAnswer, "\(said), which is not expected.")
    }
  }

  private func ownWords(for common: CommonStatus, _ said: String) -> String? {
    switch common {
    case .unauthorized: "\(said). Check --basic-auth-file, --token-file or --token-command."
    case .forbidden: "\(said). The credentials may not do this."
    case .leadsElsewhere, .proxyWantsPassword, .timedOut, .tooEarly, .busy, .full, .gateway, .networkWantsLogin: nil
    }
  }
}

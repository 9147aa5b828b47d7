import TransferModel

/// A page for people: what a captive portal, a login, a maintenance page or a proxy says in a server's place. None of the protocols
/// answers with one.
extension HTTPResponse {
  /// Its body is HTML.
  var isPage: Bool {
    guard !body.isEmpty else { return false }
    let type = header("content-type")?.lowercased().prefix { $0 != ";" }.drop { $0.isWhitespace } ?? ""
    if type.hasPrefix("text/html") || type.hasPrefix("application/xhtml") { return true }
    // Those that say nothing of what it is.
    return ["", "text/plain", "application/octet-stream"].contains(type) && beginsAsPage
  }

  /// As browsers find it out (https://mimesniff.spec.whatwg.org/, 7.1), where comments and a declaration of XML may stand before it.
  private var beginsAsPage: Bool {
    var rest = Substring(String(decoding: body.prefix(4096), as: UTF8.self).lowercased())
    if rest.first == "\u{feff}" { rest.removeFirst() }
    while true {
      rest = rest.drop { $0.isWhitespace }
      guard let end = rest.hasPrefix("<!--") ? "-->" : rest.hasPrefix("<?xml") ? "?>" : nil else { break }
      guard let range = rest.firstRange(of: end) else { return false }
      rest = rest[range.upperBound...]
    }
    return ["<!doctype html", "<html", "<head", "<body", "<title"].contains { rest.hasPrefix($0) }
  }

  /// The page stands in the place of a success, or of a refusal that would end a file.
  var isForeignPage: Bool {
    switch status {
    // About the credentials, a conflict, the length of a request, or when to come again: those that mean this say it in any way.
    case 401, 407, 408, 409, 413, 425, 429: false
    case 200..<300, 400..<500, 511: isPage && !hasMarkOfUploads
    // Those that are said of the destination mean that in any way.
    case 500..<600: CommonStatus(status) == nil && isPage && !hasMarkOfUploads
    default: false
    }
  }

  /// A server of uploads may say what it says with a page.
  private var hasMarkOfUploads: Bool {
    ["tus-resumable", "upload-offset", "upload-complete"].contains { header($0) != nil }
  }
}

extension StepFailure {
  /// What a page in a server's place means; nil for any other answer. It is said of the destination, and ends no file.
  static func page(_ response: HTTPResponse, at address: String) -> StepFailure? {
    guard response.isForeignPage else { return nil }
    return StepFailure(
      .serverError,
      "\(whatAnswered(response, at: address)). It is tried again; check --to and what lies between.",
      retryAfter: RetryAfter.duration(of: response))
  }

  /// Who answers with a page.
  static func whatAnswered(_ response: HTTPResponse, at address: String) -> String {
    let title = PageTitle.beginning(of: response.body).map { " (“\($0)”)" } ?? ""
    return
      "A web page\(title) came with status \(response.status) in the place of an answer of \(address): a captive portal, a "
      + "login or maintenance page, or a proxy's"
  }
}

import ChunkProtocol
import Integrity
import Lookup
import Quantities
import TransferModel

/// What the server of a form answered, and what follows from it. Forms agree on little: the status decides, and JSON is
/// looked at for what many of them say.
struct FormAnswer {
  let status: Int
  private let response: HTTPResponse
  private let json: JSONValue?
  private let words: ServerErrorText

  private static let jsonBytesMax = 64 << 10

  init(_ response: HTTPResponse) {
    self.response = response
    status = response.status
    json = response.body.count <= Self.jsonBytesMax ? JSONReader.value(of: response.body) : nil
    words = ServerErrorText(response, json: json)
  }

  /// The JSON as it is kept: what the server said, without the blanks between, and without members of these names.
  func keptJSON(without names: SecretNames) -> String? {
    json.map { String(decoding: WireJSON.encode($0.without(names)), as: UTF8.self) }
  }

  /// The server refuses the file because it has this very content: an answer to an earlier request never came.
  func isDuplicate(of sha256: Digest32?, by field: String) -> Bool {
    guard status == 409, let sha256, case .string(let said)? = json?.member(at: field) else { return false }
    let digits = said.lowercased()
    return (digits.hasPrefix("sha256:") ? String(digits.dropFirst(7)) : digits) == Hex.encode(sha256)
  }

  /// The server's name for the file, if it says one.
  var id: String? {
    for key in ["id", "uuid", "file_id", "upload_id", "asset_id", "existing_asset_id", "existing_id"] {
      switch json?[key] {
      case .string(let text)? where !text.isEmpty && text.utf8.count <= 256: return text
      case .integer(let number)?: return "\(number)"
      default: continue
      }
    }
    return nil
  }

  /// By the server's clock.
  var publishedAtMilliseconds: Int64? { response.header("date").flatMap(HTTPDate.seconds).map { $0 * 1000 } }

  /// What is wrong; nil for a success. `sizeBytes` is the file's, and `digestField` may name the SHA-256 of a duplicate.
  func failure(at address: String, sizeBytes: UInt64, digestField: String) -> StepFailure? {
    let retryAfter = RetryAfter.duration(of: response)
    let said = "The server at \(address) answered \(status)\(words.quoted)"
    if words.limitOfPHP.isNamed, status >= 400 {
      return StepFailure(
        .tooLarge(limitBytes: words.limitOfPHP.bytes ?? limit), tooLarge("\(said), a limit of PHP", sizeBytes))
    }
    if let common = CommonStatus(status) {
      var failure = common.failure(response, said, own: ownWords(for: common, said))
      // The server may have the file: each try may leave one more there.
      if common == .gateway { failure.kind = .misdirected }
      return failure
    }
    switch status {
    case 200..<300:
      guard saysNo else { return nil }
      return StepFailure(.badRequest, "\(said), and its JSON says that this is no success.")
    case 409: return StepFailure(.nameRefused, "\(said). \(duplicate(digestField))")
    case 413: return StepFailure(.tooLarge(limitBytes: limit), tooLarge(said, sizeBytes))
    case 400..<500: return StepFailure(.badRequest, "\(said).")
    // One failing script says little about the next file.
    case 500..<600:
      return StepFailure(
        .unexpectedAnswer, "\(said). Its error log says more.\(Self.limitsOfPHP(sizeBytes))", retryAfter: retryAfter)
    default: return StepFailure(.unexpectedAnswer, "\(said), which is not expected.")
    }
  }

  private func ownWords(for common: CommonStatus, _ said: String) -> String? {
    switch common {
    case .leadsElsewhere:
      "\(said), which leads elsewhere\(CommonStatus.place(of: response)): a login page, or the form has moved. Whether it has the file is not "
        + "known; it is tried again after long pauses, and at once by “uploadfs-mount retry”. Check --to and the credentials."
    case .unauthorized: "\(said). Check --basic-auth-file, --token-file or --token-command."
    case .forbidden: "\(said). The credentials may not do this, or an application firewall refuses the file."
    case .gateway:
      "\(said): what is behind it does not answer. Whether it has the file is not known; it is tried again after long pauses, and at "
        + "once by “uploadfs-mount retry”."
    case .proxyWantsPassword, .timedOut, .tooEarly, .busy, .full, .networkWantsLogin: nil
    }
  }

  /// A script that was not given the file because PHP had dropped it seldom says so.
  private static func limitsOfPHP(_ sizeBytes: UInt64) -> String {
    guard sizeBytes > 2 << 20 else { return "" }
    return
      " Scripts in PHP fail so where a file of \(sizeBytes) bytes is larger than upload_max_filesize (2 MB if not set) or "
      + "post_max_size (8 MB)."
  }

  /// What a conflict is about, as far as it can be told.
  private func duplicate(_ field: String) -> String {
    if json?.member(at: field) != nil {
      return "It has a file of this name with another content. Rename the file, and it is sent again."
    }
    return
      "It has a file of this name, or this content, already. Look there; then remove or rename the file. Where its answer "
      + "names the SHA-256 of what it has, --form-digest-field makes the same content a delivery."
  }

  /// 413 has many authors, and the answer seldom says which.
  private func tooLarge(_ said: String, _ sizeBytes: UInt64) -> String {
    "\(said): a file of \(sizeBytes) bytes is too large for it. The limit is usually one of: \(RequestLimitAdvice.settings). "
      + "Raise it there, or set --max-upload-size, so that such files are not sent in vain."
  }

  /// What some servers say in spite of a status that means success.
  private var saysNo: Bool {
    for key in ["success", "ok"] { if json?[key] == .bool(false) { return true } }
    guard case .string(let text)? = json?["status"] else { return false }
    return ["error", "fail", "failed"].contains(text.lowercased())
  }

  private var limit: UInt64? {
    if case .integer(let number)? = json?["limit"], number > 0 { return UInt64(number) }
    return nil
  }
}

import ChunkProtocol
import Lookup
import TransferModel

/// Whether a form's answer means that it has the file. A status alone does not: login pages and scripts that failed come with 200.
struct FormSuccess {
  let response: HTTPResponse
  let address: String
  let options: FormOptions

  /// Why this is no success, and no refusal whose status says what it means; nil for anything else.
  var failure: StepFailure? {
    switch response.status {
    case 200..<300: failureOfSuccess
    // Many forms lead on to another page once they have the file.
    case 300..<400 where options.unclear == .hold:
      unclear("The server at \(address) answered \(response.status), which leads elsewhere")
    // A gateway that has waited in vain: the script may have taken it.
    case 500..<600 where options.unclear == .hold && CommonStatus(response.status) == .gateway:
      unclear("The server at \(address) answered \(response.status), by a gateway before it")
    // Scripts that fail answer with pages of their own.
    case 500..<511, 512..<600: nil
    // A form has no mark of its own: it may be its page.
    default: response.isForeignPage ? page("It is tried again; check --to and what lies between.") : nil
    }
  }

  private var failureOfSuccess: StepFailure? {
    let said = "The server at \(address) answered \(response.status)"
    if let mark = options.successText {
      if response.body.holds(Array(mark.utf8)) { return nil }
      let lacks = "does not hold “\(PrintableText.beginning(of: mark))” (--form-success)"
      return response.isPage ? unclearPage("It \(lacks)") : unclear("\(said), but its answer \(lacks)")
    }
    if response.isPage {
      return unclearPage("If it is the form's own page, --form-success TEXT names what a success holds")
    }
    guard response.status < 206 else { return unclear("\(said), which is no success of an upload") }
    if let coding = response.header("content-encoding"), coding.lowercased() != "identity", !response.body.isEmpty {
      return unclear("\(said) in an encoding that was not asked for, so that nobody knows what")
    }
    guard claimsToBeJSON else { return nil }
    guard let json = JSONReader.value(of: response.body) else {
      return unclear("\(said), but its JSON cannot be read")
    }
    guard json.saysNo() else { return nil }
    let words = PrintableText.beginning(of: PrintableText.text(response.body, bytesMax: 1024))
    return StepFailure(.badRequest, "\(said) (“\(words)”), and its JSON says that this is no success.")
  }

  private var claimsToBeJSON: Bool {
    let isMarked = response.body.starts(with: [0xef, 0xbb, 0xbf])
    let text = response.body.dropFirst(isMarked ? 3 : 0)
    guard let first = text.first(where: { ![0x20, 0x09, 0x0a, 0x0d].contains($0) }) else { return false }
    if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") { return true }
    let type = response.header("content-type")?.lowercased().prefix { $0 != ";" } ?? ""
    return type == "application/json" || type.hasSuffix("+json")
  }

  /// The file may be there all the same.
  private func unclear(_ what: String) -> StepFailure {
    switch options.unclear {
    case .retry: unexpected(what)
    case .hold:
      StepFailure(
        .unclearEnd,
        "\(what). Look there, and then use `uploadfs-mount retry` or `uploadfs-mount cancel` (--form-unclear hold).")
    }
  }

  /// It may be the form's own page, or that of something in between, which says nothing of the file. One in which PHP complains of the
  /// file's length is the form's.
  private func unclearPage(_ more: String) -> StepFailure {
    switch options.unclear {
    case .retry where ServerErrorText(response).limitOfPHP.isNamed:
      unexpected(
        "The server at \(address) answered \(response.status)\(ServerErrorText(response).quoted), a limit of PHP")
    case .retry: page("\(more). It is tried again after long pauses, and at once by “uploadfs-mount retry”.")
    case .hold: unclear("\(StepFailure.whatAnswered(response, at: address)). \(more)")
    }
  }

  /// Each try may leave one more file at the server.
  private func page(_ more: String) -> StepFailure {
    StepFailure(
      .misdirected, "\(StepFailure.whatAnswered(response, at: address)). \(more)",
      retryAfter: RetryAfter.duration(of: response))
  }

  private func unexpected(_ what: String) -> StepFailure {
    StepFailure(.unexpectedAnswer, "\(what).", retryAfter: RetryAfter.duration(of: response))
  }
}

extension JSONValue {
  private static var depthMax: Int { 16 }

  /// It says that something failed: itself, or what is in it.
  fileprivate func saysNo(depth: Int = 0) -> Bool {
    guard depth < Self.depthMax else { return false }
    switch self {
    case .null, .bool, .integer, .number, .string: return false
    case .array(let elements): return elements.contains { $0.saysNo(depth: depth + 1) }
    case .object(let members):
      for key in ["error", "errors"] { if members[key]?.isSomething == true { return true } }
      for key in ["success", "ok"] { if members[key]?.isFalse == true { return true } }
      switch members["status"] {
      case .string(let text)? where ["error", "fail", "failed"].contains(text.lowercased()): return true
      case .integer(let number)? where (400..<600).contains(number): return true
      case .string(let text)? where Int(text).map((400..<600).contains) ?? false: return true
      case .bool(false)?: return true
      default: return members.containsValue { $0.saysNo(depth: depth + 1) }
      }
    }
  }

  /// An error that is there.
  private var isSomething: Bool {
    switch self {
    case .null: false
    case .bool(let value): value
    case .integer(let number): number != 0
    case .number(let number): number != 0
    case .string(let text): !["", "0", "false", "no", "none", "null", "ok"].contains(text.lowercased())
    case .array(let elements): !elements.isEmpty
    case .object(let members): !members.isEmpty
    }
  }

  /// A success that is none.
  private var isFalse: Bool {
    switch self {
    case .bool(let value): !value
    case .integer(let number): number == 0
    case .number(let number): number == 0
    case .string(let text): ["", "0", "false", "no", "error", "fail", "failed"].contains(text.lowercased())
    case .null, .array, .object: false
    }
  }
}

extension [UInt8] {
  fileprivate func holds(_ text: [UInt8]) -> Bool { firstRange(of: text) != nil }
}

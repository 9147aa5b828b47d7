import ChunkProtocol
import Lookup
import UploadEngine

/// What the server of a form answered, and what follows from it. Forms agree on little: the status decides, and JSON is
/// looked at for what many of them say.
struct FormAnswer {
  let status: Int
  private let response: HTTPResponse
  private let json: JSONValue?

  private static let jsonBytesMax = 64 << 10

  init(_ response: HTTPResponse) {
    self.response = response
    status = response.status
    json =
      response.body.count <= Self.jsonBytesMax ? try? WireJSON.decode(JSONValue.self, from: response.body) : nil
  }

  /// The JSON as it is kept: what the server said, without the blanks between.
  var keptJSON: String? { json.map { String(decoding: WireJSON.encode($0), as: UTF8.self) } }

  /// The server's name for the file, if it says one.
  var id: String? {
    for key in ["id", "uuid", "file_id", "upload_id"] {
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

  /// What is wrong; nil for a success. `sizeBytes` is the file's.
  func failure(at address: String, sizeBytes: UInt64) -> StepFailure? {
    let retryAfter = RetryAfter.duration(of: response)
    let said = "The server at \(address) answered \(status)\(message)"
    switch status {
    case 200..<300:
      guard saysNo else { return nil }
      return StepFailure(.badRequest, "\(said), and its JSON says that this is no success.")
    case 300..<400:
      let place = response.header("location").map { " to \(PrintableText.beginning(of: $0))" } ?? ""
      return StepFailure(
        .badRequest,
        "\(said), which leads\(place): a login page, or the form has moved. Check --to and the credentials.")
    case 401: return StepFailure(.unauthorized, "\(said). Check --basic-auth-file, --token-file or --token-command.")
    case 403:
      return StepFailure(
        .forbidden, "\(said). The credentials may not do this, or an application firewall refuses the file.")
    case 407: return StepFailure(.unauthorized, "A proxy on the way to \(address) asks for a password (407).")
    case 408: return StepFailure(.transport(.timedOut), "\(said): it waited in vain for the rest of the request.")
    case 409: return StepFailure(.nameRefused, "\(said). There may be a file of this name.")
    case 413: return StepFailure(.tooLarge(limitBytes: limit), tooLarge(said, sizeBytes))
    case 425: return StepFailure(.tooEarly, "\(said).")
    case 429, 503: return StepFailure(.busy, "\(said): it asks for a pause.", retryAfter: retryAfter)
    case 507:
      return StepFailure(.insufficientStorage, "\(said): its storage or the quota is full.", retryAfter: retryAfter)
    case 400..<500: return StepFailure(.badRequest, "\(said).")
    // One failing script says little about the next file.
    case 500..<600: return StepFailure(.unexpectedAnswer, "\(said). Its error log says more.", retryAfter: retryAfter)
    default: return StepFailure(.unexpectedAnswer, "\(said), which is not expected.")
    }
  }

  /// 413 has many authors, and the answer seldom says which.
  private func tooLarge(_ said: String, _ sizeBytes: UInt64) -> String {
    "\(said): a file of \(sizeBytes) bytes is too large for it. The limit is usually one of: nginx client_max_body_size, "
      + "Apache LimitRequestBody, an application firewall (ModSecurity SecRequestBodyLimit, a CDN's plan), PHP "
      + "upload_max_filesize and post_max_size. Raise it there, or set --max-upload-size, so that such files are not sent "
      + "in vain."
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

  /// The server's own words.
  private var message: String {
    for key in ["error", "message", "detail", "title"] {
      switch json?[key] {
      case .string(let text)? where !text.isEmpty: return " (“\(PrintableText.beginning(of: text))”)"
      case .object(let members)?:
        if case .string(let text)? = members["message"], !text.isEmpty {
          return " (“\(PrintableText.beginning(of: text))”)"
        }
      default: continue
      }
    }
    guard json == nil, response.header("content-type")?.hasPrefix("text/plain") == true, !response.body.isEmpty else {
      return ""
    }
    return " (“\(PrintableText.beginning(of: String(decoding: response.body.prefix(1024), as: UTF8.self)))”)"
  }
}

/// Any JSON.
enum JSONValue: Hashable, Codable {
  case null
  case bool(Bool)
  case integer(Int64)
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object(LookupTable<String, JSONValue>)

  init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .integer(value)
    } else if let value = try? container.decode(Double.self), value.isFinite {
      self = .number(value)
    } else if let value = try? container.decode(String.self) {
      self = .string(value)
    } else if let value = try? container.decode([JSONValue].self) {
      self = .array(value)
    } else {
      self = .object(try container.decode(LookupTable<String, JSONValue>.self))
    }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    switch self {
    case .null: try container.encodeNil()
    case .bool(let value): try container.encode(value)
    case .integer(let value): try container.encode(value)
    case .number(let value): try container.encode(value)
    case .string(let value): try container.encode(value)
    case .array(let value): try container.encode(value)
    case .object(let value): try container.encode(value)
    }
  }

  /// A member of an object.
  subscript(key: String) -> JSONValue? {
    if case .object(let members) = self { members[key] } else { nil }
  }
}

/// One member's part of the answer to a bundle or a run: the response that the member would have got alone.
public struct BundleAnswer: Sendable {
  /// The status.
  public var status: Int
  /// The header fields. Content-Length is the body's, and need not be among them.
  public var fields: [(name: String, value: String)]
  /// The body.
  public var body: [UInt8]

  /// An answer.
  public init(status: Int, fields: [(name: String, value: String)], body: [UInt8]) {
    self.status = status
    self.fields = fields
    self.body = body
  }

  /// Writes the answer behind those of earlier members.
  public func append(to bytes: inout [UInt8]) {
    MessageHead.append(
      startLine: "\(BundleAnswer.version)\(status) \(BundleAnswer.reason(status))", fields: fields,
      contentLength: body.count, to: &bytes)
    bytes += body
  }

  /// Reads the body of the answer to a bundle or a run. The bytes come from the network: whatever they are, this returns or throws.
  public static func read(
    _ bytes: [UInt8], membersMax: Int = ProtocolLimits.bundleFilesMax
  ) throws(BundleViolation) -> [BundleAnswer] {
    try bytes.withUnsafeBufferPointer { (bytes) throws(BundleViolation) in
      var answers: [BundleAnswer] = []
      var rest = UnsafeRawBufferPointer(bytes)
      while !rest.isEmpty {
        guard answers.count < membersMax else { throw .tooManyMembers }
        answers.append(try next(&rest))
      }
      return answers
    }
  }

  private static let version = "HTTP/1.1 "

  private static func next(_ rest: inout UnsafeRawBufferPointer) throws(BundleViolation) -> BundleAnswer {
    let headBytes = try endOfHead(rest)
    let message = try MessageHead(UnsafeRawBufferPointer(rebasing: rest[..<headBytes]))
    guard let status = status(message.startLine) else {
      throw .malformed("an answer begins with HTTP/1.1 and a status")
    }
    rest = UnsafeRawBufferPointer(rebasing: rest[headBytes...])
    guard let length = Int(exactly: message.contentLength), length <= rest.count else { throw .brokenOff }
    let answer = BundleAnswer(status: status, fields: message.fields, body: Array(rest[..<length]))
    rest = UnsafeRawBufferPointer(rebasing: rest[length...])
    return answer
  }

  private static func endOfHead(_ bytes: UnsafeRawBufferPointer) throws(BundleViolation) -> Int {
    let searched = bytes.prefix(ProtocolLimits.bundleHeadBytesMax)
    var (lineBytes, count) = (0, 0)
    for byte in searched {
      count += 1
      switch byte {
      case 0x0d: break
      case 0x0a where lineBytes == 0: return count
      case 0x0a: lineBytes = 0
      default: lineBytes += 1
      }
    }
    guard searched.count == bytes.count else { throw .headTooLong }
    throw .brokenOff
  }

  /// `HTTP/1.1 201 Created`; the words may be missing.
  private static func status(_ line: String) -> Int? {
    guard line.hasPrefix(version) else { return nil }
    let text = line.utf8.dropFirst(version.utf8.count)
    let digits = text.prefix(3)
    guard digits.count == 3, text.dropFirst(3).first ?? 0x20 == 0x20,
      let status = DecimalText.unsigned(Substring(digits), as: UInt16.self), (100...599).contains(status)
    else { return nil }
    return Int(status)
  }

  /// For people; programs go by the number.
  private static func reason(_ status: Int) -> String {
    switch status {
    case 200: "OK"
    case 201: "Created"
    case 400: "Bad Request"
    case 404: "Not Found"
    case 405: "Method Not Allowed"
    case 408: "Request Timeout"
    case 409: "Conflict"
    case 410: "Gone"
    case 413: "Content Too Large"
    case 422: "Unprocessable Content"
    case 429: "Too Many Requests"
    case 500: "Internal Server Error"
    case 503: "Service Unavailable"
    case 507: "Insufficient Storage"
    default: ""
    }
  }
}

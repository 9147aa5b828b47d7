import Integrity
import Quantities

/// AWS Signature Version 4 in the `Authorization` field, as its specification says
/// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
///
/// Not a library's: an SDK for AWS brings an HTTP client of its own, and would sign another text than the one that ``S3Query`` sends.
struct SignatureV4 {
  /// The bytes that are signed beside the body.
  struct Request {
    var method: String
    /// Percent-encoded once, and not normalised: S3's rule, where other services encode twice.
    var path: String
    var query: S3Query
    /// All of them are signed. Values have no blanks around them and no two in a row.
    var headers: [(name: String, value: String)]
    /// Hexadecimal SHA-256 of the body.
    var payloadSHA256: String
  }

  var region: String
  var service = "s3"

  /// The value of the `Authorization` field.
  func authorization(for request: Request, at time: SigningTime, with credentials: S3Credentials) -> String {
    let headers = Self.sorted(request.headers)
    let signedHeaders = headers.map(\.name).joined(separator: ";")
    let scope = "\(time.date)/\(region)/\(service)/aws4_request"
    let stringToSign = [
      "AWS4-HMAC-SHA256", time.timestamp, scope,
      Hex.encode(sha256(Array(Self.canonicalRequest(request, headers, signedHeaders).utf8))),
    ].joined(separator: "\n")
    let signature = HMACSHA256.authenticate(
      Array(stringToSign.utf8), key: signingKey(credentials.secretAccessKey, date: time.date))
    return "AWS4-HMAC-SHA256 Credential=\(credentials.accessKeyID)/\(scope), SignedHeaders=\(signedHeaders), "
      + "Signature=\(Hex.encode(signature))"
  }

  /// Bound to the day, the region and the service, so that one that leaks is of little use.
  private func signingKey(_ secret: String, date: String) -> [UInt8] {
    [date, region, service, "aws4_request"].reduce(Array("AWS4\(secret)".utf8)) { key, part in
      HMACSHA256.authenticate(Array(part.utf8), key: key)
    }
  }

  private static func canonicalRequest(
    _ request: Request, _ headers: [(name: String, value: String)], _ signedHeaders: String
  ) -> String {
    let lines = headers.map { "\($0.name):\($0.value)\n" }.joined()
    return [
      request.method, request.path, request.query.canonicalText, lines, signedHeaders, request.payloadSHA256,
    ].joined(separator: "\n")
  }

  private static func sorted(_ headers: [(name: String, value: String)]) -> [(name: String, value: String)] {
    headers.map { (name: $0.name.lowercased(), value: $0.value) }
      .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
  }
}

/// A moment as signatures write it.
struct SigningTime: Hashable {
  /// As `20130524T000000Z`.
  let timestamp: String
  /// As `20130524`.
  var date: String { String(timestamp.prefix(8)) }

  /// A time in seconds since 1970.
  init(secondsSince1970 seconds: Int64) {
    let time = CivilTime(secondsSince1970: seconds)
    let day = CivilTime.padded(time.date.year, 4) + Self.twoDigits([time.date.month, time.date.day])
    timestamp = "\(day)T\(Self.twoDigits([time.hour, time.minute, time.second]))Z"
  }

  private static func twoDigits(_ numbers: [Int64]) -> String {
    numbers.map { CivilTime.padded($0, 2) }.joined()
  }
}

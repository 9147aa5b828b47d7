import Integrity

/// AWS Signature Version 4 in the `Authorization` field, as its specification says
/// (https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html).
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
    let (days, rest) = (seconds / 86_400, seconds % 86_400)
    let secondOfDay = rest < 0 ? rest + 86_400 : rest
    let (year, month, day) = CivilDate.date(daysSince1970: rest < 0 ? days - 1 : days)
    timestamp =
      Self.digits(year, 4) + Self.digits(month, 2) + Self.digits(day, 2) + "T"
      + Self.digits(secondOfDay / 3600, 2) + Self.digits(secondOfDay / 60 % 60, 2) + Self.digits(secondOfDay % 60, 2)
      + "Z"
  }

  private static func digits(_ number: Int64, _ count: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
  }
}

/// The Gregorian calendar, counted in years that begin in March, so that the leap day comes last.
enum CivilDate {
  static func date(daysSince1970 days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
  }
}

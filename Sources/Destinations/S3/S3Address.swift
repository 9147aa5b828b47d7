import ChunkProtocol

/// An `s3+https://endpoint[:port]/bucket[/prefix]` address, checked.
public struct S3Address: Hashable, Sendable {
  /// How a request names the bucket.
  public enum Style: String, CaseIterable, Sendable {
    /// In front of the key. Every server understands it.
    case path
    /// In the host's name, as AWS wants it.
    case virtualHost = "virtual-host"
  }

  /// As it was given, without a slash at the end; for people.
  public let text: String
  /// The endpoint without bucket.
  public let endpoint: EndpointURL
  /// The bucket.
  public let bucket: String
  /// Stands in front of every key: empty, or not encoded and with a slash at its end.
  public let prefix: String

  /// The scheme's twins, by which such an address is known.
  public static let schemes = ["s3+https", "s3+http"]

  /// Whether this looks like an address of S3.
  public static func isOne(_ address: String) -> Bool {
    schemes.contains { address.lowercased().hasPrefix("\($0)://") }
  }

  /// Checks an address. Plain http is accepted for this machine, and for others when `allowPlainHTTP` says so.
  public init(_ address: String, allowPlainHTTP: Bool) throws(DestinationError) {
    let whole = try EndpointURL(String(address.drop { $0 != "+" }.dropFirst()), allowPlainHTTP: allowPlainHTTP)
    guard Self.isOne(address), let authority = whole.text.firstRange(of: "://"),
      let slash = whole.text[authority.upperBound...].firstIndex(of: "/")
    else {
      throw DestinationError(
        .invalidURL, "The address \(address) names no bucket; it should be s3+https://endpoint/bucket[/prefix].")
    }
    let parts = whole.text[slash...].split(separator: "/")
    guard let first = parts.first, let bucket = PercentCoding.decode(first), Self.isBucket(bucket) else {
      throw DestinationError(
        .invalidURL,
        "The address \(address) has no valid bucket: 3 to 63 small letters, digits, dots and hyphens, with a letter or "
          + "digit at both ends.")
    }
    // Each would silently become another key than the one that was written.
    let path = address.firstRange(of: "://").map { address[$0.upperBound...] } ?? ""
    guard !path.contains("//"), !path.lowercased().contains("%2f") else {
      throw DestinationError(
        .invalidURL,
        "The prefix of the address \(address) has an empty part (//) or a slash that is encoded (%2F); write single slashes."
      )
    }
    guard let prefix = PercentCoding.decode(parts.dropFirst().joined(separator: "/")) else {
      throw DestinationError(.invalidURL, "The prefix of the address \(address) is not percent-encoded UTF-8.")
    }
    guard prefix.utf8.count < S3Limits.prefixBytesMax else {
      throw DestinationError(
        .invalidURL,
        "The prefix of the address has \(prefix.utf8.count) bytes. A key has at most \(S3Limits.keyBytesMax), and a path has to fit behind it: "
          + "use one of less than \(S3Limits.prefixBytesMax).")
    }
    text = "s3+\(whole.text)"
    endpoint = try EndpointURL(String(whole.text[..<slash]), allowPlainHTTP: allowPlainHTTP)
    self.bucket = bucket
    self.prefix = prefix.isEmpty ? "" : prefix + "/"
  }

  /// AWS wants the bucket in the host's name, where a certificate covers it; others are asked in the path.
  public var usualStyle: Style { isAWS && !bucket.contains(".") ? .virtualHost : .path }

  /// What most servers take that know no regions.
  public static let regionDefault = "us-east-1"

  /// What the host's name says of the region; nil when it says nothing.
  public var regionOfHost: String? {
    if endpoint.host.hasSuffix(".r2.cloudflarestorage.com") { return "auto" }
    let knowsRegions = isAWS || [".backblazeb2.com", ".wasabisys.com"].contains { endpoint.host.hasSuffix($0) }
    let labels = endpoint.host.split(separator: ".").filter { $0 != "dualstack" }
    // s3.REGION.provider.tld
    return knowsRegions && labels.count >= 4 && labels[0] == "s3" ? String(labels[1]) : nil
  }

  /// It is documented that conditions are kept, of PUTs and of completions.
  var keepsConditions: Bool { isAWS }

  private var isAWS: Bool {
    endpoint.host.hasSuffix(".amazonaws.com") || endpoint.host.hasSuffix(".amazonaws.com.cn")
  }

  private static func isBucket(_ name: String) -> Bool {
    guard (3...63).contains(name.utf8.count), let first = name.utf8.first, let last = name.utf8.last else {
      return false
    }
    return isLetterOrDigit(first) && isLetterOrDigit(last)
      && name.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") }
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}

import CCurl
import Quantities

/// What a server's certificate says of itself, as libcurl tells it.
public struct PeerCertificate: Hashable, Sendable {
  /// Whose it is.
  public var subject = ""
  /// Who has signed it.
  public var issuer = ""
  /// Host names and addresses that it is for, as `DNS:upload.example.org` and `IP Address:192.0.2.1`.
  public var names: [String] = []
  /// Seconds since 1970 from which on it is valid; nil when that is not understood.
  public var validFromSeconds: Int64?
  /// Seconds since 1970 up to which it is valid; nil when that is not understood.
  public var validUntilSeconds: Int64?

  /// A certificate of which nothing is known.
  public init() {}

  /// Takes libcurl's lines, each `Name:value`.
  init(lines: [String]) {
    for line in lines {
      guard let colon = line.firstIndex(of: ":") else { continue }
      let value = String(line[line.index(after: colon)...])
      switch line[..<colon] {
      case "Subject": subject = value
      case "Issuer": issuer = value
      case "Start date": validFromSeconds = CertificateTime.seconds(value)
      case "Expire date": validUntilSeconds = CertificateTime.seconds(value)
      case "X509v3 Subject Alternative Name":
        names = value.split(separator: ",").map { String($0.drop { $0 == " " }) }
      default: break
      }
    }
  }

  /// Signed by itself: no authority has vouched for it.
  public var isSelfSigned: Bool { !subject.isEmpty && subject == issuer }

  /// Whether it is for this host: a name, one that a `*` stands for, or an address.
  public func covers(_ host: String) -> Bool {
    let host = host.lowercased()
    return names.contains { name in
      if let address = Self.value(of: name, kind: "IP Address:") { return Self.isSameAddress(address, host) }
      guard let pattern = Self.value(of: name, kind: "DNS:")?.lowercased() else { return false }
      guard pattern.hasPrefix("*.") else { return pattern == host }
      // The star stands for one label.
      return host.firstIndex(of: ".").map { host[$0...] == pattern.dropFirst() } ?? false
    }
  }

  private static func value(of name: String, kind: String) -> String? {
    name.hasPrefix(kind) ? String(name.dropFirst(kind.count)) : nil
  }

  /// OpenSSL writes all eight groups of an IPv6 address.
  private static func isSameAddress(_ left: String, _ right: String) -> Bool {
    left.lowercased() == right || IPv6Groups(left).map { $0 == IPv6Groups(right) } ?? false
  }
}

/// An IPv6 address as eight numbers.
private struct IPv6Groups: Equatable {
  private let groups: [UInt16]

  init?(_ text: String) {
    guard text.contains(":") else { return nil }
    let halves = text.split(separator: "::", maxSplits: 1, omittingEmptySubsequences: false)
    let parts = halves.map { half in half.split(separator: ":").map { UInt16($0, radix: 16) } }
    guard let first = parts.first, !parts.joined().contains(nil) else { return nil }
    let last = parts.count > 1 ? parts[1] : []
    let missing = 8 - first.count - last.count
    guard parts.count > 1 ? missing >= 1 : missing == 0 else { return nil }
    groups = (first + Array(repeating: 0, count: missing) + last).compactMap { $0 }
  }
}

/// Times as OpenSSL prints them: `Nov 22 04:50:28 2026 GMT`.
enum CertificateTime {
  /// Seconds since 1970; nil for anything else.
  static func seconds(_ text: String) -> Int64? {
    let parts = text.split(separator: " ")
    guard parts.count >= 4, let month = CivilDate.monthNames.firstIndex(of: String(parts[0])),
      let day = Int64(parts[1]), let year = Int64(parts[3]), (1...31).contains(day), (1...9999).contains(year)
    else { return nil }
    let clock = parts[2].split(separator: ":").map { Int64($0) ?? -1 }
    guard clock.count == 3, (0..<24).contains(clock[0]), (0..<60).contains(clock[1]), (0...60).contains(clock[2])
    else { return nil }
    let date = CivilDate(year: year, month: Int64(month) + 1, day: day)
    return CivilTime(date, hour: clock[0], minute: clock[1], second: clock[2]).secondsSince1970
  }
}

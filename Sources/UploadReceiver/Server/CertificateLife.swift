import Logging

/// Until when the certificate, and those above it in its file, are valid, and what is said of that.
struct CertificateLife: Hashable, Sendable {
  /// It is said so long before the first one ends.
  static let noticeSeconds: Int64 = 14 * 86_400

  /// Seconds since 1970 at which the last one becomes valid.
  var beginsAt: Int64
  /// Seconds since 1970 at which the first one ends.
  var endsAt: Int64

  /// What is wrong at this time, or will be soon; nil where nothing is.
  func trouble(at now: Int64) -> (level: Logger.Level, words: String)? {
    let advice = "put a new one in the place of --certificate, and send the receiver SIGHUP, or restart it"
    if now >= endsAt {
      return (
        .error,
        "the certificate, or one above it, ended \(Self.span(now - endsAt)) ago, and no client connects: \(advice)"
      )
    }
    if now < beginsAt {
      return (
        .error,
        "the certificate, or one above it, is not valid before \(Self.span(beginsAt - now)) from now, and no client connects: see to the clock, or \(advice)"
      )
    }
    guard endsAt - now <= Self.noticeSeconds else { return nil }
    return (.warning, "the certificate, or one above it, ends in \(Self.span(endsAt - now)): \(advice)")
  }

  private static func span(_ seconds: Int64) -> String {
    guard seconds < 2 * 86_400 else { return "\(seconds / 86_400) days" }
    let hours = max(1, seconds / 3600)
    return hours == 1 ? "an hour" : "\(hours) hours"
  }
}

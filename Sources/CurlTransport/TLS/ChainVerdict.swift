import Quantities

/// Why OpenSSL does not trust a chain of certificates, in words that say what to do.
enum ChainVerdict {
  /// One sentence, without OpenSSL's own words.
  static func words(_ chain: ChainFacts, host: String) -> String {
    let whose =
      chain.errorDepth == 0 ? "the certificate of \(host)" : "the certificate of an authority behind that of \(host)"
    switch chain.error {
    case 10: return "\(whose) has expired\(day(chain.validUntilSeconds))"
    case 9: return "\(whose) is not yet valid: it begins\(day(chain.validFromSeconds))"
    case 18:
      return
        "the certificate of \(host) is signed by itself, and is none that this machine trusts; if it is the right one, "
        + "give it with --ca FILE"
    case 2, 19, 20, 21, 27:
      return "the certificate of \(host) comes from an authority that this machine does not trust; if it is the right "
        + "one, give its certificate with --ca FILE"
    default: return "the certificate of \(host) was refused"
    }
  }

  /// ` on 2026-11-22`; empty when that is not known.
  static func day(_ seconds: Int64?) -> String {
    seconds.map { " on \(Timestamp.text(CivilTime(secondsSince1970: $0).date))" } ?? ""
  }
}

/// What the OCSP response that came with a certificate is worth.
public enum StapleVerdict: Hashable, Sendable {
  /// None came.
  case none
  /// Not revoked; valid until then, seconds since 1970, nil where it does not say.
  case good(untilSeconds: Int64?)
  /// Revoked at that time.
  case revoked(atSeconds: Int64?)
  /// One came that does not count, for this reason.
  case unusable(String)

  /// Clocks may differ by so much.
  private static let toleranceSeconds: Int64 = 300

  /// At a time, seconds since 1970.
  static func of(_ staple: StapleFacts, nowSeconds: Int64) -> StapleVerdict {
    switch staple {
    case .none: return .none
    case .unreadable: return .unusable("is none that can be read")
    case .forged: return .unusable("is signed by nobody who may sign for the certificate's authority")
    case .foreign: return .unusable("is about another certificate")
    // Whom an authority has given up it does not take back: it counts however old it is.
    case .signed(.revoked(let seconds), _, _): return .revoked(atSeconds: seconds)
    case .signed(let status, let from, let until):
      if let from, from - toleranceSeconds > nowSeconds { return .unusable("begins\(ChainVerdict.day(from))") }
      if let until, until + toleranceSeconds < nowSeconds { return .unusable("has expired\(ChainVerdict.day(until))") }
      guard status == .good else { return .unusable("says that the authority does not know the certificate") }
      return .good(untilSeconds: until)
    }
  }
}

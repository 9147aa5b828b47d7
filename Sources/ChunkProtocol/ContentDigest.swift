public import Integrity

/// The `Content-Digest` field (RFC 9530): SHA-256 of a body as sent.
///
/// Not read by a parser of structured fields, as the fields of other servers are (`StructuredField` of Destinations): one member counts,
/// whatever the others are, and both sides of the protocol would need the library for this field alone.
public enum ContentDigest {
  /// What a field says about SHA-256.
  public enum Reading: Hashable, Sendable {
    /// The digest.
    case sha256(Digest32)
    /// Only other algorithms, which a reader may ignore.
    case absent
    /// Not a field of this kind.
    case malformed
  }

  /// `sha-256=:…:`.
  public static func headerValue(sha256: Digest32) -> String {
    "sha-256=:\(Base64.encode(sha256)):"
  }

  /// Reads a field, which may list several algorithms.
  public static func read(_ headerValue: String) -> Reading {
    var reading = Reading.absent
    for member in headerValue.split(separator: ",", omittingEmptySubsequences: false) {
      let text = member.trimmingSpaces()
      guard let equals = text.firstIndex(of: "=") else { return .malformed }
      let value = text[text.index(after: equals)...]
      guard value.utf8.count >= 2, value.hasPrefix(":"), value.hasSuffix(":") else { return .malformed }
      guard text[..<equals] == "sha-256" else { continue }
      guard let digest = Base64.decode(String(value.dropFirst().dropLast())).flatMap({ Digest32($0) }) else {
        return .malformed
      }
      reading = .sha256(digest)
    }
    return reading
  }
}

extension Substring {
  fileprivate func trimmingSpaces() -> Substring {
    let start = drop { $0 == " " || $0 == "\t" }
    guard let last = start.lastIndex(where: { $0 != " " && $0 != "\t" }) else { return start[start.endIndex...] }
    return start[...last]
  }
}

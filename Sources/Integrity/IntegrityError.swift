/// Why sealing, opening or making a certificate failed.
public enum IntegrityError: Error, Hashable, Sendable {
  /// The sealed bytes are too short, were changed, or belong to another key or context.
  case notAuthentic
  /// The key does not have the algorithm's size.
  case keySize(expected: Int, actual: Int)
  /// OpenSSL refused; in its own words where it has some.
  case library(String)
}

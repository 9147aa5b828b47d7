import ChunkProtocol

/// The query of a request, in the one form that is both sent and signed.
struct S3Query {
  /// Percent-encoded, sorted by name, `name=value` also where there is no value.
  let canonicalText: String

  init(_ items: [(name: String, value: String)] = []) {
    canonicalText =
      items.map { (PercentCoding.encode($0.name), PercentCoding.encode($0.value)) }
      .sorted { ($0.0, $0.1) < ($1.0, $1.1) }
      .map { "\($0.0)=\($0.1)" }
      .joined(separator: "&")
  }
}

/// Names of header fields, in the case in which they are written; compared without regard to case.
public enum HeaderName {
  /// `Bearer TOKEN` or `Basic …`.
  public static let authorization = "Authorization"
  /// SHA-256 of the chunk's plain bytes, 64 hexadecimal digits.
  public static let chunkSHA256 = "X-Chunk-SHA256"
  /// CRC32C of the chunk's plain bytes, 8 hexadecimal digits, most significant first.
  public static let chunkCRC32C = "X-Chunk-CRC32C"
  /// The number of the chunk's plain bytes.
  public static let chunkSize = "X-Chunk-Size"
  /// How the body is coded: see ``ChunkEncoding``.
  public static let chunkEncoding = "X-Chunk-Encoding"
  /// The chunk's MAC, 64 hexadecimal digits.
  public static let chunkHMAC = "X-Chunk-HMAC"
  /// The nonce of a whole-file request, 64 hexadecimal digits.
  public static let chunkNonce = "X-Chunk-Nonce"
  /// RFC 9530: SHA-256 of the body as sent.
  public static let contentDigest = "Content-Digest"
  /// A quoted string; see ``IdempotencyKey``.
  public static let idempotencyKey = "Idempotency-Key"
  /// Seconds, or a date.
  public static let retryAfter = "Retry-After"
  /// Last change of a whole file, nanoseconds since 1970.
  public static let fileModifiedNanoseconds = "X-File-Modified-Ns"
  /// Permission bits of a whole file, decimal.
  public static let fileMode = "X-File-Mode"
  /// The client's identity of a whole file.
  public static let fileID = "X-File-Id"
  /// What to do when the name is taken; see ``IfExists``.
  public static let ifExists = "X-If-Exists"
  /// What to do when the name is another capture's; see ``NameOwnership``.
  public static let ifTaken = "X-If-Taken"
  /// Publications that may be replaced; see ``NameOwnership``.
  public static let replaces = "X-Replaces"
  /// The name that a path had at its last publication, percent-encoded; see ``NameOwnership``.
  public static let publishedAs = "X-Published-As"
  /// The body's media type.
  public static let contentType = "Content-Type"
  /// The body's length.
  public static let contentLength = "Content-Length"
  /// Has no place in bundles.
  public static let transferEncoding = "Transfer-Encoding"
  /// In answers: which receiver answers, from its start to its end.
  public static let instance = "X-Instance"
  /// In answers: the most members of a bundle; a receiver without it takes no bundles.
  public static let bundleFilesMax = "X-Bundle-Files-Max"
  /// In answers: the most plain bytes of a run of chunks; a receiver without it takes no runs.
  public static let runBytesMax = "X-Run-Bytes-Max"
  /// In answers: the most ranges of chunks that one request may name as zeros; a receiver without it has chunks of zeros sent as others.
  public static let zeroRangesMax = "X-Zero-Ranges-Max"
  /// In answers: the words for ``chunkEncoding`` that are understood, separated by commas.
  public static let chunkEncodings = "X-Chunk-Encodings"
  /// In answers: how the body of a bundle may be coded as a whole, separated by commas; a receiver without it takes bundles as they are.
  public static let bundleEncodings = "X-Bundle-Encodings"
  /// Which spool asks, and which of its starts: see ``SpoolStart``.
  public static let spool = "X-Spool"
  /// In answers to a start of a spool that is not the last one: see ``KnownSpoolStart``.
  public static let spoolKnown = "X-Spool-Known"
}

/// Media types of bodies.
public enum MediaType {
  /// Requests and answers.
  public static let json = "application/json"
  /// Errors (RFC 9457).
  public static let problem = "application/problem+json"
  /// Chunks and whole files.
  public static let octets = "application/octet-stream"
  /// Several whole files, or chunks, in one request, and the answers to them.
  public static let bundle = "application/x-uploadfs-bundle"
}

/// What a commit does when a file of that name is already published, where the request does not say whose the name may be
/// (``NameOwnership``).
public enum IfExists: String, Hashable, Sendable, Codable, CaseIterable {
  /// The new file takes the name, atomically.
  case replace
  /// Nothing is published; the answer is ``ProblemType/exists``.
  case fail
}

import COpenSSL

/// A SHA-256 in progress, through OpenSSL.
///
/// Sendable is unchecked because of the raw context: the type cannot be copied, so the context always has exactly one
/// owner, and OpenSSL's contexts are not bound to a thread.
public struct SHA256Hasher: ~Copyable, @unchecked Sendable {
  private let context: OpaquePointer

  /// Starts a digest of nothing.
  public init() {
    // Ends the process. It fails only without memory for 200 bytes, where Swift itself would end it, or without a SHA-256 in
    // OpenSSL: then neither side has TLS 1.3 or a digest to compare. A wrong digest instead would publish wrong bytes.
    guard let context = uploadfs_sha256_new() else { fatalError("OpenSSL cannot start a SHA-256") }
    self.context = context
  }

  deinit { uploadfs_sha256_free(context) }

  /// Adds bytes.
  public mutating func update(_ bytes: UnsafeRawBufferPointer) {
    guard let start = bytes.baseAddress, !bytes.isEmpty else { return }
    // A context that was begun takes any bytes; what it answers otherwise is a mistake in this file.
    let isUpdated = uploadfs_sha256_update(context, start, bytes.count)
    precondition(isUpdated == 1, "OpenSSL refused to continue a SHA-256")
  }

  /// The digest of everything added.
  public consuming func finalize() -> Digest32 {
    Digest32 { output in
      let isFinished = uploadfs_sha256_finish(context, output)
      precondition(isFinished == 1, "OpenSSL refused to finish a SHA-256")
    }
  }
}

/// SHA-256 of the bytes.
public func sha256(_ bytes: UnsafeRawBufferPointer) -> Digest32 {
  var hasher = SHA256Hasher()
  hasher.update(bytes)
  return hasher.finalize()
}

/// SHA-256 of the bytes.
public func sha256(_ bytes: [UInt8]) -> Digest32 {
  bytes.withUnsafeBytes { sha256($0) }
}

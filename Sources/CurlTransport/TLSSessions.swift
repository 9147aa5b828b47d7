import CCurl

/// The TLS sessions that new connections may go on from, over all handles. Belongs to the curl thread.
///
/// libcurl bounds the number of sessions, not their age, and keeps them with each handle (before 8.12) or with all of them
/// (since). So all handles share one cache, which is replaced by an empty one before its oldest session can be older than
/// ``UploadConstants/tlsSessionMaxAge``.
final class TLSSessions {
  let pointer: UnsafeMutableRawPointer
  private let madeAt: ContinuousClock.Instant

  /// Nil when memory is short.
  init?(at now: ContinuousClock.Instant) {
    guard let pointer = curl_share_init() else { return nil }
    guard uploadfs_curl_share_sessions(pointer) == CURLSHE_OK else {
      curl_share_cleanup(pointer)
      return nil
    }
    self.pointer = pointer
    madeAt = now
  }

  /// Each handle that uses it holds it.
  deinit { curl_share_cleanup(pointer) }

  /// Whether a connection that is made now may use what it holds.
  func isFresh(at now: ContinuousClock.Instant, maxAge: Duration) -> Bool { now - madeAt < maxAge }
}

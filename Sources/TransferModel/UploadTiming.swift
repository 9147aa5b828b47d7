/// Versions of TLS.
public enum TLSVersion: String, Hashable, Sendable, CaseIterable {
  /// 1.2, of 2008.
  case tls12 = "1.2"
  /// 1.3, of 2018.
  case tls13 = "1.3"
}

/// With which libcurl HTTP/2 may be spoken.
public enum HTTP2Library: String, Hashable, Sendable, CaseIterable {
  /// From 8.10 on: uploads may stall with older ones.
  case repaired = "8.10"
  /// Also with one that a distribution has repaired itself.
  case any
}

/// What an expert may set for a mount of the times and counts of ``UploadConstants``
/// (docs/configuration.md#for-experts); each has its value from there.
public struct UploadTiming: Hashable, Sendable {
  /// How long requests may take.
  public var requests = RequestTiming()
  /// The shortest wait before a retry.
  public var retryDelay = UploadConstants.retryBaseDelay
  /// The longest wait before a retry.
  public var retryDelayMax = UploadConstants.retryMaxDelay
  /// The longest pause where each try costs a whole file.
  public var filePauseMax = UploadConstants.fileRetryMaxDelay
  /// Attempts for one chunk before its file pauses and the server is asked again.
  public var chunkTries = UploadConstants.chunkMaxRetries
  /// Tries of a file that end with the same answer before it has failed.
  public var fileTries = UploadConstants.fileTriesMax
  /// A file that makes no progress for so long reconnects and asks the server.
  public var fileWatchdog = UploadConstants.watchdogSession
  /// When nothing is acknowledged for so long, everything connects anew.
  public var globalWatchdog = UploadConstants.watchdogGlobal
  /// Chunks read ahead of the network.
  public var prefetch = UploadConstants.prefetchDepth
  /// Upload sessions that are older are not resumed.
  public var sessionAge = UploadConstants.sessionMaxAge
  /// The oldest version of TLS to a proxy. What goes to the server has TLS 1.3 of its own inside of it.
  public var proxyTLS = TLSVersion.tls13
  /// With which libcurl HTTP/2 is spoken.
  public var http2Library = HTTP2Library.repaired

  /// The specification's values.
  public init() {}
}

import CCurl
import Glibc
import TransferModel

/// Looks into the TLS handshakes of one transfer, from inside them. Belongs to the thread that runs libcurl.
///
/// C reaches it through an unretained pointer, which is sound because the watch forgets that in `deinit`: a connection that
/// outlives the transfer in mid-handshake is refused then.
final class Handshake {
  private let host: String
  private let security: HandshakeSecurity
  /// The way leads through a proxy that is spoken to over TLS, whose own handshake is none of this.
  private let isBehindEncryptedProxy: Bool
  private var watch: OpaquePointer?
  private var judge: HandshakeJudge
  /// Those of the watch, which must not go before it.
  private var logs: TransparencyLogs?
  /// A connection of the server's was looked at from its beginning.
  private var isWatched = false

  /// Nil when memory is short.
  init?(with host: String, _ security: HandshakeSecurity, isBehindEncryptedProxy: Bool) {
    self.host = host
    self.security = security
    self.isBehindEncryptedProxy = isBehindEncryptedProxy
    judge = HandshakeJudge(host: host, security.trust, .withoutList, nil, hasOwnAuthorities: false)
    let asksForAdded =
      security.source != nil && security.trust.transparency == .publicOnly && !security.hasOwnAuthorities
    watch = uploadfs_watch_new(
      uploadfs_judge(chain: onChain, staple: onStaple, timestamps: onTimestamps),
      Unmanaged.passUnretained(self).toOpaque(), asksForAdded ? HandshakeSecurity.addedAuthorities : nil)
    guard watch != nil else { return nil }
  }

  deinit { if let watch { uploadfs_watch_end(watch) } }

  /// Why the last one was ended; nil where it was not, or by another side.
  var refusal: TransportError? { judge.refusal }
  /// What the last one has shown.
  var report: HandshakeReport { judge.report }
  /// Settings ask for a verdict that was not given: libcurl has told of no handshake, or OpenSSL has left out a question.
  var isOwed: Bool { !isWatched && security.asksForLook || judge.lacksVerdict }

  /// libcurl has made an SSL_CTX for a new connection.
  fileprivate func begins(_ easy: UnsafeMutableRawPointer, _ context: UnsafeMutableRawPointer) -> CURLcode {
    if isBehindEncryptedProxy {
      // libcurl calls for each hop, and says of none which it is. The server's comes once the proxy has opened the way.
      var status = 0
      _ = uploadfs_curl_get_long(easy, CURLINFO_HTTP_CONNECTCODE, &status)
      guard status / 100 == 2 else { return CURLE_OK }
    }
    let logs = security.source?.current
    let standing = security.standing(with: logs?.list)
    judge = HandshakeJudge(
      host: host, security.trust, standing, logs?.list, hasOwnAuthorities: security.hasOwnAuthorities)
    var isEnforced = false
    if case .enforced = standing { isEnforced = true }
    uploadfs_watch_use_logs(watch, isEnforced ? logs?.pointer : nil)
    self.logs = logs
    guard uploadfs_watch_context(watch, context) == 1 else { return CURLE_SSL_CONNECT_ERROR }
    isWatched = true
    return CURLE_OK
  }

  fileprivate func sees(_ chain: uploadfs_chain) -> Bool {
    var facts = ChainFacts()
    facts.error = chain.error
    facts.errorText = chain.error_text.map { String(cString: $0) } ?? ""
    facts.errorDepth = Int(chain.error_depth)
    facts.validFromSeconds = Self.seconds(chain.valid_from)
    facts.validUntilSeconds = Self.seconds(chain.valid_until)
    let size = Int(UPLOADFS_SHA256_SIZE)
    let bytes = UnsafeBufferPointer(start: chain.keys, count: chain.key_count * size)
    facts.keys = stride(from: 0, to: bytes.count, by: size).compactMap {
      PublicKeyPin(digest: Array(bytes[$0..<$0 + size]))
    }
    facts.isAddedAuthority = chain.is_added_authority != 0
    facts.requiresStaple = chain.requires_staple != 0
    return judge.see(facts)
  }

  fileprivate func sees(_ staple: uploadfs_staple) -> Bool {
    let facts: StapleFacts
    switch staple.state {
    case UPLOADFS_STAPLE_NONE: facts = .none
    case UPLOADFS_STAPLE_FORGED: facts = .forged
    case UPLOADFS_STAPLE_FOREIGN: facts = .foreign
    case UPLOADFS_STAPLE_SIGNED:
      let status: StapleFacts.Status =
        switch staple.status {
        case UPLOADFS_STAPLE_GOOD: .good
        case UPLOADFS_STAPLE_REVOKED: .revoked(atSeconds: Self.seconds(staple.revoked_at))
        default: .unknown
        }
      facts = .signed(
        status, validFromSeconds: Self.seconds(staple.valid_from), validUntilSeconds: Self.seconds(staple.valid_until))
    default: facts = .unreadable
    }
    return judge.see(facts, nowSeconds: Int64(time(nil)))
  }

  fileprivate func sees(_ timestamps: UnsafeBufferPointer<uploadfs_timestamp>) -> Bool {
    judge.see(
      timestamps.map { timestamp in
        let validity: TimestampFacts.Validity =
          switch timestamp.validity {
          case UPLOADFS_TIMESTAMP_VALID: .valid
          case UPLOADFS_TIMESTAMP_FORGED: .forged
          case UPLOADFS_TIMESTAMP_UNKNOWN_LOG: .unknownLog
          default: .unreadable
          }
        return TimestampFacts(
          log: withUnsafeBytes(of: timestamp.log) { Array($0) }, validity: validity,
          isEmbedded: timestamp.is_embedded != 0, millisecondsSince1970: timestamp.milliseconds_since_1970)
      })
  }

  /// C has no nil.
  private static func seconds(_ seconds: Int64) -> Int64? { seconds == .min ? nil : seconds }

  fileprivate static func of(_ context: UnsafeMutableRawPointer) -> Handshake {
    Unmanaged<Handshake>.fromOpaque(context).takeUnretainedValue()
  }
}

extension EasyHandle {
  /// Has this look into the handshakes of what the handle connects to from now on; it must outlive the transfer. nil has the handle's
  /// transfer say who does: all handles of a multi handle then have the same, as libcurl wants it where they share connections.
  func setHandshake(_ handshake: Handshake?) throws(TransportError) {
    try setContextFunction(onContext, handshake.map { Unmanaged.passUnretained($0).toOpaque() })
  }
}

// Global functions, so that they carry no isolation to the curl thread.

private func onContext(
  _ easy: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?, _ handshake: UnsafeMutableRawPointer?
) -> CURLcode {
  guard let easy, let context else { return CURLE_SSL_CONNECT_ERROR }
  if let handshake { return Handshake.of(handshake).begins(easy, context) }
  var transfer: UnsafeMutableRawPointer?
  guard uploadfs_curl_get_private(easy, &transfer) == CURLE_OK, let transfer,
    // Unretained: the loop keeps it until its easy handle has left the multi handle.
    let handshake = Unmanaged<CurlTransfer>.fromOpaque(transfer).takeUnretainedValue().handshake
  else { return CURLE_SSL_CONNECT_ERROR }
  return handshake.begins(easy, context)
}

private func onChain(_ context: UnsafeMutableRawPointer?, _ chain: UnsafePointer<uploadfs_chain>?) -> Int32 {
  guard let context, let chain else { return 0 }
  return Handshake.of(context).sees(chain.pointee) ? 1 : 0
}

private func onStaple(_ context: UnsafeMutableRawPointer?, _ staple: UnsafePointer<uploadfs_staple>?) -> Int32 {
  guard let context, let staple else { return 0 }
  return Handshake.of(context).sees(staple.pointee) ? 1 : 0
}

private func onTimestamps(
  _ context: UnsafeMutableRawPointer?, _ timestamps: UnsafePointer<uploadfs_timestamp>?, _ count: Int
) -> Int32 {
  guard let context else { return 0 }
  return Handshake.of(context).sees(UnsafeBufferPointer(start: timestamps, count: count)) ? 1 : 0
}

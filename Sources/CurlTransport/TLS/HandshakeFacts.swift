import TransferModel

/// The chain of a server's certificates, and what OpenSSL says of it.
struct ChainFacts: Hashable {
  /// One of OpenSSL's numbers (X509_V_ERR_…); 0 where the chain leads to an authority that is trusted.
  var error: Int32 = 0
  /// The same in OpenSSL's words.
  var errorText = ""
  /// Which certificate the error is about; 0 for the server's own.
  var errorDepth = 0
  /// When that one, or else the server's own, begins to be valid, seconds since 1970; nil when that is not understood.
  var validFromSeconds: Int64?
  /// When it ends, likewise.
  var validUntilSeconds: Int64?
  /// The public keys, the server's own first and its authority's last.
  var keys: [PublicKeyPin] = []
  /// The authority was added on this machine.
  var isAddedAuthority = false
  /// The certificate asks for an OCSP response in the handshake (RFC 7633).
  var requiresStaple = false
}

/// The OCSP response that came with a certificate.
enum StapleFacts: Hashable {
  case none
  /// It is no OCSP response, or one without an answer.
  case unreadable
  /// Its signer is none whom the certificate's authority has allowed to sign.
  case forged
  /// It is about other certificates.
  case foreign
  /// Seconds since 1970; nil where there is no such time.
  case signed(Status, validFromSeconds: Int64?, validUntilSeconds: Int64?)

  /// What it says of the certificate.
  enum Status: Hashable {
    case good
    case revoked(atSeconds: Int64?)
    case unknown
  }
}

/// The signed timestamp of a certificate log (RFC 6962).
struct TimestampFacts: Hashable {
  /// What a look at its signature has shown.
  enum Validity: Hashable {
    case valid
    /// The signature is not the log's, or the time lies ahead.
    case forged
    case unknownLog
    case unreadable
  }

  /// SHA-256 of the log's key.
  var log: [UInt8]
  /// What a look at its signature has shown.
  var validity: Validity
  /// It stands in the certificate, and cannot be exchanged.
  var isEmbedded: Bool
  /// When the log has promised to take the certificate.
  var millisecondsSince1970: UInt64
}

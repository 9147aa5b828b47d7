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
}

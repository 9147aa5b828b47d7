/// What TLS handshakes show, told from inside them: before the client says that it is content, and so before anything of a request goes
/// out. Callbacks of OpenSSL gather facts and ask a judge, who is written in Swift. OpenSSL's headers stay in the C file: they are macros to
/// a large part, which Swift cannot import.
#ifndef UPLOADFS_CCURL_HANDSHAKES_H
#define UPLOADFS_CCURL_HANDSHAKES_H

#include <curl/curl.h>
#include <stddef.h>
#include <stdint.h>

#define UPLOADFS_SHA256_SIZE 32

/// 1 where the loaded libcurl uses the very OpenSSL that this process has: another TLS library, or another OpenSSL beside this one, would
/// take its SSL_CTX for something else.
int uploadfs_curl_shares_openssl(void);

/// The chain of certificates of a server, and what OpenSSL's own verification says of it.
struct uploadfs_chain {
  /// An X509_V_ERR_ number; 0 where the chain leads to an authority that is trusted.
  int error;
  /// The same in OpenSSL's words.
  const char *error_text;
  /// Which certificate the error is about; 0 for the server's own.
  int error_depth;
  /// The validity of that one, or of the server's own where there is no error: seconds since 1970, INT64_MIN where that is not understood.
  int64_t valid_from, valid_until;
  /// SHA-256 of each certificate's SubjectPublicKeyInfo, one after another, the server's own first. None where there is an error.
  const uint8_t *keys;
  size_t key_count;
  /// The authority that the chain leads to lies, as PEM, in a file NAME.crt below the folder of the watch.
  int is_added_authority;
  /// The certificate is only to be believed with an OCSP staple (RFC 7633).
  int requires_staple;
};

enum uploadfs_staple_state {
  UPLOADFS_STAPLE_NONE,
  /// It is no OCSP response, or one without an answer.
  UPLOADFS_STAPLE_UNREADABLE,
  /// Its signer is none whom the certificate's authority has allowed to sign.
  UPLOADFS_STAPLE_FORGED,
  /// It says nothing about the server's certificate.
  UPLOADFS_STAPLE_FOREIGN,
  UPLOADFS_STAPLE_SIGNED,
};

enum uploadfs_staple_status { UPLOADFS_STAPLE_GOOD, UPLOADFS_STAPLE_REVOKED, UPLOADFS_STAPLE_UNKNOWN };

/// The OCSP response that came with the certificate.
struct uploadfs_staple {
  enum uploadfs_staple_state state;
  /// The rest holds where it is signed.
  enum uploadfs_staple_status status;
  /// Seconds since 1970; INT64_MIN where there is none.
  int64_t valid_from, valid_until, revoked_at;
};

enum uploadfs_timestamp_validity {
  UPLOADFS_TIMESTAMP_VALID,
  /// The signature is not the log's, or the time lies ahead.
  UPLOADFS_TIMESTAMP_FORGED,
  UPLOADFS_TIMESTAMP_UNKNOWN_LOG,
  /// Of a version that OpenSSL does not know, or without what its signature is about.
  UPLOADFS_TIMESTAMP_UNREADABLE,
};

/// A signed certificate timestamp (RFC 6962).
struct uploadfs_timestamp {
  uint8_t log[UPLOADFS_SHA256_SIZE];
  enum uploadfs_timestamp_validity validity;
  /// It stands in the certificate itself; others come in the handshake or in the OCSP response, and can be exchanged.
  int is_embedded;
  uint64_t milliseconds_since_1970;
};

/// Who decides. Each answers 1 to go on and 0 to end the handshake; they are called in this order, on the thread that runs libcurl. None
/// is called for a session that is resumed: what was decided when it began holds for it.
struct uploadfs_judge {
  int (*chain)(void *context, const struct uploadfs_chain *chain);
  int (*staple)(void *context, const struct uploadfs_staple *staple);
  /// Called only where the watch has logs, and the chain is longer than the server's own certificate.
  int (*timestamps)(void *context, const struct uploadfs_timestamp *timestamps, size_t count);
};

/// What looks at the handshakes of one owner. Its callbacks may outlive the owner in an SSL_CTX, and then refuse.
struct uploadfs_watch;

/// NULL without memory. `context` is handed to the judge until the watch ends. `added_authorities` is a folder, which is looked through
/// only when it is given.
struct uploadfs_watch *uploadfs_watch_new(struct uploadfs_judge judge, void *context, const char *added_authorities);
/// Uses these logs, which stay the caller's, from now on.
void uploadfs_watch_use_logs(struct uploadfs_watch *watch, const void *logs);
/// Installs the watch in an SSL_CTX; for CURLOPT_SSL_CTX_FUNCTION. 0 where that is not possible.
int uploadfs_watch_context(struct uploadfs_watch *watch, void *ssl_context);
/// The owner goes.
void uploadfs_watch_end(struct uploadfs_watch *watch);

/// Logs for timestamps, from the text of a configuration of OpenSSL's (`enabled_logs=…`, and a section with `key` for each). NULL where
/// it is not understood, or OpenSSL was built without Certificate Transparency.
void *uploadfs_logs_new(const char *configuration, size_t size);
void uploadfs_logs_free(void *logs);

/// For CURLOPT_SSL_CTX_FUNCTION, with what it is handed.
static inline CURLcode uploadfs_curl_set_context_function(CURL *easy, curl_ssl_ctx_callback function, void *context) {
  CURLcode code = curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, function);
  return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, context) : code;
}

#endif

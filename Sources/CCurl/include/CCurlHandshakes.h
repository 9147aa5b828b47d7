/// What TLS handshakes show, told from inside them: before the client says that it is content, and so before anything of a request goes
/// out. A callback of OpenSSL gathers facts and asks a judge, who is written in Swift. OpenSSL's headers stay in the C file: they are macros to
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
};

/// Who decides. It answers 1 to go on and 0 to end the handshake, on the thread that runs libcurl. It is not called for a session that is
/// resumed: what was decided when it began holds for it.
struct uploadfs_judge {
  int (*chain)(void *context, const struct uploadfs_chain *chain);
};

/// What looks at the handshakes of one owner. Its callbacks may outlive the owner in an SSL_CTX, and then refuse.
struct uploadfs_watch;

/// NULL without memory. `context` is handed to the judge until the watch ends.
struct uploadfs_watch *uploadfs_watch_new(struct uploadfs_judge judge, void *context);
/// Installs the watch in an SSL_CTX; for CURLOPT_SSL_CTX_FUNCTION. 0 where that is not possible.
int uploadfs_watch_context(struct uploadfs_watch *watch, void *ssl_context);
/// The owner goes.
void uploadfs_watch_end(struct uploadfs_watch *watch);

/// For CURLOPT_SSL_CTX_FUNCTION, with what it is handed.
static inline CURLcode uploadfs_curl_set_context_function(CURL *easy, curl_ssl_ctx_callback function, void *context) {
  CURLcode code = curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, function);
  return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, context) : code;
}

#endif

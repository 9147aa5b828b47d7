#define _GNU_SOURCE
#include "CCurlHandshakes.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct uploadfs_watch {
  struct uploadfs_judge judge;
  // NULL once the owner has gone.
  void *context;
  // The owner's, and one for each SSL_CTX. All are on the thread that runs libcurl.
  unsigned references;
};

static void release(struct uploadfs_watch *watch) {
  if (watch == NULL || --watch->references > 0) return;
  free(watch);
}

int uploadfs_curl_shares_openssl(void) {
  const curl_version_info_data *about = curl_version_info(CURLVERSION_NOW);
  // “(OpenSSL/3.0.19) …” where libcurl has more than one TLS library: then the first may not be the one in use.
  if (about == NULL || about->ssl_version == NULL || strncmp(about->ssl_version, "OpenSSL/", 8) != 0) return 0;
  return (unsigned)atoi(about->ssl_version + 8) == OPENSSL_version_major();
}

struct uploadfs_watch *uploadfs_watch_new(struct uploadfs_judge judge, void *context) {
  struct uploadfs_watch *watch = calloc(1, sizeof *watch);
  if (watch == NULL) return NULL;
  watch->judge = judge;
  watch->context = context;
  watch->references = 1;
  return watch;
}

void uploadfs_watch_end(struct uploadfs_watch *watch) {
  watch->context = NULL;
  release(watch);
}

// MARK: Chain

static int64_t seconds(const ASN1_TIME *time) {
  struct tm parts;
  return time != NULL && ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t)timegm(&parts) : INT64_MIN;
}

static int put_key_digest(X509 *certificate, uint8_t *digest) {
  unsigned char *der = NULL;
  const int count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
  const int is_made = count > 0 && EVP_Digest(der, (size_t)count, digest, NULL, EVP_sha256(), NULL) == 1;
  OPENSSL_free(der);
  return is_made;
}

static int verify_chain(X509_STORE_CTX *store, void *argument) {
  struct uploadfs_watch *watch = argument;
  const int is_trusted = X509_verify_cert(store) == 1;
  struct uploadfs_chain chain = {.error = X509_STORE_CTX_get_error(store)};
  if (!is_trusted && chain.error == X509_V_OK) chain.error = X509_V_ERR_UNSPECIFIED;
  chain.error_text = X509_verify_cert_error_string(chain.error);
  chain.error_depth = X509_STORE_CTX_get_error_depth(store);
  X509 *subject = is_trusted ? X509_STORE_CTX_get0_cert(store) : X509_STORE_CTX_get_current_cert(store);
  chain.valid_from = subject == NULL ? INT64_MIN : seconds(X509_get0_notBefore(subject));
  chain.valid_until = subject == NULL ? INT64_MIN : seconds(X509_get0_notAfter(subject));
  const STACK_OF(X509) *certificates = is_trusted ? X509_STORE_CTX_get0_chain(store) : NULL;
  const int count = certificates == NULL ? 0 : sk_X509_num(certificates);
  uint8_t *keys = count > 0 ? calloc((size_t)count, UPLOADFS_SHA256_SIZE) : NULL;
  int is_whole = watch->context != NULL && (count == 0 || keys != NULL);
  for (int index = 0; is_whole && index < count; index++) {
    is_whole = put_key_digest(sk_X509_value(certificates, index), keys + index * UPLOADFS_SHA256_SIZE);
  }
  if (is_whole && count > 0) {
    chain.keys = keys;
    chain.key_count = (size_t)count;
  }
  // What extensions lack is no error of the handshake.
  ERR_clear_error();
  const int goes_on = is_whole && watch->judge.chain(watch->context, &chain) == 1 && is_trusted;
  free(keys);
  if (is_trusted && !goes_on) X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return goes_on;
}

// MARK: Installation

static pthread_once_t index_once = PTHREAD_ONCE_INIT;
static int watch_index = -1;

static void forget(void *parent, void *watch, CRYPTO_EX_DATA *data, int index, long number, void *pointer) {
  (void)parent, (void)data, (void)index, (void)number, (void)pointer;
  release(watch);
}

static void make_index(void) { watch_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, forget); }

int uploadfs_watch_context(struct uploadfs_watch *watch, void *ssl_context) {
  SSL_CTX *context = ssl_context;
  pthread_once(&index_once, make_index);
  if (watch_index < 0 || SSL_CTX_set_ex_data(context, watch_index, watch) != 1) return 0;
  watch->references++;
  SSL_CTX_set_cert_verify_callback(context, verify_chain, watch);
  return 1;
}

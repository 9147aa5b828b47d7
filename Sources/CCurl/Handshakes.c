#define _GNU_SOURCE
#include "CCurlHandshakes.h"

#include <fts.h>
#include <openssl/ct.h>
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct uploadfs_watch {
  struct uploadfs_judge judge;
  // NULL once the owner has gone.
  void *context;
  const void *logs;
  char *added_authorities;
  // The owner's, and one for each SSL_CTX. All are on the thread that runs libcurl.
  unsigned references;
};

static void release(struct uploadfs_watch *watch) {
  if (watch == NULL || --watch->references > 0) return;
  free(watch->added_authorities);
  free(watch);
}

int uploadfs_curl_shares_openssl(void) {
  const curl_version_info_data *about = curl_version_info(CURLVERSION_NOW);
  // “(OpenSSL/3.0.19) …” where libcurl has more than one TLS library: then the first may not be the one in use.
  if (about == NULL || about->ssl_version == NULL || strncmp(about->ssl_version, "OpenSSL/", 8) != 0) return 0;
  return (unsigned)atoi(about->ssl_version + 8) == OPENSSL_version_major();
}

struct uploadfs_watch *uploadfs_watch_new(struct uploadfs_judge judge, void *context, const char *added_authorities) {
  struct uploadfs_watch *watch = calloc(1, sizeof *watch);
  if (watch == NULL) return NULL;
  watch->judge = judge;
  watch->context = context;
  watch->references = 1;
  if (added_authorities != NULL && (watch->added_authorities = strdup(added_authorities)) == NULL) {
    free(watch);
    return NULL;
  }
  return watch;
}

void uploadfs_watch_use_logs(struct uploadfs_watch *watch, const void *logs) { watch->logs = logs; }

void uploadfs_watch_end(struct uploadfs_watch *watch) {
  watch->context = NULL;
  watch->logs = NULL;
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

static int requires_staple(X509 *certificate) {
  TLS_FEATURE *features = X509_get_ext_d2i(certificate, NID_tlsfeature, NULL, NULL);
  int found = 0;
  for (int index = 0; features != NULL && index < sk_ASN1_INTEGER_num(features); index++) {
    if (ASN1_INTEGER_get(sk_ASN1_INTEGER_value(features, index)) == TLSEXT_TYPE_status_request) found = 1;
  }
  TLS_FEATURE_free(features);
  return found;
}

static int file_holds(const char *path, X509 *wanted) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return 0;
  int found = 0;
  X509 *certificate;
  while (!found && (certificate = PEM_read_X509(file, NULL, NULL, NULL)) != NULL) {
    found = X509_cmp(certificate, wanted) == 0;
    X509_free(certificate);
  }
  fclose(file);
  return found;
}

static int is_below(char *folder, X509 *authority) {
  char *folders[] = {folder, NULL};
  FTS *tree = fts_open(folders, FTS_LOGICAL | FTS_NOCHDIR, NULL);
  if (tree == NULL) return 0;
  int found = 0;
  FTSENT *entry;
  while (!found && (entry = fts_read(tree)) != NULL) {
    const size_t length = strlen(entry->fts_path);
    // What update-ca-certificates(8) takes.
    if (entry->fts_info != FTS_F || length < 4 || strcmp(entry->fts_path + length - 4, ".crt") != 0) continue;
    found = file_holds(entry->fts_path, authority);
  }
  fts_close(tree);
  return found;
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
    chain.requires_staple = requires_staple(sk_X509_value(certificates, 0));
    if (watch->added_authorities != NULL) {
      chain.is_added_authority = is_below(watch->added_authorities, sk_X509_value(certificates, count - 1));
    }
  }
  // What files and extensions lack is no error of the handshake.
  ERR_clear_error();
  const int goes_on = is_whole && watch->judge.chain(watch->context, &chain) == 1 && is_trusted;
  free(keys);
  if (is_trusted && !goes_on) X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return goes_on;
}

// MARK: Staple

static int is_about(OCSP_SINGLERESP *answer, X509 *certificate, X509 *issuer) {
  OCSP_CERTID *id = (OCSP_CERTID *)OCSP_SINGLERESP_get0_id(answer);
  ASN1_OBJECT *algorithm = NULL;
  if (id == NULL || OCSP_id_get0_info(NULL, &algorithm, NULL, NULL, id) != 1) return 0;
  const EVP_MD *digest = EVP_get_digestbyobj(algorithm);
  OCSP_CERTID *wanted = digest == NULL ? NULL : OCSP_cert_to_id(digest, certificate, issuer);
  const int is_same = wanted != NULL && OCSP_id_cmp(wanted, id) == 0;
  OCSP_CERTID_free(wanted);
  return is_same;
}

static void take_answer(OCSP_BASICRESP *basic, SSL *ssl, struct uploadfs_staple *staple) {
  STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
  X509_STORE *store = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl));
  if (chain == NULL || sk_X509_num(chain) == 0 || OCSP_basic_verify(basic, chain, store, 0) != 1) {
    staple->state = UPLOADFS_STAPLE_FORGED;
    return;
  }
  X509 *certificate = sk_X509_value(chain, 0);
  X509 *issuer = sk_X509_value(chain, sk_X509_num(chain) > 1 ? 1 : 0);
  staple->state = UPLOADFS_STAPLE_FOREIGN;
  for (int index = 0; index < OCSP_resp_count(basic); index++) {
    OCSP_SINGLERESP *answer = OCSP_resp_get0(basic, index);
    if (!is_about(answer, certificate, issuer)) continue;
    ASN1_GENERALIZEDTIME *revoked = NULL, *from = NULL, *until = NULL;
    int reason = 0;
    switch (OCSP_single_get0_status(answer, &reason, &revoked, &from, &until)) {
      case V_OCSP_CERTSTATUS_GOOD: staple->status = UPLOADFS_STAPLE_GOOD; break;
      case V_OCSP_CERTSTATUS_REVOKED: staple->status = UPLOADFS_STAPLE_REVOKED; break;
      default: staple->status = UPLOADFS_STAPLE_UNKNOWN; break;
    }
    staple->state = UPLOADFS_STAPLE_SIGNED;
    staple->valid_from = seconds(from);
    staple->valid_until = seconds(until);
    staple->revoked_at = seconds(revoked);
    return;
  }
}

static int check_staple(SSL *ssl, void *argument) {
  struct uploadfs_watch *watch = argument;
  // It is called for resumed sessions too, which bring none.
  if (SSL_session_reused(ssl)) return 1;
  if (watch->context == NULL) return 0;
  struct uploadfs_staple staple = {UPLOADFS_STAPLE_NONE, UPLOADFS_STAPLE_UNKNOWN, INT64_MIN, INT64_MIN, INT64_MIN};
  const unsigned char *bytes = NULL;
  const long size = SSL_get_tlsext_status_ocsp_resp(ssl, &bytes);
  if (bytes != NULL && size > 0) {
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &bytes, size);
    OCSP_BASICRESP *basic = NULL;
    if (response != NULL && OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL) {
      basic = OCSP_response_get1_basic(response);
    }
    staple.state = UPLOADFS_STAPLE_UNREADABLE;
    if (basic != NULL) take_answer(basic, ssl, &staple);
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
  }
  // A staple that does not count is no error of the handshake.
  ERR_clear_error();
  return watch->judge.staple(watch->context, &staple) == 1;
}

// MARK: Timestamps

#ifdef OPENSSL_NO_CT

void *uploadfs_logs_new(const char *configuration, size_t size) {
  (void)configuration;
  (void)size;
  return NULL;
}

void uploadfs_logs_free(void *logs) { (void)logs; }

static int watch_timestamps(struct uploadfs_watch *watch, SSL_CTX *context) {
  (void)context;
  return watch->logs == NULL;
}

#else

void *uploadfs_logs_new(const char *configuration, size_t size) {
  // OpenSSL reads logs from a file by its name, and in no other way.
  const int file = memfd_create("certificate-logs", MFD_CLOEXEC);
  if (file < 0) return NULL;
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  CTLOG_STORE *logs = CTLOG_STORE_new();
  if (logs != NULL && (write(file, configuration, size) != (ssize_t)size || CTLOG_STORE_load_file(logs, path) != 1)) {
    CTLOG_STORE_free(logs);
    logs = NULL;
  }
  close(file);
  ERR_clear_error();
  return logs;
}

void uploadfs_logs_free(void *logs) { CTLOG_STORE_free(logs); }

static enum uploadfs_timestamp_validity validity(SCT *timestamp, const CT_POLICY_EVAL_CTX *about) {
  if (SCT_validate(timestamp, about) < 0) return UPLOADFS_TIMESTAMP_UNREADABLE;
  switch (SCT_get_validation_status(timestamp)) {
    case SCT_VALIDATION_STATUS_VALID: return UPLOADFS_TIMESTAMP_VALID;
    case SCT_VALIDATION_STATUS_INVALID: return UPLOADFS_TIMESTAMP_FORGED;
    case SCT_VALIDATION_STATUS_UNKNOWN_LOG: return UPLOADFS_TIMESTAMP_UNKNOWN_LOG;
    default: return UPLOADFS_TIMESTAMP_UNREADABLE;
  }
}

// The SSL_CTX owns its store of logs, and there is one SSL_CTX for each connection: reading the logs anew for each costs milliseconds. So its
// store stays empty, and the timestamps are validated again over one that is shared.
static CT_POLICY_EVAL_CTX *over_logs(const CT_POLICY_EVAL_CTX *policy, const void *logs) {
  CT_POLICY_EVAL_CTX *own = CT_POLICY_EVAL_CTX_new();
  if (own == NULL) return NULL;
  X509 *issuer = CT_POLICY_EVAL_CTX_get0_issuer(policy);
  if (CT_POLICY_EVAL_CTX_set1_cert(own, CT_POLICY_EVAL_CTX_get0_cert(policy)) != 1 ||
      (issuer != NULL && CT_POLICY_EVAL_CTX_set1_issuer(own, issuer) != 1)) {
    CT_POLICY_EVAL_CTX_free(own);
    return NULL;
  }
  CT_POLICY_EVAL_CTX_set_shared_CTLOG_STORE(own, (CTLOG_STORE *)logs);
  return own;
}

static int check_timestamps(const CT_POLICY_EVAL_CTX *policy, const STACK_OF(SCT) *all, void *argument) {
  struct uploadfs_watch *watch = argument;
  if (watch->context == NULL || watch->logs == NULL) return 0;
  const int count = all == NULL ? 0 : sk_SCT_num(all);
  struct uploadfs_timestamp *timestamps = calloc((size_t)count + 1, sizeof *timestamps);
  CT_POLICY_EVAL_CTX *about = over_logs(policy, watch->logs);
  int goes_on = timestamps != NULL && about != NULL;
  for (int index = 0; goes_on && index < count; index++) {
    SCT *timestamp = sk_SCT_value(all, index);
    struct uploadfs_timestamp *facts = &timestamps[index];
    unsigned char *log = NULL;
    const size_t size = SCT_get0_log_id(timestamp, &log);
    facts->validity = size == sizeof facts->log ? validity(timestamp, about) : UPLOADFS_TIMESTAMP_UNREADABLE;
    if (size == sizeof facts->log) memcpy(facts->log, log, size);
    facts->is_embedded = SCT_get_source(timestamp) == SCT_SOURCE_X509V3_EXTENSION;
    facts->milliseconds_since_1970 = SCT_get_timestamp(timestamp);
  }
  ERR_clear_error();
  goes_on = goes_on && watch->judge.timestamps(watch->context, timestamps, (size_t)count) == 1;
  CT_POLICY_EVAL_CTX_free(about);
  free(timestamps);
  return goes_on;
}

static int watch_timestamps(struct uploadfs_watch *watch, SSL_CTX *context) {
  return watch->logs == NULL || SSL_CTX_set_ct_validation_callback(context, check_timestamps, watch) == 1;
}

#endif

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
  if (SSL_CTX_set_tlsext_status_type(context, TLSEXT_STATUSTYPE_ocsp) != 1) return 0;
  SSL_CTX_set_tlsext_status_cb(context, check_staple);
  SSL_CTX_set_tlsext_status_arg(context, watch);
  return watch_timestamps(watch, context);
}

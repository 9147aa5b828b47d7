#include "COpenSSL.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <pthread.h>

static EVP_MD *sha256_algorithm;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;

static void fetch_sha256(void) { sha256_algorithm = EVP_MD_fetch(NULL, "SHA256", NULL); }

uploadfs_sha256 *uploadfs_sha256_new(void) {
  pthread_once(&sha256_once, fetch_sha256);
  if (sha256_algorithm == NULL) {
    return NULL;
  }
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  if (context == NULL) {
    return NULL;
  }
  if (EVP_DigestInit_ex2(context, sha256_algorithm, NULL) != 1) {
    EVP_MD_CTX_free(context);
    return NULL;
  }
  return (uploadfs_sha256 *)context;
}

int uploadfs_sha256_update(uploadfs_sha256 *digest, const void *bytes, size_t count) {
  return EVP_DigestUpdate((EVP_MD_CTX *)digest, bytes, count) == 1;
}

int uploadfs_sha256_finish(uploadfs_sha256 *digest, uint8_t *output) {
  unsigned int written = 0;
  return EVP_DigestFinal_ex((EVP_MD_CTX *)digest, output, &written) == 1 && written == UPLOADFS_SHA256_BYTES;
}

void uploadfs_sha256_free(uploadfs_sha256 *digest) { EVP_MD_CTX_free((EVP_MD_CTX *)digest); }

int uploadfs_hmac_sha256(
    const void *key, size_t key_count, const void *message, size_t message_count, uint8_t *output) {
  // HMAC() takes a NULL key to mean "the key of the last call".
  static const uint8_t none = 0;
  if (key_count > INT_MAX) {
    return 0;
  }
  unsigned int written = 0;
  const unsigned char *result = HMAC(
      EVP_sha256(), key_count == 0 ? &none : key, (int)key_count, message_count == 0 ? &none : message, message_count,
      output, &written);
  return result != NULL && written == UPLOADFS_SHA256_BYTES;
}

int uploadfs_random_bytes(uint8_t *output, size_t count) {
  while (count > 0) {
    const int step = count > (1u << 20) ? (1 << 20) : (int)count;
    if (RAND_bytes(output, step) != 1) {
      return 0;
    }
    output += step;
    count -= (size_t)step;
  }
  return 1;
}

int uploadfs_is_equal(const void *left, const void *right, size_t count) {
  return CRYPTO_memcmp(left, right, count) == 0;
}

#include "COpenSSL.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <string.h>

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

int uploadfs_sha1(const void *bytes, size_t count, uint8_t *output) {
  unsigned int written = 0;
  return EVP_Digest(bytes, count, output, &written, EVP_sha1(), NULL) == 1 && written == UPLOADFS_SHA1_BYTES;
}

enum { hmac_block_bytes = 64 };

/// SHA-256 of the block with each byte changed by `mask`, followed by the message.
static int hmac_pass(
    EVP_MD_CTX *context, const uint8_t *block, uint8_t mask, const void *message, size_t message_count,
    uint8_t *output) {
  uint8_t padded[hmac_block_bytes];
  for (size_t i = 0; i < sizeof padded; i++) {
    padded[i] = block[i] ^ mask;
  }
  const int is_done = EVP_DigestInit_ex2(context, sha256_algorithm, NULL) == 1
      && EVP_DigestUpdate(context, padded, sizeof padded) == 1
      && EVP_DigestUpdate(context, message, message_count) == 1
      && EVP_DigestFinal_ex(context, output, NULL) == 1;
  OPENSSL_cleanse(padded, sizeof padded);
  return is_done;
}

// HMAC() looks its algorithm up at each call, which takes three times as long as the digests of a short message.
int uploadfs_hmac_sha256(
    const void *key, size_t key_count, const void *message, size_t message_count, uint8_t *output) {
  EVP_MD_CTX *context = (EVP_MD_CTX *)uploadfs_sha256_new();
  if (context == NULL) {
    return 0;
  }
  uint8_t block[hmac_block_bytes] = {0};
  int is_done = 1;
  if (key_count > sizeof block) {
    is_done = EVP_DigestUpdate(context, key, key_count) == 1 && EVP_DigestFinal_ex(context, block, NULL) == 1;
  } else if (key_count > 0) {
    memcpy(block, key, key_count);
  }
  uint8_t inner[UPLOADFS_SHA256_BYTES];
  is_done = is_done && hmac_pass(context, block, 0x36, message, message_count, inner)
      && hmac_pass(context, block, 0x5c, inner, sizeof inner, output);
  OPENSSL_cleanse(block, sizeof block);
  OPENSSL_cleanse(inner, sizeof inner);
  EVP_MD_CTX_free(context);
  return is_done;
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

const char *uploadfs_openssl_version(void) { return OpenSSL_version(OPENSSL_VERSION_STRING); }

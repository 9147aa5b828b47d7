#include "COpenSSL.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

// EVP takes lengths as int; what is sealed here (resume records) is far smaller.
static int fits(size_t count) { return count <= INT_MAX - 64; }

// A context that has taken the associated bytes; NULL when there is none.
static EVP_CIPHER_CTX *begin(
    int is_sealing, const uint8_t *key, const uint8_t *nonce, const void *associated, size_t associated_count) {
  EVP_CIPHER_CTX *context = fits(associated_count) ? EVP_CIPHER_CTX_new() : NULL;
  if (context == NULL) {
    return NULL;
  }
  int written = 0;
  int ok = EVP_CipherInit_ex2(context, EVP_aes_256_gcm(), key, nonce, is_sealing, NULL) == 1;
  // A length of 0 with a NULL output would be taken as the end of the message.
  if (ok && associated_count > 0) {
    ok = EVP_CipherUpdate(context, NULL, &written, associated, (int)associated_count) == 1;
  }
  if (!ok) {
    EVP_CIPHER_CTX_free(context);
    return NULL;
  }
  return context;
}

int uploadfs_aes256gcm_seal(
    const uint8_t *key, const uint8_t *nonce, const void *associated, size_t associated_count, const void *plaintext,
    size_t count, uint8_t *ciphertext, uint8_t *tag) {
  EVP_CIPHER_CTX *context = fits(count) ? begin(1, key, nonce, associated, associated_count) : NULL;
  if (context == NULL) {
    return 0;
  }
  int written = 0;
  int finished = 0;
  int ok = count == 0 || EVP_CipherUpdate(context, ciphertext, &written, plaintext, (int)count) == 1;
  ok = ok && EVP_CipherFinal_ex(context, ciphertext + written, &finished) == 1 &&
       (size_t)written + (size_t)finished == count &&
       EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, UPLOADFS_GCM_TAG_BYTES, tag) == 1;
  EVP_CIPHER_CTX_free(context);
  return ok;
}

int uploadfs_aes256gcm_open(
    const uint8_t *key, const uint8_t *nonce, const void *associated, size_t associated_count, const void *ciphertext,
    size_t count, const uint8_t *tag, uint8_t *plaintext) {
  EVP_CIPHER_CTX *context = fits(count) ? begin(0, key, nonce, associated, associated_count) : NULL;
  if (context == NULL) {
    return 0;
  }
  int written = 0;
  int finished = 0;
  int ok = count == 0 || EVP_CipherUpdate(context, plaintext, &written, ciphertext, (int)count) == 1;
  // The control takes a non-const pointer and only reads from it.
  ok = ok && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, UPLOADFS_GCM_TAG_BYTES, (void *)tag) == 1 &&
       EVP_CipherFinal_ex(context, plaintext + written, &finished) == 1 &&
       (size_t)written + (size_t)finished == count;
  EVP_CIPHER_CTX_free(context);
  if (!ok) {
    OPENSSL_cleanse(plaintext, count);
  }
  return ok;
}

/// What this project uses of OpenSSL 3, without OpenSSL's headers: those are macros to a large part, which Swift cannot
/// import, and differ between versions. Functions that return int return 1 on success and 0 on failure.
#ifndef UPLOADFS_COPENSSL_H
#define UPLOADFS_COPENSSL_H

#include <stddef.h>
#include <stdint.h>

#define UPLOADFS_SHA256_BYTES 32
#define UPLOADFS_GCM_NONCE_BYTES 12
#define UPLOADFS_GCM_TAG_BYTES 16
#define UPLOADFS_AES256_KEY_BYTES 32

/// A SHA-256 in progress. Wraps EVP_MD_CTX, with the algorithm fetched once for the process: OpenSSL 3 otherwise looks it
/// up for each digest.
typedef struct uploadfs_sha256 uploadfs_sha256;

/// A fresh digest; NULL when there is no memory. Ends with uploadfs_sha256_free.
uploadfs_sha256 *uploadfs_sha256_new(void);
int uploadfs_sha256_update(uploadfs_sha256 *digest, const void *bytes, size_t count);
/// Writes 32 bytes. The digest can only be freed afterwards.
int uploadfs_sha256_finish(uploadfs_sha256 *digest, uint8_t *output);
void uploadfs_sha256_free(uploadfs_sha256 *digest);

enum { UPLOADFS_SHA1_BYTES = 20 };
/// SHA-1, for protocols that know no other; it finds accidents, and nothing else. 0 where OpenSSL may not use it.
int uploadfs_sha1(const void *bytes, size_t count, uint8_t *output);

/// HMAC-SHA256, 32 bytes. Key and message may be empty, and then NULL.
int uploadfs_hmac_sha256(const void *key, size_t key_count, const void *message, size_t message_count, uint8_t *output);

/// AES-256-GCM: writes `count` bytes of ciphertext and 16 bytes of tag. Key 32 bytes, nonce 12.
int uploadfs_aes256gcm_seal(
    const uint8_t *key, const uint8_t *nonce, const void *associated, size_t associated_count, const void *plaintext,
    size_t count, uint8_t *ciphertext, uint8_t *tag);

/// AES-256-GCM: writes `count` bytes of plaintext. 0 when the tag does not match; what was written is then wiped.
int uploadfs_aes256gcm_open(
    const uint8_t *key, const uint8_t *nonce, const void *associated, size_t associated_count, const void *ciphertext,
    size_t count, const uint8_t *tag, uint8_t *plaintext);

/// Bytes from OpenSSL's generator, which the operating system seeds.
int uploadfs_random_bytes(uint8_t *output, size_t count);

/// 1 when the bytes are equal; takes the same time wherever they differ.
int uploadfs_is_equal(const void *left, const void *right, size_t count);

/// A certificate authority made on the spot and one server certificate that it signed, as NUL-terminated PEM texts.
typedef struct {
  /// The authority's certificate; its key is not kept.
  char *authority;
  /// The server's certificate.
  char *chain;
  /// The server's private key, PKCS #8, not encrypted.
  char *key;
} uploadfs_certificate;

/// Makes a certificate (EC P-256, serverAuth) for the host names and literal addresses given, valid between the two
/// offsets from now, in seconds. The authority is valid from a day ago until ten years from now. On failure `output` is
/// all NULL and `reason` holds OpenSSL's words.
int uploadfs_certificate_make(
    const char *const *host_names, size_t host_name_count, int64_t not_before_offset, int64_t not_after_offset,
    uploadfs_certificate *output, char *reason, size_t reason_size);
/// Wipes and frees the three texts.
void uploadfs_certificate_free(uploadfs_certificate *certificate);

/// The library's version, as “3.0.17”.
const char *uploadfs_openssl_version(void);

#endif

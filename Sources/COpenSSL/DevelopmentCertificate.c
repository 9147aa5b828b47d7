#include "COpenSSL.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static const int64_t day_seconds = 86400;

/// A random positive serial of 127 bits, so that two authorities of the same name never issue the same one.
static int set_serial(X509 *certificate) {
  BIGNUM *number = BN_new();
  int ok = number != NULL && BN_rand(number, 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
           BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
  BN_free(number);
  return ok;
}

static int add_extension(X509 *certificate, X509 *issuer, int nid, const char *value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
  if (extension == NULL) {
    return 0;
  }
  int ok = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return ok;
}

/// Names are added as values, not as configuration text, so that a comma in one cannot add another.
static int add_host_names(X509 *certificate, const char *const *host_names, size_t count) {
  GENERAL_NAMES *names = GENERAL_NAMES_new();
  int ok = names != NULL;
  for (size_t i = 0; ok && i < count; i++) {
    GENERAL_NAME *name = GENERAL_NAME_new();
    if (name == NULL) {
      ok = 0;
      break;
    }
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(host_names[i]);
    if (address != NULL) {
      GENERAL_NAME_set0_value(name, GEN_IPADD, address);
    } else {
      ERR_clear_error();
      ASN1_IA5STRING *text = ASN1_IA5STRING_new();
      ok = text != NULL && ASN1_STRING_set(text, host_names[i], -1) == 1;
      if (ok) {
        GENERAL_NAME_set0_value(name, GEN_DNS, text);
      } else {
        ASN1_IA5STRING_free(text);
      }
    }
    if (!ok || sk_GENERAL_NAME_push(names, name) <= 0) {
      GENERAL_NAME_free(name);
      ok = 0;
    }
  }
  ok = ok && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
  GENERAL_NAMES_free(names);
  return ok;
}

static int set_common(
    X509 *certificate, EVP_PKEY *key, const char *subject, const X509 *issuer, int64_t not_before, int64_t not_after) {
  X509_NAME *name = X509_get_subject_name(certificate);
  return X509_set_version(certificate, X509_VERSION_3) == 1 && set_serial(certificate) &&
         X509_gmtime_adj(X509_getm_notBefore(certificate), (long)not_before) != NULL &&
         X509_gmtime_adj(X509_getm_notAfter(certificate), (long)not_after) != NULL &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)subject, -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, issuer == NULL ? name : X509_get_subject_name(issuer)) == 1 &&
         X509_set_pubkey(certificate, key) == 1;
}

static X509 *make_authority(EVP_PKEY *key) {
  X509 *certificate = X509_new();
  if (certificate == NULL) {
    return NULL;
  }
  int ok = set_common(certificate, key, "uploadfs development CA", NULL, -day_seconds, 3650 * day_seconds) &&
           add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") &&
           add_extension(certificate, certificate, NID_subject_key_identifier, "hash") &&
           X509_sign(certificate, key, EVP_sha256()) > 0;
  if (!ok) {
    X509_free(certificate);
    return NULL;
  }
  return certificate;
}

static X509 *make_leaf(
    EVP_PKEY *key, X509 *authority, EVP_PKEY *authority_key, const char *const *host_names, size_t count,
    int64_t not_before, int64_t not_after) {
  X509 *certificate = X509_new();
  if (certificate == NULL) {
    return NULL;
  }
  int ok = set_common(certificate, key, "uploadfs development server", authority, not_before, not_after) &&
           add_extension(certificate, authority, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, authority, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, authority, NID_ext_key_usage, "serverAuth") &&
           add_extension(certificate, authority, NID_subject_key_identifier, "hash") &&
           add_extension(certificate, authority, NID_authority_key_identifier, "keyid:always") &&
           add_host_names(certificate, host_names, count) && X509_sign(certificate, authority_key, EVP_sha256()) > 0;
  if (!ok) {
    X509_free(certificate);
    return NULL;
  }
  return certificate;
}

/// The BIO's bytes as a text that free(3) releases; NULL without memory. The BIO is wiped and freed.
static char *take_text(BIO *memory, int is_written) {
  char *data = NULL;
  const long size = BIO_get_mem_data(memory, &data);
  char *text = is_written && size >= 0 ? malloc((size_t)size + 1) : NULL;
  if (text != NULL) {
    memcpy(text, data, (size_t)size);
    text[size] = '\0';
  }
  if (size > 0) {
    OPENSSL_cleanse(data, (size_t)size);
  }
  BIO_free(memory);
  return text;
}

static char *certificate_text(X509 *certificate) {
  BIO *memory = BIO_new(BIO_s_mem());
  return memory == NULL ? NULL : take_text(memory, PEM_write_bio_X509(memory, certificate) == 1);
}

static char *key_text(EVP_PKEY *key) {
  BIO *memory = BIO_new(BIO_s_mem());
  return memory == NULL ? NULL
                        : take_text(memory, PEM_write_bio_PKCS8PrivateKey(memory, key, NULL, NULL, 0, NULL, NULL) == 1);
}

int uploadfs_certificate_make(
    const char *const *host_names, size_t host_name_count, int64_t not_before_offset, int64_t not_after_offset,
    uploadfs_certificate *output, char *reason, size_t reason_size) {
  memset(output, 0, sizeof *output);
  ERR_clear_error();
  EVP_PKEY *authority_key = EVP_EC_gen("P-256");
  EVP_PKEY *leaf_key = EVP_EC_gen("P-256");
  X509 *authority = authority_key == NULL ? NULL : make_authority(authority_key);
  X509 *leaf = leaf_key == NULL || authority == NULL
                   ? NULL
                   : make_leaf(
                         leaf_key, authority, authority_key, host_names, host_name_count, not_before_offset,
                         not_after_offset);
  if (leaf != NULL) {
    output->authority = certificate_text(authority);
    output->chain = certificate_text(leaf);
    output->key = key_text(leaf_key);
  }
  const int ok = output->authority != NULL && output->chain != NULL && output->key != NULL;
  if (!ok) {
    uploadfs_certificate_free(output);
    const unsigned long code = ERR_peek_last_error();
    if (reason_size > 0) {
      reason[0] = '\0';
      ERR_error_string_n(code, reason, reason_size);
    }
  }
  X509_free(leaf);
  X509_free(authority);
  EVP_PKEY_free(leaf_key);
  EVP_PKEY_free(authority_key);
  return ok;
}

void uploadfs_certificate_free(uploadfs_certificate *certificate) {
  if (certificate->key != NULL) {
    OPENSSL_cleanse(certificate->key, strlen(certificate->key));
  }
  free(certificate->authority);
  free(certificate->chain);
  free(certificate->key);
  memset(certificate, 0, sizeof *certificate);
}

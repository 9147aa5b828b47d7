// The least that a program must do to upload with libcurl: the reference that uploadfs is measured against.
//
//   plain-upload chunks URL CA_FILE TOKEN_FILE FILE CHUNK_BYTES CONNECTIONS UPLOAD_BUFFER_BYTES
//   plain-upload chunks-http2 (the same)
//   plain-upload files  URL CA_FILE TOKEN_FILE FILE FILE_BYTES  CONNECTIONS UPLOAD_BUFFER_BYTES COUNT
//   plain-upload self-test
//   plain-upload version       prints that of libcurl
//
// `chunks` opens one session and PUTs the file as its chunks; `files` PUTs pieces of the file as small whole files, named
// benchmark-plain/N. One curl multi handle on one thread, HTTP/1.1 over TLS 1.3; `chunks-http2` sends as many requests at a
// time over one HTTP/2 connection. The receiver demands digests and tags
// (docs/protocol.md), so these are computed before the clock starts. Then the program prints `ready`, waits for a line
// on standard input, sends everything, prints one line of JSON, waits for another line, and gives its session up.
#define _GNU_SOURCE
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { digest_bytes = SHA256_DIGEST_LENGTH, hex_bytes = 2 * SHA256_DIGEST_LENGTH + 1, text_max = 512 };

struct job {
  char url[text_max];
  struct curl_slist *headers;
  const uint8_t *bytes;
  size_t count, offset;
};

struct response {
  size_t count;
  char text[4096];
};

static const char *ca_file;
static char authorization[text_max];
static long upload_buffer_bytes;
static int shares_connection;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "plain-upload: %s: %s\n", what, why);
  exit(1);
}

static double seconds(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Digests and tags, as docs/protocol.md says.

static void hex(const uint8_t *bytes, size_t count, char *text) {
  for (size_t index = 0; index < count; index++) sprintf(text + 2 * index, "%02x", bytes[index]);
}

static void hmac(const uint8_t *key, size_t key_count, const void *bytes, size_t count, uint8_t *digest) {
  unsigned size = digest_bytes;
  if (HMAC(EVP_sha256(), key, (int)key_count, bytes, count, digest, &size) == NULL) fail("HMAC", "failed");
}

// HKDF-SHA256 (RFC 5869) to 32 bytes, which is one block.
static void derive(const void *key, size_t key_count, const uint8_t *salt, const char *info, uint8_t *output) {
  static const uint8_t zeros[digest_bytes];
  uint8_t extracted[digest_bytes], block[text_max];
  hmac(salt ? salt : zeros, digest_bytes, key, key_count, extracted);
  size_t count = strlen(info);
  memcpy(block, info, count);
  block[count] = 1;
  hmac(extracted, digest_bytes, block, count + 1, output);
}

static void session_key(const char *secret, const uint8_t *nonce, const char *session, uint8_t *key) {
  uint8_t master[digest_bytes];
  char info[text_max];
  derive(secret, strlen(secret), NULL, "uploadfs master key v1", master);
  snprintf(info, sizeof info, "uploadfs chunk hmac v1%s", session);
  derive(master, digest_bytes, nonce, info, key);
}

static void tag(const uint8_t *key, uint32_t index, uint64_t size, const char *sha256, const char *session,
                const uint8_t *nonce, char *text) {
  uint8_t message[12 + 64 + text_max + digest_bytes], digest[digest_bytes];
  size_t session_count = strlen(session);
  for (int byte = 0; byte < 4; byte++) message[byte] = (uint8_t)(index >> (8 * byte));
  for (int byte = 0; byte < 8; byte++) message[4 + byte] = (uint8_t)(size >> (8 * byte));
  memcpy(message + 12, sha256, 64);
  memcpy(message + 76, session, session_count);
  memcpy(message + 76 + session_count, nonce, digest_bytes);
  hmac(key, digest_bytes, message, 76 + session_count + digest_bytes, digest);
  hex(digest, digest_bytes, text);
}

static uint32_t crc32c(const uint8_t *bytes, size_t count) {
  static uint32_t table[256];
  if (table[1] == 0)
    for (uint32_t index = 0; index < 256; index++) {
      uint32_t value = index;
      for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0x82f63b78 : value >> 1;
      table[index] = value;
    }
  uint32_t crc = ~0u;
  for (size_t index = 0; index < count; index++) crc = crc >> 8 ^ table[(crc ^ bytes[index]) & 0xff];
  return ~crc;
}

static int self_test(void) {
  // The example of docs/protocol.md, and the check value of CRC-32C.
  uint8_t nonce[digest_bytes], key[digest_bytes], digest[digest_bytes];
  char sha256[hex_bytes], text[hex_bytes];
  for (int index = 0; index < digest_bytes; index++) nonce[index] = (uint8_t)index;
  session_key("example-token", nonce, "0123456789abcdef", key);
  SHA256((const uint8_t *)"abc", 3, digest);
  hex(digest, digest_bytes, sha256);
  tag(key, 7, 3, sha256, "0123456789abcdef", nonce, text);
  int right = strcmp(text, "690f364446be8dce993c38240cccb856a481f3daa0b566880bff7e31de5a52f7") == 0 &&
              crc32c((const uint8_t *)"123456789", 9) == 0xe3069283;
  puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}

// libcurl.

static void check(CURLcode code, const char *what) {
  if (code != CURLE_OK) fail(what, curl_easy_strerror(code));
}
#define set(easy, option, value) check(curl_easy_setopt(easy, option, value), #option)

static size_t take_response(char *bytes, size_t size, size_t count, void *context) {
  struct response *response = context;
  size_t taken = size * count, room = sizeof response->text - 1 - response->count;
  memcpy(response->text + response->count, bytes, taken < room ? taken : room);
  response->count += taken < room ? taken : room;
  response->text[response->count] = 0;
  return taken;
}

static size_t read_job(char *buffer, size_t size, size_t count, void *context) {
  struct job *job = context;
  size_t wanted = size * count, left = job->count - job->offset, taken = wanted < left ? wanted : left;
  memcpy(buffer, job->bytes + job->offset, taken);
  job->offset += taken;
  return taken;
}

static int seek_job(void *context, curl_off_t offset, int origin) {
  struct job *job = context;
  if (origin != SEEK_SET || offset < 0 || (size_t)offset > job->count) return CURL_SEEKFUNC_FAIL;
  job->offset = (size_t)offset;
  return CURL_SEEKFUNC_OK;
}

static void configure(CURL *easy, const char *url, struct curl_slist *headers, struct response *response) {
  response->count = 0;
  response->text[0] = 0;
  set(easy, CURLOPT_URL, url);
  set(easy, CURLOPT_CAINFO, ca_file);
  set(easy, CURLOPT_PROXY, "");
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_HTTP_VERSION, (long)(shares_connection ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  set(easy, CURLOPT_PIPEWAIT, (long)shares_connection);
  set(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
  set(easy, CURLOPT_TCP_NODELAY, 1L);
  set(easy, CURLOPT_HTTPHEADER, headers);
  set(easy, CURLOPT_WRITEFUNCTION, take_response);
  set(easy, CURLOPT_WRITEDATA, response);
}

static struct curl_slist *header(struct curl_slist *list, const char *name, const char *value) {
  char line[2 * text_max];
  snprintf(line, sizeof line, "%s: %s", name, value);
  list = curl_slist_append(list, line);
  if (list == NULL) fail("curl_slist_append", "out of memory");
  return list;
}

static struct curl_slist *common_headers(void) {
  return header(header(NULL, "Authorization", authorization), "Expect", "");
}

static const char *member(const char *json, const char *name) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\"", name);
  const char *found = strstr(json, quoted);
  if (found == NULL) fail("unexpected answer", json);
  return found + strlen(quoted) + strspn(found + strlen(quoted), " :\"");
}

static void open_session(const char *base, const uint8_t *nonce, uint64_t size, size_t *chunk_bytes, char *session) {
  static struct response response;
  char url[text_max], body[text_max], key[text_max], nonce_text[hex_bytes];
  hex(nonce, digest_bytes, nonce_text);
  snprintf(url, sizeof url, "%s/v1/uploads", base);
  snprintf(key, sizeof key, "\"%s\"", nonce_text);
  snprintf(body, sizeof body,
           "{\"name\":\"benchmark-plain.bin\",\"size\":%llu,\"chunk_size\":%zu,\"modified_ns\":0,\"mode\":420,"
           "\"file_id\":\"benchmark\",\"revision\":1,\"nonce\":\"%s\"}",
           (unsigned long long)size, *chunk_bytes, nonce_text);
  struct curl_slist *headers = header(common_headers(), "Idempotency-Key", key);
  headers = header(headers, "Content-Type", "application/json");
  CURL *easy = curl_easy_init();
  configure(easy, url, headers, &response);
  set(easy, CURLOPT_POSTFIELDS, body);
  check(curl_easy_perform(easy), url);
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200 && status != 201) fail("opening a session", response.text);
  const char *id = member(response.text, "id");
  size_t count = strcspn(id, "\"");
  if (count == 0 || count >= text_max / 2) fail("session id", response.text);
  memcpy(session, id, count);
  session[count] = 0;
  *chunk_bytes = strtoull(member(response.text, "chunk_size"), NULL, 10);
  if (*chunk_bytes == 0) fail("chunk size", response.text);
  curl_easy_cleanup(easy);
  curl_slist_free_all(headers);
}

static void end_session(const char *base, const char *session) {
  static struct response response;
  char url[text_max];
  snprintf(url, sizeof url, "%s/v1/uploads/%s", base, session);
  struct curl_slist *headers = common_headers();
  CURL *easy = curl_easy_init();
  configure(easy, url, headers, &response);
  set(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
  check(curl_easy_perform(easy), url);
  curl_easy_cleanup(easy);
  curl_slist_free_all(headers);
}

// Digests, tag and header lines of one job; `session` is the id that the tag is bound to.
static void prepare(struct job *job, const char *secret, const char *session, const uint8_t *nonce, uint32_t index) {
  uint8_t key[digest_bytes], digest[digest_bytes];
  char sha256[hex_bytes], text[hex_bytes];
  session_key(secret, nonce, session, key);
  SHA256(job->bytes, job->count, digest);
  hex(digest, digest_bytes, sha256);
  tag(key, index, job->count, sha256, session, nonce, text);
  job->headers = header(common_headers(), "X-Chunk-SHA256", sha256);
  job->headers = header(job->headers, "X-Chunk-HMAC", text);
  snprintf(text, sizeof text, "%08x", crc32c(job->bytes, job->count));
  job->headers = header(job->headers, "X-Chunk-CRC32C", text);
  snprintf(text, sizeof text, "%zu", job->count);
  job->headers = header(job->headers, "X-Chunk-Size", text);
}

static void prepare_file(struct job *job, const char *base, const char *secret, uint32_t index) {
  uint8_t nonce[digest_bytes];
  char nonce_text[hex_bytes], key[text_max];
  if (RAND_bytes(nonce, sizeof nonce) != 1) fail("RAND_bytes", "failed");
  hex(nonce, digest_bytes, nonce_text);
  prepare(job, secret, nonce_text, nonce, 0);
  snprintf(key, sizeof key, "\"%s\"", nonce_text);
  job->headers = header(job->headers, "Idempotency-Key", key);
  job->headers = header(job->headers, "X-Chunk-Nonce", nonce_text);
  snprintf(job->url, sizeof job->url, "%s/v1/files/benchmark-plain/%06u.bin", base, index);
}

static void start(CURLM *multi, CURL *easy, struct job *job, struct response *response) {
  curl_easy_reset(easy);
  configure(easy, job->url, job->headers, response);
  set(easy, CURLOPT_UPLOAD, 1L);
  set(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)job->count);
  set(easy, CURLOPT_READFUNCTION, read_job);
  set(easy, CURLOPT_READDATA, job);
  set(easy, CURLOPT_SEEKFUNCTION, seek_job);
  set(easy, CURLOPT_SEEKDATA, job);
  set(easy, CURLOPT_UPLOAD_BUFFERSIZE, upload_buffer_bytes);
  set(easy, CURLOPT_PRIVATE, response);
  if (curl_multi_add_handle(multi, easy) != CURLM_OK) fail("curl_multi_add_handle", "failed");
}

static void finish(CURL *easy, CURLcode code) {
  struct response *response = NULL;
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&response);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  check(code, "PUT");
  if (status != 200 && status != 201) fail("PUT", response->text);
}

static void send_all(struct job *jobs, size_t count, size_t connections) {
  CURLM *multi = curl_multi_init();
  CURL **handles = calloc(connections, sizeof *handles);
  struct response *responses = calloc(connections, sizeof *responses);
  if (multi == NULL || handles == NULL || responses == NULL) fail("calloc", "out of memory");
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)connections);
  size_t next = 0, done = 0;
  for (; next < connections && next < count; next++) {
    handles[next] = curl_easy_init();
    start(multi, handles[next], &jobs[next], &responses[next]);
  }
  while (done < count) {
    int running = 0, left = 0;
    if (curl_multi_perform(multi, &running) != CURLM_OK) fail("curl_multi_perform", "failed");
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
      CURL *easy = message->easy_handle;
      struct response *response = NULL;
      finish(easy, message->data.result);
      curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&response);
      curl_multi_remove_handle(multi, easy);
      done++;
      if (next < count) start(multi, easy, &jobs[next++], response);
    }
    if (done < count && curl_multi_poll(multi, NULL, 0, running > 0 ? 1000 : 0, NULL) != CURLM_OK)
      fail("curl_multi_poll", "failed");
  }
  for (size_t index = 0; index < connections; index++) curl_easy_cleanup(handles[index]);
  curl_multi_cleanup(multi);
  free(handles);
  free(responses);
}

static void wait_for_line(void) {
  int character;
  while ((character = getchar()) != '\n')
    if (character == EOF) exit(1);
}

static const char *read_token(const char *path) {
  static char token[text_max / 2];
  FILE *file = fopen(path, "r");
  if (file == NULL || fgets(token, sizeof token, file) == NULL) fail(path, "cannot be read");
  fclose(file);
  token[strcspn(token, "\r\n")] = 0;
  return token;
}

static const uint8_t *map(const char *path, uint64_t *size) {
  struct stat status;
  int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0) fail(path, strerror(errno));
  void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  if (bytes == MAP_FAILED) fail(path, strerror(errno));
  close(file);
  *size = (uint64_t)status.st_size;
  return bytes;
}

int main(int argument_count, char **arguments) {
  if (argument_count == 2 && strcmp(arguments[1], "self-test") == 0) return self_test();
  if (argument_count == 2 && strcmp(arguments[1], "version") == 0) {
    puts(curl_version_info(CURLVERSION_NOW)->version);
    return 0;
  }
  int has_files = argument_count == 10 && strcmp(arguments[1], "files") == 0;
  shares_connection = argument_count == 9 && strcmp(arguments[1], "chunks-http2") == 0;
  if (!has_files && !shares_connection && !(argument_count == 9 && strcmp(arguments[1], "chunks") == 0)) {
    fputs("usage: see the head of plain-upload.c\n", stderr);
    return 64;
  }
  const char *base = arguments[2], *secret = read_token(arguments[4]);
  ca_file = arguments[3];
  snprintf(authorization, sizeof authorization, "Bearer %s", secret);
  size_t piece_bytes = strtoull(arguments[6], NULL, 10), connections = strtoull(arguments[7], NULL, 10);
  upload_buffer_bytes = strtol(arguments[8], NULL, 10);
  uint64_t size;
  const uint8_t *bytes = map(arguments[5], &size);
  check(curl_global_init(CURL_GLOBAL_DEFAULT), "curl_global_init");

  uint8_t nonce[digest_bytes];
  char session[text_max] = "";
  if (RAND_bytes(nonce, sizeof nonce) != 1) fail("RAND_bytes", "failed");
  if (!has_files) open_session(base, nonce, size, &piece_bytes, session);
  size_t count = has_files ? strtoull(arguments[9], NULL, 10) : (size_t)((size + piece_bytes - 1) / piece_bytes);
  if (has_files && count * piece_bytes > size) fail(arguments[5], "is too small for that many files");
  struct job *jobs = calloc(count, sizeof *jobs);
  if (jobs == NULL) fail("calloc", "out of memory");
  for (size_t index = 0; index < count; index++) {
    uint64_t offset = (uint64_t)index * piece_bytes;
    jobs[index].bytes = bytes + offset;
    jobs[index].count = size - offset < piece_bytes ? (size_t)(size - offset) : piece_bytes;
    if (has_files) {
      prepare_file(&jobs[index], base, secret, (uint32_t)index);
    } else {
      prepare(&jobs[index], secret, session, nonce, (uint32_t)index);
      snprintf(jobs[index].url, text_max, "%s/v1/uploads/%s/chunks/%zu", base, session, index);
    }
  }

  puts("ready");
  fflush(stdout);
  wait_for_line();
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  double start_time = now();
  send_all(jobs, count, connections);
  double end_time = now();
  getrusage(RUSAGE_SELF, &after);
  double cpu = seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) - seconds(before.ru_stime);
  printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"requests\": %zu}\n", end_time - start_time, cpu, count);
  fflush(stdout);
  wait_for_line();
  if (!has_files) end_session(base, session);
  return 0;
}

// Writes like a capture tool: one large file in blocks of one size, or many small files; or makes empty files, looks at them
// and removes them again; or holds files open until its standard input ends.
//
//   write-files one PATH BYTES BLOCK_BYTES
//   write-files many DIRECTORY COUNT BYTES
//   write-files names DIRECTORY COUNT 0
//   write-files hold DIRECTORY COUNT BYTES
//
// The bytes cannot be compressed, and no two blocks of a file are alike. Prints one line of JSON: `seconds` from the
// first open to the end of the last close, `closing_at`, the monotonic clock just before the last close, and
// `closed_at`, after it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *call, const char *path) {
  fprintf(stderr, "write-files: %s %s: %s\n", call, path, strerror(errno));
  exit(1);
}

// What is written comes back after this many bytes only: far beyond the window of any compressor that is used here.
enum { PERIOD_BYTES = 1 << 20 };

static uint64_t *noise(size_t bytes) {
  uint64_t *words = malloc(bytes + sizeof *words);
  if (words == NULL) fail("malloc", "");
  uint64_t state = 0x9e3779b97f4a7c15;
  for (size_t index = 0; index <= bytes / sizeof *words; index++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    words[index] = state;
  }
  return words;
}

// Writes a whole file; returns the clock just before it is closed.
static double write_file(const char *path, uint64_t seed, uint64_t bytes, uint64_t *block, size_t block_bytes) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail("open", path);
  for (uint64_t offset = 0; offset < bytes;) {
    size_t wanted = bytes - offset < block_bytes ? (size_t)(bytes - offset) : block_bytes;
    uint64_t *from = block + offset % PERIOD_BYTES / sizeof *block;
    from[0] = seed + offset;
    ssize_t written = write(file, from, wanted);
    if (written < 0) fail("write", path);
    offset += (uint64_t)written;
  }
  double closing = now();
  if (close(file) != 0) fail("close", path);
  return closing;
}

// Each in a round of its own, as `cp -r`, `ls -l` and `rm -r` do it.
static double make_look_remove(const char *folder, unsigned files) {
  char path[4096];
  struct stat status;
  double made = 0;
  for (int round = 0; round < 3; round++) {
    for (unsigned index = 0; index < files; index++) {
      snprintf(path, sizeof path, "%s/%06u.bin", folder, index);
      if (round == 0) {
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (file < 0 || close(file) != 0) fail("make", path);
      } else if (round == 1) {
        if (stat(path, &status) != 0) fail("stat", path);
      } else if (unlink(path) != 0) {
        fail("unlink", path);
      }
    }
    if (round == 0) made = now();
  }
  return made;
}

static void hold(const char *folder, unsigned files, uint64_t *block, size_t bytes) {
  char path[4096];
  for (unsigned index = 0; index < files; index++) {
    snprintf(path, sizeof path, "%s/%06u.bin", folder, index);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) fail("open", path);
    if (write(file, block, bytes) != (ssize_t)bytes) fail("write", path);
  }
  puts("held");
  fflush(stdout);
  while (getchar() != EOF) continue;
}

int main(int count, char **arguments) {
  if (count != 5) {
    fputs("usage: write-files one PATH BYTES BLOCK_BYTES | write-files many|names|hold DIRECTORY COUNT BYTES\n", stderr);
    return 64;
  }
  double start, closing = 0;
  if (strcmp(arguments[1], "names") == 0) {
    start = now();
    closing = make_look_remove(arguments[2], (unsigned)strtoul(arguments[3], NULL, 10));
  } else if (strcmp(arguments[1], "hold") == 0) {
    size_t bytes = strtoull(arguments[4], NULL, 10);
    start = now();
    hold(arguments[2], (unsigned)strtoul(arguments[3], NULL, 10), noise(bytes), bytes);
  } else if (strcmp(arguments[1], "one") == 0) {
    size_t block_bytes = strtoull(arguments[4], NULL, 10);
    uint64_t *block = noise(PERIOD_BYTES + block_bytes);
    start = now();
    closing = write_file(arguments[2], 0, strtoull(arguments[3], NULL, 10), block, block_bytes);
  } else {
    unsigned files = (unsigned)strtoul(arguments[3], NULL, 10);
    size_t bytes = strtoull(arguments[4], NULL, 10);
    uint64_t *block = noise(PERIOD_BYTES + bytes);
    char path[4096];
    start = now();
    for (unsigned index = 0; index < files; index++) {
      snprintf(path, sizeof path, "%s/%06u.bin", arguments[2], index);
      closing = write_file(path, (uint64_t)index << 32, bytes, block, bytes);
    }
  }
  double end = now();
  printf("{\"seconds\": %.6f, \"closing_at\": %.6f, \"closed_at\": %.6f}\n", end - start, closing, end);
  return 0;
}

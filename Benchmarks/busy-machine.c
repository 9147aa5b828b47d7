// What goes on beside an upload: an encoder that takes all processors, or a recorder that must not be held up.
//
//   busy-machine encode THREADS SECONDS
//   busy-machine record FOLDER SECONDS BYTES_PER_SECOND BLOCK_BYTES
//
// `encode` transforms blocks that lie in the cache, without a pause, and prints how many it has done: {"blocks": N}.
// `record` writes file after file of ten seconds, each block at its time, and removes each file two files later. It prints how
// long its writes took, in milliseconds: the longest, and how many took longer than each power of two.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *call, const char *path) {
  fprintf(stderr, "busy-machine: %s %s: %s\n", call, path, strerror(errno));
  exit(1);
}

enum { SAMPLES = 64 * 1024 };

static double ends_at;

// As video encoders do, mostly: sums of products over samples that were just read.
static void *encode(void *context) {
  uint64_t *blocks = context;
  int16_t *samples = malloc(SAMPLES * sizeof *samples);
  if (samples == NULL) fail("malloc", "");
  for (int index = 0; index < SAMPLES; index++) samples[index] = (int16_t)(index * 7919);
  while (now() < ends_at) {
    for (int start = 0; start < SAMPLES; start += 8) {
      int32_t sums[8] = {0};
      for (int row = 0; row < 8; row++) {
        for (int column = 0; column < 8; column++) sums[row] += samples[start + column] * (row * column % 17 - 8);
      }
      for (int row = 0; row < 8; row++) samples[start + row] = (int16_t)(sums[row] >> 3);
    }
    (*blocks)++;
  }
  free(samples);
  return NULL;
}

static int run_encoder(int threads, double seconds) {
  pthread_t thread[256];
  // Each counts in a cache line of its own.
  uint64_t *blocks = aligned_alloc(64, 256 * 64);
  if (blocks == NULL || threads < 1 || threads > 256) fail("encode", "");
  memset(blocks, 0, 256 * 64);
  ends_at = now() + seconds;
  for (int index = 0; index < threads; index++) {
    // Each stays on a processor of its own, so that it is not measured how the system moves threads about.
    pthread_attr_t attributes;
    cpu_set_t processor;
    CPU_ZERO(&processor);
    CPU_SET(index, &processor);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof processor, &processor);
    if (pthread_create(&thread[index], &attributes, encode, blocks + index * 8) != 0) fail("pthread_create", "");
  }
  uint64_t total = 0;
  for (int index = 0; index < threads; index++) {
    pthread_join(thread[index], NULL);
    total += blocks[index * 8];
  }
  printf("{\"blocks\": %llu}\n", (unsigned long long)total);
  return 0;
}

enum { FILE_SECONDS = 10, POWERS = 16 };

static int run_recorder(const char *folder, double seconds, double rate, size_t block_bytes) {
  uint64_t *block = malloc(block_bytes), state = 0x9e3779b97f4a7c15;
  if (block == NULL) fail("malloc", "");
  for (size_t index = 0; index < block_bytes / sizeof *block; index++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    block[index] = state;
  }
  // longer[n]: longer than 2^(n−4) ms.
  unsigned long longer[POWERS] = {0}, writes = 0;
  double longest = 0, begun = now();
  char path[4096];
  for (int number = 0; now() < begun + seconds; number++) {
    snprintf(path, sizeof path, "%s/take-%04d.bin", folder, number);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) fail("open", path);
    double file_begun = now();
    for (uint64_t offset = 0; now() < begun + seconds && offset < FILE_SECONDS * rate; offset += block_bytes) {
      double pause = file_begun + (double)offset / rate - now();
      if (pause > 0) usleep((useconds_t)(pause * 1e6));
      block[0] = ++writes;
      double start = now();
      if (write(file, block, block_bytes) != (ssize_t)block_bytes) fail("write", path);
      double took = (now() - start) * 1e3;
      if (took > longest) longest = took;
      for (int power = 0; power < POWERS; power++) longer[power] += took > (double)(1 << power) / 16;
    }
    if (close(file) != 0) fail("close", path);
    if (number < 2) continue;
    snprintf(path, sizeof path, "%s/take-%04d.bin", folder, number - 2);
    if (unlink(path) != 0) fail("unlink", path);
  }
  printf("{\"writes\": %lu, \"longest_ms\": %.3f, \"longer_than_ms\": {", writes, longest);
  for (int power = 0; power < POWERS; power++) {
    printf("%s\"%g\": %lu", power ? ", " : "", (double)(1 << power) / 16, longer[power]);
  }
  puts("}}");
  return 0;
}

int main(int count, char **arguments) {
  if (count == 4 && strcmp(arguments[1], "encode") == 0) return run_encoder(atoi(arguments[2]), atof(arguments[3]));
  if (count == 6 && strcmp(arguments[1], "record") == 0) {
    return run_recorder(arguments[2], atof(arguments[3]), atof(arguments[4]), strtoull(arguments[5], NULL, 10));
  }
  fputs("usage: busy-machine encode THREADS SECONDS | record FOLDER SECONDS BYTES_PER_SECOND BLOCK_BYTES\n", stderr);
  return 64;
}

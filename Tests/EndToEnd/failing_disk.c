// A disk that fails on command: a FUSE filesystem with one file, "disk", to lay a loop device on.
//
//   failing_disk FOLDER IMAGE RULES [volatile]
//
// What is read and written is that of IMAGE. RULES names a file of rules, one per line, which may change at any time; without it
// nothing fails. A rule is CALL ERRNO [WHERE [MILLISECONDS]]: a read or a write ("*": either) fails, after a while perhaps, and
// with an ERRNO of 0 it succeeds then. WHERE is TEXT: those of which any 4096 bytes begin with it, so that what a test has written
// fails, and the filesystem's own blocks do not. Or it is @FROM-TO: those that touch these bytes of the disk. Or "*", all. Each call
// that failed is a line of RULES.log.
//
// A volatile disk has a write cache: what was written since the last flush is remembered, and "cut SEED PERCENT BLOCKS", written to the
// file "power", takes PERCENT of it away, in runs of so many blocks that the seed draws. From then on every call fails, and IMAGE is
// what the disk holds when the power comes back.
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 4096 };

static int image;
static const char *rules;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// The write cache: for each block that was written since the last flush, in the order of the first writes, what it held before.
struct block {
  off_t at;
  char before[BLOCK_BYTES];
};
static int is_volatile, is_cut;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block **cached;
static size_t cached_count, cached_room;
// One byte for each block of the disk: it is in the cache.
static char *is_cached;

// What is written is remembered first. The cache's lock is held.
static int remember(size_t count, off_t offset) {
  const off_t end = offset + (off_t)count;
  for (off_t at = offset - offset % BLOCK_BYTES; at < end; at += BLOCK_BYTES) {
    if (is_cached[at / BLOCK_BYTES]) continue;
    if (cached_count == cached_room) {
      cached_room = cached_room ? 2 * cached_room : 1024;
      struct block **more = realloc(cached, cached_room * sizeof *more);
      if (more == NULL) return -1;
      cached = more;
    }
    struct block *block = malloc(sizeof *block);
    if (block == NULL || pread(image, block->before, BLOCK_BYTES, at) != BLOCK_BYTES) return -1;
    block->at = at;
    cached[cached_count++] = block;
    is_cached[at / BLOCK_BYTES] = 1;
  }
  return 0;
}

static void forget_cached(void) {
  for (size_t index = 0; index < cached_count; index++) {
    is_cached[cached[index]->at / BLOCK_BYTES] = 0;
    free(cached[index]);
  }
  cached_count = 0;
}

// xorshift64: the same seed draws the same runs of the same writes.
static uint64_t draw(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static int by_place(const void *left, const void *right) {
  const off_t one = (*(struct block *const *)left)->at, other = (*(struct block *const *)right)->at;
  return (one > other) - (one < other);
}

static int cut_power(uint64_t seed, unsigned percent, unsigned blocks) {
  pthread_mutex_lock(&cache_lock);
  is_cut = 1;
  int result = 0;
  uint64_t state = seed * 2 + 1;
  qsort(cached, cached_count, sizeof *cached, by_place);
  for (size_t index = 0; index < cached_count;) {
    const int is_lost = draw(&state) % 100 < percent;
    for (size_t end = index + 1 + draw(&state) % blocks; index < end && index < cached_count; index++)
      if (is_lost && pwrite(image, cached[index]->before, BLOCK_BYTES, cached[index]->at) != BLOCK_BYTES) result = -EIO;
  }
  forget_cached();
  pthread_mutex_unlock(&cache_lock);
  return result;
}

static int begins_with(const char *bytes, size_t count, const char *text) {
  const size_t length = strlen(text);
  if (length == 0) return 1;
  for (size_t at = 0; at + length <= count; at += BLOCK_BYTES)
    if (memcmp(bytes + at, text, length) == 0) return 1;
  return 0;
}

static int concerns(const char *where, const char *bytes, size_t count, off_t offset) {
  long long from, to;
  if (strcmp(where, "*") == 0) return 1;
  if (sscanf(where, "@%lld-%lld", &from, &to) == 2) return offset < to && offset + (off_t)count > from;
  return begins_with(bytes, count, where);
}

// The errno that a call fails with; 0 when it does not. Waits first where a rule says so.
static int fails(const char *call, const char *bytes, size_t count, off_t offset) {
  pthread_mutex_lock(&lock);
  int found = 0;
  long milliseconds = 0;
  FILE *file = fopen(rules, "re");
  char line[512];
  while (file != NULL && found == 0 && fgets(line, sizeof line, file) != NULL) {
    char name[16] = "", where[256] = "*";
    int error = 0;
    long pause = 0;
    if (sscanf(line, "%15s %d %255s %ld", name, &error, where, &pause) < 2) continue;
    if (strcmp(name, call) != 0 && strcmp(name, "*") != 0) continue;
    if (!concerns(where, bytes, count, offset)) continue;
    found = error;
    milliseconds += pause;
  }
  if (file != NULL) fclose(file);
  if (found != 0) {
    char log[PATH_MAX];
    snprintf(log, sizeof log, "%s.log", rules);
    FILE *written = fopen(log, "ae");
    if (written != NULL) {
      fprintf(written, "%s %zu at %lld: %d\n", call, count, (long long)offset, found);
      fclose(written);
    }
  }
  pthread_mutex_unlock(&lock);
  if (milliseconds > 0) nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
  return found;
}

static int is_disk(const char *path) { return strcmp(path, "/disk") == 0; }
static int is_power(const char *path) { return is_volatile && strcmp(path, "/power") == 0; }

static int disk_getattr(const char *path, struct stat *facts, struct fuse_file_info *info) {
  (void)info;
  if (strcmp(path, "/") == 0) {
    memset(facts, 0, sizeof *facts);
    facts->st_mode = S_IFDIR | 0755;
    facts->st_nlink = 2;
    return 0;
  }
  if (is_power(path)) {
    memset(facts, 0, sizeof *facts);
    facts->st_mode = S_IFREG | 0200;
    facts->st_nlink = 1;
    return 0;
  }
  if (!is_disk(path)) return -ENOENT;
  if (fstat(image, facts) != 0) return -errno;
  facts->st_mode = S_IFREG | 0600;
  return 0;
}

static int disk_open(const char *path, struct fuse_file_info *info) {
  // Nothing is to be kept before it: what the loop device is told must be what happened here.
  info->direct_io = 1;
  return is_disk(path) || is_power(path) ? 0 : -ENOENT;
}

static int disk_truncate(const char *path, off_t size, struct fuse_file_info *info) {
  (void)size, (void)info;
  return is_power(path) ? 0 : -EPERM;
}

static int disk_read(const char *path, char *bytes, size_t count, off_t offset, struct fuse_file_info *info) {
  (void)info;
  if (!is_disk(path) || is_cut) return -EIO;
  const ssize_t done = pread(image, bytes, count, offset);
  if (done < 0) return -errno;
  const int error = fails("read", bytes, (size_t)done, offset);
  return error != 0 ? -error : (int)done;
}

static int take_command(const char *bytes, size_t count) {
  char text[64] = "";
  unsigned long long seed;
  unsigned percent, blocks;
  memcpy(text, bytes, count < sizeof text ? count : sizeof text - 1);
  if (sscanf(text, "cut %llu %u %u", &seed, &percent, &blocks) != 3 || blocks == 0) return -EINVAL;
  const int result = cut_power(seed, percent, blocks);
  return result != 0 ? result : (int)count;
}

static int disk_write(const char *path, const char *bytes, size_t count, off_t offset, struct fuse_file_info *info) {
  (void)info;
  if (is_power(path)) return take_command(bytes, count);
  if (is_cut) return -EIO;
  const int error = fails("write", bytes, count, offset);
  if (error != 0) return -error;
  if (!is_volatile) {
    const ssize_t done = pwrite(image, bytes, count, offset);
    return done < 0 ? -errno : (int)done;
  }
  pthread_mutex_lock(&cache_lock);
  const ssize_t done = is_cut || remember(count, offset) != 0 ? -1 : pwrite(image, bytes, count, offset);
  pthread_mutex_unlock(&cache_lock);
  return done < 0 ? -EIO : (int)done;
}

static int disk_fsync(const char *path, int data_only, struct fuse_file_info *info) {
  (void)path, (void)data_only, (void)info;
  if (!is_volatile) return 0;
  pthread_mutex_lock(&cache_lock);
  const int result = is_cut ? -EIO : 0;
  forget_cached();
  pthread_mutex_unlock(&cache_lock);
  return result;
}

static const struct fuse_operations operations = {
    .getattr = disk_getattr, .open = disk_open, .read = disk_read, .write = disk_write, .fsync = disk_fsync,
    .truncate = disk_truncate};

int main(int count, char **words) {
  if (count < 4 || count > 5 || (count == 5 && strcmp(words[4], "volatile") != 0)) return 64;
  image = open(words[2], O_RDWR | O_CLOEXEC);
  if (image < 0) {
    perror(words[2]);
    return 1;
  }
  rules = words[3];
  struct stat facts;
  if (count == 5 && fstat(image, &facts) == 0) {
    is_volatile = 1;
    is_cached = calloc((size_t)facts.st_size / BLOCK_BYTES + 1, 1);
    if (is_cached == NULL) return 1;
  }
  char *arguments[] = {words[0], "-f", words[1], NULL};
  return fuse_main(3, arguments, &operations, NULL);
}

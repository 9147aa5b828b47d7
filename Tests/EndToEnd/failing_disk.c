// A disk that fails on command: a FUSE filesystem with one file, "disk", to lay a loop device on.
//
//   failing_disk FOLDER IMAGE RULES
//
// What is read and written is that of IMAGE. RULES names a file of rules, one per line, which may change at any time; without it
// nothing fails. A rule is CALL ERRNO [WHERE [MILLISECONDS]]: a read or a write ("*": either) fails, after a while perhaps, and
// with an ERRNO of 0 it succeeds then. WHERE is TEXT: those of which any 4096 bytes begin with it, so that what a test has written
// fails, and the filesystem's own blocks do not. Or it is @FROM-TO: those that touch these bytes of the disk. Or "*", all. Each call
// that failed is a line of RULES.log.
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <pthread.h>
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

static int disk_getattr(const char *path, struct stat *facts, struct fuse_file_info *info) {
  (void)info;
  if (strcmp(path, "/") == 0) {
    memset(facts, 0, sizeof *facts);
    facts->st_mode = S_IFDIR | 0755;
    facts->st_nlink = 2;
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
  return is_disk(path) ? 0 : -ENOENT;
}

static int disk_read(const char *path, char *bytes, size_t count, off_t offset, struct fuse_file_info *info) {
  (void)path, (void)info;
  const ssize_t done = pread(image, bytes, count, offset);
  if (done < 0) return -errno;
  const int error = fails("read", bytes, (size_t)done, offset);
  return error != 0 ? -error : (int)done;
}

static int disk_write(const char *path, const char *bytes, size_t count, off_t offset, struct fuse_file_info *info) {
  (void)path, (void)info;
  const int error = fails("write", bytes, count, offset);
  if (error != 0) return -error;
  const ssize_t done = pwrite(image, bytes, count, offset);
  return done < 0 ? -errno : (int)done;
}

static int disk_fsync(const char *path, int data_only, struct fuse_file_info *info) {
  (void)path, (void)data_only, (void)info;
  return 0;
}

static const struct fuse_operations operations = {
    .getattr = disk_getattr, .open = disk_open, .read = disk_read, .write = disk_write, .fsync = disk_fsync};

int main(int count, char **words) {
  if (count != 4) return 64;
  image = open(words[2], O_RDWR | O_CLOEXEC);
  if (image < 0) {
    perror(words[2]);
    return 1;
  }
  rules = words[3];
  char *arguments[] = {words[0], "-f", words[1], NULL};
  return fuse_main(3, arguments, &operations, NULL);
}

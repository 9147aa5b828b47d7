// For LD_PRELOAD: system calls fail by rules, as they do on disks that fail.
//
// FAILING names a file of rules, one per line: CALL FIRST COUNT ERRNO TEXT. Of the calls of this name on a path that contains
// TEXT, counted from 1, COUNT fail from the FIRST on; a COUNT of 0 has no end. The file may change at any time, and the counts
// begin anew then. Each call that failed is a line "CALL ERRNO PATH" of the file FAILING.log.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { RULES_MAX = 64 };

struct rule {
  char call[32], text[512];
  long first, count, error, seen;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static int rule_count;
static struct timespec read_at;
static long read_size = -1;

static void append_to_log(const char *failing, const char *call, long error, const char *path) {
  char name[PATH_MAX + 8], line[PATH_MAX + 64];
  snprintf(name, sizeof name, "%s.log", failing);
  int length = snprintf(line, sizeof line, "%s %ld %s\n", call, error, path);
  int log = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return;
  if (length > 0) syscall(SYS_write, log, line, (size_t)length);
  syscall(SYS_close, log);
}

static void read_rules(const char *failing) {
  struct stat facts;
  if (syscall(SYS_newfstatat, AT_FDCWD, failing, &facts, 0) != 0) {
    rule_count = 0;
    read_size = -1;
    return;
  }
  if (facts.st_size == read_size && facts.st_mtim.tv_sec == read_at.tv_sec && facts.st_mtim.tv_nsec == read_at.tv_nsec) return;
  static char text[1 << 16];
  int file = (int)syscall(SYS_openat, AT_FDCWD, failing, O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return;
  long length = syscall(SYS_read, file, text, sizeof text - 1);
  syscall(SYS_close, file);
  if (length < 0) return;
  text[length] = 0;
  read_size = facts.st_size;
  read_at = facts.st_mtim;
  rule_count = 0;
  char *rest = text;
  for (char *line = strsep(&rest, "\n"); line != NULL && rule_count < RULES_MAX; line = strsep(&rest, "\n")) {
    struct rule *rule = &rules[rule_count];
    memset(rule, 0, sizeof *rule);
    if (sscanf(line, "%31s %ld %ld %ld %511s", rule->call, &rule->first, &rule->count, &rule->error, rule->text) >= 4) rule_count++;
  }
}

static void path_of(int descriptor, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  long length = syscall(SYS_readlink, link, path, (size_t)PATH_MAX - 1);
  path[length < 0 ? 0 : length] = 0;
}

// What is left of it behind /proc/self/fd/N, which leads to where the descriptor does.
static void resolve(int directory, const char *name, char *path) {
  int number = -1, end = 0;
  if (name == NULL) name = "";
  if (sscanf(name, "/proc/self/fd/%d%n", &number, &end) == 1) {
    path_of(number, path);
    strncat(path, name + end, PATH_MAX - 1 - strlen(path));
  } else if (name[0] == '/' || directory == AT_FDCWD) {
    snprintf(path, PATH_MAX, "%s", name);
  } else {
    path_of(directory, path);
    if (name[0] != 0) strncat(path, "/", PATH_MAX - 1 - strlen(path));
    strncat(path, name, PATH_MAX - 1 - strlen(path));
  }
}

// The errno with which the call is to fail; 0 where it is not.
static int failure(const char *call, int directory, const char *name) {
  const char *failing = getenv("FAILING");
  if (failing == NULL) return 0;
  int saved = errno, error = 0;
  char path[PATH_MAX] = "";
  pthread_mutex_lock(&lock);
  read_rules(failing);
  for (int index = 0; index < rule_count && error == 0; index++) {
    struct rule *rule = &rules[index];
    if (strcmp(rule->call, call) != 0) continue;
    if (path[0] == 0) resolve(directory, name, path);
    if (strstr(path, rule->text) == NULL) continue;
    rule->seen++;
    if (rule->seen >= rule->first && (rule->count == 0 || rule->seen < rule->first + rule->count)) error = (int)rule->error;
  }
  if (error != 0) append_to_log(failing, call, error, path);
  pthread_mutex_unlock(&lock);
  errno = saved;
  return error;
}

#define FAILS(call, directory, name)                     \
  do {                                                   \
    int error_ = failure(call, directory, name);         \
    if (error_ != 0) {                                   \
      errno = error_;                                    \
      return -1;                                         \
    }                                                    \
  } while (0)

// The one behind this one.
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define ON_DESCRIPTOR(kind, name, parameters, arguments) \
  kind name parameters {                                 \
    FAILS(#name, descriptor, "");                        \
    return NEXT(name) arguments;                         \
  }

#define ON_PATH(kind, name, parameters, arguments)       \
  kind name parameters {                                 \
    FAILS(#name, AT_FDCWD, path);                        \
    return NEXT(name) arguments;                         \
  }

#define ON_ENTRY(kind, name, parameters, arguments)      \
  kind name parameters {                                 \
    FAILS(#name, directory, path);                       \
    return NEXT(name) arguments;                         \
  }

ON_DESCRIPTOR(int, fstat, (int descriptor, struct stat *facts), (descriptor, facts))
ON_DESCRIPTOR(int, fsync, (int descriptor), (descriptor))
ON_DESCRIPTOR(int, fdatasync, (int descriptor), (descriptor))
ON_DESCRIPTOR(int, syncfs, (int descriptor), (descriptor))
ON_DESCRIPTOR(int, ftruncate, (int descriptor, off_t length), (descriptor, length))
ON_DESCRIPTOR(ssize_t, pread, (int descriptor, void *bytes, size_t count, off_t offset), (descriptor, bytes, count, offset))
ON_DESCRIPTOR(ssize_t, read, (int descriptor, void *bytes, size_t count), (descriptor, bytes, count))
ON_DESCRIPTOR(
    ssize_t, pwrite, (int descriptor, const void *bytes, size_t count, off_t offset), (descriptor, bytes, count, offset))
ON_DESCRIPTOR(ssize_t, write, (int descriptor, const void *bytes, size_t count), (descriptor, bytes, count))
ON_DESCRIPTOR(
    ssize_t, fgetxattr, (int descriptor, const char *name, void *value, size_t size), (descriptor, name, value, size))
ON_DESCRIPTOR(
    int, fsetxattr, (int descriptor, const char *name, const void *value, size_t size, int flags),
    (descriptor, name, value, size, flags))
ON_DESCRIPTOR(int, fremovexattr, (int descriptor, const char *name), (descriptor, name))
ON_PATH(int, stat, (const char *path, struct stat *facts), (path, facts))
ON_PATH(int, lstat, (const char *path, struct stat *facts), (path, facts))
ON_PATH(
    ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
ON_ENTRY(
    int, fstatat, (int directory, const char *path, struct stat *facts, int flags), (directory, path, facts, flags))
ON_ENTRY(int, unlinkat, (int directory, const char *path, int flags), (directory, path, flags))
ON_ENTRY(int, mkdirat, (int directory, const char *path, mode_t mode), (directory, path, mode))
ON_ENTRY(
    int, renameat, (int directory, const char *path, int to, const char *target), (directory, path, to, target))
ON_ENTRY(
    int, renameat2, (int directory, const char *path, int to, const char *target, unsigned flags),
    (directory, path, to, target, flags))
ON_PATH(int, rename, (const char *path, const char *target), (path, target))

static mode_t mode_of(int flags, va_list rest) {
  return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(rest, int) : 0;
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = mode_of(flags, rest);
  va_end(rest);
  FAILS("open", AT_FDCWD, path);
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = mode_of(flags, rest);
  va_end(rest);
  FAILS("openat", directory, path);
  return (int)syscall(SYS_openat, directory, path, flags, mode);
}

DIR *opendir(const char *path) {
  int error = failure("opendir", AT_FDCWD, path);
  if (error != 0) {
    errno = error;
    return NULL;
  }
  return NEXT(opendir)(path);
}

struct dirent *readdir(DIR *folder) {
  int error = failure("readdir", dirfd(folder), "");
  if (error != 0) {
    errno = error;
    return NULL;
  }
  return NEXT(readdir)(folder);
}

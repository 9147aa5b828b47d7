// For LD_PRELOAD: system calls fail by rules, as they do on disks that fail.
//
// FAILING names a file of rules, one per line: CALL FIRST COUNT ERRNO TEXT [MILLISECONDS]. Of the calls of this name (any for
// "*") on a path that contains TEXT, counted from 1, COUNT fail from the FIRST on; a COUNT of 0 has no end. With milliseconds
// each of them waits so long first, and with an ERRNO of 0 it succeeds after that. The file may change at any time, and the
// counts begin anew then. Each call that a rule met is a line "CALL ERRNO PATH" of the file FAILING.log.
//
// Calls that 64-bit programs know under two names have that of the rules in both. Not among them: mmap, whose pages the kernel
// reads, and close, of which the daemons want nothing.
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
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { RULES_MAX = 64 };

struct rule {
  char call[32], text[512];
  long first, count, error, milliseconds, seen;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_MAX];
static int rule_count;
static struct timespec read_at;
static long read_size = -1;

// The one behind this one.
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// Past this library.
static long kernel(long number, long a, long b, long c, long d) {
  static __typeof__(&syscall) next;
  if (next == NULL) next = NEXT(syscall);
  return next(number, a, b, c, d, 0L, 0L);
}

static void append_to_log(const char *failing, const char *call, long error, const char *path) {
  char name[PATH_MAX + 8], line[PATH_MAX + 64];
  snprintf(name, sizeof name, "%s.log", failing);
  int length = snprintf(line, sizeof line, "%s %ld %s\n", call, error, path);
  int log = (int)kernel(SYS_openat, AT_FDCWD, (long)name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return;
  if (length > 0) kernel(SYS_write, log, (long)line, length, 0);
  kernel(SYS_close, log, 0, 0, 0);
}

static void read_rules(const char *failing) {
  struct stat facts;
  if (kernel(SYS_newfstatat, AT_FDCWD, (long)failing, (long)&facts, 0) != 0) {
    rule_count = 0;
    read_size = -1;
    return;
  }
  if (facts.st_size == read_size && facts.st_mtim.tv_sec == read_at.tv_sec && facts.st_mtim.tv_nsec == read_at.tv_nsec) return;
  static char text[1 << 16];
  int file = (int)kernel(SYS_openat, AT_FDCWD, (long)failing, O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return;
  long length = kernel(SYS_read, file, (long)text, sizeof text - 1, 0);
  kernel(SYS_close, file, 0, 0, 0);
  if (length < 0) return;
  text[length] = 0;
  read_size = facts.st_size;
  read_at = facts.st_mtim;
  rule_count = 0;
  char *rest = text;
  for (char *line = strsep(&rest, "\n"); line != NULL && rule_count < RULES_MAX; line = strsep(&rest, "\n")) {
    struct rule *rule = &rules[rule_count];
    memset(rule, 0, sizeof *rule);
    int fields = sscanf(
        line, "%31s %ld %ld %ld %511s %ld", rule->call, &rule->first, &rule->count, &rule->error, rule->text,
        &rule->milliseconds);
    if (fields >= 4) rule_count++;
  }
}

static void path_of(int descriptor, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  long length = kernel(SYS_readlinkat, AT_FDCWD, (long)link, (long)path, PATH_MAX - 1);
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

// The errno with which the call is to fail; 0 where it is not. Waits first where a rule says so.
static int failure(const char *call, int directory, const char *name) {
  const char *failing = getenv("FAILING");
  if (failing == NULL) return 0;
  int saved = errno, error = 0;
  long milliseconds = 0;
  char path[PATH_MAX] = "";
  pthread_mutex_lock(&lock);
  read_rules(failing);
  for (int index = 0; index < rule_count && error == 0; index++) {
    struct rule *rule = &rules[index];
    if (strcmp(rule->call, call) != 0 && strcmp(rule->call, "*") != 0) continue;
    if (path[0] == 0) resolve(directory, name, path);
    if (strstr(path, rule->text) == NULL) continue;
    rule->seen++;
    if (rule->seen < rule->first || (rule->count != 0 && rule->seen >= rule->first + rule->count)) continue;
    error = (int)rule->error;
    milliseconds += rule->milliseconds;
    append_to_log(failing, call, error, path);
  }
  pthread_mutex_unlock(&lock);
  if (milliseconds > 0) nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
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

#define ON_DESCRIPTOR(kind, call, name, parameters, arguments) \
  kind name parameters {                                       \
    FAILS(#call, descriptor, "");                              \
    return NEXT(name) arguments;                               \
  }

#define ON_PATH(kind, call, name, parameters, arguments)       \
  kind name parameters {                                       \
    FAILS(#call, AT_FDCWD, path);                              \
    return NEXT(name) arguments;                               \
  }

#define ON_ENTRY(kind, call, name, parameters, arguments)      \
  kind name parameters {                                       \
    FAILS(#call, directory, path);                             \
    return NEXT(name) arguments;                               \
  }

// Attributes and sizes.
ON_DESCRIPTOR(int, fstat, fstat, (int descriptor, struct stat *facts), (descriptor, facts))
ON_DESCRIPTOR(int, fstat, fstat64, (int descriptor, struct stat64 *facts), (descriptor, facts))
ON_PATH(int, stat, stat, (const char *path, struct stat *facts), (path, facts))
ON_PATH(int, stat, stat64, (const char *path, struct stat64 *facts), (path, facts))
ON_PATH(int, lstat, lstat, (const char *path, struct stat *facts), (path, facts))
ON_PATH(int, lstat, lstat64, (const char *path, struct stat64 *facts), (path, facts))
ON_ENTRY(
    int, fstatat, fstatat, (int directory, const char *path, struct stat *facts, int flags),
    (directory, path, facts, flags))
ON_ENTRY(
    int, fstatat, fstatat64, (int directory, const char *path, struct stat64 *facts, int flags),
    (directory, path, facts, flags))
ON_ENTRY(
    int, statx, statx, (int directory, const char *path, int flags, unsigned mask, struct statx *facts),
    (directory, path, flags, mask, facts))
ON_PATH(int, access, access, (const char *path, int mode), (path, mode))
ON_ENTRY(int, faccessat, faccessat, (int directory, const char *path, int mode, int flags), (directory, path, mode, flags))
ON_DESCRIPTOR(int, fchmod, fchmod, (int descriptor, mode_t mode), (descriptor, mode))
ON_PATH(int, chmod, chmod, (const char *path, mode_t mode), (path, mode))
ON_ENTRY(int, fchmodat, fchmodat, (int directory, const char *path, mode_t mode, int flags), (directory, path, mode, flags))
ON_DESCRIPTOR(int, fchown, fchown, (int descriptor, uid_t user, gid_t group), (descriptor, user, group))
ON_ENTRY(
    int, fchownat, fchownat, (int directory, const char *path, uid_t user, gid_t group, int flags),
    (directory, path, user, group, flags))
ON_DESCRIPTOR(int, futimens, futimens, (int descriptor, const struct timespec times[2]), (descriptor, times))
ON_ENTRY(
    int, utimensat, utimensat, (int directory, const char *path, const struct timespec times[2], int flags),
    (directory, path, times, flags))
ON_DESCRIPTOR(
    ssize_t, fgetxattr, fgetxattr, (int descriptor, const char *name, void *value, size_t size),
    (descriptor, name, value, size))
ON_PATH(
    ssize_t, lgetxattr, lgetxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
ON_PATH(
    ssize_t, getxattr, getxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
ON_DESCRIPTOR(
    int, fsetxattr, fsetxattr, (int descriptor, const char *name, const void *value, size_t size, int flags),
    (descriptor, name, value, size, flags))
ON_PATH(
    int, lsetxattr, lsetxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
    (path, name, value, size, flags))
ON_DESCRIPTOR(int, fremovexattr, fremovexattr, (int descriptor, const char *name), (descriptor, name))
ON_PATH(int, lremovexattr, lremovexattr, (const char *path, const char *name), (path, name))
ON_DESCRIPTOR(ssize_t, flistxattr, flistxattr, (int descriptor, char *names, size_t size), (descriptor, names, size))

// Content.
ON_DESCRIPTOR(int, fsync, fsync, (int descriptor), (descriptor))
ON_DESCRIPTOR(int, fdatasync, fdatasync, (int descriptor), (descriptor))
ON_DESCRIPTOR(int, syncfs, syncfs, (int descriptor), (descriptor))
ON_DESCRIPTOR(
    int, sync_file_range, sync_file_range, (int descriptor, off64_t offset, off64_t count, unsigned flags),
    (descriptor, offset, count, flags))
ON_DESCRIPTOR(int, ftruncate, ftruncate, (int descriptor, off_t length), (descriptor, length))
ON_DESCRIPTOR(int, ftruncate, ftruncate64, (int descriptor, off64_t length), (descriptor, length))
ON_PATH(int, truncate, truncate, (const char *path, off_t length), (path, length))
ON_PATH(int, truncate, truncate64, (const char *path, off64_t length), (path, length))
ON_DESCRIPTOR(
    int, fallocate, fallocate, (int descriptor, int mode, off_t offset, off_t length), (descriptor, mode, offset, length))
ON_DESCRIPTOR(
    int, fallocate, fallocate64, (int descriptor, int mode, off64_t offset, off64_t length),
    (descriptor, mode, offset, length))
ON_DESCRIPTOR(off_t, lseek, lseek, (int descriptor, off_t offset, int whence), (descriptor, offset, whence))
ON_DESCRIPTOR(off64_t, lseek, lseek64, (int descriptor, off64_t offset, int whence), (descriptor, offset, whence))
ON_DESCRIPTOR(ssize_t, read, read, (int descriptor, void *bytes, size_t count), (descriptor, bytes, count))
ON_DESCRIPTOR(ssize_t, readv, readv, (int descriptor, const struct iovec *pieces, int count), (descriptor, pieces, count))
ON_DESCRIPTOR(
    ssize_t, pread, pread, (int descriptor, void *bytes, size_t count, off_t offset), (descriptor, bytes, count, offset))
ON_DESCRIPTOR(
    ssize_t, pread, pread64, (int descriptor, void *bytes, size_t count, off64_t offset), (descriptor, bytes, count, offset))
ON_DESCRIPTOR(
    ssize_t, preadv, preadv, (int descriptor, const struct iovec *pieces, int count, off_t offset),
    (descriptor, pieces, count, offset))
ON_DESCRIPTOR(
    ssize_t, preadv, preadv64, (int descriptor, const struct iovec *pieces, int count, off64_t offset),
    (descriptor, pieces, count, offset))
ON_DESCRIPTOR(
    ssize_t, preadv2, preadv2, (int descriptor, const struct iovec *pieces, int count, off_t offset, int flags),
    (descriptor, pieces, count, offset, flags))
ON_DESCRIPTOR(
    ssize_t, preadv2, preadv64v2, (int descriptor, const struct iovec *pieces, int count, off64_t offset, int flags),
    (descriptor, pieces, count, offset, flags))
ON_DESCRIPTOR(ssize_t, write, write, (int descriptor, const void *bytes, size_t count), (descriptor, bytes, count))
ON_DESCRIPTOR(ssize_t, writev, writev, (int descriptor, const struct iovec *pieces, int count), (descriptor, pieces, count))
ON_DESCRIPTOR(
    ssize_t, pwrite, pwrite, (int descriptor, const void *bytes, size_t count, off_t offset),
    (descriptor, bytes, count, offset))
ON_DESCRIPTOR(
    ssize_t, pwrite, pwrite64, (int descriptor, const void *bytes, size_t count, off64_t offset),
    (descriptor, bytes, count, offset))
ON_DESCRIPTOR(
    ssize_t, pwritev, pwritev, (int descriptor, const struct iovec *pieces, int count, off_t offset),
    (descriptor, pieces, count, offset))
ON_DESCRIPTOR(
    ssize_t, pwritev, pwritev64, (int descriptor, const struct iovec *pieces, int count, off64_t offset),
    (descriptor, pieces, count, offset))
ON_DESCRIPTOR(
    ssize_t, pwritev2, pwritev2, (int descriptor, const struct iovec *pieces, int count, off_t offset, int flags),
    (descriptor, pieces, count, offset, flags))
ON_DESCRIPTOR(
    ssize_t, pwritev2, pwritev64v2, (int descriptor, const struct iovec *pieces, int count, off64_t offset, int flags),
    (descriptor, pieces, count, offset, flags))
ON_DESCRIPTOR(
    ssize_t, copy_file_range, copy_file_range,
    (int descriptor, off64_t *from, int target, off64_t *to, size_t count, unsigned flags),
    (descriptor, from, target, to, count, flags))

// Names.
ON_PATH(int, unlink, unlink, (const char *path), (path))
ON_ENTRY(int, unlinkat, unlinkat, (int directory, const char *path, int flags), (directory, path, flags))
ON_PATH(int, rmdir, rmdir, (const char *path), (path))
ON_PATH(int, mkdir, mkdir, (const char *path, mode_t mode), (path, mode))
ON_ENTRY(int, mkdirat, mkdirat, (int directory, const char *path, mode_t mode), (directory, path, mode))
ON_ENTRY(
    int, mknodat, mknodat, (int directory, const char *path, mode_t mode, dev_t device), (directory, path, mode, device))
ON_PATH(int, rename, rename, (const char *path, const char *target), (path, target))
ON_ENTRY(
    int, renameat, renameat, (int directory, const char *path, int to, const char *target), (directory, path, to, target))
ON_ENTRY(
    int, renameat2, renameat2, (int directory, const char *path, int to, const char *target, unsigned flags),
    (directory, path, to, target, flags))
ON_ENTRY(
    int, linkat, linkat, (int directory, const char *path, int to, const char *target, int flags),
    (directory, path, to, target, flags))
ON_ENTRY(int, symlinkat, symlinkat, (const char *target, int directory, const char *path), (target, directory, path))
ON_ENTRY(
    ssize_t, readlinkat, readlinkat, (int directory, const char *path, char *target, size_t size),
    (directory, path, target, size))

// Filesystems.
ON_PATH(int, statfs, statfs, (const char *path, struct statfs *facts), (path, facts))
ON_PATH(int, statfs, statfs64, (const char *path, struct statfs64 *facts), (path, facts))
ON_DESCRIPTOR(int, fstatfs, fstatfs, (int descriptor, struct statfs *facts), (descriptor, facts))
ON_DESCRIPTOR(int, fstatfs, fstatfs64, (int descriptor, struct statfs64 *facts), (descriptor, facts))
ON_PATH(int, statvfs, statvfs, (const char *path, struct statvfs *facts), (path, facts))
ON_PATH(int, statvfs, statvfs64, (const char *path, struct statvfs64 *facts), (path, facts))
ON_DESCRIPTOR(int, fstatvfs, fstatvfs, (int descriptor, struct statvfs *facts), (descriptor, facts))
ON_DESCRIPTOR(int, fstatvfs, fstatvfs64, (int descriptor, struct statvfs64 *facts), (descriptor, facts))

// Opening: with a mode where one is made.
#define OPENS(name, call, parameters, directory)                                                    \
  int name parameters {                                                                             \
    va_list rest;                                                                                   \
    va_start(rest, flags);                                                                          \
    long mode = flags & (O_CREAT | O_TMPFILE) ? (long)va_arg(rest, int) : 0;                        \
    va_end(rest);                                                                                   \
    FAILS(#call, directory, path);                                                                  \
    return (int)kernel(SYS_openat, directory, (long)path, flags, mode);                             \
  }

OPENS(open, open, (const char *path, int flags, ...), AT_FDCWD)
OPENS(open64, open, (const char *path, int flags, ...), AT_FDCWD)
OPENS(openat, openat, (int directory, const char *path, int flags, ...), directory)
OPENS(openat64, openat, (int directory, const char *path, int flags, ...), directory)

// openat2 has no function of its own.
long syscall(long number, ...) {
  static __typeof__(&syscall) next;
  long arguments[6];
  va_list rest;
  va_start(rest, number);
  for (int index = 0; index < 6; index++) arguments[index] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_openat2) FAILS("openat2", (int)arguments[0], (const char *)arguments[1]);
  if (next == NULL) next = NEXT(syscall);
  return next(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

// Folders: an error is no pointer.
#define OF_FOLDER(kind, call, name, parameters, arguments, directory, path)                         \
  kind *name parameters {                                                                           \
    int error = failure(#call, directory, path);                                                    \
    if (error != 0) {                                                                               \
      errno = error;                                                                                \
      return NULL;                                                                                  \
    }                                                                                               \
    return NEXT(name) arguments;                                                                    \
  }

OF_FOLDER(DIR, opendir, opendir, (const char *path), (path), AT_FDCWD, path)
OF_FOLDER(DIR, fdopendir, fdopendir, (int descriptor), (descriptor), descriptor, "")
OF_FOLDER(struct dirent, readdir, readdir, (DIR *folder), (folder), dirfd(folder), "")
OF_FOLDER(struct dirent64, readdir, readdir64, (DIR *folder), (folder), dirfd(folder), "")

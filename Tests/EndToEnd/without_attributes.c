// For LD_PRELOAD: a filesystem without extended attributes.
#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

static int refuse(void) {
  errno = EOPNOTSUPP;
  return -1;
}

int fsetxattr(int descriptor, const char *name, const void *value, size_t length, int flags) {
  (void)descriptor, (void)name, (void)value, (void)length, (void)flags;
  return refuse();
}

int fremovexattr(int descriptor, const char *name) {
  (void)descriptor, (void)name;
  return refuse();
}

ssize_t fgetxattr(int descriptor, const char *name, void *value, size_t capacity) {
  (void)descriptor, (void)name, (void)value, (void)capacity;
  return refuse();
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t capacity) {
  (void)path, (void)name, (void)value, (void)capacity;
  return refuse();
}

// For LD_PRELOAD: fsync(2) and fdatasync(2) of captures fail with EIO as long as the file that FAILING names is there.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(int descriptor) {
  char link[64], path[PATH_MAX] = "";
  const char *failing = getenv("FAILING");
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  if (failing == NULL || access(failing, F_OK) != 0 || readlink(link, path, sizeof path - 1) < 0) return 0;
  return strstr(path, "/captures/") != NULL;
}

static int synchronize(int descriptor, long call) {
  if (fails(descriptor)) {
    errno = EIO;
    return -1;
  }
  return (int)syscall(call, descriptor);
}

int fsync(int descriptor) { return synchronize(descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return synchronize(descriptor, SYS_fdatasync); }

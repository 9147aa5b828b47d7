#define _GNU_SOURCE
#include "CFilesystemCalls.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// What fsync(2) did is seen after a power cut only. The program's own functions come before those of the C library: so the
// filesystem, which lies in the same program, calls these.

struct counted {
  dev_t device;
  ino_t inode;
  size_t times;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// All files of the process: what is counted for one test must not go because others, which run beside it, sync as well.
static struct counted *counted;
static size_t count, capacity;

static struct counted *find_locked(dev_t device, ino_t inode) {
  for (size_t index = 0; index < count; index++) {
    if (counted[index].device == device && counted[index].inode == inode) return &counted[index];
  }
  return NULL;
}

static void add_locked(dev_t device, ino_t inode) {
  struct counted *found = find_locked(device, inode);
  if (found != NULL) {
    found->times += 1;
    return;
  }
  if (count == capacity) {
    size_t wanted = capacity == 0 ? 1024 : capacity * 2;
    struct counted *larger = realloc(counted, wanted * sizeof *larger);
    if (larger == NULL) abort();
    counted = larger;
    capacity = wanted;
  }
  counted[count++] = (struct counted){.device = device, .inode = inode, .times = 1};
}

static int synchronize(int fd, long call) {
  if (syscall(call, fd) != 0) return -1;
  struct stat facts;
  if (fstat(fd, &facts) != 0) return 0;
  pthread_mutex_lock(&lock);
  add_locked(facts.st_dev, facts.st_ino);
  pthread_mutex_unlock(&lock);
  return 0;
}

int fsync(int fd) { return synchronize(fd, SYS_fsync); }

int fdatasync(int fd) { return synchronize(fd, SYS_fdatasync); }

size_t calls_synchronized(dev_t device, ino_t inode) {
  pthread_mutex_lock(&lock);
  const struct counted *found = find_locked(device, inode);
  size_t times = found == NULL ? 0 : found->times;
  pthread_mutex_unlock(&lock);
  return times;
}

int calls_syncfs(int fd) { return syncfs(fd); }

#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <unistd.h>

int uploadfs_openat(int directory, const char *path, int flags, mode_t mode) {
  return openat(directory, path, flags, mode);
}

int uploadfs_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned int flags) {
  return renameat2(from_directory, from, to_directory, to, flags);
}

int uploadfs_fallocate(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }

ssize_t uploadfs_copy_file_range(int from, int to, off_t offset, size_t count) {
  off_t source = offset, target = offset;
  return copy_file_range(from, &source, to, &target, count, 0);
}

int uploadfs_begin_writing(int fd) { return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); }

int uploadfs_is_open_for_writing(int fd) {
  // A program that opens the file meanwhile breaks the lease, which raises SIGIO in this process and by default ends it; SIGURG
  // does nothing.
  if (fcntl(fd, F_SETSIG, SIGURG) < 0) return -1;
  if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0) return errno == EAGAIN ? 1 : -1;
  fcntl(fd, F_SETLEASE, F_UNLCK);
  return 0;
}

void uploadfs_explicit_bzero(void *bytes, size_t count) { explicit_bzero(bytes, count); }

int uploadfs_umount2(const char *path, int flags) { return umount2(path, flags); }

int uploadfs_pidfd_open(pid_t pid) { return pidfd_open(pid, 0); }

int uploadfs_pidfd_send_signal(int pidfd, int number) { return pidfd_send_signal(pidfd, number, NULL, 0); }

int uploadfs_file_size_limit(pid_t thread, uint64_t *bytes) {
  struct rlimit limit;
  if (prlimit(thread, RLIMIT_FSIZE, NULL, &limit) != 0) return -1;
  *bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
  return 0;
}

void uploadfs_return_memory(void) { malloc_trim(0); }

int uploadfs_keep_little_memory(size_t heap_bytes, size_t block_bytes) {
  return mallopt(M_TRIM_THRESHOLD, (int)heap_bytes) == 1 && mallopt(M_MMAP_THRESHOLD, (int)block_bytes) == 1;
}

int uploadfs_ignores_signal(int number) {
  struct sigaction action;
  return sigaction(number, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_IGN;
}

void uploadfs_open_standard_descriptors(void) {
  int descriptor;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor > STDERR_FILENO) close(descriptor);
}

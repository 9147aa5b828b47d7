#define _GNU_SOURCE
#include "CFilesystemCalls.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

const int calls_o_path = O_PATH;
const int calls_o_tmpfile = O_TMPFILE;
const int calls_o_direct = O_DIRECT;
const int calls_o_noatime = O_NOATIME;

int calls_openat(int directory, const char *path, int flags, mode_t mode) {
  return openat(directory, path, flags, mode);
}

int calls_link_descriptor(int fd, int directory, const char *path) {
  return linkat(fd, "", directory, path, AT_EMPTY_PATH);
}

int calls_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned int flags) {
  return renameat2(from_directory, from, to_directory, to, flags);
}

int calls_fallocate(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }

ssize_t calls_getxattr(const char *path, const char *name, char *value, size_t capacity) {
  return getxattr(path, name, value, capacity);
}

int calls_setxattr(const char *path, const char *name, const char *value, size_t length) {
  return setxattr(path, name, value, length, 0);
}

ssize_t calls_listxattr(const char *path, char *list, size_t capacity) { return listxattr(path, list, capacity); }

int calls_removexattr(const char *path, const char *name) { return removexattr(path, name); }

int calls_lock(int fd, int is_of_open_file, int waits, short kind, off_t start, off_t length) {
  struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
  int command = is_of_open_file ? (waits ? F_OFD_SETLKW : F_OFD_SETLK) : (waits ? F_SETLKW : F_SETLK);
  return fcntl(fd, command, &lock);
}

dev_t calls_device(unsigned int major, unsigned int minor) { return makedev(major, minor); }

int calls_become(uid_t user, gid_t group) {
  if (setgroups(0, NULL) != 0 || setresgid(group, group, group) != 0) return -1;
  return setresuid(user, user, user);
}

int calls_flock(int fd, int operation) { return flock(fd, operation); }

int calls_statvfs(const char *path, struct statvfs *facts) { return statvfs(path, facts); }

pid_t calls_fork(void) { return fork(); }

static int with_socket(const char *path, int (*attach)(int, const struct sockaddr *, socklen_t)) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (attach(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  int failure = errno;
  close(fd);
  errno = failure;
  return -1;
}

static int bind_and_listen(int fd, const struct sockaddr *address, socklen_t length) {
  return bind(fd, address, length) == 0 ? listen(fd, 8) : -1;
}

int calls_bind(const char *path) { return with_socket(path, bind_and_listen); }

int calls_connect(const char *path) { return with_socket(path, connect); }

int calls_run(char *const arguments[], int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  pid_t child;
  int failure = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (failure != 0) {
    errno = failure;
    return -1;
  }
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

const char *calls_errno_name(int code) { return strerrorname_np(code); }

int calls_join(unsigned long thread, int seconds) {
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += seconds;
  return pthread_timedjoin_np(thread, NULL, &end);
}

int calls_wait(pid_t child, int seconds) {
  struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
  if (end.fd >= 0) {
    while (poll(&end, 1, seconds * 1000) < 0 && errno == EINTR) continue;
    close(end.fd);
  }
  return waitpid(child, NULL, WNOHANG) == child ? 0 : -1;
}

union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

int calls_send_descriptor(int socket, int descriptor) {
  char byte = 0;
  union control control = {0};
  struct iovec part = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int calls_receive_descriptor(int socket) {
  char byte;
  union control control;
  struct iovec part = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header == NULL || header->cmsg_type != SCM_RIGHTS) {
    errno = EBADMSG;
    return -1;
  }
  int descriptor;
  memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

int calls_spawn(const char *program, char *const arguments[], int descriptor, pid_t *child) {
  posix_spawn_file_actions_t actions;
  int failure = posix_spawn_file_actions_init(&actions);
  if (failure != 0) return failure;
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, descriptor, 3);
  posix_spawn_file_actions_addclosefrom_np(&actions, 4);
  // Threads of libdispatch, and those that they start, block most signals; a shell's background jobs ignore some.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  failure = posix_spawn(child, program, &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

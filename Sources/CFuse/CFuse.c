#define _GNU_SOURCE
#include "CFuse.h"

#include <errno.h>
#include <fuse_log.h>
#include <linux/fuse.h>
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
#include <sys/ioctl.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// 0 means that this libfuse does not have the capability.
static uint64_t flag_of(enum uploadfs_capability capability) {
  switch (capability) {
  case UPLOADFS_CAPABILITY_ASYNC_READ: return FUSE_CAP_ASYNC_READ;
  case UPLOADFS_CAPABILITY_POSIX_LOCKS: return FUSE_CAP_POSIX_LOCKS;
  case UPLOADFS_CAPABILITY_ATOMIC_O_TRUNC: return FUSE_CAP_ATOMIC_O_TRUNC;
  case UPLOADFS_CAPABILITY_EXPORT_SUPPORT: return FUSE_CAP_EXPORT_SUPPORT;
  case UPLOADFS_CAPABILITY_DONT_MASK: return FUSE_CAP_DONT_MASK;
  case UPLOADFS_CAPABILITY_SPLICE_WRITE: return FUSE_CAP_SPLICE_WRITE;
  case UPLOADFS_CAPABILITY_SPLICE_MOVE: return FUSE_CAP_SPLICE_MOVE;
  case UPLOADFS_CAPABILITY_SPLICE_READ: return FUSE_CAP_SPLICE_READ;
  case UPLOADFS_CAPABILITY_FLOCK_LOCKS: return FUSE_CAP_FLOCK_LOCKS;
  case UPLOADFS_CAPABILITY_IOCTL_DIR: return FUSE_CAP_IOCTL_DIR;
  case UPLOADFS_CAPABILITY_AUTO_INVAL_DATA: return FUSE_CAP_AUTO_INVAL_DATA;
  case UPLOADFS_CAPABILITY_READDIRPLUS: return FUSE_CAP_READDIRPLUS;
  case UPLOADFS_CAPABILITY_READDIRPLUS_AUTO: return FUSE_CAP_READDIRPLUS_AUTO;
  case UPLOADFS_CAPABILITY_ASYNC_DIO: return FUSE_CAP_ASYNC_DIO;
  case UPLOADFS_CAPABILITY_WRITEBACK_CACHE: return FUSE_CAP_WRITEBACK_CACHE;
  case UPLOADFS_CAPABILITY_PARALLEL_DIROPS: return FUSE_CAP_PARALLEL_DIROPS;
  case UPLOADFS_CAPABILITY_POSIX_ACL: return FUSE_CAP_POSIX_ACL;
  case UPLOADFS_CAPABILITY_HANDLE_KILLPRIV: return FUSE_CAP_HANDLE_KILLPRIV;
  case UPLOADFS_CAPABILITY_CACHE_SYMLINKS: return FUSE_CAP_CACHE_SYMLINKS;
  case UPLOADFS_CAPABILITY_EXPLICIT_INVAL_DATA: return FUSE_CAP_EXPLICIT_INVAL_DATA;
#ifdef FUSE_CAP_HANDLE_KILLPRIV_V2
  case UPLOADFS_CAPABILITY_HANDLE_KILLPRIV_V2: return FUSE_CAP_HANDLE_KILLPRIV_V2;
#endif
#ifdef FUSE_CAP_NO_EXPORT_SUPPORT
  case UPLOADFS_CAPABILITY_NO_EXPORT_SUPPORT: return FUSE_CAP_NO_EXPORT_SUPPORT;
#endif
#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
  case UPLOADFS_CAPABILITY_DIRECT_IO_ALLOW_MMAP: return FUSE_CAP_DIRECT_IO_ALLOW_MMAP;
#endif
#ifdef FUSE_CAP_PASSTHROUGH
  case UPLOADFS_CAPABILITY_PASSTHROUGH: return FUSE_CAP_PASSTHROUGH;
#endif
#ifdef FUSE_CAP_OVER_IO_URING
  case UPLOADFS_CAPABILITY_OVER_IO_URING: return FUSE_CAP_OVER_IO_URING;
#endif
  default: return 0;
  }
}

bool uploadfs_want(struct fuse_conn_info *connection, enum uploadfs_capability capability, bool wanted) {
  const uint64_t flag = flag_of(capability);
  if (flag == 0) return !wanted;
  // From 3.17 on the flags live twice, in `want` and `want_ext`, and setting both differently is refused; only the
  // library's own functions keep them in step.
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
  if (!wanted) {
    fuse_unset_feature_flag(connection, flag);
    return true;
  }
  return fuse_set_feature_flag(connection, flag);
#else
  if (!wanted) {
    connection->want &= ~(unsigned)flag;
    return true;
  }
  if ((connection->capable & flag) == 0) return false;
  connection->want |= (unsigned)flag;
  return true;
#endif
}

struct fuse_session *uploadfs_session_new(const char *options, const struct fuse_lowlevel_ops *operations,
                                          void *userdata) {
  struct fuse_args arguments = FUSE_ARGS_INIT(0, NULL);
  struct fuse_session *session = NULL;
  if (fuse_opt_add_arg(&arguments, "uploadfs") == 0 && fuse_opt_add_arg(&arguments, "-o") == 0 &&
      fuse_opt_add_arg(&arguments, options) == 0)
    session = fuse_session_new(&arguments, operations, sizeof *operations, userdata);
  fuse_opt_free_args(&arguments);
  return session;
}

int uploadfs_session_process_one(struct fuse_session *session) {
  struct fuse_buf buffer = {0};
  int received;
  do {
    received = fuse_session_receive_buf(session, &buffer);
  } while (received == -EINTR);
  if (received > 0) fuse_session_process_buf(session, &buffer);
  free(buffer.mem);
  return received > 0 ? 1 : received;
}

// FUSE_STATX, which Linux 6.6 added: a program that asks when a file was made sends it first (stat(1) does).
enum { REQUEST_STATX = 52 };

static enum uploadfs_request_kind kind_of(uint32_t opcode) {
  switch (opcode) {
  case FUSE_INIT:
  case FUSE_DESTROY:
  case FUSE_INTERRUPT:
  case FUSE_NOTIFY_REPLY:
  case FUSE_STATFS:
  // To these libfuse says by itself that there is no such thing (makeFuseOperations).
  case FUSE_SETXATTR:
  case FUSE_GETXATTR:
  case FUSE_LISTXATTR:
  case FUSE_REMOVEXATTR:
  case FUSE_GETLK:
  case FUSE_SETLK:
  case FUSE_SETLKW:
  case FUSE_ACCESS:
  case FUSE_BMAP:
  case FUSE_IOCTL:
  case FUSE_COPY_FILE_RANGE:
  case REQUEST_STATX: return UPLOADFS_REQUEST_OF_THE_SESSION;
  case FUSE_LOOKUP: return UPLOADFS_REQUEST_LOOKUP;
  case FUSE_GETATTR:
  case FUSE_OPENDIR:
  case FUSE_READDIR:
  case FUSE_READDIRPLUS:
  case FUSE_READLINK:
  case FUSE_RELEASEDIR: return UPLOADFS_REQUEST_LOOK;
  case FUSE_OPEN:
  case FUSE_READ:
  case FUSE_LSEEK:
  case FUSE_POLL:
  case FUSE_FLUSH:
  case FUSE_FSYNC:
  case FUSE_FSYNCDIR:
  // A shell empties a status before it writes a word to it, which changes nothing.
  case FUSE_SETATTR:
  case FUSE_RELEASE: return UPLOADFS_REQUEST_READ;
  // FORGET as well: the last one closes what was unlinked.
  default: return UPLOADFS_REQUEST_CHANGE;
  }
}

int uploadfs_session_receive(struct fuse_session *session, struct fuse_buf *buffer, struct uploadfs_request *request) {
  int received;
  do {
    received = fuse_session_receive_buf(session, buffer);
  } while (received == -EINTR);
  if (received <= 0) return received;
  memset(request, 0, sizeof *request);
  request->kind = UPLOADFS_REQUEST_CHANGE;
  request->bytes = (size_t)received;
  const struct fuse_in_header *header = buffer->mem;
  // Without splicing, which this filesystem turns off, every request is in memory.
  if ((buffer->flags & FUSE_BUF_IS_FD) != 0 || header == NULL || (size_t)received < sizeof *header) return 1;
  request->kind = kind_of(header->opcode);
  request->node = header->nodeid;
  const char *rest = (const char *)(header + 1);
  if (header->opcode == FUSE_LOOKUP && memchr(rest, 0, (size_t)received - sizeof *header) != NULL) request->name = rest;
  return 1;
}

// Copying a larger one costs more than a new buffer does.
enum { COPIED_BYTES_MAX = 4096 };

bool uploadfs_take_request(struct fuse_buf *received, struct fuse_buf *taken) {
  if ((received->flags & FUSE_BUF_IS_FD) != 0) return false;
  *taken = *received;
  if (received->size > COPIED_BYTES_MAX) {
    received->mem = NULL;
    return true;
  }
  taken->mem = malloc(received->size);
  if (taken->mem == NULL) return false;
  memcpy(taken->mem, received->mem, received->size);
  return true;
}

void uploadfs_answer_tmpfile(struct fuse_lowlevel_ops *operations,
                             void (*create_nameless)(fuse_req_t request, fuse_ino_t directory, mode_t mode,
                                                     struct fuse_file_info *info)) {
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
  operations->tmpfile = create_nameless;
#else
  (void)operations;
  (void)create_nameless;
#endif
}

void uploadfs_set_open_answer(struct fuse_file_info *info, uint64_t handle, bool direct_io, bool keep_cache,
                              bool no_flush, int32_t backing) {
  info->fh = handle;
  info->direct_io = direct_io;
  info->keep_cache = keep_cache;
  info->noflush = no_flush;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
  info->backing_id = backing;
#else
  (void)backing;
#endif
}

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
bool uploadfs_has_passthrough(void) { return true; }

int32_t uploadfs_backing_open(int connection, int fd) {
  struct fuse_backing_map map = {.fd = fd};
  const int backing = ioctl(connection, FUSE_DEV_IOC_BACKING_OPEN, &map);
  return backing < 0 ? -errno : backing;
}

void uploadfs_backing_close(int connection, int32_t backing) {
  const uint32_t number = (uint32_t)backing;
  ioctl(connection, FUSE_DEV_IOC_BACKING_CLOSE, &number);
}
#else
bool uploadfs_has_passthrough(void) { return false; }

int32_t uploadfs_backing_open(int connection, int fd) {
  (void)connection;
  (void)fd;
  return -ENOTSUP;
}

void uploadfs_backing_close(int connection, int32_t backing) {
  (void)connection;
  (void)backing;
}
#endif

bool uploadfs_is_cache_write(const struct fuse_file_info *info) { return info->writepage != 0; }

void uploadfs_pollhandle_destroy(struct fuse_pollhandle *handle) { fuse_pollhandle_destroy(handle); }

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_line[512];

static void keep_log_line(enum fuse_log_level level, const char *format, va_list arguments) {
  (void)level;
  pthread_mutex_lock(&log_lock);
  vsnprintf(log_line, sizeof log_line, format, arguments);
  log_line[strcspn(log_line, "\n")] = 0;
  pthread_mutex_unlock(&log_lock);
}

void uploadfs_capture_log(void) {
  pthread_mutex_lock(&log_lock);
  log_line[0] = 0;
  pthread_mutex_unlock(&log_lock);
  fuse_set_log_func(keep_log_line);
}

size_t uploadfs_last_log_line(char *buffer, size_t capacity) {
  if (capacity == 0) return 0;
  pthread_mutex_lock(&log_lock);
  const size_t length = strnlen(log_line, capacity - 1);
  memcpy(buffer, log_line, length);
  pthread_mutex_unlock(&log_lock);
  buffer[length] = 0;
  return length;
}

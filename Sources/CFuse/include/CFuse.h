/// The part of libfuse 3 that Swift cannot import, or that differs between the versions of Debian 12 (3.14) and
/// Debian 13 (3.17). Everything else is used straight from fuse_lowlevel.h.
#ifndef UPLOADFS_CFUSE_H
#define UPLOADFS_CFUSE_H

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 312
#endif

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>

/// One name for a capability of the kernel, whatever the installed libfuse calls it. A capability that the installed
/// version does not know is ignored: it is off there.
enum uploadfs_capability {
  UPLOADFS_CAPABILITY_ASYNC_READ,
  UPLOADFS_CAPABILITY_POSIX_LOCKS,
  UPLOADFS_CAPABILITY_ATOMIC_O_TRUNC,
  UPLOADFS_CAPABILITY_EXPORT_SUPPORT,
  UPLOADFS_CAPABILITY_DONT_MASK,
  UPLOADFS_CAPABILITY_SPLICE_WRITE,
  UPLOADFS_CAPABILITY_SPLICE_MOVE,
  UPLOADFS_CAPABILITY_SPLICE_READ,
  UPLOADFS_CAPABILITY_FLOCK_LOCKS,
  UPLOADFS_CAPABILITY_IOCTL_DIR,
  UPLOADFS_CAPABILITY_AUTO_INVAL_DATA,
  UPLOADFS_CAPABILITY_READDIRPLUS,
  UPLOADFS_CAPABILITY_READDIRPLUS_AUTO,
  UPLOADFS_CAPABILITY_ASYNC_DIO,
  UPLOADFS_CAPABILITY_WRITEBACK_CACHE,
  UPLOADFS_CAPABILITY_PARALLEL_DIROPS,
  UPLOADFS_CAPABILITY_POSIX_ACL,
  UPLOADFS_CAPABILITY_HANDLE_KILLPRIV,
  UPLOADFS_CAPABILITY_HANDLE_KILLPRIV_V2,
  UPLOADFS_CAPABILITY_CACHE_SYMLINKS,
  UPLOADFS_CAPABILITY_EXPLICIT_INVAL_DATA,
  UPLOADFS_CAPABILITY_NO_EXPORT_SUPPORT,
  UPLOADFS_CAPABILITY_DIRECT_IO_ALLOW_MMAP,
  UPLOADFS_CAPABILITY_PASSTHROUGH,
  UPLOADFS_CAPABILITY_OVER_IO_URING,
};

/// Asks for a capability, or says that it is not wanted. Defaults differ between libfuse versions (3.14 turns
/// HANDLE_KILLPRIV on, 3.17 does not), so every capability is decided here by name. False when it was wanted and the
/// kernel or this libfuse does not have it.
bool uploadfs_want(struct fuse_conn_info *connection, enum uploadfs_capability capability, bool wanted);

/// fuse_session_new(3) is a macro from 3.17 on, and takes a struct fuse_args that Swift cannot initialise.
/// `options` is one comma-separated list as for -o.
struct fuse_session *uploadfs_session_new(const char *options, const struct fuse_lowlevel_ops *operations,
                                          void *userdata);

/// Receives and answers exactly one request on the calling thread. The first request of a session is INIT, so that the
/// caller knows when the mount is usable. 1 when one was processed, 0 when the session has ended, −errno otherwise.
int uploadfs_session_process_one(struct fuse_session *session);

/// What a request asks for, as far as it matters to what may hold it up.
enum uploadfs_request_kind {
  /// Nothing of a file: INTERRUPT, STATFS and the like.
  UPLOADFS_REQUEST_OF_THE_SESSION,
  UPLOADFS_REQUEST_LOOKUP,
  /// What a folder or a file is like, and what lies in a folder.
  UPLOADFS_REQUEST_LOOK,
  /// Opening, reading and letting go.
  UPLOADFS_REQUEST_READ,
  /// Everything else.
  UPLOADFS_REQUEST_CHANGE,
};

/// A request that was received and is not answered yet.
struct uploadfs_request {
  enum uploadfs_request_kind kind;
  size_t bytes;
  uint64_t node;
  /// The name that LOOKUP is for, within the buffer; else NULL.
  const char *name;
};

/// Receives one request into a buffer of the calling thread, which is {0} at first. 1 when there is one, 0 when the session has
/// ended, −errno otherwise.
int uploadfs_session_receive(struct fuse_session *session, struct fuse_buf *buffer, struct uploadfs_request *request);

/// Takes what was received out of a thread's buffer, which can be received into again. False where there is no memory for that; then
/// it is where it was.
bool uploadfs_take_request(struct fuse_buf *received, struct fuse_buf *taken);

/// Lets `create_nameless` make files without a name (O_TMPFILE), where this libfuse passes that on (3.17); elsewhere the kernel is
/// told that there are none.
void uploadfs_answer_tmpfile(struct fuse_lowlevel_ops *operations,
                             void (*create_nameless)(fuse_req_t request, fuse_ino_t directory, mode_t mode,
                                                     struct fuse_file_info *info));

/// Fills in the answer to open and create. Bit-fields moved between versions, and `backing` (0 for none) came with 3.17.
void uploadfs_set_open_answer(struct fuse_file_info *info, uint64_t handle, bool direct_io, bool keep_cache,
                              bool no_flush, int32_t backing);

/// Whether this libfuse can answer an open with a file that the kernel is to use by itself (passthrough, 3.17).
bool uploadfs_has_passthrough(void);

/// Gives the kernel an open file to use, and returns its number; −errno when it does not take it. libfuse's own function
/// needs a request and keeps the error to itself.
int32_t uploadfs_backing_open(int connection, int fd);
/// Takes it back; the handles that use it keep it.
void uploadfs_backing_close(int connection, int32_t backing);

/// True when a WRITE comes from the page cache (a shared mapping), not from write(2).
bool uploadfs_is_cache_write(const struct fuse_file_info *info);

/// fuse_pollhandle_destroy lives in fuse_common.h behind an opaque type; named here for symmetry with notify_poll.
void uploadfs_pollhandle_destroy(struct fuse_pollhandle *handle);

/// Keeps the last message that libfuse logged (its log function is variadic) instead of printing it, so that a failed
/// mount can say why. Copies at most `capacity` − 1 bytes and returns their number.
void uploadfs_capture_log(void);
/// The last message; see uploadfs_capture_log.
size_t uploadfs_last_log_line(char *buffer, size_t capacity);

#endif

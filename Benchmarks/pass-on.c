// The least that a filesystem of libfuse can do: one flat folder whose files are those of another folder, each call answered by
// the same call there, each write seen. No promises, no bookkeeping. What uploadfs takes longer than this is its own.
//
//   pass-on MOUNTPOINT FOLDER
//
// Serves until it is unmounted.
#define _GNU_SOURCE
#define FUSE_USE_VERSION 314
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int folder;

// The kernel's number of a file is the address of its name, which lives until the kernel forgets it.
static const char *name_of(fuse_ino_t node) { return node == FUSE_ROOT_ID ? "." : (const char *)node; }

static void answer(fuse_req_t request, int result) { fuse_reply_err(request, result < 0 ? errno : 0); }

static int fill(struct fuse_entry_param *entry, const char *name) {
  if (fstatat(folder, name, &entry->attr, AT_SYMLINK_NOFOLLOW) < 0) return -1;
  entry->ino = (fuse_ino_t)strdup(name);
  entry->attr_timeout = entry->entry_timeout = 86400;
  return entry->ino == 0 ? -1 : 0;
}

static void on_init(void *data, struct fuse_conn_info *connection) {
  (void)data;
  connection->max_write = 1 << 20;
  connection->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
}

static void on_lookup(fuse_req_t request, fuse_ino_t parent, const char *name) {
  struct fuse_entry_param entry = {0};
  (void)parent;
  if (fill(&entry, name) == 0) {
    fuse_reply_entry(request, &entry);
  } else if (errno == ENOENT) {
    // Node 0 lets the kernel remember that there is no such name.
    entry.entry_timeout = 86400;
    fuse_reply_entry(request, &entry);
  } else {
    fuse_reply_err(request, errno);
  }
}

static void on_forget(fuse_req_t request, fuse_ino_t node, uint64_t count) {
  (void)count;
  if (node != FUSE_ROOT_ID) free((void *)node);
  fuse_reply_none(request);
}

static void on_getattr(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *info) {
  struct stat status;
  (void)info;
  if (fstatat(folder, name_of(node), &status, AT_SYMLINK_NOFOLLOW) < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_attr(request, &status, 86400);
}

static void on_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *info) {
  struct fuse_entry_param entry = {0};
  (void)parent;
  const int file = openat(folder, name, (info->flags | O_CREAT | O_CLOEXEC) & ~O_NOFOLLOW, mode);
  if (file < 0 || fill(&entry, name) < 0) {
    fuse_reply_err(request, errno);
    if (file >= 0) close(file);
    return;
  }
  info->fh = (uint64_t)file;
  info->direct_io = 1;
  fuse_reply_create(request, &entry, info);
}

static void on_open(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *info) {
  const int file = openat(folder, name_of(node), (info->flags | O_CLOEXEC) & ~O_NOFOLLOW);
  if (file < 0) {
    fuse_reply_err(request, errno);
    return;
  }
  info->fh = (uint64_t)file;
  info->direct_io = 1;
  fuse_reply_open(request, info);
}

static void on_write(fuse_req_t request, fuse_ino_t node, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *info) {
  (void)node;
  const ssize_t written = pwrite((int)info->fh, bytes, size, offset);
  if (written < 0)
    fuse_reply_err(request, errno);
  else
    fuse_reply_write(request, (size_t)written);
}

static void on_flush(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *info) {
  (void)node;
  (void)info;
  fuse_reply_err(request, 0);
}

static void on_release(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *info) {
  (void)node;
  answer(request, close((int)info->fh));
}

static void on_unlink(fuse_req_t request, fuse_ino_t parent, const char *name) {
  (void)parent;
  answer(request, unlinkat(folder, name, 0));
}

int main(int count, char **words) {
  const struct fuse_lowlevel_ops operations = {
      .init = on_init, .lookup = on_lookup, .forget = on_forget, .getattr = on_getattr, .create = on_create, .open = on_open,
      .write = on_write, .flush = on_flush, .release = on_release, .unlink = on_unlink};
  struct fuse_args arguments = FUSE_ARGS_INIT(0, NULL);
  if (count != 3 || (folder = open(words[2], O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0) {
    fprintf(stderr, "pass-on MOUNTPOINT FOLDER\n");
    return 2;
  }
  fuse_opt_add_arg(&arguments, "pass-on");
  fuse_opt_add_arg(&arguments, "-odefault_permissions,fsname=pass-on");
  struct fuse_session *session = fuse_session_new(&arguments, &operations, sizeof operations, NULL);
  if (session == NULL || fuse_session_mount(session, words[1]) != 0) return 1;
  printf("mounted %s\n", words[1]);
  fflush(stdout);
  // The threads that uploadfs has, and one clone of the device for all of them, as there.
  struct fuse_loop_config *loop = fuse_loop_cfg_create();
  fuse_loop_cfg_set_clone_fd(loop, 0);
  fuse_loop_cfg_set_max_threads(loop, 6);
  const int result = fuse_session_loop_mt(session, loop);
  fuse_loop_cfg_destroy(loop);
  fuse_session_unmount(session);
  fuse_session_destroy(session);
  return result == 0 ? 0 : 1;
}

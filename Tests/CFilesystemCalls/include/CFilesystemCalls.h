/// System calls that the filesystem's tests make and Swift cannot import: variadic ones, those that glibc declares only with
/// _GNU_SOURCE, and those that Swift forbids. Each returns what the call returns; errno is untouched in between.
#ifndef CFILESYSTEMCALLS_H
#define CFILESYSTEMCALLS_H

#include <stddef.h>
#include <sys/statvfs.h>
#include <sys/types.h>

/// O_PATH, O_TMPFILE, O_DIRECT and O_NOATIME.
extern const int calls_o_path;
extern const int calls_o_tmpfile;
extern const int calls_o_direct;
extern const int calls_o_noatime;

int calls_openat(int directory, const char *path, int flags, mode_t mode);
/// linkat(2) with AT_EMPTY_PATH.
int calls_link_descriptor(int fd, int directory, const char *path);
int calls_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned int flags);
int calls_fallocate(int fd, int mode, off_t offset, off_t length);
/// Without an offset, −1, a descriptor's own is used, and moved.
ssize_t calls_copy_file_range(int from, off_t reading, int to, off_t writing, size_t count);
ssize_t calls_sendfile(int to, int from, off_t offset, size_t count);
int calls_pipe(int ends[2]);
ssize_t calls_splice(int from, int to, size_t count);
/// ioctl(2) with FICLONE.
int calls_clone(int to, int from);
int calls_syncfs(int fd);
/// How often this process has made a file durable by fsync(2) or fdatasync(2).
size_t calls_synchronized(dev_t device, ino_t inode);
ssize_t calls_getxattr(const char *path, const char *name, char *value, size_t capacity);
int calls_setxattr(const char *path, const char *name, const char *value, size_t length);
ssize_t calls_listxattr(const char *path, char *list, size_t capacity);
int calls_removexattr(const char *path, const char *name);
/// fcntl(2) with F_SETLK, F_SETLKW and F_OFD_SETLK.
int calls_lock(int fd, int is_of_open_file, int waits, short kind, off_t start, off_t length);
dev_t calls_device(unsigned int major, unsigned int minor);
/// Gives up root for good: no further groups, and one user and group in every respect.
int calls_become(uid_t user, gid_t group);
/// flock(2) and statvfs(3): Swift has structures of these names.
int calls_flock(int fd, int operation);
int calls_statvfs(const char *path, struct statvfs *facts);
/// fork(2), in a process of one thread.
pid_t calls_fork(void);
/// Binds a stream socket to a path of at most 107 bytes, or connects one to it. Returns the descriptor.
int calls_bind(const char *path);
int calls_connect(const char *path);
/// A program, run with its output in `output`; its wait(2) status, or -1.
int calls_run(char *const arguments[], int output);
/// EEXIST for 17; null for what is no errno.
const char *calls_errno_name(int code);
/// Waits for the end of a child, so many seconds at most; -1 when it goes on. waitpid(2) alone waits for ever for a
/// process that hangs in a dead filesystem.
int calls_wait(pid_t child, int seconds);
/// pthread_timedjoin_np(3): whether the thread ends within so many seconds; 0 or an errno.
int calls_join(unsigned long thread, int seconds);
/// One byte with a descriptor beside it, through a socket.
int calls_send_descriptor(int socket, int descriptor);
int calls_receive_descriptor(int socket);
/// Starts a program with one descriptor as its number 3 and no other but the standard three, and with every signal as it is by
/// default; 0 or an errno.
int calls_spawn(const char *program, char *const arguments[], int descriptor, pid_t *child);

#endif

/// Linux system calls that Swift cannot import: variadic functions, or declarations that glibc shows only with
/// _GNU_SOURCE. Each wrapper returns what the call returns; errno is untouched in between.
#ifndef UPLOADFS_CLINUX_H
#define UPLOADFS_CLINUX_H

#include "CLinuxFaults.h"
#include "CLinuxFiles.h"
#include "CLinuxFilesystem.h"
#include "CLinuxMapping.h"
#include "CLinuxNetwork.h"
#include "CLinuxThreads.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/// openat(2) is variadic.
int uploadfs_openat(int directory, const char *path, int flags, mode_t mode);
/// renameat2(2) needs _GNU_SOURCE.
int uploadfs_renameat2(int from_directory, const char *from, int to_directory, const char *to, unsigned int flags);
/// fallocate(2) needs _GNU_SOURCE.
int uploadfs_fallocate(int fd, int mode, off_t offset, off_t length);
/// copy_file_range(2) needs _GNU_SOURCE. Both files' positions stay where they are.
ssize_t uploadfs_copy_file_range(int from, int to, off_t offset, size_t count);
/// sync_file_range(2) needs _GNU_SOURCE. Of the whole file: the disk begins with what was written, and the call does not wait for it.
int uploadfs_begin_writing(int fd);
/// 1 when a process has the file open for writing or mapped so that it can be written, 0 when none has, −1 with errno where
/// that cannot be told. `fd` was opened for reading only, and the caller has no other descriptor of the file. Asks for a
/// read lease (fcntl(2), F_SETLEASE), which the kernel gives only where there is no writer, and lets go of it at once.
int uploadfs_is_open_for_writing(int fd);
/// explicit_bzero(3) needs _DEFAULT_SOURCE; keys and chunk buffers are wiped with it.
void uploadfs_explicit_bzero(void *bytes, size_t count);
/// malloc_trim(3) of everything, whose header is in no module.
void uploadfs_return_memory(void);
/// mallopt(3): the end of a heap goes back once so much of it is free, and so does every block that is as long as the second, when it is
/// freed. By itself glibc lets both bounds rise to tens of MiB with the longest block that was freed so far; and malloc_trim(3) gives back
/// the end of the main heap only, not those of threads. 1 where it was done.
int uploadfs_keep_little_memory(size_t heap_bytes, size_t block_bytes);
/// umount2(2) with its flags.
int uploadfs_umount2(const char *path, int flags);
/// pidfd_open(2) and pidfd_send_signal(2), whose header is in no module: a process that cannot be mistaken for a later one
/// of the same number. poll(2) finds the descriptor readable once the process has ended.
int uploadfs_pidfd_open(pid_t pid);
int uploadfs_pidfd_send_signal(int pidfd, int number);
/// The length beyond which the kernel lets a thread's process write no file (prlimit(2), which needs _GNU_SOURCE; UINT64_MAX where
/// there is no such limit). −1 with errno where that cannot be told; EPERM where the thread is another user's.
int uploadfs_file_size_limit(pid_t thread, uint64_t *bytes);
/// Whether a signal is ignored; SIG_IGN is a cast that no module has.
int uploadfs_ignores_signal(int number);
/// Sees to it that the descriptors 0 to 2 are open, on /dev/null where they were closed: the next file would be taken for the place where
/// messages go. Call it before anything else is opened.
void uploadfs_open_standard_descriptors(void);

#endif

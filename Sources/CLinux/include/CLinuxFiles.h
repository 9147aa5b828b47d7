/// What each module would have to do around the system calls for files: to call again after a signal (EINTR) and after a part, and to read a
/// folder whose entries Swift cannot see whole.
#ifndef UPLOADFS_CLINUX_FILES_H
#define UPLOADFS_CLINUX_FILES_H

#include <dirent.h>
#include <stddef.h>
#include <sys/types.h>

/// Writes all bytes, at the descriptor's position or at an offset. The number of those that were written; where that is less, errno says why.
size_t uploadfs_write_all(int fd, const void *bytes, size_t count);
size_t uploadfs_pwrite_all(int fd, const void *bytes, size_t count, off_t offset);
/// Reads as many bytes as there are. The number of those that were read; where that is less, errno is 0 at the file's end, and else says why.
size_t uploadfs_read_all(int fd, void *bytes, size_t count);
size_t uploadfs_pread_all(int fd, void *bytes, size_t count, off_t offset);
/// The next entry of a folder; NULL with errno 0 at its end, and else with what errno says of the disk.
struct dirent *uploadfs_next_entry(DIR *folder);
/// The same without `.` and `..`.
struct dirent *uploadfs_next_child(DIR *folder);
/// An entry's name. The array that `struct dirent` declares is longer than the entry's memory, or shorter than its name.
const char *uploadfs_entry_name(const struct dirent *entry);

#endif

#include "CLinuxFiles.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/// Whether to call again for the rest. What takes nothing and says nothing would be called for ever.
static bool goes_on(ssize_t moved, size_t *done, int code_of_nothing) {
  if (moved > 0) {
    *done += (size_t)moved;
    return true;
  }
  if (moved == 0) errno = code_of_nothing;
  return moved < 0 && errno == EINTR;
}

size_t uploadfs_write_all(int fd, const void *bytes, size_t count) {
  size_t done = 0;
  while (done < count && goes_on(write(fd, (const char *)bytes + done, count - done), &done, EIO)) {
  }
  return done;
}

size_t uploadfs_pwrite_all(int fd, const void *bytes, size_t count, off_t offset) {
  size_t done = 0;
  while (done < count &&
         goes_on(pwrite(fd, (const char *)bytes + done, count - done, offset + (off_t)done), &done, EIO)) {
  }
  return done;
}

size_t uploadfs_read_all(int fd, void *bytes, size_t count) {
  size_t done = 0;
  while (done < count && goes_on(read(fd, (char *)bytes + done, count - done), &done, 0)) {
  }
  return done;
}

size_t uploadfs_pread_all(int fd, void *bytes, size_t count, off_t offset) {
  size_t done = 0;
  while (done < count && goes_on(pread(fd, (char *)bytes + done, count - done, offset + (off_t)done), &done, 0)) {
  }
  return done;
}

struct dirent *uploadfs_next_entry(DIR *folder) {
  errno = 0;
  return readdir(folder);
}

struct dirent *uploadfs_next_child(DIR *folder) {
  struct dirent *entry;
  do entry = uploadfs_next_entry(folder);
  while (entry != NULL && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
  return entry;
}

const char *uploadfs_entry_name(const struct dirent *entry) { return entry->d_name; }

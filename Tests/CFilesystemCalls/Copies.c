#define _GNU_SOURCE
#include "CFilesystemCalls.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <unistd.h>

ssize_t calls_copy_file_range(int from, off_t reading, int to, off_t writing, size_t count) {
  return copy_file_range(from, reading < 0 ? NULL : &reading, to, writing < 0 ? NULL : &writing, count, 0);
}

ssize_t calls_sendfile(int to, int from, off_t offset, size_t count) { return sendfile(to, from, &offset, count); }

int calls_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC); }

ssize_t calls_splice(int from, int to, size_t count) { return splice(from, NULL, to, NULL, count, 0); }

int calls_clone(int to, int from) { return ioctl(to, FICLONE, from); }

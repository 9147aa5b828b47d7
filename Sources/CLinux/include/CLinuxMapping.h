/// Reading from mapped files that others may truncate, and what Linux offers to keep the page cache clean.
#ifndef UPLOADFS_CLINUX_MAPPING_H
#define UPLOADFS_CLINUX_MAPPING_H

#include <stddef.h>
#include <sys/types.h>

/// Installs the SIGBUS handler that uploadfs_copy_mapped needs, once for the process. Call it before the first copy, on
/// any thread. Returns 0, or the errno of sigaction(2): mapped files must not be touched then.
int uploadfs_contain_sigbus(void);

/// Copies `count` bytes out of a mapped file. Returns 1; 0 when a page is not there (the file was truncated, or its disk
/// failed), and the target then holds no bytes that may be used. A fault anywhere else goes to the handler that was there
/// before.
int uploadfs_copy_mapped(void *target, const void *mapped, size_t count);

/// sync_file_range(2) with SYNC_FILE_RANGE_WRITE: begins to write dirty pages back and does not wait for them. Needs
/// _GNU_SOURCE.
int uploadfs_begin_writeback(int fd, off_t offset, off_t length);

/// mincore(2), which needs _DEFAULT_SOURCE: how many of the mapped range's pages are in memory; -1 when it cannot tell.
/// At most 1024 pages are checked.
long uploadfs_resident_pages(void *start, size_t length);

#endif

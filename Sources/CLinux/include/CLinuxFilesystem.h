/// What the filesystem needs of Linux and Swift cannot see: constants that glibc shows only with _GNU_SOURCE, and calls
/// that are declared only there.
#ifndef UPLOADFS_CLINUX_FILESYSTEM_H
#define UPLOADFS_CLINUX_FILESYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// O_PATH: a descriptor that names an inode without opening it.
extern const int uploadfs_o_path;
/// O_TMPFILE: a file without a name, in a directory's filesystem.
extern const int uploadfs_o_tmpfile;
/// O_NOATIME: reading for an upload must not look like a person reading.
extern const int uploadfs_o_noatime;
/// AT_EMPTY_PATH: act on the descriptor itself.
extern const int uploadfs_at_empty_path;
/// RENAME_NOREPLACE and RENAME_EXCHANGE.
extern const unsigned int uploadfs_rename_noreplace;
extern const unsigned int uploadfs_rename_exchange;
/// UTIME_NOW and UTIME_OMIT, values of tv_nsec.
extern const long uploadfs_utime_now;
extern const long uploadfs_utime_omit;
/// FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE.
extern const int uploadfs_falloc_keep_size;
extern const int uploadfs_falloc_punch_hole;
/// SEEK_DATA and SEEK_HOLE.
extern const int uploadfs_seek_data;
extern const int uploadfs_seek_hole;

/// FS_IOC_FIEMAP, whose ioctl(2) is variadic: for how many of these bytes, from the first one on, the file has space of its own, written
/// to or only reserved, so that writing them takes none. What it shares with another file (a copy by reference) ends that, and so does
/// what lies behind too many pieces to be looked through. -1 where the filesystem does not say. What is not written back yet counts
/// as the filesystem has it: nothing is waited for.
int64_t uploadfs_space_from(int fd, uint64_t start, uint64_t end);

/// fsetxattr(2), fgetxattr(2), fremovexattr(2) and lgetxattr(2), whose header is in no module. The last takes a directory, as
/// openat(2) does.
int uploadfs_set_attribute(int fd, const char *name, const char *value, size_t length);
ssize_t uploadfs_attribute(int fd, const char *name, char *value, size_t capacity);
int uploadfs_remove_attribute(int fd, const char *name);
ssize_t uploadfs_attribute_at(int directory, const char *path, const char *name, char *value, size_t capacity);

/// statx(2) with STATX_MNT_ID_UNIQUE (Linux 6.8), which older headers lack: a number of the mount that a file is seen through
/// which no other mount gets until the machine is started again; 0 where the kernel has none.
uint64_t uploadfs_unique_mount_id(int fd);

/// When an open file was made, in nanoseconds since 1970 (statx(2)); 0 where its filesystem does not say it.
int64_t uploadfs_birth_nanoseconds(int fd);

/// A number of the mounted filesystem itself, whichever mount shows it: that of its folder in /sys/fs, which the kernel makes with the
/// filesystem and takes away when it is unmounted, and which no other one gets until the machine is started again. 0 where it
/// has no such folder (ext4, xfs, f2fs and btrfs have one), or /sys is not there.
uint64_t uploadfs_superblock_number(int fd);

/// Whether blocks that a file has within its first `size` bytes were reserved and never written (fiemap(2)), also when everything that is
/// in memory of it has been written: 1 or 0, and −1 with errno where that cannot be told.
int uploadfs_has_unwritten_bytes(int fd, uint64_t size);

/// The first such blocks from an offset on, as they are on the disk, within the first `size` bytes: 1 with their place, 0 where there are
/// none, and −1 with errno where that cannot be told.
int uploadfs_next_unwritten_bytes(int fd, uint64_t from, uint64_t size, uint64_t *start, uint64_t *end);

/// The kind of filesystem that a path lies on (statfs(2), whose header is in no module), a number of linux/magic.h; 0 when that
/// cannot be told.
uint32_t uploadfs_filesystem_kind(const char *path);

/// openat2(2), for which glibc has no function: an O_PATH descriptor of a folder below `directory`. `path` leads through
/// folders alone: the call fails with ELOOP where a symbolic link stands in it, also as its last part, and with EXDEV where it
/// would leave `directory`. Where the kernel (before 5.6) or a container's filter does not know the call, it does what the
/// next function does.
int uploadfs_open_folder_beneath(int directory, const char *path);
/// The same, entering the folders one by one.
int uploadfs_enter_folders_beneath(int directory, const char *path);

/// Whether the filesystem of an open file may refuse bytes because of a quota: 1 or 0, and −1 with errno where that cannot be told,
/// as on filesystems of which this is not known how to ask. Users, groups and projects count (quotactl_fd(2), Linux 5.14), and
/// the subvolumes of btrfs. Quotas that are only counted refuse nothing.
int uploadfs_enforces_quotas(int fd);

/// What statvfs(2) says of a filesystem. libfuse's headers declare glibc's struct as well, and which of two modules owns it depends on
/// the order in which a compiler reads them: code that may not import the one would be refused the struct's members.
struct uploadfs_space {
  uint64_t block_bytes, preferred_bytes;
  /// Blocks of the first size; what is available is free for ordinary users.
  uint64_t blocks, free_blocks, available_blocks;
  uint64_t files, free_files;
  uint64_t name_bytes_max;
};
int uploadfs_get_space(int fd, struct uploadfs_space *space);

/// syncfs(2) needs _GNU_SOURCE.
int uploadfs_syncfs(int fd);
/// Fails with what earlier writes of the file failed with when the kernel brought them to the disk; each open file description
/// hears of a failure once. Nothing is written and nothing waited for: sync_file_range(2) of a range without pages.
int uploadfs_take_write_back_error(int fd);
/// pread(2) of what is in the page cache, and of nothing else: fails with EAGAIN where the first byte is not, and with EOPNOTSUPP where
/// that cannot be told. preadv2(2) with RWF_NOWAIT alone does not say it: from Linux 5.13 on it begins to read what is not there,
/// and what the disk has never had is there as zeros at once. So the kernel is asked first (cachestat(2), Linux 6.5, or mincore(2)).
ssize_t uploadfs_read_cached(int fd, void *bytes, size_t count, off_t offset);
/// Runs a program (found through PATH, then /usr/bin and /bin) with up to three arguments, its output discarded, waits
/// for it, and returns its exit status; 127 when it cannot be found or started, 128 + n when signal n ended it. posix_spawn(3) wants
/// `environ`, a mutable global that Swift 6 does not let one touch.
int uploadfs_run(const char *program, const char *first, const char *second, const char *third);

#endif

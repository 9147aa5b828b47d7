#define _GNU_SOURCE
#include "CLinuxFilesystem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/dqblk_xfs.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

const int uploadfs_o_path = O_PATH;
const int uploadfs_o_tmpfile = O_TMPFILE;
const int uploadfs_o_noatime = O_NOATIME;
const int uploadfs_at_empty_path = AT_EMPTY_PATH;
const unsigned int uploadfs_rename_noreplace = RENAME_NOREPLACE;
const unsigned int uploadfs_rename_exchange = RENAME_EXCHANGE;
const long uploadfs_utime_now = UTIME_NOW;
const long uploadfs_utime_omit = UTIME_OMIT;
const int uploadfs_falloc_keep_size = FALLOC_FL_KEEP_SIZE;
const int uploadfs_falloc_punch_hole = FALLOC_FL_PUNCH_HOLE;
const int uploadfs_seek_data = SEEK_DATA;
const int uploadfs_seek_hole = SEEK_HOLE;

int64_t uploadfs_space_from(int fd, uint64_t start, uint64_t end) {
  enum { extents_max = 32, requests_max = 64 };
  _Alignas(struct fiemap) char memory[sizeof(struct fiemap) + extents_max * sizeof(struct fiemap_extent)];
  struct fiemap *map = (struct fiemap *)memory;
  uint64_t next = start;
  for (int requests = 0; next < end && requests < requests_max; requests++) {
    memset(map, 0, sizeof *map);
    map->fm_start = next;
    map->fm_length = end - next;
    map->fm_extent_count = extents_max;
    if (ioctl(fd, FS_IOC_FIEMAP, map) != 0) return -1;
    const uint64_t before = next;
    for (uint32_t index = 0; index < map->fm_mapped_extents; index++) {
      const struct fiemap_extent *extent = &map->fm_extents[index];
      if (extent->fe_logical > next || extent->fe_flags & FIEMAP_EXTENT_SHARED) return (int64_t)((next < end ? next : end) - start);
      const uint64_t extent_end = extent->fe_logical + extent->fe_length;
      if (extent_end > next) next = extent_end;
    }
    if (next == before) break;
  }
  return (int64_t)((next < end ? next : end) - start);
}

uint64_t uploadfs_unique_mount_id(int fd) {
  const unsigned int unique = 0x4000U;
  struct statx status;
  if (statx(fd, "", AT_EMPTY_PATH, unique, &status) != 0 || !(status.stx_mask & unique)) return 0;
  return status.stx_mnt_id;
}

int64_t uploadfs_birth_nanoseconds(int fd) {
  struct statx status;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &status) != 0 || !(status.stx_mask & STATX_BTIME)) return 0;
  return (int64_t)status.stx_btime.tv_sec * 1000000000 + status.stx_btime.tv_nsec;
}

// What /sys/fs calls a filesystem on one device: the last part of the device's name.
static int device_folder(const char *kind, const struct stat *status, char *folder, size_t capacity) {
  char link[64], target[PATH_MAX];
  snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(status->st_dev), minor(status->st_dev));
  const ssize_t length = readlink(link, target, sizeof target - 1);
  if (length <= 0) return 0;
  target[length] = '\0';
  const char *name = strrchr(target, '/');
  if (name == NULL) return 0;
  const int count = snprintf(folder, capacity, "/sys/fs/%s%s", kind, name);
  return count > 0 && (size_t)count < capacity;
}

// That of btrfs, which may have many devices, has its identity.
static int btrfs_folder(int fd, char *folder, size_t capacity) {
  struct btrfs_ioctl_fs_info_args info;
  memset(&info, 0, sizeof info);
  if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) != 0) return 0;
  size_t used = (size_t)snprintf(folder, capacity, "/sys/fs/btrfs/");
  for (int at = 0; at < BTRFS_FSID_SIZE && used + 4 < capacity; at++) {
    const char *dash = at == 4 || at == 6 || at == 8 || at == 10 ? "-" : "";
    used += (size_t)snprintf(folder + used, capacity - used, "%s%02x", dash, info.fsid[at]);
  }
  return 1;
}

uint64_t uploadfs_superblock_number(int fd) {
  struct stat status;
  struct statfs facts;
  char folder[PATH_MAX];
  if (fstat(fd, &status) != 0 || fstatfs(fd, &facts) != 0) return 0;
  int is_named = 0;
  switch ((uint32_t)facts.f_type) {
    case EXT4_SUPER_MAGIC: is_named = device_folder("ext4", &status, folder, sizeof folder); break;
    case XFS_SUPER_MAGIC: is_named = device_folder("xfs", &status, folder, sizeof folder); break;
    case F2FS_SUPER_MAGIC: is_named = device_folder("f2fs", &status, folder, sizeof folder); break;
    case BTRFS_SUPER_MAGIC: is_named = btrfs_folder(fd, folder, sizeof folder); break;
    default: break;
  }
  return is_named && stat(folder, &status) == 0 ? status.st_ino : 0;
}

// quotactl_fd(2), of which older headers know nothing: the same number on every architecture. The command is about users, and
// answers for groups and projects as well; sys/quota.h has the shift, and names that linux/dqblk_xfs.h has, too.
enum { QUOTACTL_FD = 443, QUOTA_STATE = Q_XGETQSTAT << 8 };

int uploadfs_enforces_quotas(int fd) {
  struct statfs facts;
  if (fstatfs(fd, &facts) != 0) return -1;
  switch ((uint32_t)facts.f_type) {
    case BTRFS_SUPER_MAGIC: {
      char folder[PATH_MAX];
      struct stat status;
      if (!btrfs_folder(fd, folder, sizeof folder) || stat(folder, &status) != 0) return -1;
      strncat(folder, "/qgroups", sizeof folder - strlen(folder) - 1);
      if (stat(folder, &status) == 0) return 1;
      return errno == ENOENT ? 0 : -1;
    }
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC: break;
    default: errno = EOPNOTSUPP; return -1;
  }
  struct fs_quota_stat state;
  memset(&state, 0, sizeof state);
  if (syscall(QUOTACTL_FD, fd, QUOTA_STATE, 0, &state) == 0) {
    return (state.qs_flags & (FS_QUOTA_UDQ_ENFD | FS_QUOTA_GDQ_ENFD | FS_QUOTA_PDQ_ENFD)) != 0;
  }
  // A filesystem without any says what a kernel, or a container, without the call says; but that does not look at the descriptor.
  if (errno != ENOSYS) return -1;
  if (syscall(QUOTACTL_FD, -1, QUOTA_STATE, 0, &state) == -1 && errno == EBADF) return 0;
  errno = ENOSYS;
  return -1;
}

static int next_unwritten(int fd, uint64_t from, uint64_t size, uint32_t flags, uint64_t *start_found, uint64_t *end_found) {
  enum { EXTENTS = 32 };
  _Alignas(struct fiemap) char room[sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent)];
  struct fiemap *const asked = (struct fiemap *)room;
  for (uint64_t start = from; start < size;) {
    memset(room, 0, sizeof room);
    asked->fm_start = start;
    asked->fm_length = size - start;
    asked->fm_flags = flags;
    asked->fm_extent_count = EXTENTS;
    if (ioctl(fd, FS_IOC_FIEMAP, asked) != 0) return -1;
    if (asked->fm_mapped_extents == 0) return 0;
    for (uint32_t at = 0; at < asked->fm_mapped_extents; at++) {
      const struct fiemap_extent *extent = &asked->fm_extents[at];
      const uint64_t end = extent->fe_logical + extent->fe_length;
      if ((extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN) && extent->fe_logical < size) {
        *start_found = extent->fe_logical > from ? extent->fe_logical : from;
        *end_found = end < size ? end : size;
        return 1;
      }
      if (extent->fe_flags & FIEMAP_EXTENT_LAST) return 0;
      start = end;
    }
  }
  return 0;
}

int uploadfs_has_unwritten_bytes(int fd, uint64_t size) {
  uint64_t start, end;
  const int answer = next_unwritten(fd, 0, size, 0, &start, &end);
  // What is on its way to the disk looks like that for a moment.
  return answer == 1 ? next_unwritten(fd, 0, size, FIEMAP_FLAG_SYNC, &start, &end) : answer;
}

int uploadfs_next_unwritten_bytes(int fd, uint64_t from, uint64_t size, uint64_t *start, uint64_t *end) {
  return next_unwritten(fd, from, size, 0, start, end);
}

int uploadfs_enter_folders_beneath(int directory, const char *path) {
  const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int folder = openat(directory, ".", flags);
  while (folder >= 0 && *path != '\0') {
    char name[NAME_MAX + 1];
    const size_t length = strcspn(path, "/");
    int next = -1;
    if (length > NAME_MAX) {
      errno = ENAMETOOLONG;
    } else {
      memcpy(name, path, length);
      name[length] = '\0';
      if (strcmp(name, "..") == 0) {
        errno = EXDEV;
      } else {
        next = openat(folder, name, flags);
        struct stat status;
        if (next < 0 && errno == ENOTDIR) {
          const int is_link = fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
          errno = is_link ? ELOOP : ENOTDIR;
        }
      }
    }
    const int failure = errno;
    close(folder);
    errno = failure;
    folder = next;
    path += length + strspn(path + length, "/");
  }
  return folder;
}

int uploadfs_open_folder_beneath(int directory, const char *path) {
  // Without O_NOFOLLOW, with which a link as the last part would be opened itself, and then be no folder.
  struct open_how how = {
      .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  const long folder = syscall(SYS_openat2, directory, path, &how, sizeof how);
  // EPERM: filters that do not know the call answer so.
  if (folder < 0 && (errno == ENOSYS || errno == EPERM)) return uploadfs_enter_folders_beneath(directory, path);
  return (int)folder;
}

int uploadfs_get_space(int fd, struct uploadfs_space *space) {
  struct statvfs numbers;
  int result = fstatvfs(fd, &numbers);
  if (result != 0) return result;
  *space = (struct uploadfs_space){
      .block_bytes = numbers.f_frsize,
      .preferred_bytes = numbers.f_bsize,
      .blocks = numbers.f_blocks,
      .free_blocks = numbers.f_bfree,
      .available_blocks = numbers.f_bavail,
      .files = numbers.f_files,
      .free_files = numbers.f_ffree,
      .name_bytes_max = numbers.f_namemax,
  };
  return 0;
}

int uploadfs_syncfs(int fd) { return syncfs(fd); }

int uploadfs_take_write_back_error(int fd) {
  return sync_file_range(fd, INT64_MAX - 1, 1, SYNC_FILE_RANGE_WAIT_BEFORE);
}

// cachestat(2), of which older headers know nothing: the same number on every architecture.
enum { CACHESTAT = 451 };
struct cache_range {
  uint64_t offset, length;
};
struct cache_counts {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

// How many pages from the first on are in memory; -1 where the system does not say it.
static ssize_t pages_by_mapping(int fd, off_t first, size_t pages, size_t page_bytes) {
  enum { PAGES_MAX = 4096 };
  unsigned char present[PAGES_MAX];
  if (pages > PAGES_MAX) pages = PAGES_MAX;
  void *mapping = mmap(NULL, pages * page_bytes, PROT_READ, MAP_SHARED, fd, first);
  if (mapping == MAP_FAILED) return -1;
  const int result = mincore(mapping, pages * page_bytes, present);
  munmap(mapping, pages * page_bytes);
  if (result != 0) return -1;
  size_t count = 0;
  while (count < pages && (present[count] & 1) != 0) count++;
  return (ssize_t)count;
}

static ssize_t pages_in_memory(int fd, off_t first, size_t pages, size_t page_bytes) {
  struct cache_range range = {.offset = (uint64_t)first, .length = pages * page_bytes};
  struct cache_counts counts;
  if (syscall(CACHESTAT, fd, &range, &counts, 0) != 0) return pages_by_mapping(fd, first, pages, page_bytes);
  if (counts.cached >= pages) return (ssize_t)pages;
  range.length = page_bytes;
  for (size_t count = 0; count < pages; count++, range.offset += page_bytes)
    if (syscall(CACHESTAT, fd, &range, &counts, 0) != 0 || counts.cached == 0) return (ssize_t)count;
  return (ssize_t)pages;
}

ssize_t uploadfs_read_cached(int fd, void *bytes, size_t count, off_t offset) {
  struct stat status;
  if (fstat(fd, &status) != 0) return -1;
  if (offset >= status.st_size || count == 0) return 0;
  if ((off_t)count > status.st_size - offset) count = (size_t)(status.st_size - offset);
  const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  const off_t first = offset / (off_t)page_bytes * (off_t)page_bytes;
  const size_t before = (size_t)(offset - first);
  const ssize_t pages = pages_in_memory(fd, first, (before + count + page_bytes - 1) / page_bytes, page_bytes);
  if (pages <= 0) {
    errno = pages == 0 ? EAGAIN : EOPNOTSUPP;
    return -1;
  }
  if (count > (size_t)pages * page_bytes - before) count = (size_t)pages * page_bytes - before;
  const struct iovec piece = {.iov_base = bytes, .iov_len = count};
  return preadv2(fd, &piece, 1, offset, RWF_NOWAIT);
}

static int spawn_one(pid_t *child, const char *program, char *const arguments[]) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // The daemon blocks its signals in every thread; a child must not inherit that.
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int result = posix_spawnp(child, program, &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return result;
}

int uploadfs_run(const char *program, const char *first, const char *second, const char *third) {
  char *const arguments[] = {(char *)program, (char *)first, (char *)second, (char *)third, NULL};
  static const char *const folders[] = {"", "/usr/bin/", "/bin/"};
  pid_t child = -1;
  int result = ENOENT;
  for (size_t index = 0; index < sizeof folders / sizeof *folders && result == ENOENT; index++) {
    char path[512];
    if (snprintf(path, sizeof path, "%s%s", folders[index], program) >= (int)sizeof path) return 127;
    result = spawn_one(&child, path, arguments);
  }
  if (result != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int uploadfs_set_attribute(int fd, const char *name, const char *value, size_t length) {
  return fsetxattr(fd, name, value, length, 0);
}

ssize_t uploadfs_attribute(int fd, const char *name, char *value, size_t capacity) {
  return fgetxattr(fd, name, value, capacity);
}

int uploadfs_remove_attribute(int fd, const char *name) { return fremovexattr(fd, name); }

ssize_t uploadfs_attribute_at(int directory, const char *path, const char *name, char *value, size_t capacity) {
  char whole[PATH_MAX + 64];
  int length = snprintf(whole, sizeof whole, "/proc/self/fd/%d/%s", directory, path);
  if (length < 0 || (size_t)length >= sizeof whole) {
    errno = ENAMETOOLONG;
    return -1;
  }
  return lgetxattr(whole, name, value, capacity);
}

uint32_t uploadfs_filesystem_kind(const char *path) {
  struct statfs facts;
  return statfs(path, &facts) == 0 ? (uint32_t)facts.f_type : 0;
}

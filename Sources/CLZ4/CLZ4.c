#include "CLZ4.h"

#include <limits.h>
#include <lz4.h>

size_t uploadfs_lz4_bound(size_t count) {
  return count > LZ4_MAX_INPUT_SIZE ? 0 : (size_t)LZ4_compressBound((int)count);
}

size_t uploadfs_lz4_compress(const void *source, size_t count, void *target, size_t capacity) {
  if (count > LZ4_MAX_INPUT_SIZE) return 0;
  const int room = capacity > INT_MAX ? INT_MAX : (int)capacity;
  const int written = LZ4_compress_default(source, target, (int)count, room);
  return written > 0 ? (size_t)written : 0;
}

int uploadfs_lz4_decompress(const void *source, size_t count, void *target, size_t plain_count) {
  if (count > INT_MAX || plain_count > INT_MAX) return 0;
  return LZ4_decompress_safe(source, target, (int)count, (int)plain_count) == (int)plain_count;
}

const char *uploadfs_lz4_version(void) { return LZ4_versionString(); }

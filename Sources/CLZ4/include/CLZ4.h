/// LZ4's block format through liblz4.
#ifndef UPLOADFS_CLZ4_H
#define UPLOADFS_CLZ4_H

#include <stddef.h>

/// The most bytes that `count` bytes can become; 0 when `count` is more than a block can hold. LZ4's own bound counts in
/// ints.
size_t uploadfs_lz4_bound(size_t count);

/// Compresses `count` bytes into at most `capacity` bytes. Returns the compressed length, 0 when it does not fit.
size_t uploadfs_lz4_compress(const void *source, size_t count, void *target, size_t capacity);

/// Decompresses `count` bytes into exactly `plain_count` bytes. Returns 1; 0 when the block is damaged or has another
/// length. Never writes beyond `plain_count` and never reads beyond `count`, whatever the block says.
int uploadfs_lz4_decompress(const void *source, size_t count, void *target, size_t plain_count);

/// The library's version, as “1.9.4”.
const char *uploadfs_lz4_version(void);

#endif

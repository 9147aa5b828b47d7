/// Zstandard frames (RFC 8878) through libzstd.
#ifndef UPLOADFS_CZSTD_H
#define UPLOADFS_CZSTD_H

#include <stddef.h>

/// What a compressor keeps between two frames.
struct uploadfs_zstd_compressor;

/// A compressor, or NULL when there is no memory for it; `uploadfs_zstd_compressor_free` ends it.
struct uploadfs_zstd_compressor *uploadfs_zstd_compressor_make(void);

void uploadfs_zstd_compressor_free(struct uploadfs_zstd_compressor *compressor);

/// Compresses `count` bytes into one frame of at most `capacity` bytes, with a window of at most 2^window_log bytes.
/// Returns the frame's length, 0 when it does not fit or there is no memory.
size_t uploadfs_zstd_compress(
    struct uploadfs_zstd_compressor *compressor, int level, int window_log, const void *source, size_t count,
    void *target, size_t capacity);

/// Decompresses a frame of `count` bytes into exactly `plain_count` bytes. Returns 1; 0 when the frame is damaged or has
/// another length. Never writes beyond `plain_count` and never reads beyond `count`, whatever the frame says.
int uploadfs_zstd_decompress(const void *source, size_t count, void *target, size_t plain_count);

/// The library's version, as “1.5.4”.
const char *uploadfs_zstd_version(void);

#endif

#include "CZSTD.h"

#include <zstd.h>

struct uploadfs_zstd_compressor *uploadfs_zstd_compressor_make(void) {
  return (struct uploadfs_zstd_compressor *)ZSTD_createCCtx();
}

void uploadfs_zstd_compressor_free(struct uploadfs_zstd_compressor *compressor) {
  ZSTD_freeCCtx((ZSTD_CCtx *)compressor);
}

size_t uploadfs_zstd_compress(
    struct uploadfs_zstd_compressor *compressor, int level, int window_log, const void *source, size_t count,
    void *target, size_t capacity) {
  ZSTD_CCtx *context = (ZSTD_CCtx *)compressor;
  // The last call may have failed in the middle of a frame.
  if (ZSTD_isError(ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters))) return 0;
  if (ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level))) return 0;
  if (ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log))) return 0;
  const size_t written = ZSTD_compress2(context, target, capacity, source, count);
  return ZSTD_isError(written) ? 0 : written;
}

int uploadfs_zstd_decompress(const void *source, size_t count, void *target, size_t plain_count) {
  const size_t written = ZSTD_decompress(target, plain_count, source, count);
  return !ZSTD_isError(written) && written == plain_count;
}

const char *uploadfs_zstd_version(void) { return ZSTD_versionString(); }

/// CRC32C through ISA-L, which picks the widest instructions that the processor has at run time.
#ifndef UPLOADFS_CISAL_H
#define UPLOADFS_CISAL_H

#include <stddef.h>
#include <stdint.h>

/// Standard CRC32C (Castagnoli, reflected, initial value and final xor of all ones) of `count` bytes that follow bytes
/// whose CRC32C is `previous`; 0 for none. ISA-L's own function leaves out both inversions, takes its length as an int
/// and its buffer without const.
uint32_t uploadfs_crc32c(const void *bytes, size_t count, uint32_t previous);

/// The version of the headers, as “2.30.0”: the library does not say its own.
const char *uploadfs_isal_version(void);

#endif

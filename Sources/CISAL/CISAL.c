#include "CISAL.h"

#include <isa-l.h>
#include <isa-l/crc.h>

uint32_t uploadfs_crc32c(const void *bytes, size_t count, uint32_t previous) {
  // crc32_iscsi does not write to its buffer; the missing const is an oversight of its declaration.
  unsigned char *next = (unsigned char *)bytes;
  uint32_t crc = ~previous;
  while (count > 0) {
    const int step = count > (1u << 30) ? (1 << 30) : (int)count;
    crc = crc32_iscsi(next, step, crc);
    next += step;
    count -= (size_t)step;
  }
  return ~crc;
}

#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)

const char *uploadfs_isal_version(void) {
  return TEXT(ISAL_MAJOR_VERSION) "." TEXT(ISAL_MINOR_VERSION) "." TEXT(ISAL_PATCH_VERSION);
}

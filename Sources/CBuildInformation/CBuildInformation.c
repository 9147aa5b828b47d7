#include "CBuildInformation.h"

#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)

const char *uploadfs_build_commit(void) {
#ifdef UPLOADFS_COMMIT
  return TEXT(UPLOADFS_COMMIT);
#else
  return "";
#endif
}

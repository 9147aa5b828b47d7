// Time in nanoseconds. The pure parts take it as an argument; only the running program reads it here.
#pragma once

#include <stdint.h>
#include <time.h>

#define SECOND 1000000000LL
#define MILLISECOND 1000000LL
#define MICROSECOND 1000LL
#define NEVER INT64_MAX

static inline int64_t clock_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * SECOND + time.tv_nsec;
}

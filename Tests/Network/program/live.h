// The network between two namespaces, until its end is asked for.
#pragma once

#include <stdint.h>

typedef struct {
  const char *names[8];
  uint32_t mtus[8];
  uint32_t path_count, capacity;
  uint64_t seed;
  const char *congestion;  // NULL leaves what the machine has
} live_options;

int live_run(const live_options *options);

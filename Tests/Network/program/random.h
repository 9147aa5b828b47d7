// Random draws that depend on the seed alone (splitmix64).
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint64_t state;
} random_source;

random_source random_from(uint64_t seed, uint64_t stream);

// From 0 to just below 1.
double random_unit(random_source *source);

// One draw each time, whatever the probability is: settings that change do not shift the draws that follow.
bool random_happens(random_source *source, double probability);

// Packets behind the bottleneck, ordered by the time at which they arrive (a binary heap).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "packet.h"

typedef struct {
  int64_t due_ns;
  uint64_t order;  // of two that are due at once, the one that was put in first comes first
  packet *packet;
} flight_entry;

typedef struct {
  flight_entry *entries;
  uint32_t count, capacity;
  uint64_t order;
} flight;

void flight_open(flight *flight, uint32_t capacity);
void flight_close(flight *flight);

// Never full: its capacity is the pool's.
void flight_put(flight *flight, int64_t due_ns, packet *one);
int64_t flight_next(const flight *flight);
flight_entry flight_take(flight *flight);

// What became of the packets of one direction.
#pragma once

#include <stdint.h>
#include <stdio.h>

// Each packet meets exactly one of these in the end.
typedef enum { DELIVERED, NO_ROOM, LOST, WHILE_DOWN, TOO_BIG, NO_PLACE, REFUSED, FATES } fate;

typedef struct {
  uint64_t packets, bytes;
} count;

typedef struct {
  count in, duplicated, fates[FATES];
  count beside, beside_dropped;
  uint64_t reordered, signals, late_packets;
  uint32_t queue_packets_most;
  int64_t queue_ns_most, late_ns_most;
} link_counters;

extern const char *const fate_names[FATES];

static inline void count_one(count *count, uint32_t bytes) {
  count->packets++;
  count->bytes += bytes;
}

// As a JSON object. `queued` and `flying` are under way; `missed` were dropped by the kernel before they came in.
void counters_print(const link_counters *counters, count queued, count flying, uint64_t missed, FILE *to);

// A packet on its way, and the pool that all packets of a link come from: nothing is allocated after the start.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t number;    // its place among all that came in at this end
  uint64_t sequence;  // its place among those that left the bottleneck
  uint32_t length;
  uint8_t bytes[];
} packet;

typedef struct {
  char *memory;
  uint32_t *free_places;
  uint32_t free_count, capacity;
  size_t place_size;
} packet_pool;

void pool_open(packet_pool *pool, uint32_t capacity, uint32_t packet_size);
void pool_close(packet_pool *pool);

// NULL when all are on their way.
packet *pool_take(packet_pool *pool);
void pool_give_back(packet_pool *pool, packet *one);

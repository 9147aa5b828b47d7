#include "packet.h"

#include <err.h>
#include <stdlib.h>

void pool_open(packet_pool *pool, uint32_t capacity, uint32_t packet_size) {
  pool->capacity = pool->free_count = capacity;
  pool->place_size = (sizeof(packet) + packet_size + 63) / 64 * 64;
  pool->memory = calloc(capacity, pool->place_size);
  pool->free_places = calloc(capacity, sizeof *pool->free_places);
  if (!pool->memory || !pool->free_places) err(1, "memory for %u packets", capacity);
  // Places are taken from the end, and the last one given back is taken first: few pages are ever touched.
  for (uint32_t place = 0; place < capacity; place++) pool->free_places[place] = capacity - 1 - place;
}

void pool_close(packet_pool *pool) {
  free(pool->memory);
  free(pool->free_places);
}

packet *pool_take(packet_pool *pool) {
  if (pool->free_count == 0) return NULL;
  return (packet *)(void *)(pool->memory + pool->free_places[--pool->free_count] * pool->place_size);
}

void pool_give_back(packet_pool *pool, packet *one) {
  size_t place = (size_t)((char *)one - pool->memory) / pool->place_size;
  pool->free_places[pool->free_count++] = (uint32_t)place;
}

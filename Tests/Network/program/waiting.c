#include "waiting.h"

#include <err.h>
#include <stdlib.h>

void waiting_open(waiting_queue *queue, uint32_t capacity) {
  *queue = (waiting_queue){.entries = calloc(capacity, sizeof(waiting_entry)), .capacity = capacity};
  if (!queue->entries) err(1, "memory for a queue of %u", capacity);
}

void waiting_close(waiting_queue *queue) { free(queue->entries); }

bool waiting_is_full(const waiting_queue *queue) { return queue->count == queue->capacity; }

void waiting_append(waiting_queue *queue, waiting_entry entry) {
  queue->entries[(queue->first + queue->count++) % queue->capacity] = entry;
  queue->bytes += entry.length;
}

waiting_entry waiting_remove_first(waiting_queue *queue) {
  waiting_entry entry = queue->entries[queue->first];
  queue->first = (queue->first + 1) % queue->capacity;
  queue->count--;
  queue->bytes -= entry.length;
  return entry;
}

// The queue before the bottleneck: first in, first out, with a bound.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "packet.h"

typedef struct {
  packet *packet;  // NULL stands for one of the sender beside
  uint32_t length;
} waiting_entry;

typedef struct {
  waiting_entry *entries;
  uint32_t first, count, capacity;
  uint64_t bytes;
} waiting_queue;

void waiting_open(waiting_queue *queue, uint32_t capacity);
void waiting_close(waiting_queue *queue);
bool waiting_is_full(const waiting_queue *queue);
void waiting_append(waiting_queue *queue, waiting_entry entry);
waiting_entry waiting_remove_first(waiting_queue *queue);

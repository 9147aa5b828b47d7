// One direction of a path: the bottleneck with its queue, then the way with its delay and its faults. No clock and no
// device: time comes in, and packets go out through one function.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "flight.h"
#include "loss.h"
#include "packet.h"
#include "random.h"
#include "settings.h"
#include "waiting.h"

// Called once for each packet and each copy, when its fate is known. `at` is the time at which it was due. What comes back
// is counted: a packet that was DELIVERED here may be REFUSED there.
typedef fate link_end(void *context, const packet *one, fate fate, int64_t at);

typedef struct {
  link_settings settings;
  packet_pool pool;
  waiting_queue waiting;
  flight flight;
  count flying;
  link_counters counters;
  link_end *end;
  void *context;

  int64_t sent_at_ns;         // when the first of the queue has left; has a meaning while there is one
  uint64_t numbers, sequences, latest_out;
  int64_t latest_due_ns;      // jitter alone does not let packets overtake each other
  int64_t jitter_slot, jitter_offset_ns;
  int64_t beside_next_ns;

  loss_state loss;
  random_source jitter, reorder, duplicate, beside;
} path_link;

void link_open(
    path_link *link, link_settings settings, uint64_t seed, uint32_t capacity, uint32_t packet_size, link_end *end,
    void *context);
void link_close(path_link *link);

// A packet to fill in. NULL when all places are taken: what arrives then is dropped with `link_overflow`.
packet *link_place(path_link *link);
void link_overflow(path_link *link, uint32_t length, int64_t now);

// Takes over a packet from `link_place`. Time does not go back, and `link_advance` was called up to `now`.
void link_arrive(path_link *link, packet *one, int64_t now);

// Does all that is due up to `now`; returns when something is due next.
int64_t link_advance(path_link *link, int64_t now);

void link_set(path_link *link, const link_settings *settings, int64_t now);

// Packets in the queue, without those of the sender beside.
count link_queued(const path_link *link);

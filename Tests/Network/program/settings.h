// What one direction of a path does to packets, and the words that set it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  double rate;  // bits of IP packets in a second; 0 is without limit
  int64_t delay_ns, jitter_ns;
  double loss, burst, burst_loss;
  double reorder;
  int64_t reorder_by_ns;
  double duplicate;
  uint32_t mtu;
  bool too_big_is_silent;
  uint32_t queue_packets;  // the queue's bound: one of the two; the other is 0
  int64_t queue_ns;
  double beside;  // bits in a second of another sender at the same bottleneck
  bool down;
} link_settings;

link_settings settings_default(uint32_t mtu);

// Applies `name=value` words. On a wrong one it changes nothing, and puts a sentence into `error`.
bool settings_apply(link_settings *settings, char *words, char *error, size_t error_size);

// Which packets are lost on the way: each for itself, or in bursts (a Gilbert–Elliott chain).
#pragma once

#include <stdbool.h>

#include "random.h"

typedef struct {
  random_source chain, inside;
  bool is_in_burst;
} loss_state;

loss_state loss_from(uint64_t seed, uint64_t stream);

// `share` of all packets are lost. With `burst` above 0, they are lost within bad times, which are `burst` packets long on
// average and lose `burst_loss` of their packets.
bool loss_takes(loss_state *state, double share, double burst, double burst_loss);

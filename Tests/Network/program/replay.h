// The same links without devices and clock: packets and changes come from standard input, with times, and what becomes of
// each packet is printed.
#pragma once

#include "network.h"

// Lines are those of a running network, and `packet DIRECTION MICROSECONDS BYTES` for a packet on path 0, in the order of
// time. For each packet: `DIRECTION NUMBER FATE MICROSECONDS`.
int replay_run(uint32_t mtu, uint64_t seed, uint32_t capacity);

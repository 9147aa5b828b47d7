// What a router answers about a packet that does not fit: ICMP “fragmentation needed”, or ICMPv6 “packet too big”.
#pragma once

#include <stdint.h>

enum { TOO_BIG_BYTES = 1280 };  // no answer is longer

// The answer's length; 0 when none is due: no IP, no "don't fragment", a later fragment, or itself an ICMP error. The answer
// comes from the packet's destination, whose address is the one that the sender surely accepts packets from.
uint32_t too_big_answer(const uint8_t *packet, uint32_t length, uint32_t mtu, uint8_t answer[TOO_BIG_BYTES]);

#include "too_big.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stdbool.h>
#include <string.h>

// Offsets in the two headers.
enum {
  V4_HEADER = 20, V4_LENGTH = 2, V4_FLAGS = 6, V4_TTL = 8, V4_PROTOCOL = 9, V4_CHECKSUM = 10, V4_SOURCE = 12,
  V4_TARGET = 16,
  V6_HEADER = 40, V6_LENGTH = 4, V6_NEXT = 6, V6_HOPS = 7, V6_SOURCE = 8, V6_TARGET = 24,
  ICMP_HEADER = 8, V4_QUOTE_MOST = 548
};

static void put16(uint8_t *at, uint32_t value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

static uint32_t sum(const uint8_t *bytes, uint32_t length, uint32_t start) {
  for (uint32_t at = 0; at < length; at++) start += at % 2 ? bytes[at] : (uint32_t)bytes[at] << 8;
  return start;
}

static uint32_t checksum(uint32_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

static bool is_icmp_error(uint8_t type) {
  return type == ICMP_DEST_UNREACH || type == ICMP_SOURCE_QUENCH || type == ICMP_REDIRECT || type == ICMP_TIME_EXCEEDED ||
         type == ICMP_PARAMETERPROB;
}

static uint32_t answer_v4(const uint8_t *packet, uint32_t length, uint32_t mtu, uint8_t *answer) {
  uint32_t header = (packet[0] & 15u) * 4;
  if (header < V4_HEADER || length < header + ICMP_HEADER) return 0;
  bool may_fragment = !(packet[V4_FLAGS] & 0x40);
  bool is_later_fragment = (packet[V4_FLAGS] & 0x1f) || packet[V4_FLAGS + 1];
  if (may_fragment || is_later_fragment) return 0;
  if (packet[V4_PROTOCOL] == IPPROTO_ICMP && is_icmp_error(packet[header])) return 0;
  uint32_t quote = length < V4_QUOTE_MOST ? length : V4_QUOTE_MOST;
  uint32_t total = V4_HEADER + ICMP_HEADER + quote;
  memset(answer, 0, V4_HEADER + ICMP_HEADER);
  answer[0] = 0x45;
  put16(answer + V4_LENGTH, total);
  answer[V4_TTL] = 64;
  answer[V4_PROTOCOL] = IPPROTO_ICMP;
  memcpy(answer + V4_SOURCE, packet + V4_TARGET, 4);
  memcpy(answer + V4_TARGET, packet + V4_SOURCE, 4);
  put16(answer + V4_CHECKSUM, checksum(sum(answer, V4_HEADER, 0)));
  uint8_t *icmp = answer + V4_HEADER;
  icmp[0] = ICMP_DEST_UNREACH;
  icmp[1] = ICMP_FRAG_NEEDED;
  put16(icmp + 6, mtu);
  memcpy(icmp + ICMP_HEADER, packet, quote);
  put16(icmp + 2, checksum(sum(icmp, ICMP_HEADER + quote, 0)));
  return total;
}

static uint32_t answer_v6(const uint8_t *packet, uint32_t length, uint32_t mtu, uint8_t *answer) {
  if (length < V6_HEADER + ICMP_HEADER) return 0;
  if (packet[V6_NEXT] == IPPROTO_ICMPV6 && packet[V6_HEADER] < 128) return 0;
  uint32_t quote = TOO_BIG_BYTES - V6_HEADER - ICMP_HEADER;
  if (length < quote) quote = length;
  memset(answer, 0, V6_HEADER + ICMP_HEADER);
  answer[0] = 0x60;
  put16(answer + V6_LENGTH, ICMP_HEADER + quote);
  answer[V6_NEXT] = IPPROTO_ICMPV6;
  answer[V6_HOPS] = 64;
  memcpy(answer + V6_SOURCE, packet + V6_TARGET, 16);
  memcpy(answer + V6_TARGET, packet + V6_SOURCE, 16);
  uint8_t *icmp = answer + V6_HEADER;
  icmp[0] = ICMP6_PACKET_TOO_BIG;
  put16(icmp + 6, mtu);
  memcpy(icmp + ICMP_HEADER, packet, quote);
  uint32_t pseudo = sum(answer + V6_SOURCE, 32, ICMP_HEADER + quote + IPPROTO_ICMPV6);
  put16(icmp + 2, checksum(sum(icmp, ICMP_HEADER + quote, pseudo)));
  return V6_HEADER + ICMP_HEADER + quote;
}

uint32_t too_big_answer(const uint8_t *packet, uint32_t length, uint32_t mtu, uint8_t answer[TOO_BIG_BYTES]) {
  if (length == 0) return 0;
  switch (packet[0] >> 4) {
    case 4: return answer_v4(packet, length, mtu, answer);
    case 6: return answer_v6(packet, length, mtu, answer);
    default: return 0;
  }
}

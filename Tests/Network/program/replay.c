#include "replay.h"

#include <err.h>
#include <inttypes.h>
#include <string.h>

#include "clock.h"

static fate print_fate(void *context, const packet *one, fate fate, int64_t at) {
  printf("%s %" PRIu64 " %s %.3f\n", (const char *)context, one->number, fate_names[fate], (double)at / MICROSECOND);
  return fate;
}

static void send_packet(network *network, const char *direction, int64_t now, uint32_t length) {
  path_link *link = &network->paths[0].links[strcmp(direction, direction_names[UPSTREAM]) ? DOWNSTREAM : UPSTREAM];
  packet *one = link_place(link);
  if (!one) {
    link_overflow(link, length, now);
    return;
  }
  one->length = length;
  link_arrive(link, one, now);
}

static bool is_empty(const network *network) {
  for (int direction = 0; direction < DIRECTIONS; direction++) {
    const path_link *link = &network->paths[0].links[direction];
    if (link->flight.count || link_queued(link).packets) return false;
  }
  return true;
}

int replay_run(uint32_t mtu, uint64_t seed, uint32_t capacity) {
  static network network;
  static char names[DIRECTIONS][16];
  void *contexts[DIRECTIONS] = {names[UPSTREAM], names[DOWNSTREAM]};
  for (int each = 0; each < DIRECTIONS; each++) snprintf(names[each], sizeof names[each], "%s", direction_names[each]);
  network_add(&network, "replay", mtu, seed, capacity, print_fate, contexts);
  char line[1024], direction[16];
  int64_t now = 0, at;
  uint32_t length;
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "packet %15s %" SCNd64 " %" SCNu32, direction, &at, &length) != 3) {
      network_obey(&network, line, now, stdout);
      continue;
    }
    if (at * MICROSECOND < now || length == 0 || length > mtu) errx(2, "not in the order of time, or too long: %s", line);
    now = at * MICROSECOND;
    network_advance(&network, now);
    send_packet(&network, direction, now, length);
  }
  while (!is_empty(&network)) {
    now = network_advance(&network, now);
    if (now == NEVER) break;
  }
  network_print_counters(&network, stdout);
  return 0;
}

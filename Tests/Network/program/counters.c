#include "counters.h"

#include <inttypes.h>

#include "clock.h"

const char *const fate_names[FATES] = {
    [DELIVERED] = "out",       [NO_ROOM] = "queue",    [LOST] = "loss",      [WHILE_DOWN] = "down",
    [TOO_BIG] = "too_big",     [NO_PLACE] = "overflow", [REFUSED] = "refused"};

static void print_count(const char *name, count count, const char *after, FILE *to) {
  fprintf(to, "\"%s\": {\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 "}%s", name, count.packets, count.bytes, after);
}

void counters_print(const link_counters *counters, count queued, count flying, uint64_t missed, FILE *to) {
  fputs("{", to);
  print_count("in", counters->in, ", ", to);
  print_count("out", counters->fates[DELIVERED], ", ", to);
  fputs("\"dropped\": {", to);
  for (fate fate = DELIVERED + 1; fate < FATES; fate++)
    print_count(fate_names[fate], counters->fates[fate], fate + 1 < FATES ? ", " : "}, ", to);
  print_count("duplicated", counters->duplicated, ", ", to);
  print_count("queued", queued, ", ", to);
  print_count("flying", flying, ", ", to);
  print_count("beside", counters->beside, ", ", to);
  print_count("beside_dropped", counters->beside_dropped, ", ", to);
  fprintf(
      to, "\"reordered\": %" PRIu64 ", \"signals\": %" PRIu64 ", \"missed\": %" PRIu64 ", \"late\": %" PRIu64 ", ",
      counters->reordered, counters->signals, missed, counters->late_packets);
  fprintf(
      to, "\"queue_packets_most\": %u, \"queue_seconds_most\": %.6f, \"late_seconds_most\": %.6f}",
      counters->queue_packets_most, (double)counters->queue_ns_most / SECOND, (double)counters->late_ns_most / SECOND);
}

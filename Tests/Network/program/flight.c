#include "flight.h"

#include <err.h>
#include <stdlib.h>

#include "clock.h"

void flight_open(flight *flight, uint32_t capacity) {
  flight->entries = calloc(capacity, sizeof(flight_entry));
  if (!flight->entries) err(1, "memory for %u packets under way", capacity);
  flight->capacity = capacity;
  flight->count = 0;
  flight->order = 0;
}

void flight_close(flight *flight) { free(flight->entries); }

static bool is_before(const flight_entry *one, const flight_entry *other) {
  return one->due_ns != other->due_ns ? one->due_ns < other->due_ns : one->order < other->order;
}

void flight_put(flight *flight, int64_t due_ns, packet *one) {
  if (flight->count == flight->capacity) errx(1, "more packets under way than there are");
  flight_entry entry = {due_ns, flight->order++, one};
  uint32_t place = flight->count++;
  while (place > 0 && is_before(&entry, &flight->entries[(place - 1) / 2])) {
    flight->entries[place] = flight->entries[(place - 1) / 2];
    place = (place - 1) / 2;
  }
  flight->entries[place] = entry;
}

int64_t flight_next(const flight *flight) { return flight->count ? flight->entries[0].due_ns : NEVER; }

flight_entry flight_take(flight *flight) {
  flight_entry taken = flight->entries[0], last = flight->entries[--flight->count];
  uint32_t place = 0;
  for (;;) {
    uint32_t child = 2 * place + 1;
    if (child >= flight->count) break;
    if (child + 1 < flight->count && is_before(&flight->entries[child + 1], &flight->entries[child])) child++;
    if (!is_before(&flight->entries[child], &last)) break;
    flight->entries[place] = flight->entries[child];
    place = child;
  }
  flight->entries[place] = last;
  return taken;
}

#include "link.h"

#include <math.h>

#include "clock.h"

static const uint32_t beside_bytes = 1500;

// How long one offset of the jitter lasts. An offset for each packet would, as they keep their order, come to the largest.
static const int64_t jitter_lasts_ns = 10 * MILLISECOND;
static const int64_t late_ns = MILLISECOND;

void link_open(
    path_link *link, link_settings settings, uint64_t seed, uint32_t capacity, uint32_t packet_size, link_end *end,
    void *context) {
  *link = (path_link){.settings = settings, .end = end, .context = context, .jitter_slot = -1, .beside_next_ns = NEVER};
  pool_open(&link->pool, capacity, packet_size);
  waiting_open(&link->waiting, 2 * capacity);
  flight_open(&link->flight, capacity);
  link->loss = loss_from(seed, 0);
  link->jitter = random_from(seed, 2);
  link->reorder = random_from(seed, 3);
  link->duplicate = random_from(seed, 4);
  link->beside = random_from(seed, 5);
}

void link_close(path_link *link) {
  pool_close(&link->pool);
  waiting_close(&link->waiting);
  flight_close(&link->flight);
}

static void finish(path_link *link, packet *one, fate fate, int64_t at) {
  fate = link->end(link->context, one, fate, at);
  count_one(&link->counters.fates[fate], one->length);
  pool_give_back(&link->pool, one);
}

// The bottleneck

static int64_t sending_ns(const path_link *link, uint32_t length) {
  return link->settings.rate > 0 ? llround(length * 8.0 / link->settings.rate * SECOND) : 0;
}

// How long a packet that arrives now waits until the line is free for it.
static int64_t wait_ns(const path_link *link, int64_t now) {
  if (link->waiting.count == 0) return 0;
  uint64_t behind = link->waiting.bytes - link->waiting.entries[link->waiting.first].length;
  int64_t rest = link->settings.rate > 0 ? llround((double)behind * 8 / link->settings.rate * SECOND) : 0;
  return link->sent_at_ns - now + rest;
}

// Those that wait; the first of the queue is being sent.
static uint32_t waiting_count(const path_link *link) { return link->waiting.count ? link->waiting.count - 1 : 0; }

static bool enqueue(path_link *link, waiting_entry entry, int64_t now) {
  int64_t wait = wait_ns(link, now);
  bool is_idle = link->waiting.count == 0;
  if (waiting_is_full(&link->waiting)) return false;
  if (link->settings.queue_packets && !is_idle && waiting_count(link) >= link->settings.queue_packets) return false;
  if (!link->settings.queue_packets && wait > link->settings.queue_ns) return false;
  if (is_idle) link->sent_at_ns = now + sending_ns(link, entry.length);
  waiting_append(&link->waiting, entry);
  if (wait > link->counters.queue_ns_most) link->counters.queue_ns_most = wait;
  if (waiting_count(link) > link->counters.queue_packets_most) link->counters.queue_packets_most = waiting_count(link);
  return true;
}

// The other sender does not answer to drops, and its packets come at random moments: a steady beat would meet the queue in
// the same state again and again.
static void let_beside_arrive(path_link *link) {
  int64_t at = link->beside_next_ns;
  if (enqueue(link, (waiting_entry){NULL, beside_bytes}, at))
    count_one(&link->counters.beside, beside_bytes);
  else
    count_one(&link->counters.beside_dropped, beside_bytes);
  double mean = beside_bytes * 8.0 / link->settings.beside * SECOND;
  link->beside_next_ns = at + llround(-log(1 - random_unit(&link->beside)) * mean) + 1;
}

// The way behind it

static int64_t jitter_ns(path_link *link, int64_t at) {
  if (at / jitter_lasts_ns != link->jitter_slot) {
    link->jitter_slot = at / jitter_lasts_ns;
    link->jitter_offset_ns = llround((2 * random_unit(&link->jitter) - 1) * (double)link->settings.jitter_ns);
  }
  return link->jitter_offset_ns;
}

static void fly(path_link *link, packet *one, int64_t due) {
  count_one(&link->flying, one->length);
  flight_put(&link->flight, due, one);
}

static void fly_copy(path_link *link, const packet *one, int64_t due) {
  packet *copy = link_place(link);
  if (!copy) return;
  copy->number = one->number;
  copy->sequence = one->sequence;
  copy->length = one->length;
  for (uint32_t at = 0; at < one->length; at++) copy->bytes[at] = one->bytes[at];
  count_one(&link->counters.duplicated, copy->length);
  fly(link, copy, due);
}

// Each packet that comes here takes one draw of each kind: the n-th has the same fate whatever happened to others.
static void leave_bottleneck(path_link *link, packet *one, int64_t at) {
  const link_settings *set = &link->settings;
  bool is_lost = loss_takes(&link->loss, set->loss, set->burst, set->burst_loss);
  bool is_held = random_happens(&link->reorder, set->reorder);
  bool is_doubled = random_happens(&link->duplicate, set->duplicate);
  if (is_lost) return finish(link, one, LOST, at);
  one->sequence = ++link->sequences;
  int64_t due = at + set->delay_ns + (set->jitter_ns ? jitter_ns(link, at) : 0);
  if (due < at) due = at;
  if (is_held) {
    due += set->reorder_by_ns;
  } else {
    if (due < link->latest_due_ns && set->jitter_ns) due = link->latest_due_ns;
    link->latest_due_ns = due;
  }
  if (is_doubled) fly_copy(link, one, due);
  fly(link, one, due);
}

static void send_first(path_link *link) {
  int64_t at = link->sent_at_ns;
  waiting_entry entry = waiting_remove_first(&link->waiting);
  if (link->waiting.count)
    link->sent_at_ns = at + sending_ns(link, link->waiting.entries[link->waiting.first].length);
  if (entry.packet) leave_bottleneck(link, entry.packet, at);
}

static void land_first(path_link *link, int64_t now) {
  flight_entry entry = flight_take(&link->flight);
  packet *one = entry.packet;
  link->flying.packets--;
  link->flying.bytes -= one->length;
  if (one->sequence < link->latest_out)
    link->counters.reordered++;
  else
    link->latest_out = one->sequence;
  int64_t late = now - entry.due_ns;
  if (late > late_ns) link->counters.late_packets++;
  if (late > link->counters.late_ns_most) link->counters.late_ns_most = late;
  finish(link, one, DELIVERED, entry.due_ns);
}

// What the path does

packet *link_place(path_link *link) { return pool_take(&link->pool); }

void link_overflow(path_link *link, uint32_t length, int64_t now) {
  packet none = {.number = link->numbers++, .length = length};
  count_one(&link->counters.in, length);
  count_one(&link->counters.fates[link->end(link->context, &none, NO_PLACE, now)], length);
}

void link_arrive(path_link *link, packet *one, int64_t now) {
  one->number = link->numbers++;
  count_one(&link->counters.in, one->length);
  if (link->settings.down)
    finish(link, one, WHILE_DOWN, now);
  else if (one->length > link->settings.mtu)
    finish(link, one, TOO_BIG, now);
  else if (!enqueue(link, (waiting_entry){one, one->length}, now))
    finish(link, one, NO_ROOM, now);
}

int64_t link_advance(path_link *link, int64_t now) {
  int64_t sent, beside;
  for (;;) {
    sent = link->waiting.count ? link->sent_at_ns : NEVER;
    beside = link->beside_next_ns;
    if (sent > now && beside > now) break;
    if (sent <= beside)
      send_first(link);
    else
      let_beside_arrive(link);
  }
  while (flight_next(&link->flight) <= now) land_first(link, now);
  int64_t next = flight_next(&link->flight);
  if (sent < next) next = sent;
  return beside < next ? beside : next;
}

static void empty_queue(path_link *link, int64_t now) {
  while (link->waiting.count) {
    waiting_entry entry = waiting_remove_first(&link->waiting);
    if (entry.packet) finish(link, entry.packet, WHILE_DOWN, now);
  }
}

void link_set(path_link *link, const link_settings *settings, int64_t now) {
  link_settings before = link->settings;
  link->settings = *settings;
  if (settings->down) empty_queue(link, now);
  // The packet that is being sent goes on at the new rate.
  if (link->waiting.count && settings->rate != before.rate && before.rate > 0) {
    double left = (double)(link->sent_at_ns - now);
    link->sent_at_ns = now + (settings->rate > 0 ? llround(left * before.rate / settings->rate) : 0);
  }
  bool sends_beside = settings->beside > 0 && !settings->down;
  if (!sends_beside)
    link->beside_next_ns = NEVER;
  else if (link->beside_next_ns == NEVER)
    link->beside_next_ns = now;
}

count link_queued(const path_link *link) {
  count queued = {0, 0};
  for (uint32_t place = 0; place < link->waiting.count; place++) {
    const waiting_entry *entry = &link->waiting.entries[(link->waiting.first + place) % link->waiting.capacity];
    if (entry->packet) count_one(&queued, entry->length);
  }
  return queued;
}

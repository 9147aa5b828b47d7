#include "network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

const char *const direction_names[DIRECTIONS] = {"upstream", "downstream"};

void network_add(
    network *network, const char *name, uint32_t mtu, uint64_t seed, uint32_t capacity, link_end *end,
    void *contexts[DIRECTIONS]) {
  uint32_t index = network->path_count++;
  network_path *path = &network->paths[index];
  snprintf(path->name, sizeof path->name, "%s", name);
  for (int direction = 0; direction < DIRECTIONS; direction++) {
    uint64_t own_seed = seed * (PATHS_MOST * DIRECTIONS) + index * DIRECTIONS + (uint64_t)direction;
    link_open(&path->links[direction], settings_default(mtu), own_seed, capacity, mtu, end, contexts[direction]);
  }
}

static bool change_links(
    network *network, const change *change, bool is_trial, int64_t now, char *error, size_t error_size) {
  for (int direction = 0; direction < DIRECTIONS; direction++) {
    if (!(change->directions & 1u << direction)) continue;
    path_link *link = &network->paths[change->path].links[direction];
    link_settings settings = link->settings;
    char words[CHANGE_WORDS];
    memcpy(words, change->words, sizeof words);
    if (!settings_apply(&settings, words, error, error_size)) return false;
    if (!is_trial) link_set(link, &settings, now);
  }
  return true;
}

static int64_t advance_links(network *network, int64_t now) {
  int64_t next = NEVER;
  for (uint32_t path = 0; path < network->path_count; path++) {
    for (int direction = 0; direction < DIRECTIONS; direction++) {
      int64_t due = link_advance(&network->paths[path].links[direction], now);
      if (due < next) next = due;
    }
  }
  return next;
}

int64_t network_advance(network *network, int64_t now) {
  while (schedule_next(&network->schedule) <= now) {
    change due = schedule_take(&network->schedule);
    advance_links(network, due.at_ns);
    // It was tried when it came. What it fits together with may have changed since: then it does nothing.
    char error[200];
    if (!change_links(network, &due, false, due.at_ns, error, sizeof error))
      fprintf(stderr, "a change failed: %s\n", error);
  }
  int64_t next = advance_links(network, now);
  return schedule_next(&network->schedule) < next ? schedule_next(&network->schedule) : next;
}

static bool parse_change(const network *network, char *text, change *change, char *error, size_t error_size) {
  char *rest = NULL, *end = NULL;
  char *verb = strtok_r(text, " ", &rest), *path = strtok_r(NULL, " ", &rest), *direction = strtok_r(NULL, " ", &rest);
  if (!verb || strcmp(verb, "set") || !path || !direction || !rest) {
    snprintf(error, error_size, "a line is: [at SECONDS] set PATH DIRECTION NAME=VALUE…");
    return false;
  }
  unsigned long index = strtoul(path, &end, 10);
  change->path = (uint32_t)index;
  change->directions = 0;
  for (int each = 0; each < DIRECTIONS; each++)
    if (!strcmp(direction, "both") || !strcmp(direction, direction_names[each])) change->directions |= 1u << each;
  if (*end || index >= network->path_count || !change->directions || strlen(rest) >= CHANGE_WORDS) {
    snprintf(error, error_size, "no path %.20s, no direction %.20s, or too many words", path, direction);
    return false;
  }
  snprintf(change->words, sizeof change->words, "%s", rest);
  return true;
}

static bool accept_change(network *network, char *line, int64_t now, char *error, size_t error_size) {
  change change = {.at_ns = now};
  bool is_later = !strncmp(line, "at ", 3);
  if (is_later) {
    char *end;
    double seconds = strtod(line + 3, &end);
    if (!(seconds >= 0 && seconds <= 1e6) || *end != ' ') {
      snprintf(error, error_size, "at needs seconds");
      return false;
    }
    change.at_ns += llround(seconds * SECOND);
    line = end + 1;
  }
  if (!parse_change(network, line, &change, error, error_size)) return false;
  if (!change_links(network, &change, is_later, now, error, error_size)) return false;
  if (is_later && !schedule_add(&network->schedule, &change)) {
    snprintf(error, error_size, "no more than %d changes wait", SCHEDULE_MOST);
    return false;
  }
  return true;
}

void network_print_counters(const network *network, FILE *to) {
  fputs("{\"paths\": [", to);
  for (uint32_t index = 0; index < network->path_count; index++) {
    const network_path *path = &network->paths[index];
    fprintf(to, "%s{\"name\": \"%s\"", index ? ", " : "", path->name);
    for (int direction = 0; direction < DIRECTIONS; direction++) {
      const path_link *link = &path->links[direction];
      fprintf(to, ", \"%s\": ", direction_names[direction]);
      uint64_t missed = network->missed ? network->missed(index, direction) : 0;
      counters_print(&link->counters, link_queued(link), link->flying, missed, to);
    }
    fputs("}", to);
  }
  fputs("]}\n", to);
}

void network_obey(network *network, char *line, int64_t now, FILE *answer) {
  char error[200];
  if (!strcmp(line, "counters"))
    network_print_counters(network, answer);
  else if (accept_change(network, line, now, error, sizeof error))
    fputs("{\"done\": true}\n", answer);
  else
    fprintf(answer, "{\"error\": \"%s\"}\n", error);
  fflush(answer);
}

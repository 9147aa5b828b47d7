// All paths between the client and the server, with their schedule. Like a link, it knows neither clock nor device.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "link.h"
#include "schedule.h"

enum { UPSTREAM, DOWNSTREAM, DIRECTIONS };
enum { PATHS_MOST = 8, NAME_BYTES = 16 };

extern const char *const direction_names[DIRECTIONS];

typedef struct {
  char name[NAME_BYTES];
  path_link links[DIRECTIONS];
} network_path;

typedef struct {
  network_path paths[PATHS_MOST];
  uint32_t path_count;
  schedule schedule;
  // What the kernel dropped before it came in; NULL where there is no kernel.
  uint64_t (*missed)(uint32_t path, int direction);
} network;

void network_add(
    network *network, const char *name, uint32_t mtu, uint64_t seed, uint32_t capacity, link_end *end,
    void *contexts[DIRECTIONS]);

// Does all that is due up to `now`; returns when something is due next.
int64_t network_advance(network *network, int64_t now);

// One line: `set PATH DIRECTION NAME=VALUE…`, `at SECONDS set …` (from now on) or `counters`. Answers with a line of JSON.
void network_obey(network *network, char *line, int64_t now, FILE *answer);

void network_print_counters(const network *network, FILE *to);

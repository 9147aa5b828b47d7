// Changes of settings that are to happen later.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SCHEDULE_MOST = 256, CHANGE_WORDS = 240 };

typedef struct {
  int64_t at_ns;
  uint32_t path;
  unsigned directions;  // bits: 1 << UPSTREAM, 1 << DOWNSTREAM
  char words[CHANGE_WORDS];
} change;

typedef struct {
  change changes[SCHEDULE_MOST];  // the earliest first
  uint32_t count;
} schedule;

// False when there is no place for another one.
bool schedule_add(schedule *schedule, const change *change);
int64_t schedule_next(const schedule *schedule);
change schedule_take(schedule *schedule);

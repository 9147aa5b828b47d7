#include "schedule.h"

#include <string.h>

#include "clock.h"

bool schedule_add(schedule *schedule, const change *added) {
  if (schedule->count == SCHEDULE_MOST) return false;
  uint32_t place = schedule->count++;
  for (; place > 0 && schedule->changes[place - 1].at_ns > added->at_ns; place--)
    schedule->changes[place] = schedule->changes[place - 1];
  schedule->changes[place] = *added;
  return true;
}

int64_t schedule_next(const schedule *schedule) { return schedule->count ? schedule->changes[0].at_ns : NEVER; }

change schedule_take(schedule *schedule) {
  change taken = schedule->changes[0];
  memmove(schedule->changes, schedule->changes + 1, --schedule->count * sizeof(change));
  return taken;
}

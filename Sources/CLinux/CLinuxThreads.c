#define _GNU_SOURCE
#include "CLinuxThreads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void uploadfs_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

// linux/ioprio.h is younger than some headers.
enum { WHO_PROCESS = 1, BEST_EFFORT = 2 << 13, LOWEST_LEVEL = 7 };

int uploadfs_lower_thread(int steps) {
  // Of the calling thread, as 0 is for setpriority(2), which takes what is beyond 19 as 19.
  int own = getpriority(PRIO_PROCESS, 0);
  int result = setpriority(PRIO_PROCESS, 0, own + steps);
  // Where the kernel knows no priorities of I/O there are none to be lowered.
  if (syscall(SYS_ioprio_set, WHO_PROCESS, 0, BEST_EFFORT | LOWEST_LEVEL) != 0 && errno != ENOSYS) return -1;
  return result;
}

void uploadfs_ring(uploadfs_bell *bell) {
  // Each ringer wakes the sleeper, also where another one has rung before: that one may have been preempted in between. Both words are
  // written and read in one order, so that either the sleeper sees the ring or the ringer the sleeper.
  __atomic_store_n(&bell->has_rung, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&bell->is_awaited, __ATOMIC_SEQ_CST)) {
    syscall(SYS_futex, &bell->has_rung, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  }
}

int uploadfs_await_ring(uploadfs_bell *bell, int64_t deadline_nanoseconds) {
  struct timespec deadline = {deadline_nanoseconds / 1000000000, deadline_nanoseconds % 1000000000};
  int has_rung = 0, is_late = 0;
  __atomic_store_n(&bell->is_awaited, 1, __ATOMIC_SEQ_CST);
  while (!(has_rung = (int)__atomic_exchange_n(&bell->has_rung, 0, __ATOMIC_SEQ_CST)) && !is_late) {
    // Its time is absolute, by the monotonic clock.
    long result = syscall(
        SYS_futex, &bell->has_rung, FUTEX_WAIT_BITSET_PRIVATE, 0, deadline_nanoseconds < 0 ? NULL : &deadline, NULL,
        FUTEX_BITSET_MATCH_ANY);
    is_late = result != 0 && errno == ETIMEDOUT;
  }
  __atomic_store_n(&bell->is_awaited, 0, __ATOMIC_SEQ_CST);
  return has_rung;
}

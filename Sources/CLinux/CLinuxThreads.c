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

void uploadfs_ring(uint32_t *bell) {
  if (__atomic_exchange_n(bell, 1, __ATOMIC_ACQ_REL) == 0) {
    syscall(SYS_futex, bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  }
}

int uploadfs_await_ring(uint32_t *bell, int64_t deadline_nanoseconds) {
  struct timespec deadline = {deadline_nanoseconds / 1000000000, deadline_nanoseconds % 1000000000};
  while (__atomic_exchange_n(bell, 0, __ATOMIC_ACQ_REL) == 0) {
    // Its time is absolute, by the monotonic clock.
    long result = syscall(
        SYS_futex, bell, FUTEX_WAIT_BITSET_PRIVATE, 0, deadline_nanoseconds < 0 ? NULL : &deadline, NULL,
        FUTEX_BITSET_MATCH_ANY);
    if (result != 0 && errno == ETIMEDOUT) return (int)__atomic_exchange_n(bell, 0, __ATOMIC_ACQ_REL);
  }
  return 1;
}

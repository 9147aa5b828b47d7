/// How the system favours threads, and waking them without a lock.
#ifndef UPLOADFS_CLINUX_THREADS_H
#define UPLOADFS_CLINUX_THREADS_H

#include <stdint.h>

/// Names the calling thread, of which Linux keeps 15 bytes; pthread_setname_np(3) needs _GNU_SOURCE.
void uploadfs_name_thread(const char *name);
/// Lowers the calling thread, by so many steps of nice(2) against what it has: on Linux setpriority(2) is of one thread. Its disk
/// reads come last among those of best effort; ioprio_set(2) has no wrapper. 0, or −1 with errno.
int uploadfs_lower_thread(int steps);

/// A flag that one thread waits for and any thread sets, without a lock: a thread that sets it may be preempted at any point, and
/// neither the one that waits nor another one that sets it is held up by that.
typedef struct {
  uint32_t has_rung;
  uint32_t is_awaited;
} uploadfs_bell;

void uploadfs_ring(uploadfs_bell *bell);
/// Waits until the bell has rung, which is over then, or until the instant of the monotonic clock (nanoseconds; negative for
/// never). 1 when it has rung.
int uploadfs_await_ring(uploadfs_bell *bell, int64_t deadline_nanoseconds);

#endif

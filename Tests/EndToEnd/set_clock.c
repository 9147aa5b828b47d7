// For LD_PRELOAD: the wall clock of a program is set while it runs, and that of the machine stays.
//
// CLOCK_AHEAD names a file of 8 bytes: by how many nanoseconds the program's clock is ahead (signed, as the machine stores numbers).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { SECOND = 1000000000 };

static const _Atomic long long *ahead;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_AHEAD");
  int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *place = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
  if (place != MAP_FAILED) ahead = place;
  close(file);
}

static void set(struct timespec *time) {
  if (ahead == NULL) return;
  long long nanoseconds = time->tv_sec * (long long)SECOND + time->tv_nsec + atomic_load(ahead);
  time->tv_sec = nanoseconds / SECOND;
  time->tv_nsec = nanoseconds % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static __typeof__(&clock_gettime) next;
  if (next == NULL) next = (__typeof__(next))dlsym(RTLD_NEXT, "clock_gettime");
  int result = next(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) set(now);
  return result;
}

int gettimeofday(struct timeval *now, void *zone) {
  (void)zone;
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *place) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (place != NULL) *place = now.tv_sec;
  return now.tv_sec;
}

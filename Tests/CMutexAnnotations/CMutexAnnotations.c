// Tells ThreadSanitizer about contended `Synchronization.Mutex`es.
//
// The fast path of lock and unlock is compiled into the caller, where the sanitizer sees its atomics. The slow path lies in
// libswiftSynchronization, which is not instrumented and leaves the hand-over to the kernel (FUTEX_LOCK_PI): without
// help, every hand-over of a contended mutex is reported as a race. The linker finds the functions below before the
// library's, because the executable comes first; they call the library's and say what has happened.
//
// The names are Swift's ABI: _MutexHandle._lockSlow(_: UInt32), _unlockSlow() and _tryLockSlow() -> Bool.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define TRY_LOCK_SLOW "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *

// Absent under every other sanitizer.
__attribute__((weak)) void __tsan_acquire(void *address);
__attribute__((weak)) void __tsan_release(void *address);

static void *library_function(const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}

SWIFT void lock_slow(uint32_t thread, SELF mutex) __asm__(LOCK_SLOW);
SWIFT void lock_slow(uint32_t thread, SELF mutex) {
  SWIFT void (*lock)(uint32_t, SELF) = library_function(LOCK_SLOW);
  lock(thread, mutex);
  if (__tsan_acquire) __tsan_acquire(mutex);
}

SWIFT void unlock_slow(SELF mutex) __asm__(UNLOCK_SLOW);
SWIFT void unlock_slow(SELF mutex) {
  SWIFT void (*unlock)(SELF) = library_function(UNLOCK_SLOW);
  if (__tsan_release) __tsan_release(mutex);
  unlock(mutex);
}

SWIFT bool try_lock_slow(SELF mutex) __asm__(TRY_LOCK_SLOW);
SWIFT bool try_lock_slow(SELF mutex) {
  SWIFT bool (*try_lock)(SELF) = library_function(TRY_LOCK_SLOW);
  bool is_locked = try_lock(mutex);
  if (is_locked && __tsan_acquire) __tsan_acquire(mutex);
  return is_locked;
}

#define _GNU_SOURCE
#include "CLinuxMapping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// How a fault is contained, and why that is sound:
//
// - The kernel delivers SIGBUS for a page beyond the end of a mapped file on the thread that touched it, in the middle
//   of the instruction. So the handler runs on that thread, and only while it is inside of copy_mapped's memcpy.
// - The handler jumps back into copy_mapped. The only frames that are left behind are the handler's and memcpy's, which
//   hold no lock and own nothing; no Swift frame lies between the two. siglongjmp(3) is safe here because memcpy is an
//   async-signal-safe function (POSIX: its behaviour is undefined only when it interrupts an unsafe one).
// - The handler uses nothing but a thread-local pointer, comparisons, sigaction(2), raise(3) and siglongjmp(3). The
//   pointer's storage is of the initial-exec model: reading it never allocates.
// - SA_NODEFER keeps SIGBUS out of the thread's mask, so the mask need not be saved and restored with each block: that
//   would be two system calls.

struct guard {
  sigjmp_buf jump;
  uintptr_t start;
  uintptr_t end;
};

static _Thread_local struct guard *volatile active __attribute__((tls_model("initial-exec")));
static struct sigaction previous;
static int installation_error;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void pass_on(int number, siginfo_t *info, void *context) {
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(number, info, context);
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
    return;
  }
  // A process sent the signal with kill(2), and no handler was installed before.
  const int was_sent = info->si_code <= 0;
  if (was_sent && previous.sa_handler == SIG_IGN) return;
  // The default for a fault is to end the process with the faulting instruction in its core: on return it faults again.
  struct sigaction standard;
  memset(&standard, 0, sizeof standard);
  standard.sa_handler = SIG_DFL;
  sigaction(SIGBUS, &standard, NULL);
  if (was_sent) raise(SIGBUS);
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
  struct guard *guard = active;
  const uintptr_t address = (uintptr_t)info->si_addr;
  if (guard != NULL && info->si_code > 0 && address >= guard->start && address < guard->end) {
    siglongjmp(guard->jump, 1);
  }
  pass_on(number, info, context);
}

static void install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGBUS, &action, &previous) != 0) installation_error = errno;
}

int uploadfs_contain_sigbus(void) {
  pthread_once(&installed, install);
  return installation_error;
}

int uploadfs_copy_mapped(void *target, const void *mapped, size_t count) {
  struct guard guard;
  guard.start = (uintptr_t)mapped;
  guard.end = guard.start + count;
  if (sigsetjmp(guard.jump, 0) != 0) {
    active = NULL;
    return 0;
  }
  active = &guard;
  // The fences keep the compiler from moving the copy out from between the two assignments.
  atomic_signal_fence(memory_order_seq_cst);
  memcpy(target, mapped, count);
  atomic_signal_fence(memory_order_seq_cst);
  active = NULL;
  return 1;
}

int uploadfs_begin_writeback(int fd, off_t offset, off_t length) {
  return sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE);
}

long uploadfs_resident_pages(void *start, size_t length) {
  unsigned char pages[1024];
  const long page = sysconf(_SC_PAGESIZE);
  if (page <= 0) return -1;
  const size_t longest = sizeof pages * (size_t)page;
  const size_t looked_at = length < longest ? length : longest;
  if (mincore(start, looked_at, pages) != 0) return -1;
  long resident = 0;
  for (size_t index = 0; index < (looked_at + (size_t)page - 1) / (size_t)page; index++) resident += pages[index] & 1;
  return resident;
}

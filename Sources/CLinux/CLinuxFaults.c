#define _GNU_SOURCE
#include "CLinuxFaults.h"

#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { FRAMES_MAX = 64 };

static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGABRT, SIGSYS};

static void say(const char *text) {
  // What cannot be said is left out.
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

// Async-signal-safe but for backtrace(3), which has loaded what it needs at the installation; should it hang in a process that is
// broken enough, the timer ends that.
static void on_fault(int number, siginfo_t *info, void *context) {
  (void)context;
  signal(number, SIG_DFL);
  signal(SIGALRM, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  const struct itimerval limit = {.it_value = {.tv_sec = 0, .tv_usec = 800000}};
  setitimer(ITIMER_REAL, &limit, NULL);
  say("uploadfs: ended by ");
  const char *name = sigabbrev_np(number);
  say("SIG");
  say(name == NULL ? "?" : name);
  say("; what is in the spool is kept. Return addresses:\n");
  void *frames[FRAMES_MAX];
  const int count = backtrace(frames, FRAMES_MAX);
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
  // A fault happens again on return, and ends the process with its default; what was sent does not.
  if (info->si_code <= 0) raise(number);
}

void uploadfs_end_on_faults(void) {
  void *frame;
  backtrace(&frame, 1);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t index = 0; index < sizeof faults / sizeof *faults; index++) sigaction(faults[index], &action, NULL);
}

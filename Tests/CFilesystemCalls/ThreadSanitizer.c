#include <pthread.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
/// libfuse cancels its threads when a mount has ended. The sanitizer ends the process when a thread is cancelled in a system
/// call, such as the read(2) of the next request. These reads end by themselves when the mount does.
int pthread_cancel(pthread_t thread) {
  (void)thread;
  return 0;
}
#endif
#endif

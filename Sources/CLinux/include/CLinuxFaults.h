/// What ends the process when it is faulty itself.
#ifndef UPLOADFS_CLINUX_FAULTS_H
#define UPLOADFS_CLINUX_FAULTS_H

/// From now on a fault (SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGABRT, SIGSYS), also one that was sent by kill(2), ends the
/// process within a second, with a line on stderr and the return addresses of its stack. Nothing else of its memory is shown,
/// and no other thread goes on meanwhile for longer than that. Takes the place of the language's own handlers, which halt the
/// threads, read the memory and may take half a minute. Call it first, before the first thread starts.
void uploadfs_end_on_faults(void);

#endif

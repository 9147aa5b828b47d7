// A network namespace without a name: it lives as long as a process or a descriptor is in it.
#pragma once

#include <stdint.h>

typedef struct {
  int fd;        // the namespace itself
  int devices;   // its /proc/net/dev
} network_namespace;

network_namespace namespace_make(void);
void namespace_enter(int fd);
int namespace_here(void);

// A TUN device in it; packets have no header before them, and are no larger than its MTU: the kernel cuts segments itself
// where a device offers no offload.
int namespace_open_device(const network_namespace *in, const char *name);

// How many packets the kernel could not hand to the device.
uint64_t namespace_dropped(const network_namespace *in, const char *device);

// Sends SIGTERM, and after two seconds SIGKILL, to all that run in it. Returns how many there were.
unsigned namespace_end_processes(const network_namespace *in);

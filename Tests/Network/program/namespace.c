#include "namespace.h"

#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

int namespace_here(void) {
  int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (fd < 0) err(1, "/proc/thread-self/ns/net");
  return fd;
}

void namespace_enter(int fd) {
  if (setns(fd, CLONE_NEWNET)) err(1, "enter a network namespace");
}

network_namespace namespace_make(void) {
  int before = namespace_here();
  if (unshare(CLONE_NEWNET)) err(1, "make a network namespace (it takes root)");
  network_namespace made = {namespace_here(), open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC)};
  if (made.devices < 0) err(1, "/proc/thread-self/net/dev");
  namespace_enter(before);
  close(before);
  return made;
}

int namespace_open_device(const network_namespace *in, const char *name) {
  int before = namespace_here();
  namespace_enter(in->fd);
  int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) err(1, "/dev/net/tun");
  struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  if (ioctl(device, TUNSETIFF, &request)) err(1, "make the device %s", name);
  namespace_enter(before);
  close(before);
  return device;
}

uint64_t namespace_dropped(const network_namespace *in, const char *device) {
  char text[8192];
  ssize_t length = pread(in->devices, text, sizeof text - 1, 0);
  if (length <= 0) return 0;
  text[length] = 0;
  char name[IFNAMSIZ + 2];
  snprintf(name, sizeof name, "%s:", device);
  const char *line = strstr(text, name);
  unsigned long long dropped = 0;
  // Eight numbers of what came in, then bytes, packets, errors and drops of what went out.
  if (line) sscanf(line + strlen(name), "%*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %llu", &dropped);
  return dropped;
}

static unsigned signal_processes(const struct stat *namespace, int number) {
  unsigned found = 0;
  DIR *folder = opendir("/proc");
  if (!folder) return 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    char path[300];
    struct stat its;
    snprintf(path, sizeof path, "/proc/%s/ns/net", entry->d_name);
    if (stat(path, &its) || its.st_ino != namespace->st_ino || its.st_dev != namespace->st_dev) continue;
    found++;
    if (number) kill((pid_t)atol(entry->d_name), number);
  }
  closedir(folder);
  return found;
}

unsigned namespace_end_processes(const network_namespace *in) {
  struct stat namespace;
  if (fstat(in->fd, &namespace)) return 0;
  unsigned found = signal_processes(&namespace, SIGTERM);
  if (found == 0) return 0;
  for (int turn = 0; turn < 100; turn++) {
    if (signal_processes(&namespace, 0) == 0) return found;
    usleep(20000);
  }
  signal_processes(&namespace, SIGKILL);
  return found;
}

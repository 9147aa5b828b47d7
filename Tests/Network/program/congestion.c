#include "congestion.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static const char own_setting[] = "/proc/sys/net/ipv4/tcp_congestion_control";
static const char allowed_setting[] = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
enum { SETTING_BYTES = 512 };

// Below /proc/sys/net, what is opened belongs to the namespace of the one who opens it.
static bool write_setting(const char *path, const char *value) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool done = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
  int reason = errno;
  close(fd);
  errno = reason;
  return done;
}

static void read_setting(const char *path, char *value, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) err(1, "%s", path);
  ssize_t length = read(fd, value, size - 1);
  if (length < 0) err(1, "%s", path);
  value[length] = 0;
  value[strcspn(value, "\n")] = 0;
  close(fd);
}

void congestion_read(const network_namespace *in, char *name, size_t size) {
  int before = namespace_here();
  namespace_enter(in->fd);
  read_setting(own_setting, name, size);
  namespace_enter(before);
  close(before);
}

static bool set_in(const network_namespace *namespaces, unsigned count, const char *name) {
  int before = namespace_here();
  bool done = true;
  for (unsigned index = 0; index < count && done; index++) {
    namespace_enter(namespaces[index].fd);
    done = write_setting(own_setting, name);
  }
  int reason = errno;
  namespace_enter(before);
  close(before);
  errno = reason;
  return done;
}

// A namespace takes as its own only what the machine allows to all users. So the machine's list gets one more name for a
// moment, and is put back; what a namespace has then, it keeps. The machine's own setting is never touched.
static void set_while_allowed(const network_namespace *namespaces, unsigned count, const char *name) {
  char allowed[SETTING_BYTES], more[2 * SETTING_BYTES];
  // Two of these at the same time would put back each other's list. The device is the same file for both.
  int lock = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (lock < 0 || flock(lock, LOCK_EX)) err(1, "lock /dev/net/tun");
  read_setting(allowed_setting, allowed, sizeof allowed);
  snprintf(more, sizeof more, "%s %s", allowed, name);
  if (!write_setting(allowed_setting, more))
    err(1, "%s is not allowed to network namespaces here; as root of the machine: sysctl -w "
        "net.ipv4.tcp_allowed_congestion_control=\"%s\"", name, more);
  bool done = set_in(namespaces, count, name);
  int reason = errno;
  if (!write_setting(allowed_setting, allowed)) err(1, "%s could not be put back to \"%s\"", allowed_setting, allowed);
  errno = reason;
  if (!done) err(1, "set %s in a network namespace", name);
}

void congestion_set(const network_namespace *namespaces, unsigned count, const char *name) {
  if (set_in(namespaces, count, name)) return;
  if (errno == ENOENT) errx(1, "this kernel has no congestion control %s", name);
  // In a process of its own session, which no signal to the test or to its group ends halfway: it puts the list back
  // although the one that asked for it was killed.
  pid_t child = fork();
  if (child < 0) err(1, "fork");
  if (child == 0) {
    setsid();
    set_while_allowed(namespaces, count, name);
    _exit(0);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) errx(1, "the congestion control is not %s", name);
}

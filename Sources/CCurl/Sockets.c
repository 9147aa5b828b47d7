#include "CCurl.h"

#include <errno.h>
// The kernel's own header: that of the C library knows no tcpi_bytes_acked.
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

// More than a thread has connections. The kernel gives the lowest free number, so that those of closed ones are used again.
#define SOCKETS_MAX 1024

static _Thread_local int sockets[SOCKETS_MAX];
static _Thread_local unsigned socket_count = 0;

void uploadfs_note_socket(int socket) {
  for (unsigned index = 0; index < socket_count; index++) {
    if (sockets[index] == socket) return;
  }
  if (socket_count < SOCKETS_MAX) sockets[socket_count++] = socket;
}

union address {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
};

static int port_of(int socket, int (*name)(int, struct sockaddr *, socklen_t *)) {
  union address address;
  socklen_t length = sizeof address;
  if (name(socket, &address.any, &length) != 0) return -1;
  switch (address.any.sa_family) {
    case AF_INET: return ntohs(address.four.sin_port);
    case AF_INET6: return ntohs(address.six.sin6_port);
    default: return -1;
  }
}

static int own_name(int socket, struct sockaddr *address, socklen_t *length) {
  return getsockname(socket, address, length);
}

static int peer_name(int socket, struct sockaddr *address, socklen_t *length) {
  return getpeername(socket, address, length);
}

int uploadfs_socket_between(int local_port, int peer_port) {
  for (unsigned index = 0; index < socket_count; index++) {
    const int socket = sockets[index];
    if (port_of(socket, own_name) == local_port && port_of(socket, peer_name) == peer_port) return socket;
  }
  return -1;
}

long long uploadfs_acknowledged_bytes(int socket) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  if (socket < 0 || getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return -1;
  // What lies behind a lost packet counts once that has come again; until then the peer says that it has it.
  return (long long)info.tcpi_bytes_acked + (long long)info.tcpi_sacked * info.tcpi_snd_mss;
}

long long uploadfs_unacknowledged_bytes(int socket) {
  int bytes = 0;
  return socket >= 0 && ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? bytes : 0;
}

int uploadfs_socket_counts(int socket, struct uploadfs_socket_counts *counts) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  if (socket < 0 || getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  counts->segments = info.tcpi_data_segs_out;
  // What came twice was not lost: the timer was early, or the end of a burst was probed.
  counts->lost = info.tcpi_total_retrans > info.tcpi_dsack_dups ? info.tcpi_total_retrans - info.tcpi_dsack_dups : 0;
  counts->round_trip_microseconds = info.tcpi_rtt;
  counts->round_trip_least_microseconds = info.tcpi_min_rtt;
  return 1;
}

int uploadfs_set_congestion_control(int socket, const char *name) {
  if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0) return 0;
  return errno;
}

int uploadfs_congestion_control(int socket, char name[UPLOADFS_CONGESTION_BYTES]) {
  socklen_t length = UPLOADFS_CONGESTION_BYTES - 1;
  memset(name, 0, UPLOADFS_CONGESTION_BYTES);
  return getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 ? 0 : errno;
}

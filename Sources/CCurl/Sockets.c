#include "CCurl.h"

#include <errno.h>
// The kernel's own header: that of the C library knows no tcpi_bytes_acked.
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

// More than a thread has connections. The kernel gives the lowest free number, so that those of closed ones are used again.
#define SOCKETS_MAX 1024

static _Thread_local int sockets[SOCKETS_MAX];
static _Thread_local unsigned socket_count = 0;
// The state of each socket's path at the last check.
static _Thread_local enum uploadfs_way ways[SOCKETS_MAX];

void uploadfs_note_socket(int socket) {
  unsigned index = 0;
  while (index < socket_count && sockets[index] != socket) index++;
  if (index == SOCKETS_MAX) return;
  if (index == socket_count) socket_count++;
  sockets[index] = socket;
  ways[index] = UPLOADFS_WAY_SAME;
}

static _Thread_local int segment_bytes_max = 0;

void uploadfs_bound_segments(int bytes) { segment_bytes_max = bytes; }

void uploadfs_bound_segments_of(int socket) {
  if (segment_bytes_max <= 0) return;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes_max, sizeof segment_bytes_max);
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

static socklen_t length_of(const union address *address) {
  return address->any.sa_family == AF_INET ? sizeof address->four : sizeof address->six;
}

static int is_same_host(const union address *one, const union address *other) {
  if (one->any.sa_family != other->any.sa_family) return 0;
  if (one->any.sa_family == AF_INET) return one->four.sin_addr.s_addr == other->four.sin_addr.s_addr;
  return memcmp(&one->six.sin6_addr, &other->six.sin6_addr, sizeof one->six.sin6_addr) == 0;
}

static int is_there(const union address *own) {
  union address any_port = *own;
  if (own->any.sa_family == AF_INET) any_port.four.sin_port = 0; else any_port.six.sin6_port = 0;
  int probe = socket(own->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return 1;
  int there = bind(probe, &any_port.any, length_of(own)) == 0 || errno != EADDRNOTAVAIL;
  close(probe);
  return there;
}

// A datagram socket that is connected sends nothing, and has the address from which it would.
static int leaves_from(const union address *own, const union address *peer) {
  int probe = socket(peer->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return 1;
  union address now;
  socklen_t length = sizeof now;
  int same = connect(probe, &peer->any, length_of(peer)) == 0 && getsockname(probe, &now.any, &length) == 0 &&
             is_same_host(&now, own);
  close(probe);
  return same;
}

enum uploadfs_way uploadfs_way_of(int socket) {
  union address own;
  union address peer;
  socklen_t length = sizeof own;
  if (socket < 0 || getsockname(socket, &own.any, &length) != 0) return UPLOADFS_WAY_SAME;
  if (own.any.sa_family != AF_INET && own.any.sa_family != AF_INET6) return UPLOADFS_WAY_SAME;
  length = sizeof peer;
  if (getpeername(socket, &peer.any, &length) != 0) return UPLOADFS_WAY_SAME;
  if (!is_there(&own)) return UPLOADFS_WAY_GONE;
  return leaves_from(&own, &peer) ? UPLOADFS_WAY_SAME : UPLOADFS_WAY_MOVED;
}

enum uploadfs_moves uploadfs_moves_of_ways(void) {
  enum uploadfs_moves moves = UPLOADFS_MOVES_NONE;
  for (unsigned index = 0; index < socket_count; index++) {
    const enum uploadfs_way way = uploadfs_way_of(sockets[index]);
    if (way != UPLOADFS_WAY_SAME && moves == UPLOADFS_MOVES_NONE) moves = UPLOADFS_MOVES_KNOWN;
    if (way != UPLOADFS_WAY_SAME && way != ways[index]) moves = UPLOADFS_MOVES_NEW;
    ways[index] = way;
  }
  return moves;
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
  counts->segment_bytes = info.tcpi_snd_mss;
  counts->retransmissions = info.tcpi_retransmits;
  counts->delivery_bytes_per_second = info.tcpi_delivery_rate;
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

// Forwards TCP connections to a port of loopback as a link with a delay would:
//
//   delay-proxy PORT DELAY_MS [WINDOW [RATE]]
//
// Each byte comes out DELAY_MS after it went in, in both directions. WINDOW is how many bytes are under way at most in
// each direction of a connection (default 16 MiB: 640 MiB/s for one connection at 25 ms each way). RATE is the link's
// bytes per second in each direction, over all connections (default 0: without a limit). Prints "listening PORT" and
// runs until it is killed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PIECE_BYTES = 64 * 1024, EVENTS = 64 };

typedef struct segment {
  struct segment *next;
  int64_t due_ns;
  size_t length, sent;
  char bytes[];
} segment;

struct connection;

// What comes in at one end. It goes out at the other one.
typedef struct {
  struct connection *connection;
  int fd;
  segment *first, *last;
  size_t waiting_bytes;
  int64_t ended_at_ns;  // 0 until the end of the stream was read
  bool passed_end;
  bool peer_is_full;    // the other end takes nothing at the moment
  uint32_t interest;
} end;

typedef struct connection {
  struct connection *next;
  end ends[2];
  bool has_begun, failed;
} connection;

static connection *connections;
static int poller;
static int64_t delay_ns, link_free_ns[2];
static size_t window_bytes = 16 << 20;
static double rate;

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void stop(const char *what) {
  perror(what);
  exit(1);
}

static int side(const end *from) { return from == &from->connection->ends[1]; }

static end *opposite(end *from) { return &from->connection->ends[!side(from)]; }

static void watch(end *one) {
  bool takes = !one->ended_at_ns && one->waiting_bytes < window_bytes;
  uint32_t interest = (takes ? EPOLLIN : 0) | (opposite(one)->peer_is_full ? EPOLLOUT : 0);
  if (interest == one->interest) return;
  one->interest = interest;
  struct epoll_event event = {.events = interest, .data.ptr = one};
  if (epoll_ctl(poller, EPOLL_CTL_MOD, one->fd, &event)) stop("epoll_ctl");
}

static void take_in(end *from) {
  static char piece[PIECE_BYTES];
  while (!from->ended_at_ns && from->waiting_bytes < window_bytes) {
    size_t room = window_bytes - from->waiting_bytes;
    ssize_t count = recv(from->fd, piece, room < sizeof piece ? room : sizeof piece, MSG_DONTWAIT);
    if (count < 0) {
      if (errno != EAGAIN && errno != EINTR) from->connection->failed = true;
      return;
    }
    int64_t now = now_ns(), due = now + delay_ns;
    if (count == 0) {
      from->ended_at_ns = due;
      return;
    }
    // Loopback's handshake took no time: its round trip is added to what the client says first.
    if (!side(from) && !from->connection->has_begun) due += 2 * delay_ns;
    from->connection->has_begun = true;
    if (rate > 0) {
      int64_t *free_ns = &link_free_ns[side(from)];
      *free_ns = (*free_ns > now ? *free_ns : now) + (int64_t)(count / rate * 1e9);
      if (*free_ns + delay_ns > due) due = *free_ns + delay_ns;
    }
    // Nothing overtakes what came before it.
    if (from->last && from->last->due_ns > due) due = from->last->due_ns;
    segment *added = malloc(sizeof *added + count);
    if (!added) stop("malloc");
    *added = (segment){.due_ns = due, .length = count};
    memcpy(added->bytes, piece, count);
    if (from->last) from->last->next = added; else from->first = added;
    from->last = added;
    from->waiting_bytes += count;
  }
}

static void pass_on(end *from) {
  int to = opposite(from)->fd;
  from->peer_is_full = false;
  int64_t now = now_ns();
  for (segment *head; (head = from->first) && head->due_ns <= now;) {
    ssize_t count = send(to, head->bytes + head->sent, head->length - head->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0) {
      from->peer_is_full = errno == EAGAIN;
      if (errno != EAGAIN && errno != EINTR) from->connection->failed = true;
      return;
    }
    head->sent += count;
    from->waiting_bytes -= count;
    if (head->sent < head->length) continue;
    if (!(from->first = head->next)) from->last = NULL;
    free(head);
  }
  if (!from->first && from->ended_at_ns && from->ended_at_ns <= now && !from->passed_end) {
    shutdown(to, SHUT_WR);
    from->passed_end = true;
  }
}

// Nanoseconds until the next byte, or the end, is due; -1: nothing is under way.
static int64_t until_next(void) {
  int64_t next = INT64_MAX;
  for (connection *one = connections; one; one = one->next) {
    for (int index = 0; index < 2; index++) {
      end *from = &one->ends[index];
      if (from->peer_is_full) continue;
      int64_t due = INT64_MAX;
      if (from->first) due = from->first->due_ns;
      else if (from->ended_at_ns && !from->passed_end) due = from->ended_at_ns;
      if (due < next) next = due;
    }
  }
  if (next == INT64_MAX) return -1;
  int64_t left = next - now_ns();
  return left > 0 ? left : 0;
}

static void set_up(int fd) {
  int yes = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) stop("setsockopt");
}

static void begin(int client, uint16_t port) {
  struct sockaddr_in address = {
    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (server < 0) stop("socket");
  if (connect(server, (struct sockaddr *)&address, sizeof address)) {
    close(server);
    close(client);
    return;
  }
  connection *added = calloc(1, sizeof *added);
  if (!added) stop("calloc");
  int fds[2] = {client, server};
  for (int index = 0; index < 2; index++) {
    set_up(fds[index]);
    added->ends[index] = (end){.connection = added, .fd = fds[index], .interest = EPOLLIN};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &added->ends[index]};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fds[index], &event)) stop("epoll_ctl");
  }
  added->next = connections;
  connections = added;
}

static void discard(connection *one) {
  for (int index = 0; index < 2; index++) {
    close(one->ends[index].fd);
    for (segment *each = one->ends[index].first, *next; each; each = next) {
      next = each->next;
      free(each);
    }
  }
  free(one);
}

// After all events of a turn, so that none of them finds its connection gone.
static void move_all(void) {
  for (connection **place = &connections; *place;) {
    connection *one = *place;
    for (int index = 0; index < 2 && !one->failed; index++) pass_on(&one->ends[index]);
    if (one->failed || (one->ends[0].passed_end && one->ends[1].passed_end)) {
      *place = one->next;
      discard(one);
      continue;
    }
    for (int index = 0; index < 2; index++) watch(&one->ends[index]);
    place = &one->next;
  }
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: delay-proxy PORT DELAY_MS [WINDOW [RATE]]\n");
    return 64;
  }
  uint16_t port = atoi(arguments[1]);
  delay_ns = atof(arguments[2]) * 1e6;
  if (count > 3) window_bytes = strtoull(arguments[3], NULL, 10);
  if (count > 4) rate = atof(arguments[4]);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 64)) stop("listen");
  if (getsockname(listener, (struct sockaddr *)&address, &length)) stop("getsockname");
  poller = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN};
  if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event)) stop("epoll");
  printf("listening %u\n", ntohs(address.sin_port));
  fflush(stdout);
  for (;;) {
    int64_t left = until_next();
    struct timespec timeout = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    struct epoll_event events[EVENTS];
    int happened = epoll_pwait2(poller, events, EVENTS, left < 0 ? NULL : &timeout, NULL);
    if (happened < 0 && errno != EINTR) stop("epoll_pwait2");
    for (int index = 0; index < happened; index++) {
      end *one = events[index].data.ptr;
      if (!one) {
        for (int client; (client = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) begin(client, port);
        continue;
      }
      // A hang-up is only told: no more is read than fits, and what is under way still comes out.
      if (events[index].events & EPOLLERR) one->connection->failed = true;
      if (events[index].events & (EPOLLIN | EPOLLHUP)) take_in(one);
    }
    move_all();
  }
}

#include "live.h"

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "congestion.h"
#include "namespace.h"
#include "network.h"
#include "too_big.h"

// How many packets are read from one device before the others have their turn.
enum { BATCH = 32, LINE_BYTES = 4096 };
enum { CLIENT, SERVER, SIDES };
enum { COMMANDS, PARENT, FIRST_DEVICE, POLLED_MOST = FIRST_DEVICE + PATHS_MOST * SIDES };

// Where the packets of one direction of one path come from and go to.
typedef struct {
  path_link *link;
  int from, to;
} lane;

static network the_network;
static network_namespace namespaces[SIDES];
static lane lanes[PATHS_MOST][DIRECTIONS];
static volatile sig_atomic_t is_ending;

static void end(int number) {
  (void)number;
  is_ending = 1;
}

static uint64_t missed(uint32_t path, int direction) {
  // Upstream packets come from the client.
  return namespace_dropped(&namespaces[direction == UPSTREAM ? CLIENT : SERVER], the_network.paths[path].name);
}

static void answer_too_big(lane *lane, const packet *one) {
  uint8_t answer[TOO_BIG_BYTES];
  if (lane->link->settings.too_big_is_silent) return;
  uint32_t length = too_big_answer(one->bytes, one->length, lane->link->settings.mtu, answer);
  if (length && write(lane->from, answer, length) == (ssize_t)length) lane->link->counters.signals++;
}

static fate pass_on(void *context, const packet *one, fate fate, int64_t at) {
  lane *lane = context;
  (void)at;
  if (fate == TOO_BIG) answer_too_big(lane, one);
  if (fate != DELIVERED) return fate;
  return write(lane->to, one->bytes, one->length) == (ssize_t)one->length ? DELIVERED : REFUSED;
}

static void take_packets(lane *lane) {
  static uint8_t nowhere[65536];
  size_t room = lane->link->pool.place_size - sizeof(packet);
  for (int turn = 0; turn < BATCH; turn++) {
    packet *one = link_place(lane->link);
    ssize_t length = read(lane->from, one ? one->bytes : nowhere, one ? room : sizeof nowhere);
    if (length <= 0) {
      if (one) pool_give_back(&lane->link->pool, one);
      if (length < 0 && errno != EAGAIN && errno != EINTR) err(1, "read packets");
      return;
    }
    int64_t now = clock_now();
    link_advance(lane->link, now);
    if (!one) {
      link_overflow(lane->link, (uint32_t)length, now);
      continue;
    }
    one->length = (uint32_t)length;
    link_arrive(lane->link, one, now);
  }
}

// Commands

static void obey_lines(char *text, size_t *length) {
  char *start = text, *stop;
  while ((stop = memchr(start, '\n', *length - (size_t)(start - text)))) {
    *stop = 0;
    if (!strcmp(start, "end"))
      is_ending = 1;
    else
      network_obey(&the_network, start, clock_now(), stdout);
    start = stop + 1;
  }
  *length -= (size_t)(start - text);
  memmove(text, start, *length);
}

static void read_commands(void) {
  static char text[LINE_BYTES];
  static size_t length;
  ssize_t got = read(STDIN_FILENO, text + length, sizeof text - length);
  if (got <= 0) {
    // No program can ask for anything any more.
    if (got == 0 || errno != EINTR) is_ending = 1;
    return;
  }
  length += (size_t)got;
  obey_lines(text, &length);
  if (length == sizeof text) errx(1, "a line is too long");
}

// Start, turn, end

static int watch_parent(void) {
  pid_t parent = getppid();
  int fd = (int)syscall(SYS_pidfd_open, parent, 0);
  if (fd < 0) err(1, "watch the parent");
  // Its end between the two calls gives the number of another process, which is not ours.
  if (getppid() != parent) exit(1);
  return fd;
}

static void add_path(const live_options *options, uint32_t index) {
  int devices[SIDES];
  const char *name = options->names[index];
  for (int side = 0; side < SIDES; side++) devices[side] = namespace_open_device(&namespaces[side], name);
  void *contexts[DIRECTIONS] = {&lanes[index][UPSTREAM], &lanes[index][DOWNSTREAM]};
  network_add(&the_network, name, options->mtus[index], options->seed, options->capacity, pass_on, contexts);
  path_link *links = the_network.paths[index].links;
  lanes[index][UPSTREAM] = (lane){&links[UPSTREAM], devices[CLIENT], devices[SERVER]};
  lanes[index][DOWNSTREAM] = (lane){&links[DOWNSTREAM], devices[SERVER], devices[CLIENT]};
}

static void say_ready(void) {
  char controls[SIDES][64];
  for (int side = 0; side < SIDES; side++) congestion_read(&namespaces[side], controls[side], sizeof controls[side]);
  printf(
      "{\"client\": {\"namespace\": \"/proc/%d/fd/%d\", \"congestion\": \"%s\"}, "
      "\"server\": {\"namespace\": \"/proc/%d/fd/%d\", \"congestion\": \"%s\"}}\n",
      getpid(), namespaces[CLIENT].fd, controls[CLIENT], getpid(), namespaces[SERVER].fd, controls[SERVER]);
  fflush(stdout);
}

static void start(const live_options *options) {
  for (int side = 0; side < SIDES; side++) namespaces[side] = namespace_make();
  if (options->congestion) congestion_set(namespaces, SIDES, options->congestion);
  for (uint32_t index = 0; index < options->path_count; index++) add_path(options, index);
  the_network.missed = missed;
  // Its clock is that of the paths: it must not wait behind the programs that are looked at. Where it may not run before
  // them, the counters show how late it was.
  struct sched_param priority = {.sched_priority = 1};
  sched_setscheduler(0, SCHED_RR, &priority);
  prctl(PR_SET_TIMERSLACK, 1);
}

static void turn(struct pollfd *polled, uint32_t path_count, const sigset_t *signals) {
  int64_t now = clock_now(), due = network_advance(&the_network, now);
  int64_t wait = due <= now ? 0 : due - now;
  struct timespec timeout = {wait / SECOND, wait % SECOND};
  int ready = ppoll(polled, FIRST_DEVICE + path_count * DIRECTIONS, due == NEVER ? NULL : &timeout, signals);
  if (ready < 0 && errno != EINTR) err(1, "ppoll");
  if (ready <= 0) return;
  for (uint32_t index = 0; index < path_count * DIRECTIONS; index++) {
    lane *lane = &lanes[index / DIRECTIONS][index % DIRECTIONS];
    if (polled[FIRST_DEVICE + index].revents) take_packets(lane);
  }
  if (polled[PARENT].revents) is_ending = 1;
  if (polled[COMMANDS].revents) {
    network_advance(&the_network, clock_now());
    read_commands();
  }
}

int live_run(const live_options *options) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigaddset(&blocked, SIGINT);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  signal(SIGTERM, end);
  signal(SIGINT, end);
  signal(SIGPIPE, SIG_IGN);

  int parent = watch_parent();
  start(options);
  struct pollfd polled[POLLED_MOST] = {[COMMANDS] = {STDIN_FILENO, POLLIN, 0}, [PARENT] = {parent, POLLIN, 0}};
  for (uint32_t index = 0; index < options->path_count * DIRECTIONS; index++)
    polled[FIRST_DEVICE + index] = (struct pollfd){lanes[index / DIRECTIONS][index % DIRECTIONS].from, POLLIN, 0};
  say_ready();
  while (!is_ending) turn(polled, options->path_count, &before);

  network_advance(&the_network, clock_now());
  network_print_counters(&the_network, stdout);
  fflush(stdout);
  unsigned left = 0;
  for (int side = 0; side < SIDES; side++) left += namespace_end_processes(&namespaces[side]);
  printf("{\"left\": %u}\n", left);
  return 0;
}

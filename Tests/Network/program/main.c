// Two network namespaces with paths between them: see Tests/Network/README.md.
#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "live.h"
#include "network.h"
#include "replay.h"

static void add_name(live_options *options, char *text) {
  char *mtu = strchr(text, ':');
  if (mtu) *mtu++ = 0;
  if (options->path_count == PATHS_MOST) errx(64, "no more than %d paths", PATHS_MOST);
  if (!*text || strlen(text) >= NAME_BYTES) errx(64, "a path's name is that of a device");
  options->names[options->path_count] = text;
  unsigned long bytes = mtu ? strtoul(mtu, NULL, 10) : 1500;
  if (bytes < 68 || bytes > 65535) errx(64, "an MTU is 68 to 65535 bytes");
  options->mtus[options->path_count++] = (uint32_t)bytes;
}

int main(int count, char **arguments) {
  static const struct option words[] = {
      {"replay", no_argument, NULL, 'r'},          {"seed", required_argument, NULL, 's'},
      {"congestion", required_argument, NULL, 'c'}, {"packets", required_argument, NULL, 'p'}, {NULL, 0, NULL, 0}};
  live_options options = {.capacity = 32768, .seed = 1};
  bool replays = false;
  for (int word; (word = getopt_long(count, arguments, "", words, NULL)) != -1;) {
    switch (word) {
      case 'r': replays = true; break;
      case 's': options.seed = strtoull(optarg, NULL, 10); break;
      case 'c': options.congestion = optarg; break;
      case 'p': options.capacity = (uint32_t)strtoul(optarg, NULL, 10); break;
      default: return 64;
    }
  }
  while (optind < count) add_name(&options, arguments[optind++]);
  if (options.path_count == 0 || options.capacity == 0)
    errx(64, "usage: network [--replay] [--seed N] [--congestion NAME] [--packets N] NAME[:MTU]…");
  return replays ? replay_run(options.mtus[0], options.seed, options.capacity) : live_run(&options);
}

// For LD_PRELOAD: getaddrinfo(3) answers for one name from a file, so that a test has resolvers that are slow and addresses that are
// dead. The file NAMES has a line for each address: family (4 or 6), address, milliseconds until the family is answered. A family
// without a line has no address. A line "6 - 60000" is an answer without addresses after a minute.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static int is_asked(int family, const struct addrinfo *hints) {
  int asked = hints == NULL ? AF_UNSPEC : hints->ai_family;
  return asked == AF_UNSPEC || asked == (family == 6 ? AF_INET6 : AF_INET);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result) {
  lookup real = (lookup)dlsym(RTLD_NEXT, "getaddrinfo");
  const char *path = getenv("NAMES");
  if (name == NULL || path == NULL || strcmp(name, "upload.test") != 0) return real(name, service, hints, result);
  FILE *file = fopen(path, "re");
  if (file == NULL) return EAI_SYSTEM;
  struct addrinfo *first = NULL;
  struct addrinfo *last = NULL;
  long wait = 0;
  int family;
  char address[64];
  long milliseconds;
  while (fscanf(file, "%d %63s %ld", &family, address, &milliseconds) == 3) {
    if (!is_asked(family, hints)) continue;
    if (milliseconds > wait) wait = milliseconds;
    struct addrinfo *found = NULL;
    if (strcmp(address, "-") == 0 || real(address, service, hints, &found) != 0) continue;
    if (last == NULL) first = found; else last->ai_next = found;
    for (last = found; last->ai_next != NULL;) last = last->ai_next;
  }
  fclose(file);
  struct timespec time = {.tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000};
  nanosleep(&time, NULL);
  *result = first;
  return first == NULL ? EAI_NONAME : 0;
}

#include "Offers.h"

#include <netinet/in.h>
#include <string.h>

#include "CCurl.h"

// One for each race that has just ended.
#define OFFERS_MAX 16

struct offer {
  int socket;
  unsigned length;
  struct sockaddr_storage address;
};

static _Thread_local struct offer offers[OFFERS_MAX];
static _Thread_local unsigned offer_count = 0;

int uploadfs_offer_socket(int socket, const struct sockaddr *address, unsigned length) {
  if (offer_count == OFFERS_MAX || length > sizeof offers[0].address) return 0;
  struct offer *offer = &offers[offer_count++];
  offer->socket = socket;
  offer->length = length;
  memcpy(&offer->address, address, length);
  return 1;
}

static int take(unsigned index) {
  int socket = offers[index].socket;
  offers[index] = offers[--offer_count];
  return socket;
}

int uploadfs_withdraw_socket(int socket) {
  for (unsigned index = 0; index < offer_count; index++) {
    if (offers[index].socket == socket) return take(index) == socket;
  }
  return 0;
}

// Flow labels and the like differ where the host and the port are the same.
static int is_same(const struct sockaddr *one, const struct sockaddr *other) {
  if (one->sa_family != other->sa_family) return 0;
  if (one->sa_family == AF_INET) {
    const struct sockaddr_in *left = (const struct sockaddr_in *)one;
    const struct sockaddr_in *right = (const struct sockaddr_in *)other;
    return left->sin_port == right->sin_port && left->sin_addr.s_addr == right->sin_addr.s_addr;
  }
  if (one->sa_family != AF_INET6) return 0;
  const struct sockaddr_in6 *left = (const struct sockaddr_in6 *)one;
  const struct sockaddr_in6 *right = (const struct sockaddr_in6 *)other;
  return left->sin6_port == right->sin6_port && left->sin6_scope_id == right->sin6_scope_id &&
         memcmp(&left->sin6_addr, &right->sin6_addr, sizeof left->sin6_addr) == 0;
}

int uploadfs_take_offer(const struct sockaddr *address, unsigned length) {
  (void)length;
  for (unsigned index = 0; index < offer_count; index++) {
    if (is_same((const struct sockaddr *)&offers[index].address, address)) return take(index);
  }
  return -1;
}

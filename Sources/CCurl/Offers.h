#ifndef UPLOADFS_CCURL_OFFERS_H
#define UPLOADFS_CCURL_OFFERS_H

#include <sys/socket.h>

/// The socket that was offered for an address, which is the caller's from now on; −1 where there is none.
int uploadfs_take_offer(const struct sockaddr *address, unsigned length);

#endif

/// The kernel's notices of links, addresses and routes (rtnetlink(7)), and events to wait for beside them. Their macros and structures
/// are in no module.
#ifndef UPLOADFS_CLINUX_NETWORK_H
#define UPLOADFS_CLINUX_NETWORK_H

/// A descriptor that poll(2) finds readable when a link, an address or a route of this network namespace has changed. Does not block.
/// −1 with errno where there is none.
int uploadfs_open_network_notices(void);

/// Reads all notices that are there. 1 where something has changed, also where the kernel had no room for all of them; 0 where
/// nothing has; −1 with errno where the descriptor is of no more use.
int uploadfs_read_network_notices(int fd);

/// A descriptor that poll(2) finds readable once it was signalled (eventfd(2)). −1 with errno where there is none.
int uploadfs_open_event(void);
void uploadfs_signal_event(int fd);

#endif

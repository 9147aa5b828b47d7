#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int uploadfs_open_network_notices(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) return -1;
  struct sockaddr_nl address = {.nl_family = AF_NETLINK};
  address.nl_groups =
      RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
  if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static int is_change(int type) {
  switch (type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
    case RTM_NEWADDR:
    case RTM_DELADDR:
    case RTM_NEWROUTE:
    case RTM_DELROUTE: return 1;
    default: return 0;
  }
}

int uploadfs_read_network_notices(int fd) {
  // As long as the kernel makes one datagram of notices.
  union {
    struct nlmsghdr header;
    char bytes[32768];
  } buffer;
  int changed = 0;
  for (;;) {
    struct sockaddr_nl sender = {0};
    struct iovec part = {.iov_base = &buffer, .iov_len = sizeof buffer};
    struct msghdr message = {
        .msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &part, .msg_iovlen = 1};
    ssize_t count = recvmsg(fd, &message, 0);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return changed;
      if (errno != ENOBUFS) return -1;
      changed = 1;
      continue;
    }
    if (count == 0) return changed;
    // Any process may send to a netlink socket; the kernel's port is 0.
    if (sender.nl_pid != 0) continue;
    // Signed: NLMSG_NEXT takes padding off that the last message need not have.
    int left = (int)count;
    for (struct nlmsghdr *header = &buffer.header; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
      changed = changed || is_change(header->nlmsg_type);
    }
  }
}

int uploadfs_open_event(void) { return eventfd(0, EFD_CLOEXEC); }

void uploadfs_signal_event(int fd) { (void)eventfd_write(fd, 1); }

/// libcurl as Swift can use it. curl_easy_setopt, curl_easy_getinfo, curl_share_setopt and curl_multi_setopt are variadic,
/// which Swift cannot import: each wrapper here fixes the type of the one value, and returns what libcurl returns. The rest
/// of libcurl's API is imported as it is.
///
/// The two callbacks that touch every byte of a body are written in C: they are called once for each buffer, from inside
/// libcurl, and need nothing of Swift.
#ifndef UPLOADFS_CCURL_H
#define UPLOADFS_CCURL_H

#include <curl/curl.h>
#include <stddef.h>
#include <stdint.h>

#include "CCurlHandshakes.h"

/// What the loaded libcurl is and can do; CURLVERSION_NOW is a macro that Swift cannot import.
static inline curl_version_info_data *uploadfs_curl_version(void) { return curl_version_info(CURLVERSION_NOW); }

/// For options of the kind `long`.
static inline CURLcode uploadfs_curl_set_long(CURL *easy, CURLoption option, long value) {
  return curl_easy_setopt(easy, option, value);
}

/// For options of the kind `curl_off_t`.
static inline CURLcode uploadfs_curl_set_size(CURL *easy, CURLoption option, curl_off_t value) {
  return curl_easy_setopt(easy, option, value);
}

/// For options of the kind `char *`, which libcurl copies. NULL takes the value away, also a default one.
static inline CURLcode uploadfs_curl_set_string(CURL *easy, CURLoption option, const char *value) {
  return curl_easy_setopt(easy, option, value);
}

/// For options of the kind `void *`, which libcurl hands back or writes to, and does not own.
static inline CURLcode uploadfs_curl_set_pointer(CURL *easy, CURLoption option, void *value) {
  return curl_easy_setopt(easy, option, value);
}

/// For CURLOPT_HTTPHEADER. libcurl does not copy the list: it must live as long as the transfer.
static inline CURLcode uploadfs_curl_set_list(CURL *easy, CURLoption option, struct curl_slist *list) {
  return curl_easy_setopt(easy, option, list);
}

/// The type of CURLOPT_HEADERFUNCTION and CURLOPT_WRITEFUNCTION.
typedef size_t (*uploadfs_curl_sink)(char *bytes, size_t size, size_t count, void *context);

/// For CURLOPT_HEADERFUNCTION and CURLOPT_WRITEFUNCTION.
static inline CURLcode uploadfs_curl_set_sink(CURL *easy, CURLoption option, uploadfs_curl_sink sink) {
  return curl_easy_setopt(easy, option, sink);
}

/// For CURLOPT_PREREQFUNCTION (since 7.80), which is called each time that a request is about to be sent.
static inline CURLcode uploadfs_curl_set_begin(CURL *easy, curl_prereq_callback begin, void *context) {
  CURLcode code = curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, begin);
  return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_PREREQDATA, context) : code;
}

/// A part of a request body. One without address comes while it is sent: from the body's source.
struct uploadfs_curl_piece {
  const void *bytes;
  size_t count;
};

/// What a source has.
enum uploadfs_curl_supply {
  /// At least one byte.
  UPLOADFS_CURL_BYTES,
  /// Nothing now; it will say when, and the transfer pauses.
  UPLOADFS_CURL_LATER,
  /// Nothing any more; the transfer fails.
  UPLOADFS_CURL_FAILED,
};

/// Gives the next bytes of a body's piece; they stay valid until it is called again, or the transfer has ended.
typedef enum uploadfs_curl_supply (*uploadfs_curl_source)(void *context, const void **bytes, size_t *count);

/// How many of so many bytes may be read now; none where the transfer has to pause. A negative count gives back what was granted and not
/// read.
typedef long (*uploadfs_curl_pace)(void *context, long count);

/// A request body, in one or more pieces, and how far it has been read.
struct uploadfs_curl_body {
  const struct uploadfs_curl_piece *pieces;
  size_t piece_count;
  /// The piece that is read next, and how much of it has been read.
  size_t piece;
  size_t offset;
  /// For a piece without address, with what it gave last.
  uploadfs_curl_source source;
  /// NULL where nothing bounds the rate.
  uploadfs_curl_pace pace;
  void *context;
  const char *supply;
  size_t supply_count;
  /// It must not be sent a second time without a user's decision.
  int is_sent_once;
};

/// Makes libcurl read a request body from memory. The body's record, its pieces, and the bytes that they point to, must
/// live until the transfer has ended. A seek callback is set beside the read callback, without which libcurl fails a
/// request instead of repeating it when a kept-alive connection turns out to be dead.
CURLcode uploadfs_curl_set_body(CURL *easy, struct uploadfs_curl_body *body);

/// Sets TCP_USER_TIMEOUT on every connection that the handle opens. The socket is only within reach of a callback.
CURLcode uploadfs_curl_set_acknowledgement_timeout(CURL *easy, long milliseconds);

/// Lets libcurl take sockets that are connected already instead of opening its own (``uploadfs_offer_socket``), for what the handle
/// connects to from now on.
CURLcode uploadfs_curl_take_offers(CURL *easy);

/// Offers a connected socket to the next connection of this thread to that address. It is libcurl's from the moment at which it takes it.
/// 0 where there are too many offers: the socket stays the caller's.
int uploadfs_offer_socket(int socket, const struct sockaddr *address, unsigned length);

/// Takes an offer back. 1 where it was still there: the socket is the caller's again.
int uploadfs_withdraw_socket(int socket);

/// Remembers a socket that libcurl has opened on this thread.
void uploadfs_note_socket(int socket);

/// Such a socket that is connected between these ports; −1 where there is none. libcurl tells of a transfer's connection only its ports.
int uploadfs_socket_between(int local_port, int peer_port);

/// Bounds the segments of the sockets that this thread opens from now on (TCP_MAXSEG); 0 leaves them to the kernel.
void uploadfs_bound_segments(int bytes);

/// Applies that bound to a socket that is not connected yet.
void uploadfs_bound_segments_of(int socket);

/// What the peer has acknowledged of everything that was sent through a TCP socket (tcpi_bytes_acked, Linux 4.1); −1 where that is not
/// known.
long long uploadfs_acknowledged_bytes(int socket);

/// What waits in a socket's buffer, or was sent and is not acknowledged (SIOCOUTQ).
long long uploadfs_unacknowledged_bytes(int socket);

/// How a socket's way stands.
enum uploadfs_way {
  /// A new connection to its peer would leave from the same address.
  UPLOADFS_WAY_SAME,
  /// It would leave from another address, or the kernel knows no way to the peer.
  UPLOADFS_WAY_MOVED,
  /// No interface has the socket's own address any more.
  UPLOADFS_WAY_GONE,
};

/// Asks the kernel's routes, without a packet. A socket that is not connected over IP has the same way.
enum uploadfs_way uploadfs_way_of(int socket);

/// What has become of the ways of all sockets that libcurl has opened on a thread.
enum uploadfs_moves {
  /// All are the same.
  UPLOADFS_MOVES_NONE,
  /// Those that have moved or gone had done so when they were last looked at.
  UPLOADFS_MOVES_KNOWN,
  /// One has moved or gone since.
  UPLOADFS_MOVES_NEW,
};

/// Looks at the ways of the sockets that libcurl has opened on this thread, idle ones included.
enum uploadfs_moves uploadfs_moves_of_ways(void);

/// What the kernel counts of a TCP socket (struct tcp_info). Numbers wrap around.
struct uploadfs_socket_counts {
  /// With data, sent again or not (Linux 4.6).
  uint32_t segments;
  /// Sent again, without those that turned out to have arrived (Linux 4.19).
  uint32_t lost;
  uint32_t round_trip_microseconds;
  uint32_t round_trip_least_microseconds;
  /// The longest segment that is sent.
  uint32_t segment_bytes;
  /// How often in a row the first unacknowledged segment was sent again because nothing came (tcpi_retransmits).
  uint32_t retransmissions;
  /// How fast the latest segments arrived (tcpi_delivery_rate, Linux 4.9).
  uint64_t delivery_bytes_per_second;
};

/// Fills in the counts; 0 where the socket is closed or none of TCP.
int uploadfs_socket_counts(int socket, struct uploadfs_socket_counts *counts);

/// TCP_CA_NAME_MAX of the kernel, which its headers for programs do not have.
#define UPLOADFS_CONGESTION_BYTES 16

/// Sets TCP_CONGESTION, also in mid-connection. 0, or the errno: ENOENT where the kernel has no such module, EPERM where
/// net.ipv4.tcp_allowed_congestion_control does not name it.
int uploadfs_set_congestion_control(int socket, const char *name);

/// Reads TCP_CONGESTION: a text that ends with NUL. 0, or the errno.
int uploadfs_congestion_control(int socket, char name[UPLOADFS_CONGESTION_BYTES]);

/// For facts of the kind `long`.
static inline CURLcode uploadfs_curl_get_long(CURL *easy, CURLINFO info, long *value) {
  return curl_easy_getinfo(easy, info, value);
}

/// For facts of the kind `curl_off_t`.
static inline CURLcode uploadfs_curl_get_size(CURL *easy, CURLINFO info, curl_off_t *value) {
  return curl_easy_getinfo(easy, info, value);
}

/// For CURLINFO_PRIVATE: the pointer that CURLOPT_PRIVATE was set to.
static inline CURLcode uploadfs_curl_get_private(CURL *easy, void **value) {
  return curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)value);
}

/// For CURLINFO_CERTINFO: the certificates that the server has shown, which the handle owns.
static inline CURLcode uploadfs_curl_get_certificates(CURL *easy, struct curl_certinfo **value) {
  return curl_easy_getinfo(easy, CURLINFO_CERTINFO, value);
}

/// Lets a share hold TLS sessions. It is used by one thread and needs no lock functions.
static inline CURLSHcode uploadfs_curl_share_sessions(CURLSH *share) {
  return curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
}

/// For multi options of the kind `long`.
static inline CURLMcode uploadfs_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
  return curl_multi_setopt(multi, option, value);
}

/// The finished transfer of a CURLMSG_DONE message, and its result: the result lies in a union that Swift imports only
/// as raw storage. Returns 0 when no message is left. Messages of other kinds, of which there are none today, are
/// skipped.
int uploadfs_curl_multi_next_done(CURLM *multi, CURL **easy, CURLcode *result);

#endif

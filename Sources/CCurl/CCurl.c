#include "CCurl.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "Offers.h"

static size_t read_pieces(char *buffer, size_t wanted, struct uploadfs_curl_body *body) {
  size_t taken = 0;
  while (taken < wanted && body->piece < body->piece_count) {
    const struct uploadfs_curl_piece *piece = &body->pieces[body->piece];
    size_t left = piece->count - body->offset;
    size_t part = wanted - taken < left ? wanted - taken : left;
    if (part > 0 && piece->bytes == NULL) {
      if (body->supply_count == 0) {
        const void *bytes = NULL;
        switch (body->source == NULL ? UPLOADFS_CURL_FAILED : body->source(body->context, &bytes, &body->supply_count)) {
          case UPLOADFS_CURL_BYTES: body->supply = bytes; break;
          case UPLOADFS_CURL_LATER: return taken > 0 ? taken : CURL_READFUNC_PAUSE;
          case UPLOADFS_CURL_FAILED: return CURL_READFUNC_ABORT;
        }
      }
      if (part > body->supply_count) part = body->supply_count;
      memcpy(buffer + taken, body->supply, part);
      body->supply += part;
      body->supply_count -= part;
    } else if (part > 0) {
      memcpy(buffer + taken, (const char *)piece->bytes + body->offset, part);
    }
    taken += part;
    body->offset += part;
    if (body->offset == piece->count) {
      body->piece++;
      body->offset = 0;
    }
  }
  return taken;
}

// What is left of a body, up to the bound.
static size_t left_of(const struct uploadfs_curl_body *body, size_t bound) {
  size_t left = 0;
  size_t end = bound + body->offset;
  for (size_t piece = body->piece; piece < body->piece_count && left < end; piece++) left += body->pieces[piece].count;
  return left < end ? left - body->offset : bound;
}

static size_t read_body(char *buffer, size_t size, size_t count, void *context) {
  struct uploadfs_curl_body *body = context;
  if (body->pace == NULL) return read_pieces(buffer, size * count, body);
  size_t wanted = left_of(body, size * count);
  if (wanted == 0) return 0;
  size_t granted = (size_t)body->pace(body->context, (long)wanted);
  if (granted == 0) return CURL_READFUNC_PAUSE;
  size_t taken = read_pieces(buffer, granted, body);
  size_t used = taken == CURL_READFUNC_PAUSE || taken == CURL_READFUNC_ABORT ? 0 : taken;
  if (used < granted) (void)body->pace(body->context, -(long)(granted - used));
  return taken;
}

static int seek_body(void *context, curl_off_t offset, int origin) {
  struct uploadfs_curl_body *body = context;
  // libcurl only ever asks for SEEK_SET; anything else would be a misunderstanding.
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_FAIL;
  if (body->is_sent_once) return CURL_SEEKFUNC_FAIL;
  size_t left = (size_t)offset;
  size_t piece = 0;
  while (piece < body->piece_count && left >= body->pieces[piece].count) left -= body->pieces[piece++].count;
  if (piece == body->piece_count && left > 0) return CURL_SEEKFUNC_FAIL;
  body->piece = piece;
  body->offset = left;
  return CURL_SEEKFUNC_OK;
}

CURLcode uploadfs_curl_set_body(CURL *easy, struct uploadfs_curl_body *body) {
  CURLcode code = curl_easy_setopt(easy, CURLOPT_READFUNCTION, (curl_read_callback)read_body);
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_READDATA, body);
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, (curl_seek_callback)seek_body);
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_SEEKDATA, body);
  return code;
}

// The socket that libcurl was just given in place of one of its own. It asks for the socket's options next.
static _Thread_local curl_socket_t offered_last = -1;

static int limit_silence(void *context, curl_socket_t socket, curlsocktype purpose) {
  (void)purpose;
  unsigned int milliseconds = (unsigned int)(size_t)context;
  // Without it a dead network is noticed later, by the request's own limits: not a reason to do without a connection.
  (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  uploadfs_note_socket(socket);
  uploadfs_bound_segments_of(socket);
  if (socket != offered_last) return CURL_SOCKOPT_OK;
  offered_last = -1;
  return CURL_SOCKOPT_ALREADY_CONNECTED;
}

static curl_socket_t open_or_take(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
  (void)context;
  if (purpose == CURLSOCKTYPE_IPCXN && address->socktype == SOCK_STREAM) {
    offered_last = uploadfs_take_offer(&address->addr, address->addrlen);
    if (offered_last >= 0) return offered_last;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

CURLcode uploadfs_curl_take_offers(CURL *easy) {
  return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, (curl_opensocket_callback)open_or_take);
}

CURLcode uploadfs_curl_set_acknowledgement_timeout(CURL *easy, long milliseconds) {
  CURLcode code = curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, (curl_sockopt_callback)limit_silence);
  // The number itself, not a pointer to it: the callback may run after the caller's variable is gone.
  if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, (void *)(size_t)milliseconds);
  return code;
}

int uploadfs_curl_multi_next_done(CURLM *multi, CURL **easy, CURLcode *result) {
  int left = 0;
  CURLMsg *message;
  while ((message = curl_multi_info_read(multi, &left)) != NULL) {
    if (message->msg != CURLMSG_DONE) continue;
    *easy = message->easy_handle;
    *result = message->data.result;
    return 1;
  }
  return 0;
}

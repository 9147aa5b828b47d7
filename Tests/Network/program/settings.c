#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

typedef struct {
  const char *name;
  double factor;
} unit;

static const unit times[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const unit rates[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}, {NULL, 0}};
static const unit packets[] = {{"p", 1}, {NULL, 0}};
static const unit plain[] = {{"", 1}, {NULL, 0}};

link_settings settings_default(uint32_t mtu) {
  return (link_settings){
      .burst_loss = 1, .reorder_by_ns = 5 * MILLISECOND, .mtu = mtu, .queue_ns = 100 * MILLISECOND};
}

// A number between two bounds, with a unit that must be there. 0 needs none.
static bool number(const char *text, const unit *units, double least, double most, double *result) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || !isfinite(value)) return false;
  double factor = value == 0 && !*end ? 1 : 0;
  for (; units->name; units++)
    if (!strcmp(end, units->name)) factor = units->factor;
  value *= factor;
  if (factor == 0 || value < least || value > most) return false;
  *result = value;
  return true;
}

static bool duration(const char *text, int64_t *result) {
  double value;
  if (!number(text, times, 0, 3600e9, &value)) return false;
  *result = llround(value);
  return true;
}

static bool queue(const char *text, link_settings *settings) {
  double count;
  int64_t wait = 0;
  bool in_packets = number(text, packets, 1, 1e6, &count);
  if (!in_packets && !duration(text, &wait)) return false;
  settings->queue_packets = in_packets ? (uint32_t)count : 0;
  settings->queue_ns = wait;
  return true;
}

static bool mtu(const char *text, uint32_t *result) {
  double value;
  // IPv4 asks every link for 68 bytes; IPv6 would ask for 1280.
  if (!number(text, plain, 68, 65535, &value)) return false;
  *result = (uint32_t)value;
  return true;
}

static bool either(const char *text, const char *no, const char *yes, bool *result) {
  *result = !strcmp(text, yes);
  return *result || !strcmp(text, no);
}

static bool apply(link_settings *to, const char *name, const char *value) {
  if (!strcmp(name, "rate")) return number(value, rates, 0, 1e11, &to->rate) && (to->rate == 0 || to->rate >= 1);
  if (!strcmp(name, "delay")) return duration(value, &to->delay_ns);
  if (!strcmp(name, "jitter")) return duration(value, &to->jitter_ns);
  if (!strcmp(name, "loss")) return number(value, plain, 0, 1, &to->loss);
  if (!strcmp(name, "burst")) return number(value, plain, 0, 1e6, &to->burst) && (to->burst == 0 || to->burst >= 1);
  if (!strcmp(name, "burst-loss")) return number(value, plain, 1e-6, 1, &to->burst_loss);
  if (!strcmp(name, "reorder")) return number(value, plain, 0, 1, &to->reorder);
  if (!strcmp(name, "reorder-by")) return duration(value, &to->reorder_by_ns);
  if (!strcmp(name, "duplicate")) return number(value, plain, 0, 1, &to->duplicate);
  if (!strcmp(name, "mtu")) return mtu(value, &to->mtu);
  if (!strcmp(name, "too-big")) return either(value, "signal", "silent", &to->too_big_is_silent);
  if (!strcmp(name, "queue")) return queue(value, to);
  if (!strcmp(name, "beside")) return number(value, rates, 0, 1e11, &to->beside);
  if (!strcmp(name, "down")) return either(value, "0", "1", &to->down);
  return false;
}

bool settings_apply(link_settings *settings, char *words, char *error, size_t error_size) {
  link_settings changed = *settings;
  char *rest;
  for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(word, '=');
    if (value) *value++ = 0;
    if (!value || !apply(&changed, word, value)) {
      snprintf(error, error_size, "%.60s cannot be %.60s", word, value ? value : "without a value");
      return false;
    }
  }
  if (changed.burst > 0 && changed.loss > changed.burst_loss) {
    snprintf(error, error_size, "loss cannot be above burst-loss");
    return false;
  }
  if (changed.beside > 0 && changed.rate == 0) {
    snprintf(error, error_size, "beside needs a rate");
    return false;
  }
  *settings = changed;
  return true;
}

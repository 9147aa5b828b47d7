#include "random.h"

static uint64_t next(random_source *source) {
  uint64_t z = source->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

random_source random_from(uint64_t seed, uint64_t stream) {
  random_source source = {seed};
  source.state = next(&source) ^ (stream * 0xd1342543de82ef95u);
  source.state = next(&source);
  return source;
}

double random_unit(random_source *source) { return (double)(next(source) >> 11) * 0x1p-53; }

bool random_happens(random_source *source, double probability) { return random_unit(source) < probability; }

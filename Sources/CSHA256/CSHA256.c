#include "CSHA256.h"

#include <string.h>

enum { block_bytes = 64 };

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define WITH_SHA __attribute__((target("sha,sse4.1,ssse3")))

// FIPS 180-4, section 4.2.2.
static const uint32_t constants[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

int uploadfs_sha256_lanes_available(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3)) return 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/// The eight words of a state in the order in which the instructions want them: ABEF and CDGH.
typedef struct {
  __m128i abef, cdgh;
} registers;

WITH_SHA static inline registers load(const uint32_t state[8]) {
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1B);
  return (registers){_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xF0)};
}

WITH_SHA static inline void store(uint32_t state[8], registers words) {
  const __m128i feba = _mm_shuffle_epi32(words.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(words.cdgh, 0xB1);
  _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

/// The sixteen big-endian words of a block.
WITH_SHA static inline void load_block(__m128i words[4], const uint8_t *bytes) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  for (int i = 0; i < 4; i++)
    words[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(bytes + 16 * i)), big_endian);
}

/// Four rounds, and the four schedule words that are needed sixteen rounds later.
WITH_SHA static inline void four_rounds(registers *s, __m128i words[4], int step) {
  const __m128i sum = _mm_add_epi32(words[step & 3], _mm_load_si128((const __m128i *)&constants[4 * step]));
  s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, sum);
  s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(sum, 0x0E));
  if (step >= 12) return;
  const __m128i last = words[(step + 3) & 3];
  const __m128i seven_back = _mm_alignr_epi8(last, words[(step + 2) & 3], 4);
  const __m128i partial = _mm_sha256msg1_epu32(words[step & 3], words[(step + 1) & 3]);
  words[step & 3] = _mm_sha256msg2_epu32(_mm_add_epi32(partial, seven_back), last);
}

WITH_SHA static inline void add(registers *sum, registers other) {
  sum->abef = _mm_add_epi32(sum->abef, other.abef);
  sum->cdgh = _mm_add_epi32(sum->cdgh, other.cdgh);
}

WITH_SHA static void compress_two(uint32_t first[8], const uint8_t *first_bytes, uint32_t second[8],
                                  const uint8_t *second_bytes, size_t block_count) {
  registers a = load(first), b = load(second);
  for (; block_count > 0; block_count--) {
    const registers a_before = a, b_before = b;
    __m128i a_words[4], b_words[4];
    load_block(a_words, first_bytes);
    load_block(b_words, second_bytes);
#pragma clang loop unroll(full)
    for (int step = 0; step < 16; step++) {
      four_rounds(&a, a_words, step);
      four_rounds(&b, b_words, step);
    }
    add(&a, a_before);
    add(&b, b_before);
    first_bytes += block_bytes;
    second_bytes += block_bytes;
  }
  store(first, a);
  store(second, b);
}

WITH_SHA static void compress_one(uint32_t state[8], const uint8_t *bytes, size_t block_count) {
  registers s = load(state);
  for (; block_count > 0; block_count--) {
    const registers before = s;
    __m128i words[4];
    load_block(words, bytes);
#pragma clang loop unroll(full)
    for (int step = 0; step < 16; step++) four_rounds(&s, words, step);
    add(&s, before);
    bytes += block_bytes;
  }
  store(state, s);
}

#else

int uploadfs_sha256_lanes_available(void) { return 0; }

static void compress_two(uint32_t first[8], const uint8_t *first_bytes, uint32_t second[8],
                         const uint8_t *second_bytes, size_t block_count) {}

static void compress_one(uint32_t state[8], const uint8_t *bytes, size_t block_count) {}

#endif

void uploadfs_sha256_lane_start(uploadfs_sha256_lane *lane) {
  // FIPS 180-4, section 5.3.3.
  static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memset(lane, 0, sizeof *lane);
  memcpy(lane->state, initial, sizeof initial);
}

static void update_one(uploadfs_sha256_lane *lane, const uint8_t *bytes, size_t count) {
  if (count == 0) return;
  lane->byte_count += count;
  if (lane->rest_count > 0) {
    const size_t missing = block_bytes - lane->rest_count;
    const size_t taken = count < missing ? count : missing;
    memcpy(lane->rest + lane->rest_count, bytes, taken);
    lane->rest_count += taken;
    bytes += taken;
    count -= taken;
    if (lane->rest_count < block_bytes) return;
    compress_one(lane->state, lane->rest, 1);
    lane->rest_count = 0;
  }
  compress_one(lane->state, bytes, count / block_bytes);
  lane->rest_count = count % block_bytes;
  memcpy(lane->rest, bytes + (count - lane->rest_count), lane->rest_count);
}

void uploadfs_sha256_lanes_update(uploadfs_sha256_lane *first, const void *first_bytes, size_t first_count,
                                  uploadfs_sha256_lane *second, const void *second_bytes, size_t second_count) {
  size_t common = 0;
  if (first->rest_count == 0 && second->rest_count == 0) {
    const size_t block_count = (first_count < second_count ? first_count : second_count) / block_bytes;
    common = block_count * block_bytes;
    if (block_count > 0) compress_two(first->state, first_bytes, second->state, second_bytes, block_count);
    first->byte_count += common;
    second->byte_count += common;
  }
  update_one(first, (const uint8_t *)first_bytes + common, first_count - common);
  update_one(second, (const uint8_t *)second_bytes + common, second_count - common);
}

void uploadfs_sha256_lane_finish(uploadfs_sha256_lane *lane, uint8_t *digest) {
  uint8_t end[2 * block_bytes] = {0};
  const size_t end_bytes = lane->rest_count < block_bytes - 8 ? block_bytes : 2 * block_bytes;
  memcpy(end, lane->rest, lane->rest_count);
  end[lane->rest_count] = 0x80;
  for (int i = 0; i < 8; i++) end[end_bytes - 1 - i] = (uint8_t)((lane->byte_count * 8) >> (8 * i));
  compress_one(lane->state, end, end_bytes / block_bytes);
  for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(lane->state[i / 4] >> (24 - 8 * (i % 4)));
}

// Sorts of numbers and pairs, compared with qsort(3) by the same order.
#include "tests/capi/check.h"

enum { kCount = 20000 };

// The order of the library, told from the values: floating-point numbers by sign and magnitude.
#define DEFINE_ORDER(T, name)                             \
  static int order_##name(const void* a, const void* b) { \
    const T x = *(const T*)a, y = *(const T*)b;           \
    return (x > y) - (x < y);                             \
  }                                                       \
  static int reverse_##name(const void* a, const void* b) { return order_##name(b, a); }

DEFINE_ORDER(int32_t, i32)
DEFINE_ORDER(uint32_t, u32)
DEFINE_ORDER(int64_t, i64)
DEFINE_ORDER(uint64_t, u64)
DEFINE_ORDER(float, f32)
DEFINE_ORDER(double, f64)

// Finite and not zero, where the order of bits is that of the numbers; these are checked below.
static int32_t random_i32(void) { return (int32_t)random_bits(); }
static uint32_t random_u32(void) { return (uint32_t)random_bits() >> random_bits() % 32; }
static int64_t random_i64(void) { return (int64_t)random_bits() >> random_bits() % 64; }
static uint64_t random_u64(void) { return random_bits() >> random_bits() % 64; }
static double random_f64(void) { return ((double)random_i32() + 0.5) * 1e-3; }
static float random_f32(void) { return (float)random_f64(); }

#define TEST_NUMBERS(T, name)                                                            \
  static void numbers_##name(size_t count, int descending, unsigned threads) {           \
    static T sorted[kCount], expected[kCount];                                           \
    for (size_t i = 0; i < count; ++i) sorted[i] = expected[i] = random_##name();        \
    const vtx_sort_options options = {.descending = descending, .threads = threads};     \
    CHECK(vtx_sort_##name(sorted, count, descending || threads ? &options : NULL) == 0); \
    qsort(expected, count, sizeof(T), descending ? reverse_##name : order_##name);       \
    CHECK(memcmp(sorted, expected, count * sizeof(T)) == 0);                             \
  }

// Stable: pairs with equal keys, and there are many, keep the order of their values.
#define TEST_PAIRS(T, name)                                                     \
  static void pairs_##name(size_t count, int descending) {                      \
    static vtx_pair_##name sorted[kCount];                                      \
    static T keys[kCount];                                                      \
    for (size_t i = 0; i < count; ++i) {                                        \
      sorted[i].key = (T)(random_##name() / (T)4096 * (T)4096);                 \
      if (sorted[i].key == 0) sorted[i].key = 1;                                \
      sorted[i].value = (uint32_t)i;                                            \
      keys[i] = sorted[i].key;                                                  \
    }                                                                           \
    const vtx_sort_options options = {.descending = descending, .stable = 1};   \
    CHECK(vtx_sort_pairs_##name(sorted, count, &options) == 0);                 \
    uint64_t sum = 0;                                                           \
    for (size_t i = 0; i < count; ++i) {                                        \
      CHECK(sorted[i].value < count && keys[sorted[i].value] == sorted[i].key); \
      sum += sorted[i].value;                                                   \
      if (i == 0) continue;                                                     \
      const int order = order_##name(&sorted[i - 1].key, &sorted[i].key);       \
      CHECK(descending ? order >= 0 : order <= 0);                              \
      if (order == 0) CHECK(sorted[i - 1].value < sorted[i].value);             \
    }                                                                           \
    CHECK(count == 0 || sum == (uint64_t)count * (count - 1) / 2);              \
  }

#define TEST(T, name) TEST_NUMBERS(T, name) TEST_PAIRS(T, name)
TEST(int32_t, i32)
TEST(uint32_t, u32)
TEST(int64_t, i64)
TEST(uint64_t, u64)
TEST(float, f32)
TEST(double, f64)

#define RUN(name)                    \
  do {                               \
    numbers_##name(counts[i], 0, 0); \
    numbers_##name(counts[i], 1, 1); \
    pairs_##name(counts[i], 0);      \
    pairs_##name(counts[i], 1);      \
  } while (0)

int main(void) {
  seed_random();
  const size_t counts[] = {0, 1, 2, 100, kCount};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
    RUN(i32);
    RUN(u32);
    RUN(i64);
    RUN(u64);
    RUN(f32);
    RUN(f64);
  }

  // The total order: both zeros, infinities, NaNs of both signs.
  const uint64_t in_order[] = {
      0xfff8000000000000, 0xfff0000000000000, 0xbff0000000000000, 0x8000000000000000, 0,
      0x3ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000};
  double numbers[8];
  for (size_t i = 0; i < 8; ++i) memcpy(&numbers[i], &in_order[(i * 5 + 3) % 8], 8);
  CHECK(vtx_sort_f64(numbers, 8, NULL) == 0);
  CHECK(memcmp(numbers, in_order, sizeof numbers) == 0);
  vtx_release_sort_memory();
  return 0;
}

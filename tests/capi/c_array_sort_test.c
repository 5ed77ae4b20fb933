// Sorts of numbers and pairs, and orders, selections and sorts of arrays of numbers whose type is
// told, compared with qsort(3) by the same order.
#include "tests/capi/numbers.h"

enum { kCount = 5000, kMany = 20000 };

static _Alignas(8) unsigned char given[16 * kMany], sorted[16 * kMany], work[16 * kMany];

static void fill(const NumberType* type, size_t count, uint64_t kinds) {
  for (size_t i = 0; i < count; ++i) put_random(type, kinds, given + i * type->bytes);
  memcpy(sorted, given, sizeof given);
  qsort(sorted, count, type->bytes, type->order);
  memcpy(work, given, sizeof given);
}

static void numbers(const NumberType* type, size_t count, int descending, unsigned threads) {
  fill(type, count, 0);
  const vtx_sort_options options = {.descending = descending, .threads = threads};
  CHECK(type->sort(work, count, descending || threads ? &options : NULL) == 0);
  for (size_t i = 0; i < count; ++i) {
    const size_t from = descending ? count - 1 - i : i;
    CHECK(memcmp(work + i * type->bytes, sorted + from * type->bytes, type->bytes) == 0);
  }
}

// Stable: pairs with equal keys, and there are many, keep the order of their values.
static void pairs(const NumberType* type, size_t count, int descending) {
  const size_t bytes = type->bytes;
  fill(type, count, 100);
  for (size_t i = 0; i < count; ++i) {
    memcpy(work + 2 * i * bytes, given + i * bytes, bytes);
    memset(work + (2 * i + 1) * bytes, 0, bytes);
    memcpy(work + (2 * i + 1) * bytes, &(uint32_t){(uint32_t)i}, 4);
  }
  const vtx_sort_options options = {.descending = descending, .stable = 1};
  CHECK(type->sort_pairs(work, count, &options) == 0);
  uint64_t sum = 0;
  uint32_t before = 0;
  for (size_t i = 0; i < count; ++i) {
    const unsigned char* const key = work + 2 * i * bytes;
    uint32_t value = 0;
    memcpy(&value, key + bytes, 4);
    CHECK(value < count && memcmp(given + value * bytes, key, bytes) == 0);
    sum += value;
    const int order = i == 0 ? 0 : type->order(key - 2 * bytes, key);
    CHECK(descending ? order >= 0 : order <= 0);
    CHECK(i == 0 || order != 0 || before < value);
    before = value;
  }
  CHECK(count == 0 || sum == (uint64_t)count * (count - 1) / 2);
}

static void orders(const NumberType* type) {
  static uint32_t narrow[kCount];
  static uint64_t wide[kCount];
  CHECK(vtx_argsort(given, kCount, type->number, narrow, 4, NULL) == 0);
  CHECK(vtx_argsort(given, kCount, type->number, wide, 8, NULL) == 0);
  for (size_t i = 0; i < kCount; ++i) {
    CHECK(narrow[i] == wide[i] && wide[i] < kCount);
    CHECK(memcmp(given + wide[i] * type->bytes, sorted + i * type->bytes, type->bytes) == 0);
    if (i == 0) continue;
    const void* const before = given + wide[i - 1] * type->bytes;
    CHECK(type->order(before, given + wide[i] * type->bytes) != 0 || wide[i - 1] < wide[i]);
  }

  // One column that is carried with its keys, and two that are not.
  static uint32_t first[kCount], second[kCount];
  static char third[kCount][9];
  for (size_t i = 0; i < kCount; ++i) {
    first[i] = second[i] = (uint32_t)i;
    memset(third[i], (int)(i % 101), 9);
  }
  const vtx_column carried = {first, 4};
  CHECK(vtx_sort_by_key(work, kCount, type->number, &carried, 1, NULL) == 0);
  CHECK(memcmp(work, sorted, kCount * type->bytes) == 0);
  memcpy(work, given, sizeof given);
  const vtx_column columns[] = {{second, 4}, {third, 9}};
  CHECK(vtx_sort_by_key(work, kCount, type->number, columns, 2, NULL) == 0);
  CHECK(memcmp(work, sorted, kCount * type->bytes) == 0);
  for (size_t i = 0; i < kCount; ++i) {
    CHECK(first[i] == narrow[i] && second[i] == narrow[i]);
    CHECK(third[i][0] == (char)(narrow[i] % 101) && third[i][8] == third[i][0]);
  }
}

static void selections(const NumberType* type) {
  const size_t places[] = {0, 10, kCount / 3, kCount - 1};
  for (size_t i = 0; i < 4; ++i) {
    const size_t k = places[i];
    memcpy(work, given, sizeof given);
    CHECK(vtx_select(work, kCount, type->number, k, NULL) == 0);
    CHECK(memcmp(work + k * type->bytes, sorted + k * type->bytes, type->bytes) == 0);
    for (size_t at = 0; at < kCount; ++at) {
      const int order = type->order(work + at * type->bytes, work + k * type->bytes);
      CHECK(at < k ? order <= 0 : order >= 0);
    }
    const vtx_sort_options descending = {.descending = 1, .threads = 1};
    CHECK(vtx_partial_sort(work, kCount, type->number, k, &descending) == 0);
    for (size_t at = 0; at < k; ++at) {
      const unsigned char* const expected = sorted + (kCount - 1 - at) * type->bytes;
      CHECK(memcmp(work + at * type->bytes, expected, type->bytes) == 0);
    }
  }
}

static void chunks_and_kinds(const NumberType* type) {
  memcpy(work, given, sizeof given);
  const vtx_chunk chunks[] = {{work, 1000}, {NULL, 0}, {work + 1000 * type->bytes, kCount - 1000}};
  CHECK(vtx_sort_chunks(chunks, 3, type->number, NULL) == 0);
  CHECK(memcmp(work, sorted, kCount * type->bytes) == 0);

  memcpy(work, given, sizeof given);
  size_t kept = 0;
  CHECK(vtx_sort_unique(work, kCount, type->number, &kept, NULL) == 0);
  size_t at = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const unsigned char* const number = sorted + i * type->bytes;
    if (i != 0 && memcmp(number - type->bytes, number, type->bytes) == 0) continue;
    CHECK(at < kept && memcmp(work + at * type->bytes, number, type->bytes) == 0);
    ++at;
  }
  CHECK(at == kept);
}

// Both zeros, infinities, NaNs of both signs.
static void total_order(void) {
  const uint64_t in_order[] = {
      0xfff8000000000000, 0xfff0000000000000, 0xbff0000000000000, 0x8000000000000000, 0,
      0x3ff0000000000000, 0x7ff0000000000000, 0x7ff8000000000000};
  double numbers[8], mixed[8];
  for (size_t i = 0; i < 8; ++i) memcpy(&mixed[i], &in_order[(i * 5 + 3) % 8], 8);
  memcpy(numbers, mixed, sizeof mixed);
  CHECK(vtx_sort_f64(numbers, 8, NULL) == 0);
  CHECK(memcmp(numbers, in_order, sizeof numbers) == 0);
  uint64_t places[8];
  CHECK(vtx_argsort(mixed, 8, VTX_F64, places, 8, NULL) == 0);
  for (size_t i = 0; i < 8; ++i) CHECK(memcmp(&mixed[places[i]], &in_order[i], 8) == 0);
  for (size_t k = 0; k < 8; ++k) {
    memcpy(numbers, mixed, sizeof mixed);
    CHECK(vtx_select(numbers, 8, VTX_F64, k, NULL) == 0);
    CHECK(memcmp(&numbers[k], &in_order[k], 8) == 0);
    CHECK(vtx_partial_sort(numbers, 8, VTX_F64, k, NULL) == 0);
    CHECK(memcmp(numbers, in_order, k * sizeof *numbers) == 0);
  }
  memcpy(numbers, mixed, sizeof mixed);
  const vtx_chunk halves[] = {{numbers, 3}, {numbers + 3, 5}};
  CHECK(vtx_sort_chunks(halves, 2, VTX_F64, NULL) == 0);
  CHECK(memcmp(numbers, in_order, sizeof numbers) == 0);
  const vtx_column column = {places, 8};
  memcpy(places, in_order, sizeof places);
  CHECK(vtx_sort_by_key(numbers, 8, VTX_F64, &column, 1, NULL) == 0);
  CHECK(memcmp(numbers, in_order, sizeof numbers) == 0 && memcmp(places, in_order, 64) == 0);
}

// By several threads: as by one. So many that each of two has enough.
static void by_threads(const NumberType* type) {
  enum { kLarge = (1 << 21) + 1000 };
  unsigned char* const large = malloc((size_t)8 * kLarge);
  unsigned char* const one = malloc((size_t)8 * kLarge);
  unsigned char* const many = malloc((size_t)8 * kLarge);
  uint32_t* const places = malloc(sizeof *places * kLarge);
  uint32_t* const expected = malloc(sizeof *expected * kLarge);
  CHECK(large != NULL && one != NULL && many != NULL && places != NULL && expected != NULL);
  const vtx_sort_options alone = {.threads = 1}, together = {.threads = 7};
  const size_t bytes = kLarge * type->bytes;
  for (size_t i = 0; i < kLarge; ++i) put_random(type, 70000, large + i * type->bytes);
  CHECK(vtx_argsort(large, kLarge, type->number, expected, 4, &alone) == 0);
  CHECK(vtx_argsort(large, kLarge, type->number, places, 4, &together) == 0);
  CHECK(memcmp(places, expected, sizeof *places * kLarge) == 0);
  for (size_t i = 0; i < kLarge; ++i)
    memcpy(one + i * type->bytes, large + expected[i] * type->bytes, type->bytes);

  for (size_t i = 0; i < kLarge; ++i) places[i] = (uint32_t)i;
  memcpy(many, large, bytes);
  const vtx_column column = {places, 4};
  CHECK(vtx_sort_by_key(many, kLarge, type->number, &column, 1, &together) == 0);
  CHECK(memcmp(many, one, bytes) == 0);
  CHECK(memcmp(places, expected, sizeof *places * kLarge) == 0);

  memcpy(many, large, bytes);
  CHECK(vtx_select(many, kLarge, type->number, kLarge / 2, &together) == 0);
  CHECK(memcmp(many + bytes / 2, one + bytes / 2, type->bytes) == 0);
  CHECK(vtx_partial_sort(many, kLarge, type->number, 1000, &together) == 0);
  CHECK(memcmp(many, one, 1000 * type->bytes) == 0);

  memcpy(many, large, bytes);
  const vtx_chunk chunks[] = {{many, kLarge / 3},
                              {many + kLarge / 3 * type->bytes, kLarge - kLarge / 3}};
  CHECK(vtx_sort_chunks(chunks, 2, type->number, &together) == 0);
  CHECK(memcmp(many, one, bytes) == 0);

  size_t kept = 0, kept_by_one = 0;
  memcpy(many, large, bytes);
  CHECK(vtx_sort_unique(many, kLarge, type->number, &kept, &together) == 0);
  CHECK(vtx_sort_unique(large, kLarge, type->number, &kept_by_one, &alone) == 0);
  CHECK(kept == kept_by_one && memcmp(many, large, kept * type->bytes) == 0);
  free(large);
  free(one);
  free(many);
  free(places);
  free(expected);
}

int main(void) {
  seed_random();
  const size_t counts[] = {0, 1, 2, 100, kMany};
  FOR_NUMBER_TYPES(type) {
    for (size_t i = 0; type->sort != NULL && i < sizeof counts / sizeof *counts; ++i) {
      for (int descending = 0; descending < 2; ++descending) {
        numbers(type, counts[i], descending, (unsigned)descending);
        pairs(type, counts[i], descending);
      }
    }
    fill(type, kCount, 4096);
    orders(type);
    selections(type);
    chunks_and_kinds(type);
    if (type->number % 3 == 0) by_threads(type);  // of each size and kind one
  }
  total_order();
  vtx_release_sort_memory();
  return 0;
}

// Sorts of records in memory by a description of their keys, compared with a merge sort of our own.
#include <errno.h>

#include "tests/capi/check.h"

// Keys lie unaligned, in both byte orders, in the middle of the record. Some sizes have code of
// their own.
enum { kCount = 5000, kRecord = 27, kMany = 80000 };

typedef int Order(const unsigned char* a, const unsigned char* b);
static size_t record_bytes;
static Order* order;

static uint32_t big_endian_32(const unsigned char* at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

// By a string of 10 bytes, which few leading bytes decide.
static int by_bytes(const unsigned char* a, const unsigned char* b) { return memcmp(a, b, 10); }

static int by_double(const unsigned char* a, const unsigned char* b) {
  double f, g;
  memcpy(&f, a + 19, 8);
  memcpy(&g, b + 19, 8);
  return (f > g) - (f < g);
}

// By a number in big-endian order, descending; then by a signed one; then by a double.
static int by_numbers(const unsigned char* a, const unsigned char* b) {
  const uint32_t x = big_endian_32(a + 3), y = big_endian_32(b + 3);
  if (x != y) return x < y ? 1 : -1;
  int16_t p, q;
  memcpy(&p, a + 9, 2);
  memcpy(&q, b + 9, 2);
  if (p != q) return p < q ? -1 : 1;
  return by_double(a, b);
}

// By one number of this machine, descending.
static int by_number(const unsigned char* a, const unsigned char* b) {
  int32_t p, q;
  memcpy(&p, a + 8, 4);
  memcpy(&q, b + 8, 4);
  return (p < q) - (p > q);
}

static int whole(const unsigned char* a, const unsigned char* b) {
  return memcmp(a, b, record_bytes);
}

// A stable merge sort.
static void merge_sort(unsigned char* records, unsigned char* spare, size_t count) {
  if (count < 2) return;
  const size_t half = count / 2, bytes = record_bytes;
  merge_sort(records, spare, half);
  merge_sort(records + half * bytes, spare, count - half);
  size_t left = 0, right = half;
  for (size_t i = 0; i < count; ++i) {
    const int first = right == count ||
                      (left < half && order(records + left * bytes, records + right * bytes) <= 0);
    memcpy(spare + i * bytes, records + (first ? left++ : right++) * bytes, bytes);
  }
  memcpy(records, spare, count * bytes);
}

static void compare(const vtx_record_format* format, Order* expected_order, size_t count,
                    const vtx_sort_options* options) {
  record_bytes = format->record_bytes;
  order = expected_order;
  unsigned char* const sorted = malloc(count * record_bytes + 1);
  unsigned char* const expected = malloc(count * record_bytes + 1);
  unsigned char* const spare = malloc(count * record_bytes + 1);
  unsigned char* const apart = malloc(count * record_bytes + 1);
  CHECK(sorted != NULL && expected != NULL && spare != NULL && apart != NULL);
  for (size_t i = 0; i < count; ++i) {
    unsigned char* const record = sorted + i * record_bytes;
    for (size_t j = 0; j < record_bytes; ++j) record[j] = (unsigned char)(random_bits() % 3);
    if (record_bytes >= kRecord && record_bytes <= 100) {
      const double number = (double)(random_bits() % 5) - 2.5;
      memcpy(record + 19, &number, 8);
      if (random_bits() % 2 == 0) record[10] = 0xff;  // a negative number
    }
    if (record_bytes == 16 && random_bits() % 2 == 0) record[11] = 0xff;
  }
  memcpy(expected, sorted, count * record_bytes);
  CHECK(vtx_sort_records_into(sorted, count, format, apart, options) == 0);
  CHECK(memcmp(sorted, expected, count * record_bytes) == 0);
  CHECK(vtx_sort_records(sorted, count, format, options) == 0);
  merge_sort(expected, spare, count);
  CHECK(memcmp(sorted, expected, count * record_bytes) == 0);
  CHECK(memcmp(apart, expected, count * record_bytes) == 0);
  size_t kept = 0, wanted = 0;
  CHECK(vtx_sort_unique_records(sorted, count, format, &kept, options) == 0);
  for (size_t i = 0; i < count; ++i) {
    const unsigned char* const record = expected + i * record_bytes;
    if (i != 0 && order(record - record_bytes, record) == 0) continue;
    CHECK(wanted < kept && memcmp(sorted + wanted * record_bytes, record, record_bytes) == 0);
    ++wanted;
  }
  CHECK(wanted == kept);
  free(sorted);
  free(expected);
  free(spare);
  free(apart);
}

static int by_bytes_descending(const unsigned char* a, const unsigned char* b) {
  return by_bytes(b, a);
}
static int by_number_ascending(const unsigned char* a, const unsigned char* b) {
  return by_number(b, a);
}
static int by_double_descending(const unsigned char* a, const unsigned char* b) {
  return by_double(b, a);
}

int main(void) {
  seed_random();
  const vtx_key bytes[] = {{.length = 10}};
  const vtx_key numbers[] = {
      {.offset = 3, .length = 4, .kind = VTX_KEY_UNSIGNED, .big_endian = 1, .descending = 1},
      {.offset = 9, .length = 2, .kind = VTX_KEY_SIGNED},
      {.offset = 19, .length = 8, .kind = VTX_KEY_FLOAT}};
  const vtx_key number[] = {{.offset = 8, .length = 4, .kind = VTX_KEY_SIGNED, .descending = 1}};
  const vtx_sort_options descending = {.descending = 1, .threads = 1};
  const struct {
    size_t sizes[3];
    const vtx_key* keys;
    size_t key_count;
    Order* order;
    const vtx_sort_options* options;
    size_t most;  // of records; those of kMany are more than the caches hold
  } cases[] = {
      {{kRecord, 28, 100}, bytes, 1, by_bytes, NULL, kMany},
      {{kRecord, 28, 100}, bytes, 1, by_bytes_descending, &descending, kMany},
      {{kRecord, 28, 100}, numbers, 3, by_numbers, NULL, kMany},
      {{16}, number, 1, by_number, NULL, kCount},
      {{16}, number, 1, by_number_ascending, &descending, kCount},
      {{28}, numbers + 2, 1, by_double, NULL, kCount},
      {{28}, numbers + 2, 1, by_double_descending, &descending, kCount},
      {{1, 12}, NULL, 0, whole, NULL, kCount},
      {{1000}, NULL, 0, whole, NULL, kCount / 10},
  };
  const size_t counts[] = {0, 1, 2, 77, kCount / 10, kCount, kMany};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    for (size_t k = 0; k < 3 && cases[i].sizes[k] != 0; ++k) {
      const vtx_record_format format = {cases[i].sizes[k], cases[i].keys, cases[i].key_count};
      for (size_t at = 0; at < sizeof counts / sizeof *counts && counts[at] <= cases[i].most;
           ++at) {
        if (counts[at] == kMany && k != 1) continue;
        compare(&format, cases[i].order, counts[at], cases[i].options);
      }
    }
  }

  char records[] = "987654321";
  const vtx_key outside[] = {{.offset = 1, .length = 2}};
  const vtx_record_format wrong = {2, outside, 1};
  CHECK(vtx_sort_records(records, 5, &wrong, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "do not lie inside a record of 2 bytes");
  const vtx_key odd[] = {{.offset = 0, .length = 3, .kind = VTX_KEY_UNSIGNED}};
  const vtx_record_format three = {3, odd, 1};
  CHECK(vtx_sort_records(records, 3, &three, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(NULL), "integers have 1, 2, 4 or 8");
  const vtx_key unknown[] = {{.length = 1, .kind = 9}};
  const vtx_record_format nine = {1, unknown, 1};
  CHECK(vtx_sort_records(records, 9, &nine, NULL) == -EINVAL);
  CHECK(vtx_sort_records(records, 9, NULL, NULL) == -EINVAL);
  CHECK(memcmp(records, "987654321", 9) == 0);
  return 0;
}

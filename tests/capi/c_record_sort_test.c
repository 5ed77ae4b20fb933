// Sorts, orders and selections of records in memory by a description of their keys, compared with a
// merge sort of our own; and of strings.
#include <errno.h>

#include "tests/capi/check.h"

// Keys lie unaligned, in both byte orders, in the middle of the record. Some sizes have code of
// their own.
enum { kCount = 5000, kRecord = 27, kMany = 80000, kHeavy = 250 };

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

// Their order as places, and the first of them, of records that `expected` has in order.
static void other_calls(const unsigned char* records, const unsigned char* expected,
                        const vtx_record_format* format, size_t count,
                        const vtx_sort_options* options) {
  uint32_t* const narrow = malloc(count * sizeof *narrow + 1);
  uint64_t* const wide = malloc(count * sizeof *wide + 1);
  unsigned char* const work = malloc(count * record_bytes + 1);
  CHECK(narrow != NULL && wide != NULL && work != NULL);
  CHECK(vtx_argsort_records(records, count, format, narrow, 4, options) == 0);
  CHECK(vtx_argsort_records(records, count, format, wide, 8, options) == 0);
  for (size_t i = 0; i < count; ++i) {
    CHECK(wide[i] < count && narrow[i] == wide[i]);
    const unsigned char* const record = records + wide[i] * record_bytes;
    CHECK(memcmp(record, expected + i * record_bytes, record_bytes) == 0);
    CHECK(i == 0 || order(record, records + wide[i - 1] * record_bytes) != 0 ||
          wide[i - 1] < wide[i]);
  }
  memcpy(work, records, count * record_bytes);
  const size_t first = count / 3;
  const vtx_chunk chunks[] = {
      {work, first}, {NULL, 0}, {work + first * record_bytes, count - first}};
  CHECK(vtx_sort_record_chunks(chunks, 3, format, options) == 0);
  CHECK(memcmp(work, expected, count * record_bytes) == 0);

  size_t key_bytes = format->key_count == 0 ? record_bytes : 0;
  for (size_t i = 0; i < format->key_count; ++i) key_bytes += format->keys[i].length;
  const size_t places[] = {0, 1, count / 2, count};
  for (size_t i = 0; i < 4; ++i) {
    const size_t k = places[i];
    memcpy(work, records, count * record_bytes);
    if (key_bytes > 8) {
      CHECK(vtx_select_records(work, count, format, k, options) == -EINVAL);
      CHECK_TEXT(vtx_strerror(NULL), "at most 8 bytes");
      CHECK(vtx_partial_sort_records(work, count, format, k, options) == -EINVAL);
      CHECK(memcmp(work, records, count * record_bytes) == 0);
      continue;
    }
    CHECK(vtx_select_records(work, count, format, k, options) == 0);
    if (k < count) CHECK(order(work + k * record_bytes, expected + k * record_bytes) == 0);
    for (size_t at = 0; k < count && at < count; ++at) {
      const int sign = order(work + at * record_bytes, work + k * record_bytes);
      CHECK(at < k ? sign <= 0 : sign >= 0);
    }
    CHECK(vtx_partial_sort_records(work, count, format, k, options) == 0);
    for (size_t at = 0; at < k && at < count; ++at)
      CHECK(order(work + at * record_bytes, expected + at * record_bytes) == 0);
    CHECK(vtx_sort_records(work, count, format, options) == 0);
    for (size_t at = 0; at < count; ++at)
      CHECK(order(work + at * record_bytes, expected + at * record_bytes) == 0);
  }
  free(narrow);
  free(wide);
  free(work);
}

static void compare(const vtx_record_format* format, Order* expected_order, size_t count,
                    const vtx_sort_options* options) {
  record_bytes = format->record_bytes;
  order = expected_order;
  unsigned char* const sorted = calloc(count * record_bytes + 1, 1);
  unsigned char* const expected = malloc(count * record_bytes + 1);
  unsigned char* const spare = malloc(count * record_bytes + 1);
  unsigned char* const apart = malloc(count * record_bytes + 1);
  unsigned char* const given = malloc(count * record_bytes + 1);
  CHECK(given != NULL && sorted != NULL && expected != NULL && spare != NULL && apart != NULL);
  for (size_t i = 0; i < count; ++i) {
    unsigned char* const record = sorted + i * record_bytes;
    for (size_t j = 0; j < record_bytes; ++j) record[j] = (unsigned char)(random_bits() % 3);
    if (record_bytes >= kRecord && record_bytes <= 100) {
      const double number = (double)(random_bits() % 5) - 2.5;
      memcpy(record + 19, &number, 8);
      if (random_bits() % 2 == 0) record[10] = 0xff;  // a negative number
    }
    if (record_bytes == 16 && random_bits() % 2 == 0) record[11] = 0xff;
    // Many have their leading bytes in common: threads sort these together.
    if (record_bytes == kHeavy) memset(record, random_bits() % 3 == 0 ? 'a' : 'b', 8);
  }
  memcpy(expected, sorted, count * record_bytes);
  memcpy(given, sorted, count * record_bytes);
  CHECK(vtx_sort_records_into(sorted, count, format, apart, options) == 0);
  CHECK(memcmp(sorted, expected, count * record_bytes) == 0);
  CHECK(vtx_sort_records(sorted, count, format, options) == 0);
  merge_sort(expected, spare, count);
  CHECK(memcmp(sorted, expected, count * record_bytes) == 0);
  CHECK(memcmp(apart, expected, count * record_bytes) == 0);
  other_calls(given, expected, format, count, options);
  free(given);
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

// By several threads: as by one. So many that each of two has enough.
static void large_by_threads(const vtx_key* key) {
  enum { kLarge = (1 << 21) + 1000 };
  const vtx_record_format of_12 = {12, key, key != NULL}, *const format = &of_12;
  const size_t bytes = format->record_bytes, all = kLarge * bytes, first = kLarge / 3;
  unsigned char* const given = malloc(all);
  unsigned char* const one = malloc(all);
  unsigned char* const many = malloc(all);
  uint32_t* const places = malloc(sizeof *places * kLarge);
  CHECK(given != NULL && one != NULL && many != NULL && places != NULL);
  for (size_t i = 0; i < all; ++i) given[i] = (unsigned char)random_bits();
  const vtx_sort_options alone = {.threads = 1}, together = {.threads = 7};
  memcpy(one, given, all);
  CHECK(vtx_sort_records(one, kLarge, format, &alone) == 0);
  memcpy(many, given, all);
  CHECK(vtx_sort_records(many, kLarge, format, &together) == 0);
  CHECK(memcmp(many, one, all) == 0);
  CHECK(vtx_sort_records_into(given, kLarge, format, many, &together) == 0);
  CHECK(memcmp(many, one, all) == 0);
  CHECK(vtx_argsort_records(given, kLarge, format, places, 4, &together) == 0);
  for (size_t i = 0; i < kLarge; ++i)
    CHECK(places[i] < kLarge && memcmp(given + places[i] * bytes, one + i * bytes, bytes) == 0);
  memcpy(many, given, all);
  const vtx_chunk chunks[] = {{many, first}, {many + first * bytes, kLarge - first}};
  CHECK(vtx_sort_record_chunks(chunks, 2, format, &together) == 0);
  CHECK(memcmp(many, one, all) == 0);
  if (key != NULL) {
    memcpy(many, given, all);
    CHECK(vtx_select_records(many, kLarge, format, first, &together) == 0);
    CHECK(memcmp(many + first * bytes + key->offset, one + first * bytes + key->offset,
                 key->length) == 0);
    CHECK(vtx_partial_sort_records(many, kLarge, format, first, &together) == 0);
    for (size_t i = 0; i < first; ++i)
      CHECK(memcmp(many + i * bytes + key->offset, one + i * bytes + key->offset, key->length) ==
            0);
  }
  free(given);
  free(one);
  free(many);
  free(places);
}

static void by_threads(void) {
  const vtx_key unaligned = {.offset = 3, .length = 4, .kind = VTX_KEY_SIGNED};
  large_by_threads(&unaligned);
  large_by_threads(NULL);
  const vtx_key bytes = {.length = 10};
  const vtx_record_format heavy = {kHeavy, &bytes, 1};
  const vtx_sort_options options = {.threads = 7};
  compare(&heavy, by_bytes, kMany, &options);
}

static int by_string(const void* a, const void* b) {
  const vtx_string *x = a, *y = b;
  const size_t common = x->length < y->length ? x->length : y->length;
  const int sign = common == 0 ? 0 : memcmp(x->bytes, y->bytes, common);
  return sign != 0 ? sign : (x->length > y->length) - (x->length < y->length);
}

// Strings of 0 to 19 bytes, of which many are equal and many the beginning of others.
static void strings(size_t count, unsigned threads) {
  static char text[1 << 16];
  for (size_t i = 0; i < sizeof text; ++i) text[i] = (char)(random_bits() % 64 == 0 ? -1 : 7);
  vtx_string* const given = malloc((count + 1) * sizeof *given);
  vtx_string* const sorted = malloc((count + 1) * sizeof *given);
  vtx_string* const expected = malloc((count + 1) * sizeof *given);
  uint32_t* const narrow = malloc((count + 1) * sizeof *narrow);
  uint64_t* const wide = malloc((count + 1) * sizeof *wide);
  CHECK(given != NULL && sorted != NULL && expected != NULL && narrow != NULL && wide != NULL);
  for (size_t i = 0; i < count; ++i) {
    given[i] = (vtx_string){text + random_bits() % (sizeof text - 20), random_bits() % 20};
    if (given[i].length == 0) given[i].bytes = NULL;
  }
  memcpy(sorted, given, count * sizeof *given);
  memcpy(expected, given, count * sizeof *given);
  qsort(expected, count, sizeof *given, by_string);
  for (int descending = 0; descending < 2; ++descending) {
    const vtx_sort_options options = {.descending = descending, .threads = threads};
    CHECK(vtx_sort_strings(sorted, count, &options) == 0);
    CHECK(vtx_argsort_strings(given, count, narrow, 4, &options) == 0);
    CHECK(vtx_argsort_strings(given, count, wide, 8, &options) == 0);
    for (size_t i = 0; i < count; ++i) {
      const vtx_string* const wanted = expected + (descending ? count - 1 - i : i);
      CHECK(by_string(sorted + i, wanted) == 0);
      CHECK(wide[i] < count && narrow[i] == wide[i] && by_string(given + wide[i], wanted) == 0);
      CHECK(i == 0 || by_string(given + wide[i - 1], given + wide[i]) != 0 ||
            wide[i - 1] < wide[i]);
    }
  }
  size_t kept = 0, at = 0;
  const vtx_sort_options options = {.threads = threads};
  CHECK(vtx_sort_unique_strings(sorted, count, &kept, &options) == 0);
  for (size_t i = 0; i < count; ++i) {
    if (i != 0 && by_string(expected + i - 1, expected + i) == 0) continue;
    CHECK(at < kept && by_string(sorted + at, expected + i) == 0);
    ++at;
  }
  CHECK(at == kept);
  free(given);
  free(sorted);
  free(expected);
  free(narrow);
  free(wide);
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
      {{kRecord, 28, 100}, numbers + 2, 1, by_double, NULL, kMany},
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

  by_threads();
  const size_t string_counts[] = {0, 1, 2, 1000, 140000, 400000};
  for (size_t i = 0; i < 6; ++i) strings(string_counts[i], i < 4 ? 1 : 7);

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

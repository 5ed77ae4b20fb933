// Vanishing arrays: their blocks go where they are read, sorts compared with those of arrays, and
// partitions with a copy.
#include <errno.h>

#include "tests/capi/numbers.h"

enum { kBlock = 16 << 10, kBlocks = 200, kMost = 40 * kBlock };

static vtx_blocks* blocks;
static _Alignas(8) unsigned char given[kMost], expected[kMost];

static vtx_vanishing* array_of(size_t record_bytes, uint64_t capacity) {
  const vtx_vanishing_options options = {.name = "vanishing"};
  vtx_vanishing* array = NULL;
  CHECK(vtx_vanishing_create(blocks, record_bytes, capacity, &options, &array) == 0);
  return array;
}

static void read_all(void* context) {
  const volatile unsigned char* const data = vtx_vanishing_data(context);
  for (size_t i = 0; i < kMost; ++i) CHECK(data[i] == given[i]);
}

static void memory_comes_and_goes(void) {
  for (size_t i = 0; i < kMost; ++i) given[i] = (unsigned char)random_bits();
  vtx_vanishing* const array = array_of(8, kMost / 8);
  unsigned char* const data = vtx_vanishing_data(array);
  CHECK(vtx_vanishing_held_blocks(array) == 0 && vtx_vanishing_size(array) == 0);
  for (size_t i = 0; i < kMost; ++i) data[i] = given[i];
  CHECK(vtx_vanishing_resize(array, kMost / 8 + 1) == -EINVAL);
  CHECK_TEXT(vtx_strerror(array), "'vanishing'");
  CHECK(vtx_vanishing_resize(array, kMost / 8) == 0 && vtx_vanishing_size(array) == kMost / 8);
  CHECK(vtx_vanishing_held_blocks(array) == kMost / kBlock);
  CHECK(vtx_blocks_in_use(blocks) == kMost / kBlock);
  CHECK(vtx_vanishing_seal(array) == 0);
  read_all(array);
  CHECK(vtx_vanishing_held_blocks(array) <= 1);  // the one that was touched last
  CHECK(vtx_vanishing_finish_reading(array) == 0 && vtx_vanishing_held_blocks(array) == 0);
  CHECK(vtx_guarded(read_all, array) < 0);  // there is nothing any more
  CHECK(vtx_vanishing_failure(array) < 0);
  vtx_stream_counts counts;
  CHECK(vtx_vanishing_statistics(array, &counts) == 0 && counts.faults >= 2 * kMost / kBlock);
  vtx_vanishing_close(array);

  vtx_vanishing* const loaded = array_of(8, kMost / 8);
  CHECK(vtx_vanishing_load(loaded, given, kMost / 8) == 0);
  CHECK(memcmp(vtx_vanishing_data(loaded), given, kMost) == 0);
  CHECK(vtx_vanishing_load(loaded, given, kMost / 8 + 1) == -EINVAL);
  CHECK(vtx_vanishing_clear(loaded) == 0 && vtx_vanishing_size(loaded) == 0);
  CHECK(vtx_blocks_in_use(blocks) == 0);
  vtx_vanishing_close(loaded);
  vtx_vanishing* const large = array_of(1, (uint64_t)kBlock * (kBlocks + 1));
  unsigned char* const too_much = calloc(kBlocks + 1, kBlock);
  CHECK(too_much != NULL);
  CHECK(vtx_vanishing_load(large, too_much, (uint64_t)kBlock * (kBlocks + 1)) == -EAGAIN);
  CHECK(vtx_vanishing_size(large) == 0 && vtx_blocks_in_use(blocks) == 0);
  free(too_much);
  vtx_vanishing_close(large);
}

// Numbers alone and in pairs; the sorts of arrays, which others test, are the oracle.
static void sort_and_compare(const NumberType* type, int pairs, const vtx_sort_options* options) {
  const size_t record = type->bytes << pairs, count = kMost / record - 3;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t value = random_bits();
    put_random(type, 1000, given + i * record);
    if (pairs) memcpy(given + i * record + type->bytes, &value, type->bytes);
  }
  memcpy(expected, given, count * record);
  CHECK((pairs ? type->sort_pairs : type->sort)(expected, count, options) == 0);
  vtx_vanishing* const array = array_of(record, count);
  CHECK(vtx_vanishing_load(array, given, count) == 0);
  vtx_radix_report report;
  CHECK(vtx_vanishing_sort(array, type->number, options, &report) == 0);
  CHECK(report.peak_blocks >= count * record / kBlock);
  CHECK(memcmp(vtx_vanishing_data(array), expected, count * record) == 0);
  vtx_vanishing_close(array);
}

static void sorts(void) {
  FOR_NUMBER_TYPES(type) {
    for (int descending = 0; type->sort != NULL && descending < 2; ++descending) {
      const vtx_sort_options options = {.descending = descending, .stable = 1, .threads = 1};
      sort_and_compare(type, 0, &options);
      sort_and_compare(type, 1, &options);
    }
  }
  vtx_vanishing* const odd = array_of(12, 5);
  CHECK(vtx_vanishing_sort(odd, VTX_U32, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(odd), "12 bytes");
  CHECK(vtx_vanishing_sort(odd, VTX_F64 + 1, NULL, NULL) == -EINVAL);
  vtx_vanishing_close(odd);
  vtx_vanishing* const narrow = array_of(2, 5);
  CHECK(vtx_vanishing_sort(narrow, VTX_U16, NULL, NULL) == -EINVAL);
  vtx_vanishing_close(narrow);
}

enum { kRecord = 12, kRecords = kMost / kRecord, kBuckets = 5 };

// By the first byte; the error, or a bucket that is not there, comes at one record.
typedef struct {
  uint64_t at;
  uint64_t wrong_at;
  int result;
} By;
static int bucket_of(void* context, const void* records, size_t count, uint32_t* buckets) {
  By* const by = context;
  for (size_t i = 0; i < count; ++i, ++by->at) {
    buckets[i] = ((const unsigned char*)records)[i * kRecord] % kBuckets;
    if (by->at != by->wrong_at) continue;
    if (by->result != 0) return by->result;
    buckets[i] = kBuckets;
  }
  return 0;
}

static void partition(uint64_t wrong_at, int result, int error) {
  for (size_t i = 0; i < kMost; ++i) given[i] = (unsigned char)random_bits();
  vtx_vanishing* const array = array_of(kRecord, kRecords);
  vtx_bucket* buckets[kBuckets];
  for (size_t i = 0; i < kBuckets; ++i) CHECK(vtx_bucket_create(blocks, NULL, &buckets[i]) == 0);
  CHECK(vtx_vanishing_load(array, given, kRecords) == 0);
  By by = {0, wrong_at, result};
  uint64_t counts[kBuckets] = {0};
  CHECK(vtx_partition(array, buckets, kBuckets, bucket_of, &by, counts) == error);
  CHECK(vtx_vanishing_size(array) == 0 && vtx_vanishing_held_blocks(array) == 0);
  uint64_t at[kBuckets] = {0};
  for (size_t i = 0; error == 0 && i < kRecords; ++i) {
    const size_t bucket = given[i * kRecord] % kBuckets;
    const unsigned char* const data = vtx_bucket_data(buckets[bucket]);
    CHECK(memcmp(data + at[bucket]++ * kRecord, given + i * kRecord, kRecord) == 0);
  }
  if (error == 0) {
    CHECK(memcmp(at, counts, sizeof at) == 0);
    CHECK(vtx_partition(array, buckets, kBuckets, bucket_of, &by, NULL) == -EINVAL);
    CHECK_TEXT(vtx_strerror(array), "bucket 0");  // it is not empty
  }
  for (size_t i = 0; i < kBuckets; ++i) {
    CHECK(vtx_bucket_failure(buckets[i]) == 0);
    const size_t held = vtx_bucket_held_blocks(buckets[i]);
    CHECK(vtx_bucket_seal(buckets[i]) == 0);
    const volatile unsigned char* const sealed = vtx_bucket_data(buckets[i]);
    for (size_t k = 0; error == 0 && k < at[i] * kRecord; ++k) (void)sealed[k];
    CHECK(vtx_bucket_held_blocks(buckets[i]) == (error == 0 && held > 0 ? 1 : held));
    CHECK(vtx_bucket_truncate(buckets[i], 0) == 0);
    CHECK(vtx_bucket_held_blocks(buckets[i]) <= 1);
    CHECK(vtx_bucket_clear(buckets[i]) == 0);
    CHECK(vtx_bucket_held_blocks(buckets[i]) == 0);
    vtx_bucket_close(buckets[i]);
  }
  vtx_vanishing_close(array);
}

// What c_limits_test does not try.
static void a_bucket_that_is_not_there(void) {
  vtx_vanishing* const array = array_of(kRecord, kRecords);
  vtx_bucket* bucket = NULL;
  CHECK(vtx_bucket_create(blocks, NULL, &bucket) == 0);
  vtx_bucket* const buckets[] = {bucket, NULL};
  CHECK(vtx_partition(array, buckets, 2, bucket_of, NULL, NULL) == -EINVAL);
  CHECK_TEXT(vtx_strerror(array), "bucket 1 is NULL");
  vtx_stream_counts counts;
  CHECK(vtx_bucket_statistics(bucket, &counts) == 0 && counts.faults == 0);
  vtx_bucket_close(bucket);
  vtx_vanishing_close(array);
  vtx_bucket_close(NULL);
  vtx_vanishing_close(NULL);
  vtx_blocks_close(NULL);
}

int main(void) {
  seed_random();
  vtx_pool* pool = NULL;
  CHECK(make_pool(kBlocks * kBlock, kBlock, &pool) == 0);
  CHECK(vtx_blocks_create(pool, kBlocks + 1, &blocks) == -ENOMEM);
  CHECK(vtx_blocks_create(NULL, 1, &blocks) == -EINVAL);
  CHECK(vtx_blocks_create(pool, kBlocks, &blocks) == 0);
  vtx_pool_close(pool);
  memory_comes_and_goes();
  sorts();
  partition(UINT64_MAX, 0, 0);
  partition(kRecords / 2, -EDQUOT, -EDQUOT);
  partition(kRecords / 2, 1, -ECANCELED);
  partition(kRecords / 2, 0, -EINVAL);
  a_bucket_that_is_not_there();
  CHECK(vtx_blocks_in_use(blocks) == 0);
  vtx_blocks_close(blocks);
  return 0;
}

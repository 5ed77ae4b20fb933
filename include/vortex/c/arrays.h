// Sorts in C of arrays that are in memory; and arrays whose memory goes where it is needed next:
// sorted and partitioned with no second copy.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vortex/c/base.h"
#include "vortex/c/streams.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Sorting arrays where they are -------------------------------------------------------------

typedef struct vtx_sort_options {
  int descending;
  int stable;        // pairs with equal keys keep their order; sorted records do anyway
  unsigned threads;  // that may work, the calling one included, and no more than there are usable
                     // cores, however large the number is; 0: that many
} vtx_sort_options;

typedef struct vtx_pair_i32 {
  int32_t key;
  uint32_t value;
} vtx_pair_i32;
typedef struct vtx_pair_u32 {
  uint32_t key;
  uint32_t value;
} vtx_pair_u32;
typedef struct vtx_pair_f32 {
  float key;
  uint32_t value;
} vtx_pair_f32;
typedef struct vtx_pair_i64 {
  int64_t key;
  uint64_t value;
} vtx_pair_i64;
typedef struct vtx_pair_u64 {
  uint64_t key;
  uint64_t value;
} vtx_pair_u64;
typedef struct vtx_pair_f64 {
  double key;
  uint64_t value;
} vtx_pair_f64;

// Sort `count` numbers, or pairs by their keys, where they are. Floating-point keys are in the
// total order of their bits: negative NaNs, -inf ... -0.0, +0.0 ... +inf, NaNs. The extra memory is
// about 7 MiB and 1%, see sort.h; -ENOMEM with nothing moved. Thread-safe for different arrays.
VORTEX_EXPORT int vtx_sort_i32(int32_t* keys, size_t count, const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_u32(uint32_t* keys, size_t count, const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_f32(float* keys, size_t count, const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_i64(int64_t* keys, size_t count, const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_u64(uint64_t* keys, size_t count, const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_f64(double* keys, size_t count, const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_pairs_i32(vtx_pair_i32* pairs, size_t count,
                                     const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_pairs_u32(vtx_pair_u32* pairs, size_t count,
                                     const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_pairs_f32(vtx_pair_f32* pairs, size_t count,
                                     const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_pairs_i64(vtx_pair_i64* pairs, size_t count,
                                     const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_pairs_u64(vtx_pair_u64* pairs, size_t count,
                                     const vtx_sort_options* options);
VORTEX_EXPORT int vtx_sort_pairs_f64(vtx_pair_f64* pairs, size_t count,
                                     const vtx_sort_options* options);
// Gives back the memory, at most 8 MiB, that sorts have kept for the next one of the calling
// thread.
VORTEX_EXPORT void vtx_release_sort_memory(void);

typedef enum vtx_key_kind {
  VTX_KEY_BYTES = 0,  // compared as memcmp(3) does
  VTX_KEY_UNSIGNED,   // integers of 1, 2, 4 or 8 bytes
  VTX_KEY_SIGNED,
  VTX_KEY_FLOAT  // IEEE 754, 4 or 8 bytes
} vtx_key_kind;

// A key of a record: `length` bytes from `offset` on.
typedef struct vtx_key {
  size_t offset;
  size_t length;
  int kind;  // a vtx_key_kind
  int big_endian;
  int descending;
} vtx_key;

// Records of one length, at most 1 MiB, ordered by their keys, the first counting most. Without
// keys the whole record is one key of bytes.
typedef struct vtx_record_format {
  size_t record_bytes;
  const vtx_key* keys;
  size_t key_count;
} vtx_record_format;

// Sorts `count` records, one behind the other, where they are; stable. Takes at most 16 bytes a
// record, what sorting the records or those takes, and for each thread 512 KiB or, if that is more,
// a record.
// `options->descending` turns all keys round. -EINVAL for a wrong format, with the key and the
// limit; -ENOMEM with nothing moved.
VORTEX_EXPORT int vtx_sort_records(void* records, size_t count, const vtx_record_format* format,
                                   const vtx_sort_options* options);
// The same to `sorted`, which has room for as many and does not overlap them: of records of some
// hundred bytes it is faster, since each moves once. Takes 8 bytes a record and what sorting words
// of 8 bytes takes, 16 and that of pairs where many keys agree in their first bits, and 16 bytes
// for each of those that agree in them. -ENOMEM, with `sorted` in any state.
VORTEX_EXPORT int vtx_sort_records_into(const void* records, size_t count,
                                        const vtx_record_format* format, void* sorted,
                                        const vtx_sort_options* options);
// As vtx_sort_records(), and keeps the first of those with equal keys: `*kept` are left, and what
// is behind them is unspecified.
VORTEX_EXPORT int vtx_sort_unique_records(void* records, size_t count,
                                          const vtx_record_format* format, size_t* kept,
                                          const vtx_sort_options* options);

// Puts the places of the records into their order, as vtx_argsort() does those of numbers. Where
// keys of many records agree in their first 8 bytes, all threads compare these: 16 bytes for each.
VORTEX_EXPORT int vtx_argsort_records(const void* records, size_t count,
                                      const vtx_record_format* format, void* places,
                                      size_t place_bytes, const vtx_sort_options* options);
// As vtx_select() and vtx_partial_sort(), by keys that are at most 8 bytes together; -EINVAL for
// longer ones.
VORTEX_EXPORT int vtx_select_records(void* records, size_t count, const vtx_record_format* format,
                                     size_t k, const vtx_sort_options* options);
VORTEX_EXPORT int vtx_partial_sort_records(void* records, size_t count,
                                           const vtx_record_format* format, size_t k,
                                           const vtx_sort_options* options);

// ---- Strings -----------------------------------------------------------------------------------

// Any bytes, which stay where they are.
typedef struct vtx_string {
  const void* bytes;
  size_t length;
} vtx_string;
// Sorts strings as memcmp(3) compares them, one that is the beginning of another before it. Takes
// 32 bytes a string, and what sorting those takes; -ENOMEM with nothing moved.
VORTEX_EXPORT int vtx_sort_strings(vtx_string* strings, size_t count,
                                   const vtx_sort_options* options);
// The same, and keeps one of equal strings: `*kept` are left, and what is behind them is as it was.
VORTEX_EXPORT int vtx_sort_unique_strings(vtx_string* strings, size_t count, size_t* kept,
                                          const vtx_sort_options* options);
// Puts their places into that order, as vtx_argsort() does. Takes 16 bytes a string, and what
// sorting those takes.
VORTEX_EXPORT int vtx_argsort_strings(const vtx_string* strings, size_t count, void* places,
                                      size_t place_bytes, const vtx_sort_options* options);

// ---- Arrays of numbers whose type is told ------------------------------------------------------

// Integers and floating-point numbers by their bits, in the order of vtx_sort_u64() and so on.
typedef enum vtx_number {
  VTX_U8 = 0,
  VTX_U16,
  VTX_U32,
  VTX_U64,
  VTX_I8,
  VTX_I16,
  VTX_I32,
  VTX_I64,
  VTX_F32,
  VTX_F64
} vtx_number;

// Puts the places of `count` keys, whose type is the vtx_number `number`, into the order of the
// keys: the key at places[0] belongs first. Equal keys keep their order. `places` are `count`
// integers of `place_bytes`, 4 or 8, bytes. Extra memory: see array_calls.h. -EINVAL for more than
// 2^32 keys with places of 4 bytes; -ENOMEM.
VORTEX_EXPORT int vtx_argsort(const void* keys, size_t count, int number, void* places,
                              size_t place_bytes, const vtx_sort_options* options);

// An array of as many values as there are keys, `bytes` bytes each.
typedef struct vtx_column {
  void* values;
  size_t bytes;
} vtx_column;
// Sorts keys, and brings the values of each column into the same order, where they are; values of
// equal keys keep their order. Extra memory: see array_calls.h. -ENOMEM with nothing moved.
VORTEX_EXPORT int vtx_sort_by_key(void* keys, size_t count, int number, const vtx_column* columns,
                                  size_t column_count, const vtx_sort_options* options);

// Moves numbers so that the one at place k is the one that sorting would put there, with none in
// front of it that belongs behind it; nothing where there are no more than k. See array_calls.h.
// -ENOMEM with nothing moved.
VORTEX_EXPORT int vtx_select(void* numbers, size_t count, int number, size_t k,
                             const vtx_sort_options* options);
// Puts the first k numbers in front, in order; the others follow in any order. -ENOMEM with the
// numbers all there.
VORTEX_EXPORT int vtx_partial_sort(void* numbers, size_t count, int number, size_t k,
                                   const vtx_sort_options* options);
// Sorts numbers and keeps one of those with equal bits: `*kept` are left, and what is behind them
// is unspecified.
VORTEX_EXPORT int vtx_sort_unique(void* numbers, size_t count, int number, size_t* kept,
                                  const vtx_sort_options* options);

// One of several arrays that form one sequence.
typedef struct vtx_chunk {
  void* numbers;  // or records
  size_t count;
} vtx_chunk;
// Sorts the numbers of all chunks as if they were one array. Takes as much memory as they have
// together, and what sorting takes; -ENOMEM with nothing moved.
VORTEX_EXPORT int vtx_sort_chunks(const vtx_chunk* chunks, size_t chunk_count, int number,
                                  const vtx_sort_options* options);
// The same for records, stable.
VORTEX_EXPORT int vtx_sort_record_chunks(const vtx_chunk* chunks, size_t chunk_count,
                                         const vtx_record_format* format,
                                         const vtx_sort_options* options);

// ---- Vanishing arrays --------------------------------------------------------------------------

// Blocks of a pool, set aside, which vanishing arrays and buckets pass to each other.
typedef struct vtx_blocks vtx_blocks;
// -ENOMEM where the pool cannot guarantee `count` blocks.
VORTEX_EXPORT int vtx_blocks_create(vtx_pool* pool, size_t count, vtx_blocks** blocks);
VORTEX_EXPORT size_t vtx_blocks_in_use(const vtx_blocks* blocks);
// The blocks are the pool's again when the last array and bucket is closed that uses them.
VORTEX_EXPORT void vtx_blocks_close(vtx_blocks* blocks);

// An array that takes a block where it is written, and gives it back where it has been read in
// ascending order. Written again, it takes blocks again. One thread at a time, reading and writing
// included. See vanishing_array.h.
typedef struct vtx_vanishing vtx_vanishing;

typedef struct vtx_vanishing_options {
  const char* name;        // for messages; NULL: "array" or "bucket"
  size_t comeback_blocks;  // how far a reader may go back; records that straddle blocks need 1
  uint64_t reserve_bytes;  // of a bucket, address space, the most that it spans; 0: 64 GiB
} vtx_vanishing_options;

// Room for `capacity` records of `record_bytes` bytes: address space only.
VORTEX_EXPORT int vtx_vanishing_create(vtx_blocks* blocks, size_t record_bytes, uint64_t capacity,
                                       const vtx_vanishing_options* options, vtx_vanishing** array);
VORTEX_EXPORT void* vtx_vanishing_data(vtx_vanishing* array);
// The contents are the first `count` records, which plain stores have put there. Blocks behind them
// stay as they are. -EINVAL beyond the capacity.
VORTEX_EXPORT int vtx_vanishing_resize(vtx_vanishing* array, uint64_t count);
VORTEX_EXPORT uint64_t vtx_vanishing_size(const vtx_vanishing* array);
// Replaces the contents by a copy of `count` records, open for code that comes in any order.
// -EINVAL beyond the capacity, -EAGAIN where no block is left; then the array is empty.
VORTEX_EXPORT int vtx_vanishing_load(vtx_vanishing* array, const void* records, uint64_t count);
// What is read from now on gives its blocks back.
VORTEX_EXPORT int vtx_vanishing_seal(vtx_vanishing* array);
// The reader is done: gives back what it touched last.
VORTEX_EXPORT int vtx_vanishing_finish_reading(vtx_vanishing* array);
// Gives every block back; the array is empty.
VORTEX_EXPORT int vtx_vanishing_clear(vtx_vanishing* array);
VORTEX_EXPORT size_t vtx_vanishing_held_blocks(const vtx_vanishing* array);
// As vtx_stream_statistics(), vtx_input_failure() and vtx_input_cancel().
VORTEX_EXPORT int vtx_vanishing_statistics(vtx_vanishing* array, vtx_stream_counts* counts);
VORTEX_EXPORT int vtx_vanishing_failure(vtx_vanishing* array);
VORTEX_EXPORT void vtx_vanishing_cancel(vtx_vanishing* array, int error, const char* cause);
VORTEX_EXPORT void vtx_vanishing_close(vtx_vanishing* array);

typedef struct vtx_radix_report {
  int first_split_bits;  // 0: nothing to sort, or sorted without buckets
  size_t peak_blocks;    // of the array and the buckets together
  size_t working_bytes;  // besides the pool
  size_t epsilon_bytes;  // the most of both at any time, beyond the blocks of the array
} vtx_radix_report;

// Sorts the contents where they are: numbers of 4 or 8 bytes, whose type is the vtx_number
// `number`, or, where records are twice as long, pairs of such a key and as many bytes of value.
// With one thread the blocks flow through buckets, which take up to 260 blocks more; where these
// are missing, and with several threads, numbers move within the array. `report` may be NULL.
// -EINVAL where records are neither; -ENOMEM with nothing moved, or, where memory ends after the
// blocks have flowed to the buckets, in any order. See radix_sort.h.
VORTEX_EXPORT int vtx_vanishing_sort(vtx_vanishing* array, int number,
                                     const vtx_sort_options* options, vtx_radix_report* report);

// ---- Partitioning ------------------------------------------------------------------------------

// A buffer that takes blocks where it is written and gives them back where it has been read, by the
// rules of BucketStream in vanishing_array.h. One thread at a time.
typedef struct vtx_bucket vtx_bucket;
VORTEX_EXPORT int vtx_bucket_create(vtx_blocks* blocks, const vtx_vanishing_options* options,
                                    vtx_bucket** bucket);
VORTEX_EXPORT void* vtx_bucket_data(vtx_bucket* bucket);
// What is read in ascending order from now on gives its blocks back.
VORTEX_EXPORT int vtx_bucket_seal(vtx_bucket* bucket);
// What lies at `bytes` and behind has been read for the last time: gives the blocks behind the one
// that `bytes` lies in back.
VORTEX_EXPORT int vtx_bucket_truncate(vtx_bucket* bucket, uint64_t bytes);
// Gives every block back; the bucket is empty.
VORTEX_EXPORT int vtx_bucket_clear(vtx_bucket* bucket);
VORTEX_EXPORT size_t vtx_bucket_held_blocks(const vtx_bucket* bucket);
// As vtx_stream_statistics(), vtx_input_failure() and vtx_input_cancel().
VORTEX_EXPORT int vtx_bucket_statistics(vtx_bucket* bucket, vtx_stream_counts* counts);
VORTEX_EXPORT int vtx_bucket_failure(vtx_bucket* bucket);
VORTEX_EXPORT void vtx_bucket_cancel(vtx_bucket* bucket, int error, const char* cause);
VORTEX_EXPORT void vtx_bucket_close(vtx_bucket* bucket);

// Writes the number of the bucket of each of `count` records to `buckets`, and returns 0; a
// negative errno value ends the partition.
typedef int (*vtx_bucket_function)(void* context, const void* records, size_t count,
                                   uint32_t* buckets);
// Moves the contents of the array to the ends of the buckets that `bucket_of` names, in one pass;
// the memory of what has been read becomes that of the buckets. Within a bucket the order stays.
// There are 2 to 4096 different buckets, all empty and on the blocks of the array, which need to be
// one more for each bucket and, where records straddle blocks, as many more as hold one record.
// `counts` gets how many records went to each, and may be NULL.
//
// -EINVAL for what is said here, before anything moves. -EAGAIN where no block is left, what
// `bucket_of` returns, and -EINVAL where it names no bucket: the records that had been read by then
// are in the buckets, or lost if no block could be had for them, and the array is empty. See
// radix_sort.h.
VORTEX_EXPORT int vtx_partition(vtx_vanishing* array, vtx_bucket* const* buckets,
                                size_t bucket_count, vtx_bucket_function bucket_of, void* context,
                                uint64_t* counts);

#ifdef __cplusplus
}
#endif

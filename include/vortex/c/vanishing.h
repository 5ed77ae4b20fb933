// Arrays in C whose memory goes where it is needed next: sorted and partitioned with no second
// copy.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vortex/c/arrays.h"
#include "vortex/c/base.h"
#include "vortex/c/streams.h"
#include "vortex/detail/stream/export.h"

#ifdef __cplusplus
extern "C" {
#endif

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
// The contents are the first `count` records, which plain stores have put there. -EINVAL beyond the
// capacity.
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
// -EINVAL where records are neither; -ENOMEM with nothing moved. See radix_sort.h.
VORTEX_EXPORT int vtx_vanishing_sort(vtx_vanishing* array, int number,
                                     const vtx_sort_options* options, vtx_radix_report* report);

// ---- Partitioning ------------------------------------------------------------------------------

// A buffer that takes blocks where it is written and gives them back where it has been read, by the
// rules of BucketStream in vanishing_array.h. One thread at a time.
typedef struct vtx_bucket vtx_bucket;
VORTEX_EXPORT int vtx_bucket_create(vtx_blocks* blocks, const vtx_vanishing_options* options,
                                    vtx_bucket** bucket);
VORTEX_EXPORT void* vtx_bucket_data(vtx_bucket* bucket);
// Gives every block back that lies whole inside [begin, end) bytes, whatever is in it.
VORTEX_EXPORT int vtx_bucket_give_back(vtx_bucket* bucket, uint64_t begin, uint64_t end);
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
// -EINVAL for what is said here, before anything moves. -EAGAIN where no block is left, and what
// `bucket_of` returns: the records that had been read by then are in the buckets, or lost if no
// block could be had for them, and the array is empty. See radix_sort.h.
VORTEX_EXPORT int vtx_partition(vtx_vanishing* array, vtx_bucket* const* buckets,
                                size_t bucket_count, vtx_bucket_function bucket_of, void* context,
                                uint64_t* counts);

#ifdef __cplusplus
}
#endif

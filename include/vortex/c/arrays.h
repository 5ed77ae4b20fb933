// Sorts in C of arrays that are in memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vortex/detail/stream/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Sorting arrays where they are -------------------------------------------------------------

typedef struct vtx_sort_options {
  int descending;
  int stable;        // pairs with equal keys keep their order; records always do
  unsigned threads;  // that may work, the calling one included; 0: one for each usable core; more
                     // than 4096 are 4096
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

// Sorts `count` records, one behind the other, where they are; stable. Takes 16 bytes a record,
// what sorting those takes, and a record. `options->descending` turns all keys round. -EINVAL for a
// wrong format, with the key and the limit; -ENOMEM with nothing moved.
VORTEX_EXPORT int vtx_sort_records(void* records, size_t count, const vtx_record_format* format,
                                   const vtx_sort_options* options);

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
// integers of `place_bytes`, 4 or 8, bytes. Extra memory: see argsort.h. -EINVAL for more than 2^32
// keys with places of 4 bytes; -ENOMEM.
VORTEX_EXPORT int vtx_argsort(const void* keys, size_t count, int number, void* places,
                              size_t place_bytes, const vtx_sort_options* options);

// An array of as many values as there are keys, `bytes` bytes each.
typedef struct vtx_column {
  void* values;
  size_t bytes;
} vtx_column;
// Sorts keys, and brings the values of each column into the same order, where they are; values of
// equal keys keep their order. Extra memory: see argsort.h. -ENOMEM with nothing moved.
VORTEX_EXPORT int vtx_sort_by_key(void* keys, size_t count, int number, const vtx_column* columns,
                                  size_t column_count, const vtx_sort_options* options);

// Moves numbers so that the one at place k is the one that sorting would put there, with none in
// front of it that belongs behind it; nothing where there are no more than k. See select.h. -ENOMEM
// with nothing moved.
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
  void* numbers;
  size_t count;
} vtx_chunk;
// Sorts the numbers of all chunks as if they were one array. Takes as much memory as they have
// together, and what sorting takes; -ENOMEM with nothing moved.
VORTEX_EXPORT int vtx_sort_chunks(const vtx_chunk* chunks, size_t chunk_count, int number,
                                  const vtx_sort_options* options);

#ifdef __cplusplus
}
#endif

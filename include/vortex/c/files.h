// Files as arrays in C that are changed in place, and files that lie on several disks.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vortex/c/base.h"
#include "vortex/c/streams.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Files that are changed in place -----------------------------------------------------------

// A file as an array that is read and changed anywhere, in any order, in a fixed memory.
typedef struct vtx_array vtx_array;

// See FileArrayOptions in file_array.h.
typedef struct vtx_array_options {
  size_t memory_bytes;     // for blocks, without a pool; 0: no more than the others need
  vtx_pool* pool;          // NULL: one of its own
  vtx_disk* disk;          // NULL: one of its own
  const char* name;        // for messages; NULL: the path
  size_t block_bytes;      // without a pool; 0: 1 MiB, less for small files and little memory
  size_t comeback_blocks;  // M: the last M + 1 blocks touched stay, at least 4; 0: 1
  size_t read_ahead;       // requests that a walk reads ahead; 0: 4
  size_t cursors;          // how many walks have memory to read ahead; 0: 1
  size_t write_behind;     // requests to write that have memory; 0: 4
  size_t request_bytes;    // 0: a block, or several small ones
  int caching;             // a vtx_caching
  int make;                // 1: a file that is missing is made, empty
  // Address space, the most that the file can grow to; 0: 1 TiB. Halved, down to the file's length,
  // where the system refuses: the largest number is as much as can be had.
  uint64_t reserve_bytes;
} vtx_array_options;

// A regular file or a block device that can be read and written. What open(2) reports, -ESPIPE for
// what has no offsets, -ENOMEM for memory and address space. See file_array.h.
VORTEX_EXPORT int vtx_array_open(const char* path, const vtx_array_options* options,
                                 vtx_array** array);
// Any number of threads may read and write it. The pointer stays when the file grows or shrinks.
VORTEX_EXPORT void* vtx_array_data(const vtx_array* array);
VORTEX_EXPORT uint64_t vtx_array_length(const vtx_array* array);
// The file is longer or shorter from now on, on the disk as well; what is new reads as zeros.
// -EFBIG beyond the reservation or RLIMIT_FSIZE, and what the system says, with nothing changed.
VORTEX_EXPORT int vtx_array_resize(vtx_array* array, uint64_t bytes);
// Reserves space on the disk for the first `bytes`, holes included, so that a full disk shows now:
// -ENOSPC; -EFBIG for more than any file has. Does nothing where the file system cannot do that.
VORTEX_EXPORT int vtx_array_allocate(vtx_array* array, uint64_t bytes);
// Writes what was changed in [offset, offset + bytes), and waits; with `sync` until the disk has it
// for good. What could not be written stays in memory, and the next call tries again.
VORTEX_EXPORT int vtx_array_flush(vtx_array* array, uint64_t offset, uint64_t bytes, int sync);
// Places [offset, offset + bytes) for system calls that read it, or write to it (`to_write`). As
// vtx_input_prefault().
VORTEX_EXPORT int vtx_array_prefault(vtx_array* array, uint64_t offset, size_t bytes, int to_write);
// As vtx_input_home().
VORTEX_EXPORT const void* vtx_array_home(vtx_array* array, const void* at);
// As vtx_input_will_need().
VORTEX_EXPORT int vtx_array_will_need(vtx_array* array, uint64_t offset, uint64_t bytes);
// As vtx_input_statistics(), vtx_input_failure() and vtx_input_cancel().
VORTEX_EXPORT int vtx_array_statistics(vtx_array* array, vtx_stream_counts* counts);
VORTEX_EXPORT int vtx_array_failure(vtx_array* array);
VORTEX_EXPORT void vtx_array_cancel(vtx_array* array, int error, const char* cause);
// As vtx_input_fill_on_failure(); vtx_array_resize() takes the zeros away, too.
VORTEX_EXPORT int vtx_array_fill_on_failure(vtx_array* array, vtx_failure_function tell,
                                            void* context);
VORTEX_EXPORT int vtx_array_clear_filler(vtx_array* array);
// Writes what was changed, and does not sync. What cannot be written is lost, with a line on
// stderr: vtx_array_flush() tells of it in time.
VORTEX_EXPORT void vtx_array_close(vtx_array* array);

// ---- One array over several disks --------------------------------------------------------------

// A sequence cut into units, each whole in one of several files. See disk.h.
typedef struct vtx_striped vtx_striped;

typedef enum vtx_strategy {
  VTX_STRIPING = 0,       // round robin from the first disk on
  VTX_SIMPLE_RANDOMIZED,  // round robin from a random disk on
  VTX_RANDOM_CYCLIC,      // round robin through a random permutation of the disks
  VTX_FULLY_RANDOM        // every unit on a disk of its own choosing
} vtx_strategy;

typedef struct vtx_part {
  const char* path;
  vtx_disk* disk;  // NULL: one of its own
} vtx_part;

typedef struct vtx_striped_options {
  int strategy;           // a vtx_strategy
  const double* weights;  // a share of the units for each part; 0: while others have room none;
                          // NULL: equal shares
  size_t weight_count;    // of `weights`: as many as parts
  uint64_t seed;          // of the random strategies
  uint64_t sequence;      // tells the sequences of one seed apart
  size_t unit_bytes;      // on one disk before the next one's turn; 0: 2 MiB
  uint64_t most_bytes;    // fewer than 2^32 - 1 units; 0: 1 TiB
  int caching;            // a vtx_caching
  int keep_existing;      // 1: -EEXIST where there are files of these names
} vtx_striped_options;

// New files, one for each part, which appear when the output has been finished. Blocks. -EINVAL (no
// parts, weights that do not fit them, a unit that direct I/O cannot move, too many units, parts
// that cannot seek), and what creating files reports.
VORTEX_EXPORT int vtx_striped_create(const vtx_part* parts, size_t part_count,
                                     const vtx_striped_options* options, vtx_striped** striped);
// Opens what was written with the same options and parts, `bytes` long. -EINVAL where the parts are
// not as long as that says.
VORTEX_EXPORT int vtx_striped_open(const vtx_part* parts, size_t part_count,
                                   const vtx_striped_options* options, uint64_t bytes,
                                   vtx_striped** striped);
// One output first, then any number of inputs; the handle may be closed before they are.
VORTEX_EXPORT int vtx_striped_write(vtx_striped* striped, const vtx_new_file_options* options,
                                    vtx_output** output);
VORTEX_EXPORT int vtx_striped_read(vtx_striped* striped, const vtx_file_options* options,
                                   vtx_input** input);
VORTEX_EXPORT uint64_t vtx_striped_length(const vtx_striped* striped);
// How many units a part has, and whether it was left out (1) because its disk was full. -ERANGE
// where there is no such part.
VORTEX_EXPORT int vtx_striped_part(const vtx_striped* striped, size_t part, uint64_t* units,
                                   int* left_out);
VORTEX_EXPORT void vtx_striped_close(vtx_striped* striped);
// The weights for `disks` disks of these speeds and this free space (the largest number: unknown):
// in proportion to the speeds, but none gets more of `total_bytes` than fits on it. -ENOSPC where
// all together are too small. total_bytes 0: only full disks matter.
VORTEX_EXPORT int vtx_stripe_weights(const double* bytes_per_second, const uint64_t* free_bytes,
                                     size_t disks, uint64_t total_bytes, double* weights);

#ifdef __cplusplus
}
#endif

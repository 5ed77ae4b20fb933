// Arrays in C behind which files, functions, pipes and other threads are.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vortex/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Arrays to read ----------------------------------------------------------------------------

// Data to read as one array: a file, what a function computes, the end of a pipe, a sorter's
// result.
typedef struct vtx_input vtx_input;

// How blocks go between a file and memory.
typedef enum vtx_caching {
  VTX_CACHING_AUTO = 0,  // reading: through the page cache what it holds; writing: around it
  VTX_CACHING_DIRECT,    // around the page cache, where the file system allows that
  VTX_CACHING_BUFFERED   // through the page cache
} vtx_caching;

// Options of a file to read. See FileReaderOptions in file_reader.h.
typedef struct vtx_file_options {
  vtx_pool* pool;          // NULL: one of its own, of about the size needed
  vtx_disk* disk;          // NULL: one of its own
  const char* name;        // for messages; NULL: the path
  size_t memory_bytes;     // for blocks, without a pool; 0: no more than the others need
  size_t block_bytes;      // without a pool; 0: 1 MiB, forward 2 MiB; less for small files
  size_t comeback_blocks;  // how far the reader may go back where it reads forward only; 0: 1
  size_t read_ahead;       // requests beyond the block in use; 0: 4
  size_t request_bytes;    // 0: a block, or several small ones
  size_t cursors;          // walks through the file that have read-ahead of their own; 0: 1
  int forward;             // 1: a touch behind the window is an error instead of read again
  int caching;             // a vtx_caching
  // Address space for data of unknown length, the most that can be read of them; 0: 1 TiB. Halved,
  // down to 1 GiB, where the system refuses: the largest number is as much as can be had.
  uint64_t unknown_length_bytes;
} vtx_file_options;

// A file, in any order. What cannot be read again (a pipe, a socket, a file without a size) is read
// forward. Costs blocks_needed() blocks of the pool, see file_reader.h. -ENOENT and what else
// open(2) reports, -ENOMEM for memory and address space.
VORTEX_EXPORT int vtx_input_open(const char* path, const vtx_file_options* options,
                                 vtx_input** input);
// A descriptor, from where it stands to its end. It stays the caller's, and open until after the
// close.
VORTEX_EXPORT int vtx_input_open_descriptor(int descriptor, const vtx_file_options* options,
                                            vtx_input** input);

// Writes the bytes of the stream from `offset` on to `block` and returns how many: fewer than
// `block_bytes` mean that the data end there. A negative errno value, or more than `block_bytes`,
// is the stream's error. Runs inside a page fault of the reader: it must not touch the stream
// itself, nor take a lock that the reader may hold; it allocates only if the reader never faults
// inside malloc. It may read other streams, whose errors become this one's.
typedef int64_t (*vtx_fill_function)(void* context, void* block, size_t block_bytes,
                                     uint64_t offset);
// Takes the finished bytes of a stream from `offset` on; returns 0 or a negative errno value.
// Called in order, inside a page fault of the writer or inside vtx_output_finish(), under the same
// rules.
typedef int (*vtx_drain_function)(void* context, const void* block, size_t bytes, uint64_t offset);

// Options of a stream over a callback. See InputStreamOptions and OutputStreamOptions.
typedef struct vtx_stream_options {
  const char* name;        // for messages; NULL: "input" or "output"
  vtx_pool* pool;          // it takes comeback_blocks + 1 blocks; NULL: a pool of its own
  size_t block_bytes;      // without a pool; 0: 2 MiB
  size_t comeback_blocks;  // how far the user may go back; 0: 1
  size_t stale_blocks;     // on a pool of aliases: see StaleBlocks in block_pool.h
  uint64_t length_bytes;   // of an input, where it is known; 0: the function tells the end
  // Address space; 0: for an input its length, for one without and for an output 1 TiB. Halved down
  // to least_reserve_bytes where the system refuses; 0: the length, else 1 GiB.
  uint64_t reserve_bytes;
  uint64_t least_reserve_bytes;
  int unspecified_gaps;  // of an output, 1: bytes left out hold anything, instead of zeros
} vtx_stream_options;

// The bytes that `fill` computes, read forward: a block at a time, as it is touched.
VORTEX_EXPORT int vtx_input_from_callback(vtx_fill_function fill, void* context,
                                          const vtx_stream_options* options, vtx_input** input);

// The array. Reading it waits for the data inside page faults. After the last byte come zeros to
// the end of its page, and a page more; beyond that a touch is an error.
VORTEX_EXPORT const void* vtx_input_data(const vtx_input* input);
// -EAGAIN while only the end of the data would tell.
VORTEX_EXPORT int vtx_input_length(const vtx_input* input, uint64_t* bytes);
// For the reading end of a pipe: waits until the writer has said how much there is, or has given
// up. The writer gets no further than its window beyond what was read: do not wait for one that
// waits for you. For other inputs the same as vtx_input_length().
VORTEX_EXPORT int vtx_input_wait_length(vtx_input* input, uint64_t* bytes);
// Up to which byte the array can be read, once the one at `offset` is there; waits for that. The
// length, where it is known, and otherwise the end of the block: with every call more, until it is
// no more than `offset`, where the data have ended. Returns the stream's error.
VORTEX_EXPORT int vtx_input_readable(vtx_input* input, uint64_t offset, uint64_t* end);
// Places [offset, offset + bytes) for system calls. -EINVAL where that is more than the window or
// behind it, -ERANGE beyond the end, and the stream's error. Not inside a fault.
VORTEX_EXPORT int vtx_input_prefault(vtx_input* input, uint64_t offset, size_t bytes);
// Where disks and buffers that are registered with the kernel reach the byte at `at` of the array,
// whatever becomes of the window: see InputStreamBase::home_of(). NULL where no block is placed.
// Not inside a fault.
VORTEX_EXPORT const void* vtx_input_home(vtx_input* input, const void* at);
// For a file that is read in any order: begins to read what is not there of [offset, offset +
// bytes), as far as blocks that were touched long ago give memory for it, and does not wait. For
// those who know where they will go next. Does nothing for other inputs.
VORTEX_EXPORT int vtx_input_will_need(vtx_input* input, uint64_t offset, uint64_t bytes);
// The requests that read a file, or those that write it.
typedef struct vtx_transfer_counts {
  uint64_t requests;
  uint64_t cached_requests;  // of those, through the page cache
  uint64_t bytes;
  uint64_t waits;  // for a block that was not there yet, or whose room was being written
  uint64_t waited_ns;
} vtx_transfer_counts;
typedef struct vtx_any_order_counts {
  uint64_t cursors;       // walks noticed
  uint64_t reread_bytes;  // read once more, since the block had been dropped
  uint64_t drops;         // blocks dropped that had been touched
  uint64_t unused;        // blocks read ahead and dropped untouched
} vtx_any_order_counts;
// What a stream has done so far. Fields of what a stream does not do are 0 or NULL. Texts and the
// array of disks are valid until the next call for the same handle, and no longer than it.
typedef struct vtx_stream_counts {
  uint64_t faults;           // served
  uint64_t spurious_faults;  // of those, found placed: another thread was faster
  size_t pool_bytes;         // of a stream of a file
  const char* direct;        // "direct I/O", or why not
  const char* advice;  // where more than a quarter of the bytes was read again: a remedy; or empty
  vtx_transfer_counts read;
  vtx_transfer_counts written;
  vtx_any_order_counts any_order;
  const vtx_disk_counts* disks;
  size_t disk_count;
} vtx_stream_counts;
VORTEX_EXPORT int vtx_input_statistics(vtx_input* input, vtx_stream_counts* counts);
// The first error that a touch of the array met: 0 or a negative errno value.
VORTEX_EXPORT int vtx_input_failure(vtx_input* input);
// From any thread: who waits for data gets this errno value, of either sign, and this cause, as
// does every later touch of a block that is not there. 0: ECANCELED; NULL: a cause that says that.
VORTEX_EXPORT void vtx_input_cancel(vtx_input* input, int error, const char* cause);
// The function that is told of a touch that was not served. It runs on the thread that touched,
// inside the handler of its signal, where only async-signal-safe calls may be made. `error` is a
// negative errno value, `line` the line that stderr would have got, valid until the return.
typedef void (*vtx_failure_function)(void* context, int error, const char* line);
// For programs that must not end and that vtx_guarded() cannot leave: from now on a touch outside
// of vtx_guarded() that cannot be served finds zeros, `tell` is told, and the program goes on; what
// it stores there is lost. The zeros, in the last 16 places at most, stay until
// vtx_input_clear_filler(); after that touches fail, and are told, anew. Stream::fill_on_failure()
// says where the process ends nevertheless. `context` has to outlive the stream's touches; 100
// bytes are kept for each pair of function and context, for good. NULL: such touches end the
// process again. Both wait for the fault that is being served; -EFAULT in a forked child, -EDEADLK
// inside a fault of the same stream.
VORTEX_EXPORT int vtx_input_fill_on_failure(vtx_input* input, vtx_failure_function tell,
                                            void* context);
VORTEX_EXPORT int vtx_input_clear_filler(vtx_input* input);
VORTEX_EXPORT void vtx_input_close(vtx_input* input);

// ---- Arrays to write ---------------------------------------------------------------------------

// An array without an end, whose blocks flow away behind the writer: to a file, a function, a pipe.
typedef struct vtx_output vtx_output;

// Options of a file to make. See FileWriterOptions in file_writer.h.
typedef struct vtx_new_file_options {
  vtx_pool* pool;          // NULL: one of its own, of about the size needed
  vtx_disk* disk;          // NULL: one of its own
  const char* name;        // for messages; NULL: the path
  size_t block_bytes;      // without a pool; 0: 2 MiB, less where expected_bytes is small
  size_t comeback_blocks;  // how far the writer may go back; 0: 1
  size_t write_behind;     // requests under way; 0: 4
  size_t request_bytes;    // 0: a block, or several small ones
  int caching;             // a vtx_caching
  int sync;                // 1: vtx_output_finish() returns when the disk has all of it
  int keep_existing;       // 1: -EEXIST where there is a file of that name, instead of replacing it
  int unspecified_gaps;    // 1: bytes that are left out hold anything, instead of zeros
  uint64_t expected_bytes;  // space to set aside now, so that a full disk shows now; 0: none
  // Address space, the most that can be written; 0: 1 TiB. Halved down to least_reserve_bytes where
  // the system refuses; 0: not at all, of the default down to 1 GiB.
  uint64_t reserve_bytes;
  uint64_t least_reserve_bytes;
} vtx_new_file_options;

// A file that appears under `path` when vtx_output_finish() has succeeded, and not before.
VORTEX_EXPORT int vtx_output_create(const char* path, const vtx_new_file_options* options,
                                    vtx_output** output);
// A descriptor, in order and from where it stands. It stays the caller's, and open until after the
// close.
VORTEX_EXPORT int vtx_output_open_descriptor(int descriptor, const vtx_new_file_options* options,
                                             vtx_output** output);
// Finished blocks go to `drain`.
VORTEX_EXPORT int vtx_output_to_callback(vtx_drain_function drain, void* context,
                                         const vtx_stream_options* options, vtx_output** output);

// The array. Valid until the finish; writing it may wait inside page faults.
VORTEX_EXPORT void* vtx_output_data(vtx_output* output);
// The data end after `bytes`: hands over what is left and waits until it has arrived. Returns what
// failed first, -EALREADY on a second call.
VORTEX_EXPORT int vtx_output_finish(vtx_output* output, uint64_t bytes);
// As vtx_input_prefault().
VORTEX_EXPORT int vtx_output_prefault(vtx_output* output, uint64_t offset, size_t bytes);
// As vtx_input_home().
VORTEX_EXPORT const void* vtx_output_home(vtx_output* output, const void* at);
// As vtx_input_statistics(), vtx_input_failure() and vtx_input_cancel(). A reader of a pipe gets
// this error behind what was handed over, once this end is closed.
VORTEX_EXPORT int vtx_output_statistics(vtx_output* output, vtx_stream_counts* counts);
VORTEX_EXPORT int vtx_output_failure(vtx_output* output);
VORTEX_EXPORT void vtx_output_cancel(vtx_output* output, int error, const char* cause);
// As vtx_input_fill_on_failure().
VORTEX_EXPORT int vtx_output_fill_on_failure(vtx_output* output, vtx_failure_function tell,
                                             void* context);
VORTEX_EXPORT int vtx_output_clear_filler(vtx_output* output);
// Without a finish before it, no file appears, and the other end of a pipe gets an error.
VORTEX_EXPORT void vtx_output_close(vtx_output* output);

// ---- Two threads -------------------------------------------------------------------------------

// Options of a pipe. It takes N + L + M + 1 blocks, with N, L and M as its fields name them.
typedef struct vtx_pipe_options {
  const char* name;               // for messages; NULL: "pipeline"
  vtx_pool* pool;                 // NULL: one of its own
  size_t block_bytes;             // without a pool; 0: 2 MiB
  size_t read_ahead_blocks;       // N: how far the writer may be ahead; 0: 2
  size_t writer_comeback_blocks;  // L; 0: 1
  size_t reader_comeback_blocks;  // M; 0: 1
  size_t stale_blocks;            // on a pool of aliases: see StaleBlocks in block_pool.h; 0: 15
  uint64_t length_bytes;          // where it is known before the data are; 0: not known
  // Address space of each end where the length is not known; 0: 1 TiB. Halved, down to 1 GiB, where
  // the system refuses: the largest number is as much as can be had.
  uint64_t reserve_bytes;
  int pool_kind;  // a vtx_pool_kind, without a pool
  int zero_gaps;  // 1: bytes that the writer leaves out are zeros
  int exact;      // 1: no stale blocks: every touch behind a window is an error at once
} vtx_pipe_options;

// One thread writes `writer`, another reads the same bytes from `reader` while blocks of memory
// move from one to the other; nothing is copied. See pipeline.h. Each end is closed on its own. A
// reader that closes early gives the writer -EPIPE; a writer that closes without a finish gives the
// reader an error behind the blocks that were handed over.
VORTEX_EXPORT int vtx_pipe_create(const vtx_pipe_options* options, vtx_output** writer,
                                  vtx_input** reader);

// ---- Streams of your own -----------------------------------------------------------------------

// Reserved addresses whose faults a function of the program serves with blocks of a pool, in any
// order and by any rule: a cache, a table that is computed. See stream.h.
typedef struct vtx_stream vtx_stream;

typedef enum vtx_access {
  VTX_ACCESS_READ = 0,
  VTX_ACCESS_WRITE,
  VTX_ACCESS_UNKNOWN  // the processor or the engine does not tell
} vtx_access;

// Makes the byte at `offset` of the stream accessible, which no block is placed at: takes a block,
// or withdraws one, fills it at vtx_stream_home(), and places it. Returns 0 or a negative errno
// value, which is the stream's error. Runs inside a page fault, one at a time for a stream, under
// the rules of vtx_fill_function.
typedef int (*vtx_serve_function)(void* context, vtx_stream* stream, int access, uint64_t offset);

typedef struct vtx_own_stream_options {
  const char* name;              // for messages; NULL: "stream"
  vtx_pool* pool;                // NULL: one of its own
  size_t block_bytes;            // without a pool; 0: 2 MiB
  size_t blocks;                 // that it may hold at once, which are set aside for it; 0: 1
  uint64_t reserve_bytes;        // addresses, rounded up to whole blocks; 0: 1 TiB
  uint64_t least_reserve_bytes;  // halved down to this where the system refuses; 0: not at all
} vtx_own_stream_options;

VORTEX_EXPORT int vtx_stream_create(vtx_serve_function serve, void* context,
                                    const vtx_own_stream_options* options, vtx_stream** stream);
VORTEX_EXPORT void* vtx_stream_data(const vtx_stream* stream);
VORTEX_EXPORT uint64_t vtx_stream_reserved_bytes(const vtx_stream* stream);
VORTEX_EXPORT size_t vtx_stream_block_bytes(const vtx_stream* stream);

// The calls for a vtx_serve_function, and only inside it. They leave vtx_strerror() as it is, take
// no memory, and return -EINVAL for a block that the stream does not hold.
//
// A block that rests, with contents that are unspecified. -EAGAIN where the stream holds as many as
// it may.
VORTEX_EXPORT int vtx_stream_take(vtx_stream* stream, uint32_t* block);
// Where a block that rests is read and written; NULL for one that does not.
VORTEX_EXPORT void* vtx_stream_home(vtx_stream* stream, uint32_t block);
// Takes a block that rests to the part of the stream that `offset` lies in; a part is as long as a
// block. -EEXIST where one is placed there, -ERANGE beyond the stream.
VORTEX_EXPORT int vtx_stream_place(vtx_stream* stream, uint32_t block, uint64_t offset);
// Takes a block home, with its contents; touches of where it was fault again.
VORTEX_EXPORT int vtx_stream_withdraw(vtx_stream* stream, uint32_t block);
// The pool's again. -EBUSY for a block that is placed.
VORTEX_EXPORT int vtx_stream_give_back(vtx_stream* stream, uint32_t block);

// As vtx_input_statistics(), of whose fields only the faults are told, vtx_input_failure() and
// vtx_input_cancel().
VORTEX_EXPORT int vtx_stream_statistics(vtx_stream* stream, vtx_stream_counts* counts);
VORTEX_EXPORT int vtx_stream_failure(vtx_stream* stream);
VORTEX_EXPORT void vtx_stream_cancel(vtx_stream* stream, int error, const char* cause);
// All blocks are the pool's again.
VORTEX_EXPORT void vtx_stream_close(vtx_stream* stream);

#ifdef __cplusplus
}
#endif

// The library for C, and for languages that call C: streams, files and sorts behind opaque handles.
//
//   vtx_input* numbers;
//   if (vtx_input_open("numbers", NULL, &numbers) != 0) return puts(vtx_strerror(NULL));
//   const uint64_t* data = vtx_input_data(numbers);  // the whole file, whatever its size
//
// The contract, which the calls below do not repeat:
//
// - It is C11, it is part of the library `vortex`, and its symbols have the version VORTEX_C_0.1.
//   While the major version is 0, a minor version may break it, and the soname says so.
// - Calls that can fail return 0 or a negative errno value (-ENOMEM where an allocation fails), and
//   write results only when they return 0. vtx_strerror() has the whole text.
// - No C++ exception leaves a call. Callbacks must not throw any.
// - A handle comes from a call that makes one and is given back by the close call of its type. That
//   takes NULL as well, and waits for what is still under way.
// - Strings end with NUL. What a call is given (paths, options, keys) is copied. A pool may be
//   closed before the handles that use it; callbacks and their contexts must stay as long as their
//   handle.
// - Options may be NULL, and each field of them may be 0: that is the default, which its comment
//   names. Clear the struct first, as `vtx_file_options options = {0};` does.
// - Counts are bytes unless a name says records or blocks. Flags are int: 0 or 1.
// - Numbers that are too large for what they mean are -EINVAL, and so is the largest number of its
//   type, unless a comment says that it stands for as much as can be had. Numbers within the
//   limits, and bytes of pools and blocks, that ask for more than the system has are -ENOMEM, for a
//   file -ENOSPC or -EFBIG. The ranges of flush and will_need calls may go beyond the end.
// - NULL is -EINVAL where something is to be read or written there: a name, an array whose count
//   is not 0, the place for a result. Of arrays with a count of 0 the pointer is not looked at.
// - One thread at a time uses a handle, except where a call says otherwise; different handles are
//   independent. The memory behind a pointer may be touched by several threads as the C++ headers
//   say: input_stream.h, output_stream.h, file_reader.h.
// - Touching that memory raises SIGSEGV, which the library serves. A touch that it cannot serve (an
//   I/O error, a place outside the window) ends the process with a line that says why, unless it
//   happens in vtx_guarded().
// - A touch is served on the stack of the thread; in a thread with an alternate signal stack
//   (sigaltstack(2)) on a stack of the library's as large as a thread's, callbacks included. So
//   goroutines may touch streams, as may threads whose stacks are small once they have one of 16
//   KiB. Callbacks must be functions of C or the like, which no other language's runtime has to
//   know of. docs/limits.md, "Small stacks, and other languages", has the rules for each.
// - System calls do not fault: read(2), write(2) and the like need vtx_input_prefault() or
//   vtx_output_prefault() first.
// - A forked child must not use the handles of its parent, except that it may close them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vortex/detail/stream/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Version and errors ------------------------------------------------------------------------

// The version of the library that the program runs with: "0.1.0". version.h has that of the header.
VORTEX_EXPORT const char* vtx_version(void);

// The text of the last error of a handle of any type: one line that names the operation, the
// object, the limit that was hit and, where there is one, the way out. For NULL, the last error
// that this thread got from calls that make handles, and from those that have none. Empty where
// there was no error. Valid until the next error there, and no longer than the handle.
VORTEX_EXPORT const char* vtx_strerror(const void* handle);

// Runs body(context). When a touch of a stream's memory cannot be served, control leaves the body
// there, for good, and the stream's error is returned; the text is that of vtx_strerror(NULL).
// Scopes nest, and the innermost takes the error. What the body has allocated or locked by then
// stays so.
//
// Control leaves C functions only: a callback of this interface is a scope of its own, and a call
// of this interface inside the body is none that control leaves. A touch inside such a call (a sort
// of stream memory) that cannot be served ends the process. In a body in C++, destructors do not
// run. Costs some 20 ns, and no system call.
VORTEX_EXPORT int vtx_guarded(void (*body)(void* context), void* context);

// ---- Faults ------------------------------------------------------------------------------------

// How touches reach the library: see fault_dispatcher.h.
typedef enum vtx_engine {
  VTX_ENGINE_DEFAULT = 0,  // what the environment's VORTEX_ENGINE says, or by signal
  VTX_ENGINE_SIGNAL,       // SIGSEGV, on the thread that touched
  VTX_ENGINE_USERFAULTFD   // threads of the library; Linux 6.8, with permission
} vtx_engine;

// Decides the engine, a vtx_engine, before the first pool or stream does with the default. -EBUSY
// where another one is in use; -ENOSYS, -EPERM or -ENOTSUP where this one cannot be, and the text
// says what to set.
VORTEX_EXPORT int vtx_receive_faults(int engine);
// For a program in which something has begun to handle SIGSEGV after the library's first stream
// (Python's faulthandler.enable(), Go's signal.Notify() of SIGSEGV, a plug-in with a runtime of its
// own): puts the library in front again. That handler gets the faults that are not the library's.
// Does nothing where no other is in front. -EBUSY where it is libsigsegv's.
VORTEX_EXPORT int vtx_reclaim_faults(void);

// ---- Memory ------------------------------------------------------------------------------------

// Blocks of memory that streams share: all that they will ever take. See block_pool.h.
typedef struct vtx_pool vtx_pool;

// `pool_bytes` is rounded down to whole blocks. `block_bytes` is a multiple of the page, from 16
// KiB to 64 MiB; 0: 2 MiB. -EINVAL for sizes out of range, -ENOMEM where the system refuses.
VORTEX_EXPORT int vtx_pool_create(size_t pool_bytes, size_t block_bytes, vtx_pool** pool);
VORTEX_EXPORT size_t vtx_pool_block_bytes(const vtx_pool* pool);
// The memory goes when the last stream that uses it is closed.
VORTEX_EXPORT void vtx_pool_close(vtx_pool* pool);

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

// Options of a file to read.
typedef struct vtx_file_options {
  vtx_pool* pool;          // NULL: one of its own, of about the size needed
  size_t memory_bytes;     // for blocks, without a pool; 0: no more than the others need
  size_t block_bytes;      // without a pool; 0: 1 MiB, forward 2 MiB; less for small files
  size_t comeback_blocks;  // how far the reader may go back where it reads forward only; 0: 1
  size_t read_ahead;       // requests beyond the block in use; 0: 4
  size_t cursors;          // walks through the file that have read-ahead of their own; 0: 1
  int forward;             // 1: a touch behind the window is an error instead of read again
  int caching;             // a vtx_caching
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

// Options of a stream over a callback.
typedef struct vtx_stream_options {
  const char* name;        // for messages; NULL: "input" or "output"
  vtx_pool* pool;          // it takes comeback_blocks + 1 blocks; NULL: a pool of its own
  size_t block_bytes;      // without a pool; 0: 2 MiB
  size_t comeback_blocks;  // how far the user may go back; 0: 1
  uint64_t length_bytes;   // of an input, where it is known; 0: the function tells the end
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
// For a file that is read in any order: begins to read what is not there of [offset, offset +
// bytes), as far as blocks that were touched long ago give memory for it, and does not wait. For
// those who know where they will go next. Does nothing for other inputs.
VORTEX_EXPORT int vtx_input_will_need(vtx_input* input, uint64_t offset, uint64_t bytes);
// The first error that a touch of the array met: 0 or a negative errno value.
VORTEX_EXPORT int vtx_input_failure(vtx_input* input);
// From any thread: who waits for data gets this errno value, of either sign, and this cause, as
// does every later touch of a block that is not there. 0: ECANCELED; NULL: a cause that says that.
VORTEX_EXPORT void vtx_input_cancel(vtx_input* input, int error, const char* cause);
VORTEX_EXPORT void vtx_input_close(vtx_input* input);

// ---- Arrays to write ---------------------------------------------------------------------------

// An array without an end, whose blocks flow away behind the writer: to a file, a function, a pipe.
typedef struct vtx_output vtx_output;

// Options of a file to make.
typedef struct vtx_new_file_options {
  vtx_pool* pool;          // NULL: one of its own, of about the size needed
  size_t block_bytes;      // without a pool; 0: 2 MiB, less where expected_bytes is small
  size_t comeback_blocks;  // how far the writer may go back; 0: 1
  size_t write_behind;     // requests under way; 0: 4
  int caching;             // a vtx_caching
  int sync;                // 1: vtx_output_finish() returns when the disk has all of it
  int keep_existing;       // 1: -EEXIST where there is a file of that name, instead of replacing it
  int unspecified_gaps;    // 1: bytes that are left out hold anything, instead of zeros
  uint64_t expected_bytes;  // space to set aside now, so that a full disk shows now; 0: none
  uint64_t reserve_bytes;   // address space, the most that can be written; 0: 1 TiB
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
// As vtx_input_failure().
VORTEX_EXPORT int vtx_output_failure(vtx_output* output);
// As vtx_input_cancel().
VORTEX_EXPORT void vtx_output_cancel(vtx_output* output, int error, const char* cause);
// Without a finish before it, no file appears, and the other end of a pipe gets an error.
VORTEX_EXPORT void vtx_output_close(vtx_output* output);

// ---- Files that are changed in place -----------------------------------------------------------

// A file as an array that is read and changed anywhere, in any order, in a fixed memory.
typedef struct vtx_array vtx_array;

typedef struct vtx_array_options {
  size_t memory_bytes;     // for blocks, without a pool; 0: no more than the others need
  vtx_pool* pool;          // NULL: one of its own
  size_t block_bytes;      // without a pool; 0: 1 MiB, less for small files and little memory
  size_t comeback_blocks;  // M: the last M + 1 blocks touched stay, at least 4; 0: 1
  size_t read_ahead;       // requests that a walk reads ahead; 0: 4
  size_t cursors;          // how many walks have memory to read ahead; 0: 1
  size_t write_behind;     // requests to write that have memory; 0: 4
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
// Writes what was changed in [offset, offset + bytes), and waits; with `sync` until the disk has it
// for good. What could not be written stays in memory, and the next call tries again.
VORTEX_EXPORT int vtx_array_flush(vtx_array* array, uint64_t offset, uint64_t bytes, int sync);
// Places [offset, offset + bytes) for system calls that read it, or write to it (`to_write`). As
// vtx_input_prefault().
VORTEX_EXPORT int vtx_array_prefault(vtx_array* array, uint64_t offset, size_t bytes, int to_write);
// As vtx_input_will_need().
VORTEX_EXPORT int vtx_array_will_need(vtx_array* array, uint64_t offset, uint64_t bytes);
// As vtx_input_failure().
VORTEX_EXPORT int vtx_array_failure(vtx_array* array);
// As vtx_input_cancel().
VORTEX_EXPORT void vtx_array_cancel(vtx_array* array, int error, const char* cause);
// Writes what was changed, and does not sync. What cannot be written is lost, with a line on
// stderr: vtx_array_flush() tells of it in time.
VORTEX_EXPORT void vtx_array_close(vtx_array* array);

// ---- Two threads -------------------------------------------------------------------------------

// Options of a pipe. It takes N + L + M + 1 blocks, with N, L and M as its fields name them.
typedef struct vtx_pipe_options {
  const char* name;               // for messages; NULL: "pipeline"
  vtx_pool* pool;                 // NULL: one of its own
  size_t block_bytes;             // without a pool; 0: 2 MiB
  size_t read_ahead_blocks;       // N: how far the writer may be ahead; 0: 2
  size_t writer_comeback_blocks;  // L; 0: 1
  size_t reader_comeback_blocks;  // M; 0: 1
  uint64_t length_bytes;          // where it is known before the data are; 0: not known
  int in_place;                   // 1: Handover::kInPlace of pipeline.h, faster, forgives more
  int zero_gaps;                  // 1: bytes that the writer leaves out are zeros
} vtx_pipe_options;

// One thread writes `writer`, another reads the same bytes from `reader` while blocks of memory
// move from one to the other; nothing is copied. See pipeline.h. Each end is closed on its own. A
// reader that closes early gives the writer -EPIPE; a writer that closes without a finish gives the
// reader an error behind the blocks that were handed over.
VORTEX_EXPORT int vtx_pipe_create(const vtx_pipe_options* options, vtx_output** writer,
                                  vtx_input** reader);

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

// Integers and floating-point numbers of so many bits, in the order of vtx_sort_u64() and so on.
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

// ---- Sorting more than memory holds ------------------------------------------------------------

// Stops sorts from another thread.
typedef struct vtx_stop vtx_stop;
VORTEX_EXPORT int vtx_stop_create(vtx_stop** stop);
// Every sort that was given it ends with -ECANCELED soon. From any thread, but not from a handler
// of a signal.
VORTEX_EXPORT void vtx_stop_request(vtx_stop* stop);
// Sorts that were given it go on.
VORTEX_EXPORT void vtx_stop_close(vtx_stop* stop);

// Memory that several sorts of the process share. A sort takes its part before it allocates
// anything, waits for it while too little is free, and gives it back when it ends, a sorter when it
// is closed. See memory_budget.h. A budget of the largest number never makes anybody wait.
typedef struct vtx_budget vtx_budget;
VORTEX_EXPORT int vtx_budget_create(uint64_t bytes, vtx_budget** budget);
// In no part, at this moment. From any thread.
VORTEX_EXPORT uint64_t vtx_budget_free_bytes(const vtx_budget* budget);
// Sorts that were given it go on sharing it.
VORTEX_EXPORT void vtx_budget_close(vtx_budget* budget);

typedef enum vtx_sort_phase {
  VTX_SORT_READING = 0,  // reading the input, sorting parts of it
  VTX_SORT_MERGING,      // merging runs to longer ones
  VTX_SORT_WRITING       // writing the output
} vtx_sort_phase;

typedef struct vtx_sort_progress {
  vtx_sort_phase phase;
  uint64_t bytes;        // dealt with in this phase
  uint64_t phase_bytes;  // in all; 0: not known
} vtx_sort_progress;

// Returns 0, or a negative errno value to end the sort with. Called about once a megabyte by the
// thread that pushes or has called the sort; for a sorter's result by a thread of the sorter.
typedef int (*vtx_progress_function)(void* context, const vtx_sort_progress* progress);

typedef struct vtx_sort_resources {
  uint64_t memory_bytes;        // at most 64 TiB; 0: half of what is free, and no more than 1 GiB
  const char* const* folders;   // where runs are kept, a disk each
  size_t folder_count;          // 0: the folder of the output, for sorters $TMPDIR or /tmp
  const double* folder_speeds;  // shares of the folders, in any unit; NULL: equal
  size_t block_bytes;           // 0: what suits the memory
  int caching;                  // a vtx_caching
  unsigned threads;             // beside those of the disks, the caller's included, at most 4096;
                                // 0: one for each usable core
  vtx_progress_function progress;
  void* progress_context;
  vtx_stop* stop;  // may be closed as soon as the sort has begun
  // As may this. The sort takes what is free of it, at most memory_bytes, and waits for at least
  // least_memory_bytes; 0: a quarter of the most. -EDEADLK where it waits for what sorters hold
  // that the calling thread pushes to: call vtx_sorter_sort() first.
  vtx_budget* budget;
  uint64_t least_memory_bytes;
} vtx_sort_resources;

typedef struct vtx_file_sort {
  const char* const* inputs;  // of equal records, those of an earlier input come first; "-" is
  size_t input_count;         // standard input
  const char* output;         // "-" is standard output. May be one of the inputs
  int unique;                 // 1: only the first of records with equal keys is written
  int merge;                  // 1: every input is sorted already
} vtx_file_sort;

typedef struct vtx_sort_report {
  uint64_t records_in;
  uint64_t records_out;
  uint64_t runs;           // 0: everything fitted in memory
  unsigned merges;         // the last one included
  unsigned passes;         // merges of a record on its way, at most
  uint64_t run_bytes;      // written to the folders in all
  uint64_t read_bytes;     // by the disks: inputs and runs
  uint64_t written_bytes;  // runs and output
  double seconds;
  double cpu_seconds;  // of all threads of the process meanwhile
} vtx_sort_report;

// Sorts the records of files into a file; stable, within memory_bytes. `report` may be NULL. The
// output appears when it is complete and synced; a sort that ends before leaves nothing behind.
// Blocks. -EINVAL (a length that is no multiple of the record's, wrong options), -ENOMEM (too
// little memory, with the least that would do), -ENOSPC, -ECANCELED, -EBUSY (an input has changed),
// and what the disks report. See external_sort.h.
VORTEX_EXPORT int vtx_sort_files(const vtx_file_sort* files, const vtx_record_format* format,
                                 const vtx_sort_resources* resources, vtx_sort_report* report);

// Where lines end, and what they are compared as: as sort(1) has it, see line_key.h. Zeros are the
// bytes of whole lines that end with a newline.
typedef struct vtx_line_format {
  // "2,2n" or "1r", as behind -k of sort(1), the first counting most; of CSV, "2n": a column.
  const char* const* keys;
  size_t key_count;       // 0: the whole line
  const char* letters;    // of sort(1), for all keys that have none of their own; NULL: none
  const char* locale;     // as setlocale() takes it; NULL: "C"
  const char* separator;  // of fields, one byte; NULL: blanks, which belong to the field behind
                          // them, in CSV a comma
  int csv;                // 1: records of CSV (RFC 4180)
  int zero_terminated;    // 1: lines end with NUL
  int stable;             // 1: lines with equal keys keep their order; else the lines decide
  uint64_t header_lines;  // of each input; those of the first one stay on top
} vtx_line_format;

// Sorts the lines of files into a file, within memory_bytes; `format` may be NULL, and `report`.
// The output appears as that of vtx_sort_files() does. Blocks. -EINVAL (what is no key, wrong
// options), -ENOENT (an input, or a locale, that is not there), -ENOMEM (too little memory),
// -EMSGSIZE (for a line), -ENOSPC, -ECANCELED, and what the disks report. See line_sort.h.
VORTEX_EXPORT int vtx_sort_lines(const vtx_file_sort* files, const vtx_line_format* format,
                                 const vtx_sort_resources* resources, vtx_sort_report* report);

// An external sort without files of its own: push records, then read them in order. See sorter.h.
typedef struct vtx_sorter vtx_sorter;

VORTEX_EXPORT int vtx_sorter_create(const vtx_record_format* format,
                                    const vtx_sort_resources* resources, vtx_sorter** sorter);
// Copies `count` records; many at a time are faster. They may lie in a stream's array, whose error
// is returned then. Blocks while the memory is full. -EINVAL after the sort, -ECANCELED, and what
// disks report. After an error a sorter can only be closed.
VORTEX_EXPORT int vtx_sorter_push(vtx_sorter* sorter, const void* records, size_t count);
// Records pushed.
VORTEX_EXPORT uint64_t vtx_sorter_size(const vtx_sorter* sorter);
// No more records come. The result is read from `*sorted`, forward, with one block of comeback; it
// belongs to the sorter, which closes it. Returns when that can begin, before everything is merged.
// An error of the merge is an error of that input.
VORTEX_EXPORT int vtx_sorter_sort(vtx_sorter* sorter, vtx_input** sorted);
// Ends a merge that is under way.
VORTEX_EXPORT void vtx_sorter_close(vtx_sorter* sorter);

#ifdef __cplusplus
}
#endif

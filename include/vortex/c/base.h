// What all calls in C share: errors, faults, memory, disks.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define VORTEX_FOR_C
#include "vortex/version.h"
#undef VORTEX_FOR_C

#ifdef __cplusplus
extern "C" {
#endif

// ---- Version and errors ------------------------------------------------------------------------

// The version of the library that the program runs with: "0.1.0". version.h has that of the header.
VORTEX_EXPORT const char* vtx_version(void);

// The text of the last error of a handle of any type: one line that names the operation, the
// object, the limit that was hit and, where there is one, the way out. For NULL, the last error
// that this thread got from calls that make handles and from those that have none; but
// vtx_striped_write(), vtx_striped_read() and vtx_sorter_sort() leave it with the handle that they
// are given. Empty where there was no error. Valid until the next error there, and no longer than
// the handle.
VORTEX_EXPORT const char* vtx_strerror(const void* handle);

// Runs body(context). When a touch of a stream's memory cannot be served, control leaves the body
// there, for good, and the stream's error is returned; the text is that of vtx_strerror(NULL).
// Scopes nest, and the innermost takes the error. What the body has allocated or locked by then
// stays so.
//
// Control leaves C functions only: a callback of this interface, but vtx_length_function, is a
// scope of its own, and a call of this interface inside the body is none that control leaves. A
// touch inside such a call (a sort of stream memory) that cannot be served ends the process. In a
// body in C++, destructors do not run. Costs some 20 ns, and no system call.
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

// Puts the handler that was there before the library back. -EBUSY while streams or, with
// VTX_ENGINE_USERFAULTFD, pools live, and where something has begun to handle SIGSEGV since.
VORTEX_EXPORT int vtx_release_faults(void);

typedef struct vtx_fault_counts {
  uint64_t served;     // of streams
  uint64_t failed;     // of streams, that ended in an error
  uint64_t forwarded;  // of others, that went to an earlier handler
} vtx_fault_counts;
// Counts of the process, since its start. -EINVAL where `counts` is NULL.
VORTEX_EXPORT int vtx_fault_statistics(vtx_fault_counts* counts);

// ---- Memory ------------------------------------------------------------------------------------

// Blocks of memory that streams share: all that they will ever take. See block_pool.h.
typedef struct vtx_pool vtx_pool;

typedef enum vtx_warming {
  VTX_WARMING_BACKGROUND = 0,  // a thread populates blocks while the first ones are in use
  VTX_WARMING_EAGER,           // vtx_pool_create() populates all of them
  VTX_WARMING_ON_DEMAND        // each when it is first taken
} vtx_warming;

// How a block comes to lie where it is needed: see PoolKind in block_pool.h.
typedef enum vtx_pool_kind {
  VTX_POOL_DEFAULT = 0,  // of a pool VTX_POOL_ONE_THREAD, of a pipe VTX_POOL_THREADS
  VTX_POOL_ONE_THREAD,   // the best kind for blocks that one thread uses
  VTX_POOL_THREADS,      // the best kind for blocks that threads pass to each other
  VTX_POOL_MOVES,        // moves, or an error
  VTX_POOL_ALIASES       // aliases, or an error
} vtx_pool_kind;

typedef struct vtx_pool_options {
  size_t pool_bytes;   // the hard limit, rounded down to whole blocks
  size_t block_bytes;  // a multiple of the page, from 16 KiB to 64 MiB; 0: 2 MiB, or the least
                       // multiple of it with which the pool fits vm.max_map_count
  const char* name;    // for messages; NULL: "pool"
  int warming;         // a vtx_warming
  int kind;            // a vtx_pool_kind
  int no_huge_pages;   // 1: transparent huge pages are not asked for
  int in_core_dumps;   // 1: core dumps have the blocks
  int checked_homes;   // 1: mistakes with vtx_stream_home() are crashes, see block_pool.h
  size_t most_placed;  // blocks that will be placed at once, for the limit of maps; 0: all
} vtx_pool_options;

// -EINVAL for sizes out of range, -ENOMEM where the system refuses, and what the kernel says where
// it lacks the kind. Blocks only with VTX_WARMING_EAGER.
VORTEX_EXPORT int vtx_pool_create(const vtx_pool_options* options, vtx_pool** pool);
VORTEX_EXPORT size_t vtx_pool_block_bytes(const vtx_pool* pool);

typedef struct vtx_pool_counts {
  size_t blocks_in_use;  // those lost and those retired as well
  size_t blocks_lost;    // that the kernel refused to move
  size_t blocks_retired;
  size_t peak_blocks_in_use;
  size_t blocks_guaranteed;  // to streams
  size_t blocks_populated;   // that have memory behind them
  uint64_t placements;
  uint64_t withdrawals;
} vtx_pool_counts;
// From any thread.
VORTEX_EXPORT int vtx_pool_statistics(const vtx_pool* pool, vtx_pool_counts* counts);
// Blocks until every block is populated, or returns the first error, -ENOMEM.
VORTEX_EXPORT int vtx_pool_wait_until_warm(vtx_pool* pool);
// Gives the memory of up to `blocks` blocks that nobody holds or is guaranteed back to the system
// for good; `*retired` are given back, which is fewer where fewer are free.
VORTEX_EXPORT int vtx_pool_retire(vtx_pool* pool, size_t blocks, size_t* retired);
// The memory goes when the last stream that uses it is closed.
VORTEX_EXPORT void vtx_pool_close(vtx_pool* pool);

typedef struct vtx_memory_counts {
  size_t resident_bytes;       // a page counts as often as it is mapped
  size_t peak_resident_bytes;  // since the start
  size_t page_table_bytes;
} vtx_memory_counts;
// The memory of the process, as the kernel counts it. Reads /proc.
VORTEX_EXPORT int vtx_process_memory(vtx_memory_counts* counts);

// ---- Disks -------------------------------------------------------------------------------------

// A queue of requests to files, for programs that choose its backend and depth or share one between
// streams; streams make their own where they are given none. See disk.h.
typedef struct vtx_disk vtx_disk;

typedef enum vtx_disk_backend {
  VTX_DISK_BEST = 0,  // io_uring, or threads where that is refused
  VTX_DISK_URING,
  VTX_DISK_THREADS
} vtx_disk_backend;

typedef struct vtx_disk_options {
  const char* name;  // for messages; NULL: "disk"
  unsigned depth;    // requests issued at once, at most 4096; 0: what the backend does best with
  int backend;       // a vtx_disk_backend
} vtx_disk_options;

VORTEX_EXPORT int vtx_disk_open(const vtx_disk_options* options, vtx_disk** disk);
// The queue goes when the last stream that uses it is closed.
VORTEX_EXPORT void vtx_disk_close(vtx_disk* disk);

// What came of the requests of a disk.
typedef struct vtx_disk_counts {
  const char* backend;
  const char* fallback;      // why a better backend is not used; empty where the best is
  const char* registration;  // how the kernel knows the blocks' memory, or why it does not
  uint64_t reads;            // requests that ended
  uint64_t writes;
  uint64_t read_bytes;
  uint64_t written_bytes;
  uint64_t failures;        // requests that ended with an error
  uint64_t attempts;        // system calls or submissions
  uint64_t fixed_attempts;  // of those, with registered memory
  uint64_t retries;         // after EINTR or EAGAIN
  uint64_t short_transfers;
  uint64_t waits;  // for a request that was under way
  uint64_t waited_ns;
  unsigned peak_in_flight;
} vtx_disk_counts;

typedef struct vtx_disk_speed {
  double read;  // bytes a second, never 0
  double write;
  double copy;  // reading, while as many bytes are written
} vtx_disk_speed;

typedef struct vtx_disk_speed_options {
  uint64_t bytes;        // of each of two files, at most; 0: 256 MiB
  uint64_t most_ns;      // for each of writing, reading and copying; 0: half a second
  size_t request_bytes;  // a multiple of 4096; 0: 1 MiB
  unsigned depth;        // requests under way, of each kind, at most 4096; 0: 4
} vtx_disk_speed_options;

// Writes, reads and copies files without a name in `folder`, around the page cache where the file
// system can, and leaves nothing there. Blocks up to three times most_ns and the time of `depth`
// requests each; takes 2 * depth * request_bytes of memory. -ENOSPC, and what the folder or the
// disk reports.
VORTEX_EXPORT int vtx_measure_disk_speed(vtx_disk* disk, const char* folder,
                                         const vtx_disk_speed_options* options,
                                         vtx_disk_speed* speed);
// What each request costs beside the time for its bytes, in bytes that could have been moved
// meanwhile: near 0 where any place is as good as another, megabytes where an arm goes there.
VORTEX_EXPORT int vtx_measure_request_cost(vtx_disk* disk, const char* folder,
                                           const vtx_disk_speed_options* options, double* bytes);

#ifdef __cplusplus
}
#endif

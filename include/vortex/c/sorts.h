// Sorts in C of more than memory holds.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vortex/c/arrays.h"
#include "vortex/c/streams.h"

#ifdef __cplusplus
extern "C" {
#endif

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

// Fills in the options, which are all 0, of the disk of a folder for runs, or, for "", of the one
// for inputs and output. Returns 0, or a negative errno value to end the sort with. Called where
// the sort begins, by the thread that has called it.
typedef int (*vtx_disk_function)(void* context, const char* folder, vtx_disk_options* options);

// The order in which a merge fetches its blocks: see PrefetchKind in sort_resources.h.
typedef enum vtx_prefetch {
  VTX_PREFETCH_OPTIMAL = 0,
  VTX_PREFETCH_SRM,
  VTX_PREFETCH_SRM_ASYNCHRONOUS,
  VTX_PREFETCH_NAIVE,
  VTX_PREFETCH_STRIPED
} vtx_prefetch;

// What becomes of a file that the output replaces.
typedef enum vtx_in_place {
  VTX_IN_PLACE_NEVER = 0,     // a new file takes its name
  VTX_IN_PLACE_WHERE_NEEDED,  // its contents are replaced where no new file can take the name
  VTX_IN_PLACE_ALWAYS
} vtx_in_place;

// Whether runs are compressed, with LZ4.
typedef enum vtx_compression {
  VTX_COMPRESSION_AUTO = 0,  // where the disks are slower than compressing
  VTX_COMPRESSION_ALWAYS,
  VTX_COMPRESSION_NEVER
} vtx_compression;

// See SortResources in sort_resources.h.
typedef struct vtx_sort_resources {
  uint64_t first_records;       // how many come out, the first of the order; 0: all
  uint64_t memory_bytes;        // at most 64 TiB; 0: half of what is free, and no more than 1 GiB
  const char* const* folders;   // where runs are kept, a disk each
  size_t folder_count;          // 0: the folder of the output, for sorters $TMPDIR or /tmp
  const double* folder_speeds;  // shares of the folders, in any unit; NULL: equal
  size_t block_bytes;           // 0: what suits the memory
  // What each request costs a disk beside its bytes, see vtx_measure_request_cost(); 0: measured,
  // where files of 4 GiB or more are sorted; 1: every place of the disks is as good as any other.
  uint64_t request_cost_bytes;
  uint64_t seed;     // which run lies on which disk; 0: 1
  int caching;       // a vtx_caching
  int prefetch;      // a vtx_prefetch
  int backend;       // a vtx_disk_backend
  int compression;   // a vtx_compression
  int in_place;      // a vtx_in_place
  int no_sync;       // 1: the sort does not wait for the disk to have the output
  unsigned threads;  // beside those of the disks, the caller's included, at most 4096, and no more
                     // than there are usable cores; 0: that many
  vtx_progress_function progress;
  void* progress_context;
  vtx_disk_function disk;  // NULL: disks of the backend
  void* disk_context;
  vtx_stop* stop;  // may be closed as soon as the sort has begun
  // May be closed then, too. The sort takes what is free of it, at most memory_bytes, or
  // least_memory_bytes if these are more, and waits for at least the latter; 0: a quarter of the
  // most. -EDEADLK where it waits for memory of sorters to which the calling thread pushes: call
  // vtx_sorter_sort() first.
  vtx_budget* budget;
  uint64_t least_memory_bytes;
} vtx_sort_resources;

typedef struct vtx_file_sort {
  const char* const* inputs;  // of equal records, those of an earlier input come first; "-" is
  size_t input_count;         // standard input
  const char* output;         // "-" is standard output. May be one of the inputs
  const char* trace;          // a file for a trace of requests, faults and threads; NULL: none
  uint64_t most_pipe_bytes;   // address space for an input of records whose length is not known,
                              // -EFBIG beyond; 0: 16 TiB
  int unique;                 // 1: only the first of records with equal keys is written
  int merge;                  // 1: every input is sorted already
} vtx_file_sort;

// How disks and threads overlapped in a phase, in seconds.
typedef struct vtx_sort_overlap {
  double seconds;       // of the phase
  double disks;         // of those in which a disk had something to do
  double threads;       // in which a thread worked rather than waited
  double both;          // in which both was so
  double sum_of_disks;  // added up over all disks, over all threads
  double sum_of_threads;
} vtx_sort_overlap;

typedef struct vtx_sort_report {
  uint64_t records_in;  // without headers
  uint64_t records_out;
  uint64_t input_bytes;
  uint64_t output_bytes;
  uint64_t runs;       // 0: everything fitted in memory
  unsigned merges;     // the last one included
  unsigned passes;     // merges of a record on its way, at most
  uint64_t run_bytes;  // of records, written to the folders in all, beside the output
  // Written to each folder, in whole sectors or blocks; valid until the thread's next sort.
  const uint64_t* folder_bytes;
  size_t folder_count;
  uint64_t read_bytes;      // by the disks: inputs and runs
  uint64_t written_bytes;   // runs and output
  uint64_t least_io_bytes;  // that the disks have to move at least, reading and writing added up
  double cpu_seconds;       // of all threads of the process meanwhile
  double run_formation_seconds;
  double merge_seconds;  // until the output was complete and synced
  double seconds;
  vtx_sort_overlap overlap[3];  // of each vtx_sort_phase
  unsigned merge_parts;         // of the last merge, which threads wrote side by side
  // For lines.
  uint64_t invalid_records;   // of CSV, whose quotes are invalid
  uint64_t unclosed_records;  // of those, whose last quote is never closed
} vtx_sort_report;

// Sorts the records of files into a file; stable, within memory_bytes. `report` may be NULL. The
// output appears when it is complete and synced; a sort that ends before leaves nothing behind.
// Blocks. -EINVAL (a length that is no multiple of the record's, wrong options), -ENOMEM (too
// little memory, with the least that would do), -ENOSPC, -ECANCELED, -EBUSY (an input has changed),
// and what the disks report. See external_sort.h.
VORTEX_EXPORT int vtx_sort_files(const vtx_file_sort* files, const vtx_record_format* format,
                                 const vtx_sort_resources* resources, vtx_sort_report* report);

// The plan of vtx_sort_files() as text, several lines, valid until the thread's next plan. Opens
// the inputs and reads nothing of them.
VORTEX_EXPORT int vtx_plan_files(const vtx_file_sort* files, const vtx_record_format* format,
                                 const vtx_sort_resources* resources, const char** text);

// ---- Dividing files of records ------------------------------------------------------------------

typedef struct vtx_file_partition {
  const char* const* inputs;  // records of a part come in the order of these and of their places
  size_t input_count;         // there; "-" is standard input
  const char* prefix;  // the names of the parts have ".00000", ".00001" and so on behind it; with
                       // folders of the resources, among which they are dealt, it has none
  size_t parts;        // at most 32768, about equally long by a sample of the inputs, which must
                       // be files then; 0: one more than splitters
  const void* splitters;  // whole records in order: part i ends before those not less than splitter
  size_t splitter_bytes;  // i; 0: they are sampled
  uint64_t most_pipe_bytes;  // as for vtx_file_sort
  int divide_equal_keys;     // 1: records of a key may go to several parts, in their order
} vtx_file_partition;

typedef struct vtx_part_report {
  const char* path;
  uint64_t records;
  uint64_t bytes;
} vtx_part_report;

// Paths and the list are valid until the thread's next partition.
typedef struct vtx_partition_report {
  const vtx_part_report* parts;
  size_t part_count;
  uint64_t records;
  uint64_t bytes;
  uint64_t sampled_records;  // read before, to find splitters
  size_t block_bytes;        // of the memory, and of each request
  size_t pool_blocks;
  uint64_t read_bytes;  // by the disks
  uint64_t written_bytes;
  uint64_t faults;     // that were served
  double cpu_seconds;  // of all threads of the process meanwhile
  double seconds;
} vtx_partition_report;

// Divides the records of files into files by ranges of keys, in one pass, stable, within
// memory_bytes; `report` may be NULL. All parts appear together, when all are whole and synced; one
// that ends before leaves nothing behind, but for a kill between two names. Blocks. Errors are
// those of vtx_sort_files(). See external_sort.h.
VORTEX_EXPORT int vtx_partition_files(const vtx_file_partition* files,
                                      const vtx_record_format* format,
                                      const vtx_sort_resources* resources,
                                      vtx_partition_report* report);

// ---- Sorting records that are pushed ------------------------------------------------------------

// An external sort without files of its own: push records, then read them in order. See sorter.h.
typedef struct vtx_sorter vtx_sorter;

VORTEX_EXPORT int vtx_sorter_create(const vtx_record_format* format,
                                    const vtx_sort_resources* resources, vtx_sorter** sorter);
// Copies `count` records; many at a time are faster. They may lie in a stream's array, whose error
// is returned then. Blocks while the memory is full. -EINVAL after the sort, -ECANCELED, and what
// disks report. After an error a sorter can only be closed.
VORTEX_EXPORT int vtx_sorter_push(vtx_sorter* sorter, const void* records, size_t count);
// Records pushed; behind the sort, those in its result.
VORTEX_EXPORT uint64_t vtx_sorter_size(const vtx_sorter* sorter);
typedef struct vtx_run_counts {
  uint64_t runs;    // that were formed
  unsigned merges;  // the last one included, from its beginning on
  unsigned passes;  // merges of a record on its way, at most
  uint64_t bytes;   // written to the disks in all
} vtx_run_counts;
// So far.
VORTEX_EXPORT int vtx_sorter_statistics(const vtx_sorter* sorter, vtx_run_counts* counts);
// No more records come. The result is read from `*sorted`, forward, with one block of comeback; it
// belongs to the sorter, which closes it. Returns when that can begin, before everything is merged.
// An error of the merge is an error of that input.
VORTEX_EXPORT int vtx_sorter_sort(vtx_sorter* sorter, vtx_input** sorted);
// Ends a merge that is under way.
VORTEX_EXPORT void vtx_sorter_close(vtx_sorter* sorter);

// ---- Sorting lines ----------------------------------------------------------------------------

// Returns the length of the first record of `text`, 1 to `bytes`; 0: it may go on behind the text.
// With `ends` nothing follows, and 0 is an error in the data. The same text gives the same length.
// No guarded scope: a touch of a stream's memory in it that cannot be served ends the process.
typedef size_t (*vtx_length_function)(void* context, const char* text, size_t bytes, int ends);

// Writes the key of a line to `key`, which has `room` bytes, and returns its length; where that is
// more than `room`, it is called again with as much. Keys are compared as memcmp(3) does, one that
// is the beginning of another before it. A negative errno value ends the sort. One thread at a time
// calls it.
typedef int64_t (*vtx_line_key_function)(void* context, const char* text, size_t bytes, char* key,
                                         size_t room);

// Where lines end, and what they are compared as: as sort(1) has it, see line_sort.h. Zeros are the
// bytes of whole lines that end with a newline.
typedef struct vtx_line_format {
  // "2,2n" or "1r", as behind -k of sort(1), the first counting most; of CSV, "2n": a column.
  const char* const* keys;
  size_t key_count;         // 0: the whole line
  const char* letters;      // of sort(1), for all keys that have none of their own; NULL: none
  const char* locale;       // as setlocale() takes it; NULL: "C"
  const char* separator;    // of fields, one byte; NULL: blanks, which belong to the field behind
                            // them, in CSV a comma
  const char* random_seed;  // 16 bytes for the order R; NULL: zeros
  int csv;                  // 1: records of CSV (RFC 4180)
  int refuse_quotes;        // 1: invalid quotes of CSV are -EINVAL, with the place
  int zero_terminated;      // 1: lines end with NUL
  int length_prefixed;      // 1: a record stands behind its length, 4 bytes, little-endian
  vtx_length_function length;  // NULL; else records lie one behind the other, as long as it says
  void* length_context;
  vtx_line_key_function key;  // instead of keys in fields; NULL: `keys`
  void* key_context;
  int key_descending;     // 1: of that function's keys, the last is the first
  int stable;             // 1: lines with equal keys keep their order; else the lines decide
  int unique;             // 1: only the first of lines with equal keys is kept
  uint64_t header_lines;  // of each input; those of the first one stay on top
} vtx_line_format;

// Sorts the lines of files into a file, within memory_bytes; `format` may be NULL, and `report`.
// The output appears as that of vtx_sort_files() does. Blocks. -EINVAL (what is no key, wrong
// options), -ENOENT (an input, or a locale, that is not there), -ENOMEM (too little memory),
// -EMSGSIZE (for a line), -ENOSPC, -ECANCELED, and what the disks report. See line_sort.h.
VORTEX_EXPORT int vtx_sort_lines(const vtx_file_sort* files, const vtx_line_format* format,
                                 const vtx_sort_resources* resources, vtx_sort_report* report);

// As vtx_plan_files().
VORTEX_EXPORT int vtx_plan_lines(const vtx_file_sort* files, const vtx_line_format* format,
                                 const vtx_sort_resources* resources, const char** text);

// The first line of a file that is out of order. Texts are valid until the thread's next check.
typedef struct vtx_line_disorder {
  const char* input;
  uint64_t record;  // from 1 on, headers included; 0: all inputs are in order
  uint64_t offset;  // of its first byte in the file
  const char* text;
  size_t bytes;  // of the text, which may hold NULs and has one behind it
} vtx_line_disorder;
// Reads the inputs, each by itself, up to the first line that must not follow the one in front of
// it. `files->output` may be NULL. Returns errors as vtx_sort_lines() does.
VORTEX_EXPORT int vtx_check_lines(const vtx_file_sort* files, const vtx_line_format* format,
                                  const vtx_sort_resources* resources, vtx_line_disorder* disorder);

// A line in memory.
typedef struct vtx_line {
  const char* text;
  size_t bytes;
} vtx_line;
// Sorts `count` lines that stay where they are; with `unique`, the first `*kept` are those kept,
// and what is behind them is unspecified. Takes 16 bytes a line and, where there are keys, as much
// again and the keys. `kept` may be NULL, and `threads` is as in vtx_sort_options. -ENOMEM with
// nothing moved.
VORTEX_EXPORT int vtx_sort_lines_in_memory(vtx_line* lines, size_t count,
                                           const vtx_line_format* format, unsigned threads,
                                           size_t* kept);

// Lines that are pushed one by one, and read in order. See LineSorter in line_sort.h.
typedef struct vtx_line_sorter vtx_line_sorter;
VORTEX_EXPORT int vtx_line_sorter_create(const vtx_line_format* format,
                                         const vtx_sort_resources* resources,
                                         vtx_line_sorter** sorter);
// Copies the line. Blocks while the memory is full. -EMSGSIZE where it is too long for the memory,
// -EINVAL behind the first vtx_line_sorter_next(), and what disks report. After an error a sorter
// can only be closed.
VORTEX_EXPORT int vtx_line_sorter_push(vtx_line_sorter* sorter, const char* text, size_t bytes);
// Lines pushed.
VORTEX_EXPORT uint64_t vtx_line_sorter_size(const vtx_line_sorter* sorter);
// The next line, valid until the following call; `*text` is NULL behind the last. The first call
// sorts, and blocks.
VORTEX_EXPORT int vtx_line_sorter_next(vtx_line_sorter* sorter, const char** text, size_t* bytes);
VORTEX_EXPORT int vtx_line_sorter_statistics(const vtx_line_sorter* sorter, vtx_run_counts* counts);
VORTEX_EXPORT void vtx_line_sorter_close(vtx_line_sorter* sorter);

#ifdef __cplusplus
}
#endif

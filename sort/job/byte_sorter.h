// Records in, one by one; one sorted array out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "vortex/sort_resources.h"

namespace vortex::inline v0 {

class InputStreamBase;
class RecordOrder;
struct RunCounts;
struct SortPlan;

// An external sort without files of its own: records are pushed, sort() is called, and the sorted
// sequence is an array behind a plain pointer. Sorter and RecordSorter (include/vortex/sorter.h)
// are this with types that are convenient; here records are bytes, ordered by any RecordOrder.
//
// push() partitions records in memory; when that is full, they are sorted and written to the
// folders as a run, in files without a name. sort() merges until one merge is left. That one runs
// in a thread of the sorter while the array is read, at most a few blocks ahead of the reader; the
// room of the runs is given back as it goes. What fits in memory is never written. The sort is
// stable. Whatever happens, no file is left behind.
//
// The memory is one budget: the pool of blocks, the scratch, the buffer of push(), and what is kept
// of each block of a run: 72 bytes and a key, which is planned for 32 times the memory. What is
// longer takes that besides.
//
// One thread at a time, but for the reading of the array (see InputStream). Uses the SIGSEGV
// handler. After an exception it can only be destroyed; calls throw Error(ENOTRECOVERABLE).
class ByteSorter {
 public:
  // Allocates, and reserves address space; touches no disk. Throws Error: ENOMEM (too little
  // memory, with the least that would do), ENOTDIR and ENOENT for folders, EINVAL for the block
  // size.
  ByteSorter(const SortResources& resources, std::shared_ptr<const RecordOrder> order);
  // Ends a merge that is under way. The array must not be in use.
  ~ByteSorter();
  ByteSorter(const ByteSorter&) = delete;
  ByteSorter& operator=(const ByteSorter&) = delete;

  std::size_t record_bytes() const noexcept { return record_bytes_; }
  const SortPlan& plan() const noexcept;
  // Runs and merges so far; the last merge counts from its beginning.
  const RunCounts& counts() const noexcept;

  // Copies a record. Blocks while a run is written, each time the memory is full. Throws Error:
  // EINVAL after sort(), ECANCELED, and what the disks report (ENOSPC, EIO).
  void push(const std::byte* record) { std::memcpy(next(record_bytes_), record, record_bytes_); }
  // `count` records, one behind the other at any address, the array of a stream too; where that
  // fails, its error is thrown.
  void push(const std::byte* records, std::uint64_t count);

  // Records pushed, and records in the array.
  std::uint64_t size() const noexcept;

  // No more records come. Returns when the array can be read, which is before everything is merged.
  // Blocks; throws as push() does.
  void sort();

  // The array: size() records, then zeros to the end of the page. Valid while the sorter lives.
  // Reading waits inside page faults for the merge; a reader may go back one block, and jump
  // forward. What goes wrong then (EIO, ECANCELED, what the progress function throws) is a failure
  // of the stream: read inside guarded() to get it as an Error. Throws Error(EINVAL) before sort().
  const std::byte* bytes() const;
  // The stream behind it (include/vortex/input_stream.h): prefault(), failure(), cancel().
  InputStreamBase& stream() const;

 protected:
  // Where the next record, which is record_bytes() long, is to be put. Throws as push() does.
  std::byte* next(std::size_t record_bytes) {
    if (static_cast<std::size_t>(batch_end_ - batch_at_) < record_bytes) [[unlikely]]
      push_batch();
    return std::exchange(batch_at_, batch_at_ + record_bytes);
  }

 private:
  class Machine;

  // Hands over what was pushed one by one; then there is room for a record. Throws Error when
  // nothing can be pushed.
  void push_batch();

  const std::size_t record_bytes_;
  std::unique_ptr<Machine> machine_;
  // What is pushed one by one is gathered here first; no room where pushing is an error.
  std::byte* batch_at_ = nullptr;
  std::byte* batch_end_ = nullptr;
};

}  // namespace vortex::inline v0

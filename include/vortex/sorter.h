// Sorting more than memory holds: push records, then read them in order from one pointer.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "vortex/detail/merge/record_kernels.h"
#include "vortex/detail/stream/one_pass_iterator.h"
#include "vortex/record_order.h"
#include "vortex/sort_resources.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 {

class InputStreamBase;

// An external sort without files of its own: records are pushed, sort() is called, and the sorted
// sequence is an array behind a plain pointer. Sorter and RecordSorter are this with types that are
// convenient; here records are bytes, ordered by any RecordOrder.
//
// push() partitions records in memory; when the memory is full, they are sorted and written to the
// folders as a run, in files without a name, by a thread of the sorter while more records are
// pushed (SortResources::threads). sort() merges until one merge is left. That one runs in a thread
// of the sorter while the array is read, at most a few blocks ahead of the reader; the room of the
// runs is given back as it goes. Records that all fit in memory are never written. The sort is
// stable. Whatever happens, no file is left behind.
//
// The memory is one budget: the pool of blocks, the scratch, the buffer of push(), and the tables
// of the blocks of runs, which take 81 bytes and a key for each block. The budget has room for the
// tables of runs of 32 times the memory in all. The tables of longer data take memory besides.
//
// One thread at a time may use a sorter, but for the reading of the array (see InputStream). It
// uses the SIGSEGV handler. After an exception it can only be destroyed; calls throw
// Error(ENOTRECOVERABLE).
class VORTEX_EXPORT ByteSorter {
 public:
  // Allocates, and reserves address space; touches no disk. Blocks while its budget has too little
  // memory. Throws Error: ENOMEM (too little memory, with the least that would do), ENOTDIR and
  // ENOENT for folders, EINVAL for the block size and for no order; while it waits, ECANCELED, and
  // EDEADLK where it waits for what sorters of its own thread hold (see MemoryBudget).
  ByteSorter(const SortResources& resources, std::shared_ptr<const RecordOrder> order);
  // Ends a merge that is under way. The array must not be in use.
  ~ByteSorter();
  // One that was moved from can only be destroyed or assigned to.
  ByteSorter(ByteSorter&&) noexcept;
  ByteSorter& operator=(ByteSorter&&) noexcept;

  std::size_t record_bytes() const noexcept { return record_bytes_; }
  SortPlan plan() const;
  // Runs and merges so far; the last merge counts from its beginning.
  const RunCounts& counts() const noexcept;

  // Copies a record. Blocks while the memory is full. Throws Error:
  // EINVAL after sort(), ECANCELED, and what the disks report (ENOSPC, EIO).
  void push(const std::byte* record) { std::memcpy(next(record_bytes_), record, record_bytes_); }
  // `count` records, one behind the other at any address, the array of a stream too; where that
  // fails, its error is thrown.
  void push(const std::byte* records, std::uint64_t count);

  // Records pushed; behind sort(), records in the array, SortResources::first_records at most.
  std::uint64_t size() const noexcept;

  // No more records come. Returns when the array can be read, which is before everything is merged.
  // Blocks; throws as push() does.
  void sort();

  // The array: size() records, then zeros to the end of the page. Valid while the sorter lives.
  // Reading waits inside page faults for the merge; a reader may go back one block, and jump
  // forward. An error of the merge (EIO, ECANCELED, an exception of the progress function) is a
  // failure of the stream: read inside guarded() to get it as an Error. Throws Error(EINVAL) before
  // sort().
  const std::byte* bytes() const;
  // The stream behind it (input_stream.h): prefault(), failure(), cancel().
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

  std::size_t record_bytes_;
  std::unique_ptr<Machine> machine_;
  // The buffer that first gathers the records that are pushed one by one. It has no room where
  // pushing is an error.
  std::byte* batch_at_ = nullptr;
  std::byte* batch_end_ = nullptr;
};

// The external sort that STXXL calls a sorter, for records of type T. T is trivially copyable;
// `less(const T&, const T&)` is a strict weak order that must not throw. The thread that pushes
// calls `less`, and threads of the sorter do, several at a time (SortResources::threads), which
// sort_thread() (array_calls.h) numbers. Numbers need no `less`: they are sorted by their bits,
// which is faster and a total order, NaNs included (see RadixKey). ByKey does the same for records
// with a number for a key.
//
//   vortex::Sorter<Point, ByX> sorter({.memory_bytes = 256 << 20});
//   while (...) sorter.push(point);
//   sorter.sort();
//   for (const Point& point : sorter) use(point);
//
// ByteSorter tells which calls block, which errors they throw and which state they leave.
template <typename T, typename Less = std::less<T>>
class Sorter : private ByteSorter {
  using Base = ByteSorter;

 public:
  explicit Sorter(const SortResources& resources, Less less = {})
      : Base(resources, detail::order_of_type<T>(std::move(less))) {}

  using Base::counts;
  using Base::plan;
  using Base::size;
  using Base::sort;
  using Base::stream;

  void push(const T& record) { std::memcpy(Base::next(sizeof(T)), &record, sizeof(T)); }
  void push(std::span<const T> records) {
    Base::push(reinterpret_cast<const std::byte*>(records.data()), records.size());
  }

  // Every element of a range: a container, a view, what a coroutine yields.
  template <typename Range>
  requires std::convertible_to<decltype(*std::begin(std::declval<Range&>())), const T&>
  void push_range(Range&& range) {
    if constexpr (std::convertible_to<Range, std::span<const T>>) {
      push(std::span<const T>(range));
    } else {
      for (auto&& record : range) push(record);
    }
  }

  // The sorted array.
  const T* data() const { return reinterpret_cast<const T*>(Base::bytes()); }
  // The same as an input range, to be gone through once: std::vector v(sorter.begin(),
  // sorter.end()) and std::ranges::copy() read it in order. No contiguous range: std::copy() of
  // pointers is memcpy(3), which reads the end of a long array first, and so are loops that copy
  // from data(). Algorithms that want pointers and look no farther back than a block, as
  // std::is_sorted() does, get those of data().
  detail::ArrayOnceIterator<T> begin() const { return detail::ArrayOnceIterator<T>(data()); }
  detail::ArrayOnceIterator<T> end() const { return detail::ArrayOnceIterator<T>(data() + size()); }
};

// The same for records whose length and keys are known when the program runs.
class VORTEX_EXPORT RecordSorter : private ByteSorter {
  using Base = ByteSorter;

 public:
  RecordSorter(const SortResources& resources, RecordFormat format)
      : Base(resources, order_of_format(std::move(format))) {}

  using Base::counts;
  using Base::plan;
  using Base::record_bytes;
  using Base::size;
  using Base::sort;
  using Base::stream;

  // One record.
  void push(const std::byte* record) { Base::push(record); }
  // Whole records; Error(EINVAL) otherwise, and nothing is taken.
  void push(std::span<const std::byte> records);

  // The sorted array: record i begins at byte i * record_bytes().
  const std::byte* data() const { return Base::bytes(); }
};

}}  // namespace vortex::v0

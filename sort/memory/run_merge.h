// Sorted runs that lie one behind the other, merged where they are.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "sort/memory/two_way_merge.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/record/record_codec.h"
#include "vortex/detail/record/sort_key.h"

namespace vortex { inline namespace v0 { namespace detail {

// Records in ascending order, the first at `first`: each lies behind the one before it, or, with
// `step` -1, in front of it.
template <typename Record>
struct Run {
  const Record* first;
  std::size_t count;
  std::ptrdiff_t step = 1;

  const Record& operator[](std::size_t i) const noexcept {
    return first[static_cast<std::ptrdiff_t>(i) * step];
  }
  Run part(std::size_t begin, std::size_t size) const noexcept {
    return {first + static_cast<std::ptrdiff_t>(begin) * step, size, step};
  }
  void copy_to(Record* to) const noexcept {
    if (step == 1) {
      std::memcpy(static_cast<void*>(to), first, count * sizeof(Record));
    } else {
      std::reverse_copy(first + 1 - count, first + 1, to);
    }
  }
};

// Merges few runs, which are an array together, where they are: block after block of the result is
// made in the caches and put where records have been read, or beside the array; then the blocks
// change places. Stable.
template <typename Record, typename KeyOf>
class RunMerge {
 public:
  static constexpr std::size_t kMost = 16;  // runs

  // `runs` are the array, in order; each thread of the team makes a part of the result. Takes all
  // memory, throws std::bad_alloc.
  RunMerge(Record* records, std::span<const Run<Record>> runs, const KeyOf& key_of,
           ThreadTeam& team)
      : records_(records),
        runs_(runs),
        key_of_(key_of),
        team_(team),
        count_(static_cast<std::size_t>(end_of(runs.back()) - records)),
        block_(block_for(count_, runs.size())),
        blocks_(count_ / block_),
        spares_(std::min(2 * runs.size() + 2, blocks_ + 1)),
        extra_((spares_ + kBuffers) * team.threads() * block_ * sizeof(Record), count_ < kFew),
        place_of_(blocks_ + 1),
        read_(new std::atomic<std::uint32_t>[blocks_]()),
        parts_(team.threads()) {
    // Those of its part, that it may be the last to read, and where paths begin.
    const std::size_t team_spares = (team.threads() + 1) * spares_;
    for (Part& part : parts_) part.free.reserve(blocks_ / parts_.size() + 1 + team_spares);
  }

  void merge() noexcept {
    // Before anything is written.
    team_.run(parts_.size(), [this](std::size_t i) { take_part(i); });
    team_.run(parts_.size(), [this](std::size_t i) { merge_part(i); });
    move_blocks();
  }

 private:
  static constexpr std::size_t kBuffers = 2;
  using Cut = std::array<std::size_t, kMost>;
  // Sorts of fewer records keep their working memory for the next.
  static constexpr std::size_t kFew = std::size_t{1} << 20;

  // Records of a block: 256 KiB, of which each chain of a merge reads some pages together; less
  // where there are many runs, each of which takes two, and a sixteenth of the array, but for the
  // smallest.
  static std::size_t block_for(std::size_t count, std::size_t runs) noexcept {
    static_assert((2 * 8 + 4) * (std::size_t{256} << 10) <= kMostMergeBytes &&
                  (2 * kMost + 4) * (std::size_t{128} << 10) <= kMostMergeBytes);
    constexpr std::size_t kLeast = 512;
    const std::size_t bytes = (runs > 8 ? std::size_t{128} : std::size_t{256}) << 10;
    return std::min({bytes / sizeof(Record), std::bit_ceil(count),
                     std::max(kLeast, std::bit_ceil(count / 16))});
  }

  struct Part {
    std::vector<std::size_t> free;  // places
    std::array<Run<Record>, kMost> left;
  };

  // Places are numbers of blocks of the array, and then of spare ones: of each part, and behind
  // them its buffers.
  Record* at(std::size_t place) const noexcept {
    return place < blocks_ ? records_ + place * block_
                           : static_cast<Record*>(extra_.get()) + (place - blocks_) * block_;
  }
  std::size_t first_spare(std::size_t part) const noexcept {
    return blocks_ + part * (spares_ + kBuffers);
  }

  // Its blocks of the result, and the last part what does not fill one.
  //
  // A thread always has a place for a block: of those that it has read it lacks, in each run, the
  // one that it is reading, and the first of its part, which another may have to read, too. The
  // last piece takes one more.
  void merge_part(std::size_t index) noexcept {
    Part& part = parts_[index];
    for (std::size_t i = 0; i < spares_; ++i) part.free.push_back(first_spare(index) + i);
    for (std::size_t block = begin_of(index); block < begin_of(index + 1); ++block) {
      merge_block(part, index, block, block_);
    }
    if (index + 1 == parts_.size() && count_ % block_ != 0) {
      merge_block(part, index, blocks_, count_ % block_);
    }
  }
  void take_part(std::size_t index) noexcept {
    const bool last = index + 1 == parts_.size();
    const Cut from = cut(runs_, begin_of(index) * block_);
    const Cut to = cut(runs_, last ? count_ : begin_of(index + 1) * block_);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      parts_[index].left[i] = runs_[i].part(from[i], to[i] - from[i]);
    }
  }
  std::size_t begin_of(std::size_t part) const noexcept { return blocks_ * part / parts_.size(); }

  void merge_block(Part& part, std::size_t index, std::size_t block, std::size_t size) noexcept {
    const std::span<Run<Record>> left(part.left.data(), runs_.size());
    const Cut taken = cut(left, size);
    place_of_[block] = part.free.back();
    part.free.pop_back();
    std::array<Run<Record>, kMost> some;
    for (std::size_t i = 0; i < left.size(); ++i) some[i] = left[i].part(0, taken[i]);
    merge_some({some.data(), left.size()}, at(place_of_[block]), at(first_spare(index) + spares_));
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (taken[i] != 0) free_read(part, left[i].part(0, taken[i]));
      left[i] = left[i].part(taken[i], left[i].count - taken[i]);
    }
  }

  // How many records of each run are among the first `wanted`: what comes before the middle of a
  // run tells on which side of all runs the cut is.
  Cut cut(std::span<const Run<Record>> runs, std::size_t wanted) const noexcept {
    Cut low{}, high{}, before{};
    for (std::size_t i = 0; i < runs.size(); ++i) high[i] = std::min(runs[i].count, wanted);
    for (;;) {
      std::size_t widest = 0;
      for (std::size_t i = 1; i < runs.size(); ++i) {
        if (high[i] - low[i] > high[widest] - low[widest]) widest = i;
      }
      if (high[widest] == low[widest]) return low;
      const std::size_t middle = (low[widest] + high[widest]) / 2;
      const auto key = key_of_(runs[widest][middle]);
      std::size_t rank = 0;
      for (std::size_t i = 0; i < runs.size(); ++i) {
        before[i] = i == widest ? middle : first_behind(runs[i], low[i], high[i], key, i < widest);
        rank += before[i];
      }
      if (rank < wanted) {
        low = before;
        ++low[widest];
      } else {
        high = before;
      }
    }
  }
  // The first between `low` and `high` with a key that is not less, or not equal either.
  template <typename Key>
  std::size_t first_behind(const Run<Record>& run, std::size_t low, std::size_t high, Key key,
                           bool or_equal) const noexcept {
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      const auto here = key_of_(run[middle]);
      if (here < key || (or_equal && here == key)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Merges neighbours until two runs are left, which are merged to `out`. All are a block together.
  void merge_some(std::span<Run<Record>> runs, Record* out, Record* buffers) const noexcept {
    std::size_t open = 0, done = 0;
    Record* from = buffers;
    Record* to = buffers + block_;
    for (const Run<Record>& run : runs) {
      if (run.count == 0) continue;
      runs[open] = run;
      if (run.step != 1) {
        run.copy_to(from + done);
        runs[open] = {from + done, run.count};
      }
      done += run.count;
      ++open;
    }
    for (; open > 2; std::swap(from, to)) {
      const std::size_t before = std::exchange(open, 0);
      done = 0;
      for (std::size_t i = 0; i < before; i += 2) {
        const Run<Record> one = runs[i],
                          other = i + 1 < before ? runs[i + 1] : Run<Record>{one.first, 0};
        merge_pair(one, other, to + done);
        runs[open++] = {to + done, one.count + other.count};
        done += one.count + other.count;
      }
    }
    merge_pair(runs[0], open == 2 ? runs[1] : Run<Record>{runs[0].first, 0}, out);
  }
  // Both of step 1.
  void merge_pair(const Run<Record>& one, const Run<Record>& other, Record* out) const noexcept {
    const std::span<const Record> a(one.first, one.count), b(other.first, other.count);
    if constexpr (std::is_same_v<Record, std::uint64_t> && std::is_same_v<KeyOf, KeyOfWord>) {
      words_(a, b, out);
    } else {
      merge_two(a, b, out, key_of_);
    }
  }

  // Blocks of which all records have been read are free.
  void free_read(Part& part, const Run<Record>& run) noexcept {
    std::size_t begin = static_cast<std::size_t>(
        (run.step == 1 ? run.first : run.first + 1 - run.count) - records_);
    const std::size_t end = begin + run.count;
    for (std::size_t block = begin / block_; begin < end && block < blocks_; ++block) {
      const std::size_t here = std::min(end, (block + 1) * block_) - begin;
      begin += here;
      const auto size = static_cast<std::uint32_t>(here);
      if (read_[block].fetch_add(size, std::memory_order_acq_rel) + size == block_) {
        part.free.push_back(block);
      }
    }
  }

  // Brings each block of the result to its place.
  void move_blocks() noexcept {
    // What does not fill a block first: it may lie where another is to be.
    std::memcpy(static_cast<void*>(records_ + blocks_ * block_), at(place_of_[blocks_]),
                count_ % block_ * sizeof(Record));
    for (std::size_t i = 0; i < blocks_; ++i) read_[i].store(0, std::memory_order_relaxed);
    for (std::size_t i = 0; i < blocks_; ++i) {
      if (place_of_[i] < blocks_) read_[place_of_[i]].store(1, std::memory_order_relaxed);
    }
    // A place that holds none gets its own, whose place gets its own then, and so on.
    auto& starts = parts_[0].free;
    starts.clear();
    for (std::size_t i = 0; i < blocks_; ++i) {
      if (read_[i].load(std::memory_order_relaxed) == 0) starts.push_back(i);
    }
    team_.run(starts.size(), [&](std::size_t i) { follow(starts[i]); });
    // What is left changes places in cycles.
    for (std::size_t i = 0; i < blocks_; ++i) {
      if (place_of_[i] == i) continue;
      const std::size_t held = first_spare(0);
      std::memcpy(static_cast<void*>(at(held)), at(i), block_ * sizeof(Record));
      std::size_t last = i;
      while (place_of_[last] != i) last = place_of_[last];
      place_of_[last] = held;
      follow(i);
    }
  }
  void follow(std::size_t to) noexcept {
    for (std::size_t from; to < blocks_; to = from) {
      from = std::exchange(place_of_[to], to);
      std::memcpy(static_cast<void*>(at(to)), at(from), block_ * sizeof(Record));
    }
  }

  static const Record* end_of(const Run<Record>& run) noexcept {
    return run.step == 1 ? run.first + run.count : run.first + 1;
  }

  Record* const records_;
  const std::span<const Run<Record>> runs_;
  const KeyOf key_of_;
  const TwoWayMerge<std::uint64_t> words_ = two_way_merge_for<std::uint64_t>(isa_in_use());
  ThreadTeam& team_;
  const std::size_t count_;
  const std::size_t block_;   // records
  const std::size_t blocks_;  // whole ones
  const std::size_t spares_;  // blocks of each part
  const KeptMemory extra_;
  std::vector<std::size_t> place_of_;                         // of each block of the result
  const std::unique_ptr<std::atomic<std::uint32_t>[]> read_;  // records of each block
  std::vector<Part> parts_;
};

}}}  // namespace vortex::v0::detail

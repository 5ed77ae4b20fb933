// Arrays that are few runs one behind the other, ascending or descending: pieces that were sorted
// and put together, or a sorted array with some records behind it. Found in one look and merged.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "sort/kernels/wide_loops.h"
#include "sort/memory/run_merge.h"
#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/array/thread_team.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex { inline namespace v0 { namespace detail {

// are_in_order() of words that are their keys, by loops of vectors.
template <typename Bits, typename Codec>
bool words_are_in_order(Presorted order, const Bits* words, std::size_t count,
                        const Codec& codec) noexcept {
  constexpr std::size_t kFirst = 16, kBlock = 256, kAhead = 8192, kLine = 64;
  // By arithmetic: a processor cannot foresee which order it will be.
  const Bits descends = order == Presorted::kAscending ? 0 : 1;
  for (std::size_t begin = 1, block = kFirst; begin < count; begin += block, block = kBlock) {
    const std::size_t size = std::min(block, count - begin) + 1;
    const auto* const soon = reinterpret_cast<const std::byte*>(words + begin) + kAhead;
    for (std::size_t i = 0; i < block * sizeof(Bits); i += kLine) __builtin_prefetch(soon + i);
    alignas(64) std::array<Bits, kBlock + 1> keys;
    std::copy_n(words + begin - 1, size, keys.data());
    codec.encode(keys.data(), size);
    Bits wrong = 0;
    for (std::size_t i = 1; i < size; ++i) wrong |= (keys[i - 1] > keys[i] ? 1 : 0) ^ descends;
    if (wrong != 0) return false;
  }
  return true;
}

template <typename Bits>
void exchange_mirrored_words(Bits* __restrict words, Bits* __restrict end,
                             std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) std::swap(words[i], *--end);
}

template <typename Record, typename KeyOf, typename Codec>
class NaturalRuns {
 public:
  // Sorts the array if it is few runs; sort_rest(records, count) sorts what is behind them, a
  // quarter at most, and is to change nothing if it throws. Returns the bytes that it took, at
  // most: kMostMergeBytes for each thread, or five quarters of the array and 24 KiB where that is
  // less; what sort_rest takes is given back before. None, and nothing has changed: the array needs
  // sorting. Throws what sort_rest does, and std::bad_alloc, with nothing moved.
  using SortRest = std::function<void(Record*, std::size_t)>;
  static std::optional<std::size_t> sort(Record* records, std::size_t count, const KeyOf& key_of,
                                         const Codec& codec, unsigned threads,
                                         const SortRest& sort_rest) {
    if (count < 2) return 0;
    const EncodedKey encoded_key(key_of, codec);
    const auto falls = [&](std::size_t i) {
      return encoded_key(records[i]) < encoded_key(records[i - 1]);
    };
    // Nearly all arrays that are in no order end here, without a branch for each record.
    constexpr std::size_t kLeast = 8, kFirst = std::size_t{1} << 12;
    const bool descends = falls(1);
    bool in_order_here = true;
    for (std::size_t i = 2; i < std::min(count, kLeast); ++i) in_order_here &= falls(i) == descends;
    if (!in_order_here) return std::nullopt;
    const Presorted order = descends ? Presorted::kStrictlyDescending : Presorted::kAscending;
    const std::size_t first = std::min(kFirst, least_run(count));
    if (!in_order(order, records, first, encoded_key, codec)) return std::nullopt;
    // What finding runs takes beside looking at them is much of a small array.
    if (count <= kSmall && in_order(order, records, count, encoded_key, codec)) {
      if (order != Presorted::kAscending) exchange(records, records + count, count / 2);
      return 0;
    }
    if (count < kMinRecords) return std::nullopt;
    const auto team_of = static_cast<unsigned>(
        count < 2 * kShare ? 1
                           : std::min({std::size_t{ThreadTeam::resolve(threads)}, count / kShare,
                                       std::size_t{kMostThreads}}));
    ThreadTeam team(team_of);
    NaturalRuns found(records, count, key_of, codec, team);
    if (!found.find()) return std::nullopt;
    found.finish(sort_rest);
    if (found.runs_.size() == 1) return 0;
    return std::min(team.threads() * kMostMergeBytes,
                    count * sizeof(Record) / 4 * 5 + (std::size_t{24} << 10));
  }

 private:
  using Merge = RunMerge<Record, KeyOf>;
  using Runs = std::vector<Run<Record>>;
  // Of fewer records sorting is as fast as merging.
  static constexpr std::size_t kMinRecords = 512;
  static constexpr std::size_t kShare = std::size_t{1} << 20, kSmall = std::size_t{1} << 16;
  static constexpr std::size_t kFew = std::size_t{1} << 21, kMostThreads = 128;
  // Of more runs merging takes as long as sorting.
  static constexpr std::size_t kMost = sizeof(Record) <= sizeof(std::uint64_t) ? 8 : Merge::kMost;
  std::size_t most() const noexcept { return count_ < kFew ? kMost / 2 : kMost; }

  static std::size_t least_run(std::size_t count) noexcept { return count / 64; }

  NaturalRuns(Record* records, std::size_t count, const KeyOf& key_of, const Codec& codec,
              ThreadTeam& team)
      : records_(records),
        count_(count),
        plain_key_(key_of),
        codec_(codec),
        key_of_(key_of, codec),
        team_(team) {}

  // The runs of a part of the array.
  struct Part {
    Runs runs;
    std::size_t end = 0;  // of those that are long
  };

  bool find() {
    std::vector<Part> parts(team_.threads());
    std::atomic<bool> too_many = false;
    team_.run(parts.size(), [&](std::size_t i) {
      find(count_ / parts.size() * i,
           i + 1 == parts.size() ? count_ : count_ / parts.size() * (i + 1), parts[i], too_many);
    });
    if (too_many) return false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (const Run<Record>& run : parts[i].runs) append(run);
      end_ = parts[i].end;
      if (i + 1 < parts.size() && end_ != count_ / parts.size() * (i + 1)) break;
    }
    return runs_.size() + (end_ != count_) <= most() && count_ - end_ <= count_ / 4;
  }

  void find(std::size_t begin, std::size_t end, Part& part, std::atomic<bool>& too_many) const {
    constexpr std::size_t kTogether = std::size_t{1} << 16, kShort = 2;
    std::size_t few = 0;
    part.runs.reserve(kMost);
    for (std::size_t at = begin; at < end; part.end = at) {
      const Record* const first = records_ + at;
      const Presorted order = end - at == 1 || !(key_of_(first[1]) < key_of_(first[0]))
                                  ? Presorted::kAscending
                                  : Presorted::kStrictlyDescending;
      std::size_t size = 1, here = kTogether;
      for (; here == kTogether && at + size < end; size += here) {
        if (too_many.load(std::memory_order_relaxed)) return;
        here = count_in_order(order, first + size - 1, std::min(kTogether, end - at - size));
      }
      const bool whole = at != begin && at + size != end;
      few += whole && size < least_run(count_);
      if (few > kShort || part.runs.size() == kMost) {
        while (part.runs.size() > 1 && part.runs.back().count < least_run(count_)) {
          part.end -= part.runs.back().count;
          part.runs.pop_back();
        }
        if (part.end < count_ - count_ / 4) too_many = true;
        return;
      }
      part.runs.push_back(order == Presorted::kAscending ? Run<Record>{first, size}
                                                         : Run<Record>{first + size - 1, size, -1});
      at += size;
    }
  }

  // How many of the next `count` records go on in the order of the first.
  std::size_t count_in_order(Presorted order, const Record* first, std::size_t count) const {
    std::size_t low = 0, high = count + 1;
    for (std::size_t next = count; high - low > 1; next = low + (high - low) / 2) {
      (in_order(order, first + low, next - low + 1, key_of_, codec_) ? low : high) = next;
    }
    return low;
  }
  static bool in_order(Presorted order, const Record* records, std::size_t count,
                       const EncodedKey<KeyOf, Codec>& key_of, const Codec& codec) {
    if constexpr (kBareKeys<KeyOf>) {
      return with_wide_loops([&] { return words_are_in_order(order, records, count, codec); });
    } else {
      return are_in_order(order, records, count, key_of);
    }
  }

  // Threads have cut runs where their parts begin.
  void append(const Run<Record>& run) {
    if (!runs_.empty()) {
      Run<Record>& last = runs_.back();
      const auto may_be = [](const Run<Record>& of, std::ptrdiff_t step) {
        return of.step == step || of.count == 1;
      };
      const auto join = [&](const Record* first, std::ptrdiff_t step) {
        last = {first, last.count + run.count, step};
      };
      if (may_be(last, 1) && may_be(run, 1) && !(key_of_(run[0]) < key_of_(last[last.count - 1]))) {
        return join(last.first, 1);
      }
      if (may_be(last, -1) && may_be(run, -1) && key_of_(run[run.count - 1]) < key_of_(last[0])) {
        return join(run.first, -1);
      }
    }
    runs_.push_back(run);
  }

  void finish(const SortRest& sort_rest) {
    const std::size_t rest = count_ - end_;
    if (rest == 0 && runs_.size() == 1) {
      if (runs_[0].step == -1) reverse();
      return;
    }
    // First, so that the memory of the two is not held together.
    if (rest != 0) {
      runs_.reserve(runs_.size() + 1);  // before anything moves
      sort_rest(records_ + end_, rest);
      runs_.push_back({records_ + end_, rest});
    }
    std::optional<Merge> merge;
    try {
      merge.emplace(records_, runs_, plain_key_, team_);
    } catch (const std::bad_alloc&) {
      return merge_without_memory();
    }
    in_parts(count_, [&](std::size_t begin, std::size_t end) {
      codec_.encode(records_ + begin, end - begin);
    });
    merge->merge();
    in_parts(count_, [&](std::size_t begin, std::size_t end) {
      codec_.decode(records_ + begin, end - begin);
    });
  }

  void merge_without_memory() {
    const auto before = [this](const Record& a, const Record& b) {
      return key_of_(a) < key_of_(b);
    };
    Record* at = records_;
    for (const Run<Record>& run : runs_) {
      if (run.step == -1) std::reverse(at, at + run.count);
      std::inplace_merge(records_, at, at + run.count, before);
      at += run.count;
    }
  }

  void reverse() {
    in_parts(count_ / 2, [&](std::size_t begin, std::size_t end) {
      exchange(records_ + begin, records_ + count_ - begin, end - begin);
    });
  }

  // `count` records with as many that end at `end`, the first with the last.
  static void exchange(Record* records, Record* end, std::size_t count) noexcept {
    if constexpr (kBareKeys<KeyOf>) {
      with_wide_loops([=] { exchange_mirrored_words(records, end, count); });
    } else {
      for (std::size_t i = 0; i < count; ++i) std::swap(records[i], *--end);
    }
  }

  template <typename Body>
  void in_parts(std::size_t count, const Body& body) {
    const std::size_t parts = team_.threads();
    const auto part = [&](std::size_t i) { body(count * i / parts, count * (i + 1) / parts); };
    team_.run(parts, std::cref(part));  // a copy would take memory
  }

  Record* const records_;
  const std::size_t count_;
  const KeyOf& plain_key_;  // of an encoded record
  const Codec& codec_;
  const EncodedKey<KeyOf, Codec> key_of_;
  ThreadTeam& team_;
  Runs runs_;
  std::size_t end_ = 0;  // of the runs
};

}}}  // namespace vortex::v0::detail

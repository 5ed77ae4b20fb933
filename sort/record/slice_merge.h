// Merges records of one or two words by sorting slices of all inputs in cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "sort/memory/two_way_merge.h"
#include "sort/record/coded_record.h"
#include "vortex/detail/array/streaming_copy.h"
#include "vortex/detail/merge/merge_frontier.h"
#include "vortex/detail/merge/task_ring.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// What needs no further block (MergeFrontier) is divided into slices by rank, as much as the
// second-level cache holds. The parts of a slice are gathered, input by input. Few are merged two
// at a time; many are sorted by a radix sort that keeps their order.
//
// Several threads sort a slice each, while the caller divides what comes next and passes on the
// slices that are sorted. Where blocks stay while the next are entered, the threads gather what
// they sort; else the caller does, which can enter a block then without waiting for them. The
// caller alone enters blocks and touches the output.
//
// Takes a radix sort's time for each record at most, however many inputs there are.
template <typename Coded>
class SliceMerge final : public RecordMerge {
 public:
  using Item = typename Coded::Item;
  using Rules = detail::SortRules<Item, typename Coded::KeyOf>;
  using Dense = detail::DenseSorter<Item, typename Coded::KeyOf>;

  // A slice and the same sorted.
  static constexpr std::size_t kSliceBytes = 2 * Dense::kMax * sizeof(Item);
  // What a thread sorts with, where it can scatter `records`.
  static constexpr std::size_t worker_bytes(std::size_t records) noexcept {
    return records * sizeof(Item) + sizeof(typename Dense::Workspace);
  }

  // Whether it is the faster way: a tree, which one thread climbs, takes less for few inputs, and
  // where blocks hold few records. Several threads are faster for two, but their memory, which the
  // heap may keep, is too much of a small sort's.
  static bool suits(std::size_t inputs, const MergeRoom& room) noexcept {
    constexpr std::size_t kMuch = std::size_t{8} << 20;
    const std::size_t least_inputs = room.threads > 1 && room.working_bytes >= kMuch ? 2 : 4;
    constexpr std::size_t kMinPart = 16;
    return room.working_bytes >= kSliceBytes + worker_bytes(Dense::kMax) &&
           inputs >= least_inputs && inputs <= Dense::kMax / kMinPart &&
           room.block_bytes / sizeof(Item) >= kMinPart * inputs;
  }

  SliceMerge(const FormatRules& rules, detail::SmallSort<Item> small,
             std::span<const MergeInput> inputs, const MergeRoom& room)
      : coded_(rules),
        rules_{{}, small},
        merge_(Coded::two_way_merge()),
        most_merged_(most_merged()),
        frontier_(CodedRules<Coded>(coded_), inputs, room),
        selection_(CodedRules<Coded>(coded_), inputs.size()),
        threads_(threads_in(room)),
        workers_gather_(threads_ > 1 && room.window_blocks > 1),
        slices_(make_slices(slices_in(room, threads_), inputs)),
        scattered_(scattered_in(room, threads_)),
        workers_(make_workers(threads_, scattered_)),
        ring_(detail::TaskRing::Kind::kSort, slices_.size(), threads_,
              [this](std::size_t slot, unsigned worker) {
                Slice& slice = slices_[slot];
                if (workers_gather_) slice.gather(coded_);
                if (slice.parts <= 1) return;
                if (slice.parts <= most_merged_) {
                  slice.merge_parts(merge_, workers_[worker].scattered.get());
                } else {
                  slice.sort(rules_, workers_[worker], scattered_);
                }
              }) {
    for (const MergeInput& input : inputs) left_ += input.records;
    not_divided_ = left_;
  }

  // As many as have room beside two slices.
  static unsigned threads_in(const MergeRoom& room) noexcept {
    return detail::threads_that_fit(room.threads, [&](unsigned threads) {
      return room.working_bytes >= threads * worker_bytes(Dense::kMax) + 2 * kSliceBytes;
    });
  }

  // Slices that are being sorted or wait for the caller.
  std::size_t under_way() const noexcept { return slices_.size() - ring_.free_slots(); }

  void start() noexcept override { frontier_.start(); }
  std::uint64_t records_left() const noexcept override { return left_; }

  void merge(std::uint64_t count, RecordOutput& out) override {
    while (count > 0) {
      if (ready_.empty()) next_slice();
      const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(count, ready_.size()));
      const std::span<std::byte> room = out.room(here * sizeof(Item));
      const std::size_t put = room.size() / sizeof(Item);
      if (coded_.is_plain()) {
        detail::copy_past_caches(room.data(), reinterpret_cast<const std::byte*>(ready_.data()),
                                 put * sizeof(Item));
      } else {
        coded_.decode(ready_.data(), put, room.data());
      }
      ready_ = ready_.subspan(put);
      if (ready_.empty()) ring_.release();
      left_ -= put;
      count -= put;
      out.written(room.size());
    }
  }

 private:
  // Parts of a slice that are merged two at a time, a pass over the slice for each doubling; more
  // are sorted faster, by vector instructions at least.
  static constexpr std::size_t kMostMerged = 32;
  static std::size_t most_merged() noexcept {
    return detail::isa_in_use() == detail::Isa::kPortable ? kMostMerged : 12;
  }

  // What a thread sorts with, which stays in its own caches: records are scattered there, and only
  // what is sorted is written, in order, to memory that another thread has read.
  struct Worker {
    std::unique_ptr<Item[]> scattered;
    std::unique_ptr<typename Dense::Workspace> workspace =
        std::make_unique_for_overwrite<typename Dense::Workspace>();
  };
  static std::vector<Worker> make_workers(unsigned count, std::size_t scattered) {
    std::vector<Worker> workers(count);
    for (Worker& worker : workers) {
      worker.scattered = std::make_unique_for_overwrite<Item[]>(scattered);
    }
    return workers;
  }
  // Records of all inputs that come one after the other.
  struct Slice {
    std::vector<MergeInput> of_inputs;
    std::unique_ptr<Item[]> gathered = std::make_unique_for_overwrite<Item[]>(Dense::kMax);
    std::unique_ptr<Item[]> sorted = std::make_unique_for_overwrite<Item[]>(Dense::kMax);
    std::size_t count = 0;
    std::size_t parts = 0;  // inputs that they come from

    void gather(const Coded& coded) noexcept {
      Item* to = gathered.get();
      for (const MergeInput& part : of_inputs) {
        const auto here = static_cast<std::size_t>(part.records);
        if (here != 0) coded.encode(part.begin, here, to);
        to += here;
      }
    }
    // The bounds of slices do not bound the keys where an input is not sorted.
    void sort(const Rules& rules, const Worker& worker, std::size_t room) noexcept {
      auto range = detail::KeyRange<std::uint64_t>::none();
      for (std::size_t i = 0; i < count; ++i) range.widen(rules.key_of(gathered[i]));
      Dense(rules, *worker.workspace)
          .sort_to(gathered.get(), count, worker.scattered.get(), room, sorted.get(), &range);
    }
    void merge_parts(detail::TwoWayMerge<Item> merge, Item* other) noexcept {
      std::array<std::size_t, kMostMerged + 1> ends{};  // of the parts, behind a beginning
      std::size_t made = 0;
      for (const MergeInput& part : of_inputs) {
        if (part.records == 0) continue;
        ends[made + 1] = ends[made] + static_cast<std::size_t>(part.records);
        ++made;
      }
      merge_parts(merge, std::span(ends).first(made + 1), sorted.get(), other);
    }
    // Merges what lies between the ends, the one half and the other, to its place in `to`, by way
    // of `other`. A single part stays where it was gathered. Returns where it begins.
    const Item* merge_parts(detail::TwoWayMerge<Item> merge, std::span<const std::size_t> ends,
                            Item* to, Item* other) const noexcept {
      if (ends.size() == 2) return gathered.get() + ends.front();
      const std::size_t half = std::midpoint(ends.front(), ends.back());
      const auto inner = ends.subspan(1, ends.size() - 2);
      auto middle = std::ranges::lower_bound(inner, half);
      if (middle == inner.end() ||
          (middle != inner.begin() && half - middle[-1] < *middle - half)) {
        --middle;
      }
      const auto left = static_cast<std::size_t>(middle - inner.begin()) + 2;
      const Item* const a = merge_parts(merge, ends.first(left), other, to);
      const Item* const b = merge_parts(merge, ends.subspan(left - 1), other, to);
      merge({a, *middle - ends.front()}, {b, ends.back() - *middle}, to + ends.front());
      return to + ends.front();
    }
    std::span<const Item> result() const noexcept {
      return {parts > 1 ? sorted.get() : gathered.get(), count};
    }
  };

  static std::vector<Slice> make_slices(std::size_t count, std::span<const MergeInput> inputs) {
    std::vector<Slice> slices(count);
    for (Slice& slice : slices) slice.of_inputs.assign(inputs.begin(), inputs.end());
    return slices;
  }

  // As many slices are under way as there is memory for.
  [[gnu::noinline]] void next_slice() noexcept {
    while (not_divided_ > 0 && ring_.free_slots() > 0) {
      while (frontier_.records() < kMost && frontier_.may_enter()) frontier_.enter();
      // The blocks that threads gather from have to go before more of a slice comes. Where the
      // caller gathers they are gone, and a slice gets no longer by waiting.
      if (workers_gather_ && frontier_.records() < kLeast && frontier_.bound() != nullptr &&
          !ring_.empty()) {
        break;
      }
      divide(slices_[ring_.next_free()]);
      ring_.submit();
    }
    const Slice& slice = slices_[ring_.await()];
    if (workers_gather_) frontier_.done_with(slice.of_inputs);
    ready_ = slice.result();
  }

  void divide(Slice& slice) noexcept {
    const std::uint64_t least = std::min<std::uint64_t>(frontier_.records(), kLeast);
    const auto rank = selection_.select(frontier_.parts(), least, kMost);
    slice.count = static_cast<std::size_t>(frontier_.take(rank.counts, slice.of_inputs));
    slice.parts = static_cast<std::size_t>(
        std::ranges::count_if(slice.of_inputs, [](const auto& part) { return part.records != 0; }));
    not_divided_ -= slice.count;
    if (workers_gather_) return;
    slice.gather(coded_);
    frontier_.done_with(slice.of_inputs);
  }

  // The caller divides or passes on one while every thread has one to sort and one to come.
  static std::size_t slices_in(const MergeRoom& room, unsigned threads) noexcept {
    if (threads == 1) return 1;
    return std::min<std::size_t>(
        (room.working_bytes - threads * worker_bytes(Dense::kMax)) / kSliceBytes, 2 * threads + 1);
  }
  // Slices come first.
  static std::size_t scattered_in(const MergeRoom& room, unsigned threads) noexcept {
    const std::size_t bytes =
        slices_in(room, threads) * kSliceBytes + threads * worker_bytes(Dense::kSpacious);
    return bytes <= room.working_bytes ? Dense::kSpacious : Dense::kMax;
  }

  // Records of a slice.
  static constexpr std::size_t kMost = Dense::kMaxSpaced, kLeast = kMost / 8 * 7;

  const Coded coded_;
  const Rules rules_;
  const detail::TwoWayMerge<Item> merge_;
  const std::size_t most_merged_;
  detail::MergeFrontier<CodedRules<Coded>> frontier_;
  detail::MultisequenceSelection<CodedRules<Coded>> selection_;
  std::uint64_t not_divided_ = 0;
  std::uint64_t left_ = 0;
  std::span<const Item> ready_;  // sorted, not yet put out
  const unsigned threads_;
  const bool workers_gather_;
  std::vector<Slice> slices_;
  const std::size_t scattered_;  // records that a worker has room for
  std::vector<Worker> workers_;
  detail::TaskRing ring_;  // destroyed first
};

}}  // namespace vortex::v0

// Merges records of one or two words by sorting slices of all inputs in cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sort/record/coded_record.h"
#include "vortex/detail/array/streaming_copy.h"
#include "vortex/detail/merge/merge_frontier.h"
#include "vortex/detail/merge/task_ring.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

// What needs no further block (MergeFrontier) is divided into slices by rank, as much as the
// second-level cache holds. The parts of a slice are gathered, input by input, and sorted by a
// radix sort that keeps their order.
//
// Several threads sort a slice each, while the caller gathers the next ones and passes on those
// that are sorted. The caller alone touches the inputs and the output.
//
// Takes a radix sort's time for each record, however many inputs there are.
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
        frontier_(CodedRules<Coded>(coded_), inputs, room),
        selection_(CodedRules<Coded>(coded_), inputs.size()),
        parts_(inputs.size()),
        slices_(slices_in(room)),
        scattered_(scattered_in(room)),
        workers_(make_workers(slices_.size() == 1 ? 1 : room.threads, scattered_)),
        ring_(detail::TaskRing::Kind::kSort, slices_.size(), static_cast<unsigned>(workers_.size()),
              [this](std::size_t slot, unsigned worker) {
                slices_[slot].sort(rules_, workers_[worker], scattered_);
              }) {
    for (const MergeInput& input : inputs) left_ += input.records;
    not_gathered_ = left_;
  }

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
    std::unique_ptr<Item[]> gathered = std::make_unique_for_overwrite<Item[]>(Dense::kMax);
    std::unique_ptr<Item[]> sorted = std::make_unique_for_overwrite<Item[]>(Dense::kMax);
    std::size_t count = 0;
    std::size_t parts = 0;                  // inputs that they come from
    detail::KeyRange<std::uint64_t> range;  // from the bound of the slice before to its own
    bool is_bounded = false;                // it has one

    void sort(const Rules& rules, const Worker& worker, std::size_t room) noexcept {
      if (parts <= 1) return;
      Dense(rules, *worker.workspace)
          .sort_to(gathered.get(), count, worker.scattered.get(), room, sorted.get(),
                   is_bounded ? &range : nullptr);
    }
    std::span<const Item> result() const noexcept {
      return {parts > 1 ? sorted.get() : gathered.get(), count};
    }
  };

  // As many slices are under way as there is memory for.
  [[gnu::noinline]] void next_slice() noexcept {
    while (not_gathered_ > 0 && ring_.free_slots() > 0) {
      gather(slices_[ring_.next_free()]);
      ring_.submit();
    }
    ready_ = slices_[ring_.await()].result();
  }

  void gather(Slice& slice) noexcept {
    constexpr std::size_t kMost = Dense::kMaxSpaced;
    while (frontier_.records() < kMost && frontier_.may_enter()) frontier_.enter();
    const std::uint64_t least = std::min<std::uint64_t>(frontier_.records(), kMost / 8 * 7);
    auto [counts, bound] = selection_.select(frontier_.parts(), least, kMost);
    if (bound == nullptr) bound = frontier_.bound();
    slice.is_bounded = bound != nullptr;
    slice.range.low = bound_;
    if (bound != nullptr) slice.range.high = bound_ = coded_.bits(bound);
    slice.count = static_cast<std::size_t>(frontier_.take(counts, parts_));
    slice.parts = 0;
    Item* to = slice.gathered.get();
    for (const MergeInput& part : parts_) {
      if (part.records == 0) continue;
      const auto here = static_cast<std::size_t>(part.records);
      coded_.encode(part.begin, here, to);
      to += here;
      ++slice.parts;
    }
    frontier_.done_with(parts_);
    not_gathered_ -= slice.count;
  }

  // The caller gathers or passes on one while every thread has one to sort and one to come.
  static std::size_t slices_in(const MergeRoom& room) noexcept {
    const std::size_t of_workers = room.threads * worker_bytes(Dense::kMax);
    if (room.threads <= 1 || room.working_bytes < of_workers + 2 * kSliceBytes) return 1;
    return std::min<std::size_t>((room.working_bytes - of_workers) / kSliceBytes,
                                 2 * room.threads + 1);
  }
  // Slices come first.
  static std::size_t scattered_in(const MergeRoom& room) noexcept {
    const std::size_t slices = slices_in(room);
    const std::size_t workers = slices == 1 ? 1 : room.threads;
    const std::size_t bytes = slices * kSliceBytes + workers * worker_bytes(Dense::kSpacious);
    return bytes <= room.working_bytes ? Dense::kSpacious : Dense::kMax;
  }

  const Coded coded_;
  const Rules rules_;
  detail::MergeFrontier<CodedRules<Coded>> frontier_;
  detail::MultisequenceSelection<CodedRules<Coded>> selection_;
  std::vector<MergeInput> parts_;  // of the last slice
  std::uint64_t bound_ = 0;        // of the last slice: no key behind it is less
  std::uint64_t not_gathered_ = 0;
  std::uint64_t left_ = 0;
  std::span<const Item> ready_;  // sorted, not yet put out
  std::vector<Slice> slices_;
  const std::size_t scattered_;  // records that a worker has room for
  std::vector<Worker> workers_;
  detail::TaskRing ring_;  // destroyed first
};

}}  // namespace vortex::v0

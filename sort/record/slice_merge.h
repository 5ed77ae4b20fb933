// Merges records of one or two words by sorting slices of all inputs in cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sort/record/coded_record.h"
#include "vortex/detail/dense_sorter.h"
#include "vortex/detail/streaming_copy.h"
#include "vortex/detail/task_ring.h"
#include "vortex/record_order.h"

namespace vortex::inline v0 {

// The merge goes on in rounds and slices. The last records of the blocks that are there bound a
// round: what lies up to the least of them, in the order (key, input), needs no further block, and
// then the input that it belongs to enters its next one. So blocks are needed in the same order as
// by a merge that takes record by record. A slice of a round, as much as the second-level cache
// holds, lies up to a bound that is chosen among evenly spaced records of all inputs; its parts are
// gathered, input by input, and sorted by a radix sort that keeps their order.
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
  // What a thread sorts with, where it can scatter so many records.
  static constexpr std::size_t worker_bytes(std::size_t records) noexcept {
    return records * sizeof(Item) + sizeof(typename Dense::Workspace);
  }

  // Whether it is the faster way: a tree, which one thread climbs, takes less for few inputs, and
  // where rounds are short. Several threads are faster for two, but their memory, which the heap
  // may keep, is too much of a small sort's.
  static bool suits(const FormatRules& rules, std::size_t inputs, const MergeRoom& room) noexcept {
    constexpr std::size_t kMuch = std::size_t{8} << 20;
    const std::size_t least_inputs = room.threads > 1 && room.working_bytes >= kMuch ? 2 : 4;
    constexpr std::size_t kMinPart = 16;
    return Coded::suits(rules) && room.working_bytes >= kSliceBytes + worker_bytes(Dense::kMax) &&
           inputs >= least_inputs && inputs <= Dense::kMax / kMinPart &&
           room.block_bytes / sizeof(Item) >= kMinPart * inputs;
  }

  SliceMerge(const FormatRules& rules, detail::SmallSort<Item> small,
             std::span<const MergeInput> inputs, const MergeRoom& room)
      : coded_(rules),
        block_records_(room.block_bytes / sizeof(Item)),
        step_(Dense::kMax / (4 * inputs.size())),
        picks_(Dense::kMax / step_ - inputs.size()),
        rules_{{}, small},
        slices_(slices_in(room)),
        scattered_(scattered_in(room)),
        workers_(slices_.size() == 1 ? 1 : room.threads),
        ring_(slices_.size(), static_cast<unsigned>(workers_.size()),
              [this](std::size_t slot, unsigned worker) {
                slices_[slot].sort(rules_, workers_[worker], scattered_);
              }) {
    for (Worker& worker : workers_) {
      worker.scattered = std::make_unique_for_overwrite<Item[]>(scattered_);
    }
    for (const MergeInput& input : inputs) {
      inputs_.push_back({.begin = input.begin, .records = input.records});
      left_ += input.records;
    }
    not_gathered_ = left_;
    heads_.reserve(inputs.size());
  }

  void start() noexcept override {
    for (Input& input : inputs_) enter_block(input);
  }
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
  struct Input {
    const std::byte* begin = nullptr;
    std::uint64_t records = 0;
    std::uint64_t at = 0;         // the first that is in no slice yet
    std::uint64_t there = 0;      // records up to the end of the newest block
    std::uint64_t round_end = 0;  // those of the round
    std::uint64_t slice_end = 0;
    std::uint64_t next_pick = 0;  // the first of the evenly spaced ones above the slice's bound

    const std::byte* record(std::uint64_t index) const noexcept {
      return begin + index * sizeof(Item);
    }
  };
  // What a thread sorts with, which stays in its own caches: records are scattered there, and only
  // what is sorted is written, in order, to memory that another thread has read.
  struct Worker {
    std::unique_ptr<Item[]> scattered;
    std::unique_ptr<typename Dense::Workspace> workspace =
        std::make_unique_for_overwrite<typename Dense::Workspace>();
  };
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
  // A record in the order of the merge.
  struct Place {
    std::uint64_t bits = 0;
    std::size_t input = 0;

    bool operator<(const Place& other) const noexcept {
      return bits != other.bits ? bits < other.bits : input < other.input;
    }
  };

  Place place(std::size_t input, std::uint64_t index) const noexcept {
    return {coded_.bits(inputs_[input].record(index)), input};
  }

  // Touches the first record that is not there yet.
  void enter_block(Input& input) noexcept {
    if (input.there == input.records) return;
    const std::byte* const last_byte = input.record(input.there + 1) - 1;
    static_cast<void>(*static_cast<const volatile std::byte*>(last_byte));
    input.there = std::min(input.there + block_records_, input.records);
  }

  // How many of the records [first, last) of an input are not behind `bound`, and `first`.
  std::uint64_t end_below(const Place& bound, std::size_t input, std::uint64_t first,
                          std::uint64_t last) const noexcept {
    // Mostly they are few of many.
    std::uint64_t step = 1;
    while (step < last - first && !(bound < place(input, first + step - 1))) {
      first += step;
      step *= 2;
    }
    last = std::min(last, first + step);
    while (first < last) {
      const std::uint64_t middle = first + (last - first) / 2;
      if (bound < place(input, middle)) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    return first;
  }

  void begin_round() noexcept {
    if (entering_ != nullptr) enter_block(*std::exchange(entering_, nullptr));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      if (input.there == input.records) continue;
      const Place last = place(i, input.there - 1);
      if (entering_ != nullptr && !(last < round_bound_)) continue;
      entering_ = &input;
      round_bound_ = last;
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      input.round_end = entering_ == nullptr || &input == entering_
                            ? input.there
                            : end_below(round_bound_, i, input.at, input.there);
      in_round_ += input.round_end - input.at;
    }
  }

  // The slice ends at one of the evenly spaced records, step_ apart. Those of an input that are not
  // behind it are fewer than step_ more than picked ones say, so all together they fit.
  Place bound_slice() noexcept {
    const auto later = [](const Place& a, const Place& b) { return b < a; };
    heads_.clear();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      input.next_pick = input.at + step_ - 1;
      if (input.next_pick < input.round_end) heads_.push_back(place(i, input.next_pick));
    }
    std::make_heap(heads_.begin(), heads_.end(), later);
    Place bound;
    for (std::size_t pick = 0; pick < picks_ && !heads_.empty(); ++pick) {
      bound = heads_.front();
      std::pop_heap(heads_.begin(), heads_.end(), later);
      heads_.pop_back();
      Input& input = inputs_[bound.input];
      input.next_pick += step_;
      if (input.next_pick >= input.round_end) continue;
      heads_.push_back(place(bound.input, input.next_pick));
      std::push_heap(heads_.begin(), heads_.end(), later);
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      const std::uint64_t first = input.next_pick - (step_ - 1);
      input.slice_end =
          i == bound.input ? first
                           : end_below(bound, i, first, std::min(input.next_pick, input.round_end));
    }
    return bound;
  }

  // As many slices are under way as there is memory for.
  [[gnu::noinline]] void next_slice() noexcept {
    while (not_gathered_ > 0 && ring_.free_slots() > 0) {
      gather(slices_[ring_.next_free()]);
      ring_.submit();
    }
    ready_ = slices_[ring_.await()].result();
  }

  void gather(Slice& slice) noexcept {
    while (in_round_ == 0) begin_round();
    slice.is_bounded = entering_ != nullptr || in_round_ > Dense::kMax;
    slice.range.low = bound_.bits;
    if (in_round_ <= Dense::kMax) {
      for (Input& input : inputs_) input.slice_end = input.round_end;
      bound_ = round_bound_;
    } else {
      bound_ = bound_slice();
    }
    slice.range.high = bound_.bits;
    slice.count = 0;
    slice.parts = 0;
    for (Input& input : inputs_) {
      const auto here = static_cast<std::size_t>(input.slice_end - input.at);
      if (here == 0) continue;
      coded_.encode(input.record(input.at), here, slice.gathered.get() + slice.count);
      input.at = input.slice_end;
      slice.count += here;
      ++slice.parts;
    }
    in_round_ -= slice.count;
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
  const std::size_t block_records_;
  const std::size_t step_;
  const std::size_t picks_;  // (picks_ + inputs) * step_ <= Dense::kMax
  const Rules rules_;
  std::vector<Input> inputs_;
  std::vector<Place> heads_;
  Input* entering_ = nullptr;  // whose next block bounds the round
  Place round_bound_;          // if there is one
  Place bound_;                // of the last slice
  std::uint64_t in_round_ = 0;
  std::uint64_t not_gathered_ = 0;
  std::uint64_t left_ = 0;
  std::span<const Item> ready_;  // sorted, not yet put out
  std::vector<Slice> slices_;
  const std::size_t scattered_;  // records that a worker has room for
  std::vector<Worker> workers_;
  detail::TaskRing ring_;  // the first to go
};

}  // namespace vortex::inline v0

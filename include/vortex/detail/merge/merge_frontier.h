// What a merge may take before it needs another block, and where sorted sequences are divided so
// that several threads merge it.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "vortex/detail/merge/order_rules.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 { namespace detail {

// The most threads, up to so many, that fit the memory that a merge has: fits(n) says whether n do.
template <typename Fits>
unsigned threads_that_fit(unsigned threads, const Fits& fits) noexcept {
  while (threads > 1 && !fits(threads)) --threads;
  return std::max(threads, 1U);
}

// The last records of the blocks that are there bound what can be merged: what lies up to the least
// of them, in the order (key, input), needs no further block, and then the input that this record
// belongs to enters its next one. So blocks are needed in the order of their last records, in which
// a merge that takes record by record needs them.
//
// For one thread; what lies in front of the frontier any thread may read, until it is done with.
template <OrderRules R>
class MergeFrontier {
 public:
  MergeFrontier(const R& rules, std::span<const MergeInput> inputs, const MergeRoom& room)
      : rules_(rules),
        block_bytes_(room.block_bytes),
        window_blocks_(room.window_blocks),
        parts_(inputs.begin(), inputs.end()) {
    assert(window_blocks_ >= blocks_for_records(block_bytes_, rules_.record_bytes()));
    inputs_.reserve(inputs.size());
    for (MergeInput& part : parts_) {
      const std::size_t skipped = room.skipped.empty() ? 0 : room.skipped[inputs_.size()];
      inputs_.push_back({.begin = part.begin,
                         .records = part.records,
                         .skipped = skipped,
                         .done_up_to = part.begin});
      part.records = 0;
    }
  }

  // Touches the first block of each input.
  void start() noexcept {
    for (Input& input : inputs_) enter_block(input);
    find_bound();
  }

  // What is in front of the frontier and not taken, of each input; and how many records that are.
  std::span<const MergeInput> parts() const noexcept { return parts_; }
  std::uint64_t records() const noexcept { return records_; }
  // The last record that may be in front of it; null: there is no block to enter.
  const std::byte* bound() const noexcept {
    return entering_ == nullptr ? nullptr : entering_->last.record;
  }

  // Takes counts[i] records of part i, and says what these are. Returns their sum.
  std::uint64_t take(std::span<const std::uint64_t> counts, std::span<MergeInput> taken) noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      taken[i] = {parts_[i].begin, counts[i]};
      parts_[i].begin += counts[i] * rules_.record_bytes();
      parts_[i].records -= counts[i];
      sum += counts[i];
    }
    records_ -= sum;
    return sum;
  }
  // Nobody reads these any more, nor what was taken before.
  void done_with(std::span<const MergeInput> taken) noexcept {
    for (std::size_t i = 0; i < taken.size(); ++i) {
      inputs_[i].done_up_to = taken[i].begin + taken[i].records * rules_.record_bytes();
    }
  }

  // Whether there is a block to enter, and nothing is needed of the one that then goes. Where there
  // is one to enter, that is so at the latest when nothing is left in front of the frontier and all
  // is done with that was taken.
  bool may_enter() const noexcept {
    if (entering_ == nullptr) return false;
    const std::uint64_t stay_from = block_to_enter(*entering_) + 1;
    if (stay_from <= window_blocks_) return true;
    const auto done = static_cast<std::uint64_t>(entering_->done_up_to - entering_->begin);
    return entering_->skipped + done >= (stay_from - window_blocks_) * block_bytes_;
  }
  // Touches that block.
  void enter() noexcept {
    enter_block(*entering_);
    find_bound();
  }

 private:
  struct Input {
    const std::byte* begin = nullptr;
    std::uint64_t records = 0;
    std::size_t skipped = 0;  // of its first block
    const std::byte* done_up_to = nullptr;
    std::uint64_t there = 0;  // records up to the end of the newest block
    std::uint64_t end = 0;    // of those in front of the frontier
    KeyedRecord last = {};    // of those that are there
  };

  KeyedRecord record(const Input& input, std::uint64_t index) const noexcept {
    return with_bits(rules_, input.begin + index * rules_.record_bytes());
  }
  // The block that the first record ends in that is not there yet.
  std::uint64_t block_to_enter(const Input& input) const noexcept {
    return (input.skipped + (input.there + 1) * rules_.record_bytes() - 1) / block_bytes_;
  }

  void enter_block(Input& input) noexcept {
    if (input.there == input.records) return;
    const std::uint64_t block = block_to_enter(input);
    const std::byte* const last_byte = input.begin + (input.there + 1) * rules_.record_bytes() - 1;
    static_cast<void>(*static_cast<const volatile std::byte*>(last_byte));
    const std::uint64_t end = (block + 1) * block_bytes_ - input.skipped;
    input.there = std::min(end / rules_.record_bytes(), input.records);
    input.last = record(input, input.there - 1);
  }

  void find_bound() noexcept {
    entering_ = nullptr;
    for (Input& input : inputs_) {
      if (input.there == input.records) continue;
      if (entering_ == nullptr || less(rules_, input.last, entering_->last)) entering_ = &input;
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      const std::uint64_t end =
          entering_ == nullptr || &input == entering_ ? input.there : end_up_to(*entering_, input);
      const std::uint64_t more = end - std::exchange(input.end, end);
      parts_[i].records += more;
      records_ += more;
    }
  }

  // The end of those records of an input that are not behind the last one of another. Mostly few of
  // the many records that are there come in front of it since the last call.
  std::uint64_t end_up_to(const Input& bounding, const Input& input) const noexcept {
    const auto is_up_to = [&](std::uint64_t index) {
      const KeyedRecord here = record(input, index);
      return &input < &bounding ? !less(rules_, bounding.last, here)
                                : less(rules_, here, bounding.last);
    };
    std::uint64_t first = input.end, last = input.there, width = 1;
    while (width < last - first && is_up_to(first + width - 1)) {
      first += width;
      width *= 2;
    }
    last = std::min(last, first + width);
    while (first < last) {
      const std::uint64_t middle = std::midpoint(first, last);
      if (is_up_to(middle)) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return first;
  }

  const R rules_;
  const std::size_t block_bytes_;
  const std::size_t window_blocks_;
  std::vector<Input> inputs_;
  std::vector<MergeInput> parts_;
  std::uint64_t records_ = 0;
  Input* entering_ = nullptr;  // whose last record is the bound
};

// Multisequence selection: finds a rank, between two limits, and how many records of each sequence
// come before it, in the order (key, sequence, place), which is the order of a stable merge. So a
// merge may begin there as well as at the beginning.
//
// Each round counts the records that come before one of those that are left. With random keys the
// first round finds a rank between limits that are not near each other, since it aims there;
// whatever the keys are, at least every other round halves what is left of the longest sequence.
template <OrderRules R>
class MultisequenceSelection {
 public:
  // Allocates all that it needs.
  MultisequenceSelection(const R& rules, std::size_t sequences)
      : rules_(rules), low_(sequences), high_(sequences), middle_(sequences), end_(sequences) {}

  struct Rank {
    std::span<const std::uint64_t> counts;  // of each sequence; valid until the next call
    // The last record before the rank or the first behind it. Null: there is none behind it.
    const std::byte* bound = nullptr;
  };

  // `least` is 1 at least, and no more than `most` and the number of all records. Reads records of
  // any place in the sequences.
  Rank select(std::span<const MergeInput> sequences, std::uint64_t least,
              std::uint64_t most) noexcept {
    std::uint64_t below = 0;  // the sum of low_, which are before the rank
    std::uint64_t upto = 0;   // the sum of high_, behind which is nothing before it
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      low_[i] = 0;
      high_[i] = sequences[i].records;
      upto += high_[i];
    }
    const std::uint64_t wanted = most - (most - least) / 4;
    bool aim = true;
    const std::byte* last_below = nullptr;
    const std::byte* first_above = nullptr;
    while (upto > most) {
      if (below >= least) return {low_, last_below};
      const std::uint64_t left = upto - below;
      const std::size_t widest = widest_of(sequences.size());
      const std::uint64_t width = high_[widest] - low_[widest];
      const auto aimed = static_cast<std::uint64_t>(static_cast<double>(width) *
                                                    static_cast<double>(wanted - below) /
                                                    static_cast<double>(left));
      const std::uint64_t place = low_[widest] + (aim ? std::min(aimed, width - 1) : width / 2);
      const std::byte* const pivot = sequences[widest].begin + place * rules_.record_bytes();
      const std::uint64_t before = count_before(sequences, widest, place);
      if (before < most) {
        low_.swap(middle_);
        ++low_[widest];
        below = before + 1;
        last_below = pivot;
      } else {
        high_.swap(middle_);
        upto = before;
        first_above = pivot;
      }
      aim = !aim || upto - below <= left / 2;
    }
    return {high_, first_above};
  }

 private:
  std::size_t widest_of(std::size_t sequences) const noexcept {
    std::size_t widest = 0;
    for (std::size_t i = 1; i < sequences; ++i) {
      if (high_[i] - low_[i] > high_[widest] - low_[widest]) widest = i;
    }
    return widest;
  }

  KeyedRecord record(const MergeInput& sequence, std::uint64_t place) const noexcept {
    return with_bits(rules_, sequence.begin + place * rules_.record_bytes());
  }

  // Puts the number of records of each sequence before one of them to middle_, and returns the sum.
  // Searches all sequences at a time, a comparison in each after the other, so that the records,
  // which come from memory, do not wait for each other.
  std::uint64_t count_before(std::span<const MergeInput> sequences, std::size_t of,
                             std::uint64_t place) noexcept {
    const KeyedRecord pivot = record(sequences[of], place);
    std::ranges::copy(low_, middle_.begin());
    std::ranges::copy(high_, end_.begin());
    middle_[of] = end_[of] = place;
    for (bool found = false; !found;) {
      found = true;
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        if (middle_[i] == end_[i]) continue;
        const std::uint64_t middle = std::midpoint(middle_[i], end_[i]);
        const KeyedRecord here = record(sequences[i], middle);
        // Equal records of earlier sequences come first.
        const bool before = i < of ? !less(rules_, pivot, here) : less(rules_, here, pivot);
        middle_[i] = before ? middle + 1 : middle_[i];
        end_[i] = before ? end_[i] : middle;
        found = found && middle_[i] == end_[i];
      }
    }
    return std::accumulate(middle_.begin(), middle_.end(), std::uint64_t{0});
  }

  const R rules_;
  std::vector<std::uint64_t> low_;
  std::vector<std::uint64_t> high_;
  std::vector<std::uint64_t> middle_;
  std::vector<std::uint64_t> end_;
};

}}}  // namespace vortex::v0::detail

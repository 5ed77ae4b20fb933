// Divides sorted sequences where a merge would have taken a given number of records.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "vortex/detail/merge/order_rules.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 { namespace detail {

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

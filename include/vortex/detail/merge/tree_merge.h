// Merges records by one loser tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "vortex/detail/merge/loser_tree.h"
#include "vortex/detail/merge/order_rules.h"
#include "vortex/detail/merge/record_size.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 { namespace detail {

// Takes record by record, on the thread of the caller. Of inputs that may not be sorted, too.
template <OrderRules R>
class TreeMerge final : public CheckedRecordMerge {
 public:
  TreeMerge(const R& rules, std::span<const MergeInput> inputs)
      : rules_(rules), tree_(rules, inputs), previous_(rules.record_bytes()) {}

  void start() noexcept override { tree_.start(); }
  std::uint64_t records_left() const noexcept override { return tree_.records_left(); }

  void merge(std::uint64_t count, RecordOutput& out) override {
    const std::size_t record_bytes = rules_.record_bytes();
    for (std::uint64_t left = count * record_bytes; left > 0;) {
      const std::span<std::byte> room = out.room(left);
      tree_.take(room.size() / record_bytes, room.data());
      out.written(room.size());
      left -= room.size();
    }
  }

  // A record that comes before the one that was taken last was no head then, or it would have won:
  // it follows that one in the same input. So what is not sorted shows there, and nowhere else.
  std::optional<OutOfOrder> merge_checked(std::uint64_t count, RecordOutput& out) override {
    const std::size_t record_bytes = rules_.record_bytes();
    for (std::uint64_t left = count * record_bytes; left > 0;) {
      const std::span<std::byte> room = out.room(left);
      KeyedRecord previous{previous_bits_, previous_.data()};
      for (std::size_t at = 0; at < room.size(); at += record_bytes) {
        const KeyedRecord winner{tree_.winner_bits(), tree_.winner()};
        const std::size_t input = tree_.winner_input();
        if (input == previous_input_ && less(rules_, winner, previous)) {
          out.written(at);
          return OutOfOrder{input, winner.record};
        }
        std::memcpy(room.data() + at, winner.record, record_bytes);
        previous = {winner.bits, room.data() + at};
        previous_input_ = input;
        tree_.advance();
      }
      // The last record is kept here, since the output may do anything with the room from now on.
      std::memcpy(previous_.data(), previous.record, record_bytes);
      previous_bits_ = previous.bits;
      out.written(room.size());
      left -= room.size();
    }
    return std::nullopt;
  }

 private:
  const R& rules_;
  LoserTree<R> tree_;
  std::vector<std::byte> previous_;
  std::uint64_t previous_bits_ = 0;
  std::size_t previous_input_ = ~std::size_t{0};
};

}}}  // namespace vortex::v0::detail

// Merges of k sorted sequences by one thread, one comparison a level, with the order inlined.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "vortex/detail/merge/order_rules.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 { namespace detail {

// Memory that shares no cache line with another thread's. The size is x86-64's; lines are seldom
// longer elsewhere.
inline constexpr std::size_t kCacheLineBytes = 64;

// Gives whole cache lines.
template <typename T>
struct LineAllocator {
  using value_type = T;

  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>&) noexcept {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    return static_cast<T*>(::operator new ((bytes + kCacheLineBytes - 1) & ~(kCacheLineBytes - 1),
                                           std::align_val_t{kCacheLineBytes}));
  }
  void deallocate(T* memory, std::size_t) noexcept {
    ::operator delete (memory, std::align_val_t{kCacheLineBytes});
  }

  bool operator==(const LineAllocator&) const = default;
};

template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

// A merge that gives one record at a time and keeps the promises of RecordMerge.
//
//   LoserTree<Rules> tree(rules, inputs);
//   for (tree.start(); !tree.empty(); tree.advance()) use(tree.winner());
template <typename Rules>
class LoserTree {
 public:
  LoserTree(const Rules& order, std::span<const MergeInput> inputs)
      : order_(order),
        record_bytes_(order_.record_bytes()),
        decide_(order_.leading_bits_decide()),
        inputs_(inputs.begin(), inputs.end()),
        left_(inputs.size()),
        losers_(inputs.size()),
        first_round_(2 * inputs.size()) {}

  // Begins anew with other inputs, as many.
  void restart(std::span<const MergeInput> inputs) noexcept {
    std::copy(inputs.begin(), inputs.end(), inputs_.begin());
    start();
  }

  void start() noexcept {
    const std::size_t count = inputs_.size();
    total_ = 0;
    for (std::size_t i = 0; i < count; ++i) {
      left_[i] = inputs_[i].records;
      total_ += left_[i];
      first_round_[count + i] = player(inputs_[i].begin, i);
    }
    for (std::size_t node = count; node-- > 1;) {
      Player a = first_round_[2 * node], b = first_round_[2 * node + 1];
      if (beats(b, a)) std::swap(a, b);
      first_round_[node] = a;
      losers_[node] = b;
    }
    if (count > 0) winner_ = first_round_[1];
  }

  // What it keeps of each input.
  static constexpr std::size_t bytes_of_input() noexcept {
    return sizeof(MergeInput) + sizeof(std::uint64_t) + 3 * sizeof(Player);
  }

  bool empty() const noexcept { return total_ == 0; }
  std::uint64_t records_left() const noexcept { return total_; }

  // The smallest record left, where it lies; there must be one.
  const std::byte* winner() const noexcept { return winner_.record; }
  std::uint64_t winner_bits() const noexcept { return winner_.bits; }
  std::uint32_t winner_input() const noexcept { return static_cast<std::uint32_t>(winner_.input); }

  // Copies the next records.
  void take(std::size_t count, std::byte* to) noexcept {
    with_size_of(order_, [&](auto record_bytes) {
      for (; count > 0; --count) {
        std::memcpy(to, winner(), record_bytes);
        to += record_bytes;
        advance();
      }
    });
  }

  void advance() noexcept {
    --total_;
    --left_[winner_.input];
    Player current = player(winner_.record + record_bytes_, winner_.input);
    for (std::size_t node = (inputs_.size() + current.input) / 2; node > 0; node /= 2) {
      exchange_if(beats(losers_[node], current), losers_[node], current);
    }
    winner_ = current;
  }

 private:
  struct Player {
    std::uint64_t bits = 0;
    const std::byte* record = nullptr;  // null: the input is exhausted
    std::uint64_t input = 0;
  };

  // Exchanges `a` and `b` if `wanted`, without a branch: the winner is as good as random, so a
  // branch could not be predicted.
  static void exchange_if(bool wanted, Player& a, Player& b) noexcept {
    const std::uint64_t mask = std::uint64_t{0} - static_cast<std::uint64_t>(wanted);
    const std::uint64_t bits = (a.bits ^ b.bits) & mask;
    const std::uint64_t input = (a.input ^ b.input) & mask;
    const auto a_record = reinterpret_cast<std::uintptr_t>(a.record);
    const auto b_record = reinterpret_cast<std::uintptr_t>(b.record);
    const std::uintptr_t record = (a_record ^ b_record) & mask;
    a.bits ^= bits;
    b.bits ^= bits;
    a.input ^= input;
    b.input ^= input;
    a.record = reinterpret_cast<const std::byte*>(a_record ^ record);
    b.record = reinterpret_cast<const std::byte*>(b_record ^ record);
  }

  Player player(const std::byte* record, std::uint64_t input) const noexcept {
    // Behind every record, those with the largest key too: see beats().
    if (left_[input] == 0) return {std::numeric_limits<std::uint64_t>::max(), nullptr, input};
    static_cast<void>(*static_cast<const volatile std::byte*>(record + record_bytes_ - 1));
    return {order_.leading_bits(record), record, input};
  }

  // Compares (key, exhausted, input).
  bool beats(const Player& a, const Player& b) const noexcept {
    if (a.bits != b.bits) [[likely]]
      return a.bits < b.bits;
    if (a.record == nullptr || b.record == nullptr) {
      return a.record != nullptr || (b.record == nullptr && a.input < b.input);
    }
    if (decide_) return a.input < b.input;
    return a.input < b.input ? !order_.less_of_equal_bits(b.record, a.record)
                             : order_.less_of_equal_bits(a.record, b.record);
  }

  const Rules order_;
  const std::size_t record_bytes_;
  const bool decide_;
  LineVector<MergeInput> inputs_;
  LineVector<std::uint64_t> left_;  // records of each input
  LineVector<Player> losers_;       // of inner node 1 ... k - 1; input i is leaf k + i
  LineVector<Player> first_round_;  // the winners of all nodes at the start
  Player winner_;
  std::uint64_t total_ = 0;  // records left
};

// Merges record by record, on the thread of the caller. The inputs need not be sorted.
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

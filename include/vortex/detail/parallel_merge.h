// Merges records by several threads, each between two exact ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "vortex/detail/cache_line.h"
#include "vortex/detail/loser_tree.h"
#include "vortex/detail/multisequence_selection.h"
#include "vortex/detail/order_rules.h"
#include "vortex/detail/streaming_copy.h"
#include "vortex/detail/task_ring.h"
#include "vortex/record_order.h"

namespace vortex::inline v0::detail {

// The last records of the blocks that are there bound what can be merged: what lies up to the least
// of them needs no further block, and then the input that this record belongs to enters its next
// one. So blocks are needed in the order in which a merge by one thread needs them.
//
// What can be merged is divided into pieces by rank (multisequence selection). The threads merge a
// piece each by a loser tree, to memory that stays in their caches, while the caller divides what
// comes next, and passes on the pieces that are merged. The caller alone enters blocks and touches
// the output; the threads read blocks that are there.
template <OrderRules R>
class ParallelMerge final : public RecordMerge {
 public:
  // Whether pieces are worth a thread's while.
  static bool suits(const R& rules, std::size_t inputs, const MergeRoom& room) noexcept {
    // Of each input in a piece: with less, to find it takes as long as to merge it.
    constexpr std::size_t kLeastBytes = std::size_t{2} << 10;
    return room.threads > 1 && inputs >= 2 && room.window_blocks >= 2 &&
           piece_bytes(inputs, room) >= std::max(inputs * kLeastBytes, rules.record_bytes());
  }

  ParallelMerge(const R& rules, std::span<const MergeInput> inputs, const MergeRoom& room)
      : rules_(rules),
        record_bytes_(rules.record_bytes()),
        block_bytes_(room.block_bytes),
        window_blocks_(room.window_blocks),
        piece_records_(piece_bytes(inputs.size(), room) / record_bytes_),
        selection_(rules, inputs.size()),
        ahead_(inputs.begin(), inputs.end()),
        merged_up_to_(inputs.size()),
        ring_(pieces_for(room.threads), room.threads,
              [this](std::size_t slot, unsigned) { merge_piece(pieces_[slot]); }) {
    pieces_.reserve(pieces_for(room.threads));
    for (std::size_t i = 0; i < pieces_for(room.threads); ++i) {
      pieces_.emplace_back(rules, inputs, piece_records_ * record_bytes_);
    }
    inputs_.reserve(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs_.push_back({.begin = inputs[i].begin, .records = inputs[i].records});
      ahead_[i].records = 0;
      merged_up_to_[i] = inputs[i].begin;
      left_ += inputs[i].records;
    }
    not_divided_ = left_;
  }

  void start() noexcept override {
    for (Input& input : inputs_) enter_block(input);
    find_bound();
  }
  std::uint64_t records_left() const noexcept override { return left_; }

  void merge(std::uint64_t count, RecordOutput& out) override {
    while (count > 0) {
      if (ready_.empty()) next_piece();
      const std::size_t bytes = static_cast<std::size_t>(
          std::min<std::uint64_t>(count, ready_.size() / record_bytes_) * record_bytes_);
      const std::span<std::byte> room = out.room(bytes);
      copy_past_caches(room.data(), ready_.data(), room.size());
      ready_ = ready_.subspan(room.size());
      if (ready_.empty()) ring_.release();
      left_ -= room.size() / record_bytes_;
      count -= room.size() / record_bytes_;
      out.written(room.size());
    }
  }

 private:
  struct Input {
    const std::byte* begin = nullptr;
    std::uint64_t records = 0;
    std::uint64_t there = 0;  // records up to the end of the newest block
    std::uint64_t end = 0;    // of those that need no further block
    KeyedRecord last = {};    // of those that are there
  };
  // Records between two ranks.
  struct alignas(kCacheLineBytes) Piece {
    Piece(const R& rules, std::span<const MergeInput> inputs, std::size_t bytes)
        : parts(inputs.begin(), inputs.end()),
          tree(rules, inputs),
          merged(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}

    std::vector<MergeInput> parts;  // of each input
    std::size_t records = 0;
    LoserTree<R> tree;
    std::unique_ptr<std::byte[]> merged;
  };

  static std::size_t pieces_for(unsigned threads) noexcept { return 2 * std::size_t{threads} + 1; }

  // As long as the second-level cache holds, the memory suffices, and blocks are there for a piece
  // each.
  static std::size_t piece_bytes(std::size_t inputs, const MergeRoom& room) noexcept {
    constexpr std::size_t kMostBytes = std::size_t{512} << 10;
    constexpr std::size_t kBytesOfInput = sizeof(MergeInput) + LoserTree<R>::bytes_of_input();
    const std::size_t memory = room.working_bytes / pieces_for(room.threads);
    if (memory <= inputs * kBytesOfInput) return 0;
    const std::size_t ahead = inputs * (room.window_blocks - 1) * room.block_bytes;
    return std::min({kMostBytes, memory - inputs * kBytesOfInput, ahead / (room.threads + 1)});
  }

  KeyedRecord record(const Input& input, std::uint64_t index) const noexcept {
    return with_bits(rules_, input.begin + index * record_bytes_);
  }
  // The block that the first record ends in that is not there yet.
  std::uint64_t block_to_enter(const Input& input) const noexcept {
    return ((input.there + 1) * record_bytes_ - 1) / block_bytes_;
  }

  void enter_block(Input& input) noexcept {
    if (input.there == input.records) return;
    const std::uint64_t block = block_to_enter(input);
    const std::byte* const last_byte = input.begin + (input.there + 1) * record_bytes_ - 1;
    static_cast<void>(*static_cast<const volatile std::byte*>(last_byte));
    input.there = std::min((block + 1) * block_bytes_ / record_bytes_, input.records);
    input.last = record(input, input.there - 1);
  }

  // Whether there is a block to enter, and all has been merged that lies in the one which then
  // goes.
  bool may_enter() const noexcept {
    if (entering_ == nullptr) return false;
    const std::uint64_t stay_from = block_to_enter(*entering_) + 1;
    if (stay_from <= window_blocks_) return true;
    const std::byte* const merged_up_to =
        merged_up_to_[static_cast<std::size_t>(entering_ - inputs_.data())];
    return static_cast<std::uint64_t>(merged_up_to - entering_->begin) >=
           (stay_from - window_blocks_) * block_bytes_;
  }

  // Finds what needs no further block.
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
      ahead_[i].records += more;
      in_ahead_ += more;
    }
  }

  // The end of those records of an input that are not behind the last one of another. Mostly they
  // are few of many.
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

  // As many pieces are under way as there is memory for.
  [[gnu::noinline]] void next_piece() noexcept {
    while (not_divided_ > 0 && ring_.free_slots() > 0) {
      while (in_ahead_ < piece_records_ && may_enter()) {
        enter_block(*entering_);
        find_bound();
      }
      if (in_ahead_ == 0) break;
      fill(pieces_[ring_.next_free()]);
      ring_.submit();
    }
    const Piece& piece = pieces_[ring_.await()];
    ready_ = {piece.merged.get(), piece.records * record_bytes_};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      merged_up_to_[i] = piece.parts[i].begin + piece.parts[i].records * record_bytes_;
    }
  }

  void fill(Piece& piece) noexcept {
    const std::uint64_t least =
        std::min<std::uint64_t>(in_ahead_, std::max<std::size_t>(piece_records_ / 2, 1));
    const auto counts = selection_.select(ahead_, least, piece_records_);
    piece.records = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      piece.parts[i] = {ahead_[i].begin, counts[i]};
      ahead_[i].begin += counts[i] * record_bytes_;
      ahead_[i].records -= counts[i];
      piece.records += counts[i];
    }
    in_ahead_ -= piece.records;
    not_divided_ -= piece.records;
  }

  static void merge_piece(Piece& piece) noexcept {
    piece.tree.restart(piece.parts);
    piece.tree.take(piece.records, piece.merged.get());
  }

  const R& rules_;
  const std::size_t record_bytes_;
  const std::size_t block_bytes_;
  const std::size_t window_blocks_;
  const std::size_t piece_records_;
  std::vector<Input> inputs_;
  MultisequenceSelection<R> selection_;
  std::vector<MergeInput> ahead_;  // of each input, what is in no piece and needs no further block
  std::uint64_t in_ahead_ = 0;     // records
  std::uint64_t not_divided_ = 0;  // records that are in no piece
  std::vector<const std::byte*> merged_up_to_;  // in each input, as far as the caller knows
  Input* entering_ = nullptr;  // whose last record is the bound; none: there is no bound
  std::uint64_t left_ = 0;
  std::span<const std::byte> ready_;  // merged, not yet passed on
  std::vector<Piece> pieces_;
  TaskRing ring_;  // the first to go
};

}  // namespace vortex::inline v0::detail

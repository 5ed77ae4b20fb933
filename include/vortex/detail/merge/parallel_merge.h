// Merges records by several threads, each between two exact ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "vortex/detail/array/streaming_copy.h"
#include "vortex/detail/merge/loser_tree.h"
#include "vortex/detail/merge/merge_frontier.h"
#include "vortex/detail/merge/order_rules.h"
#include "vortex/detail/merge/task_ring.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 { namespace detail {

// What needs no further block (MergeFrontier) is divided into pieces by rank. The threads merge a
// piece each by a loser tree, to memory that stays in their caches, while the caller divides what
// comes next, and passes on the pieces that are merged. The caller alone enters blocks and touches
// the output; the threads read blocks that are there.
template <OrderRules R>
class ParallelMerge final : public RecordMerge {
 public:
  // Whether two threads at least have pieces that are worth their while.
  static bool suits(const R& rules, std::size_t inputs, const MergeRoom& room) noexcept {
    return inputs >= 2 && threads_for(rules, inputs, room) > 1;
  }

  ParallelMerge(const R& rules, std::span<const MergeInput> inputs, const MergeRoom& room)
      : ParallelMerge(rules, inputs, room, threads_for(rules, inputs.size(), room)) {}

  void start() noexcept override { frontier_.start(); }
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

  ParallelMerge(const R& rules, std::span<const MergeInput> inputs, const MergeRoom& room,
                unsigned threads)
      : record_bytes_(rules.record_bytes()),
        piece_records_(piece_bytes(rules, inputs.size(), room, threads) / record_bytes_),
        frontier_(rules, inputs, room),
        selection_(rules, inputs.size()),
        pieces_(make_pieces(rules, inputs, piece_records_ * record_bytes_, pieces_for(threads))),
        ring_(TaskRing::Kind::kMerge, pieces_.size(), threads,
              [this](std::size_t slot, unsigned) { merge_piece(pieces_[slot]); }) {
    for (const MergeInput& input : inputs) left_ += input.records;
    not_divided_ = left_;
  }

  static std::vector<Piece> make_pieces(const R& rules, std::span<const MergeInput> inputs,
                                        std::size_t bytes, std::size_t count) {
    std::vector<Piece> pieces;
    pieces.reserve(count);
    while (pieces.size() < count) pieces.emplace_back(rules, inputs, bytes);
    return pieces;
  }

  // The caller passes one on while every thread has one to merge and one to come.
  static std::size_t pieces_for(unsigned threads) noexcept { return 2 * std::size_t{threads} + 1; }

  // The least that a piece has of all inputs: with less, to find it takes as long as to merge it.
  static std::size_t least_piece_bytes(const R& rules, std::size_t inputs) noexcept {
    constexpr std::size_t kLeastBytes = std::size_t{2} << 10;
    constexpr std::size_t kLeastRecords = 8;
    return inputs * std::max(kLeastBytes, kLeastRecords * rules.record_bytes());
  }

  // Pieces are as long as the second-level cache holds, or so many inputs need, and the memory
  // allows, and so short that each thread has one in the blocks that are there.
  static std::size_t piece_bytes(const R& rules, std::size_t inputs, const MergeRoom& room,
                                 unsigned threads) noexcept {
    constexpr std::size_t kMostBytes = std::size_t{512} << 10;
    constexpr std::size_t kBytesOfInput = sizeof(MergeInput) + LoserTree<R>::bytes_of_input();
    const std::size_t memory = room.working_bytes / pieces_for(threads);
    if (memory <= inputs * kBytesOfInput) return 0;
    const std::size_t ahead = inputs * (room.window_blocks - 1) * room.block_bytes;
    return std::min({std::max(kMostBytes, least_piece_bytes(rules, inputs)),
                     memory - inputs * kBytesOfInput, ahead / (threads + 1)});
  }

  // As many as have pieces that are long enough.
  static unsigned threads_for(const R& rules, std::size_t inputs, const MergeRoom& room) noexcept {
    return threads_that_fit(room.threads, [&](unsigned threads) {
      return piece_bytes(rules, inputs, room, threads) >= least_piece_bytes(rules, inputs);
    });
  }

  // Every slot that is free gets a piece, as far as there is something in front of the frontier.
  [[gnu::noinline]] void next_piece() noexcept {
    while (not_divided_ > 0 && ring_.free_slots() > 0) {
      while (frontier_.records() < piece_records_ && frontier_.may_enter()) frontier_.enter();
      if (frontier_.records() == 0) break;
      fill(pieces_[ring_.next_free()]);
      ring_.submit();
    }
    const Piece& piece = pieces_[ring_.await()];
    ready_ = {piece.merged.get(), piece.records * record_bytes_};
    frontier_.done_with(piece.parts);
  }

  void fill(Piece& piece) noexcept {
    const std::uint64_t least =
        std::min<std::uint64_t>(frontier_.records(), std::max<std::size_t>(piece_records_ / 2, 1));
    const auto rank = selection_.select(frontier_.parts(), least, piece_records_);
    piece.records = static_cast<std::size_t>(frontier_.take(rank.counts, piece.parts));
    not_divided_ -= piece.records;
  }

  static void merge_piece(Piece& piece) noexcept {
    piece.tree.restart(piece.parts);
    piece.tree.take(piece.records, piece.merged.get());
  }

  const std::size_t record_bytes_;
  const std::size_t piece_records_;
  MergeFrontier<R> frontier_;
  MultisequenceSelection<R> selection_;
  std::uint64_t not_divided_ = 0;  // records that are in no piece
  std::uint64_t left_ = 0;
  std::span<const std::byte> ready_;  // merged, not yet passed on
  std::vector<Piece> pieces_;
  TaskRing ring_;  // destroyed first
};

}}}  // namespace vortex::v0::detail

// How a level of a sort splits, found out from a sample of its records.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/detail/radix/digit.h"
#include "vortex/detail/radix/hot_keys.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/record/record_codec.h"

namespace vortex { inline namespace v0 { namespace detail {

// A split, and whether hot keys are left out of it and counted.
template <typename Bits>
struct SplitLevel {
  Split<Bits> split;
  bool counts_hot = false;
};

// Takes samples and chooses splits. Allocates in its constructor only.
template <typename Record, typename KeyOf>
class LevelSplitter {
 public:
  using Bits = typename SortRules<Record, KeyOf>::Bits;
  using Dense = DenseSorter<Record, KeyOf>;
  static constexpr std::size_t kSample = 512;

  // All outlive it. `workspace` is room for twice HotKeys::kSample records, free between calls.
  LevelSplitter(const SortRules<Record, KeyOf>& rules, const Dense& dense, Record* workspace,
                OutputWithHotKeys<Record, KeyOf>& output)
      : rules_(rules),
        dense_(dense),
        workspace_(workspace),
        output_(output),
        sample_(std::make_unique<Bits[]>(kSample)) {}

  // The level that `count` records of the range are split by: take(to, most) takes a sample of at
  // most `most` keys, bits_of(n) are the bits that n records are split by. Where some keys of bare
  // ones are frequent they become hot: they are counted, and only the others are split. Then the
  // output has begun to count.
  template <typename BitsOf, typename Take>
  SplitLevel<Bits> split(std::size_t count, const KeyRange<Bits>& range, BitsOf bits_of,
                         Take take) noexcept {
    SplitLevel<Bits> level;
    const std::size_t size = take(sample_.get(), kSample);
    level.split = split_by_sample(sample_.get(), size, range, 1u << bits_of(count));
    if constexpr (kBareKeys<KeyOf>) {
      constexpr std::size_t kMaxForHot = std::size_t{1} << 23;
      if (!level.split.repeats || output_.counting() || count < 16 * HotKeys<Bits>::kSample ||
          count > kMaxForHot) {
        return level;
      }
      auto* const sample = reinterpret_cast<Bits*>(workspace_);
      const std::size_t looked = take(sample, HotKeys<Bits>::kSample);
      dense_.sort(workspace_, looked, workspace_ + HotKeys<Bits>::kSample, false);
      const std::size_t others = output_.hot_keys().choose(sample, looked);
      if (looked - others < looked / 8) return level;
      output_.begin_counting();
      level.counts_hot = true;
      const std::size_t few = std::min(others, kSample);
      for (std::size_t i = 0; i < few; ++i) sample_[i] = sample[i * others / few];
      const int fewer = std::max(bits_of(count / looked * others), 2);
      level.split = few == 0 ? even_split(range, 1u << fewer)
                             : split_by_sample(sample_.get(), few, range, 1u << fewer);
      level.split.repeats = true;
    }
    return level;
  }

  // Calls body(bucket_of, leave_out) with what tells a record's bucket and whether it is counted.
  template <typename Body>
  void with_level(const SplitLevel<Bits>& level, Body body) noexcept {
    with_digit(level.split, [&](const auto& digit) {
      const auto bucket_of = rules_.on_record(digit);
      if constexpr (kBareKeys<KeyOf>) {
        if (level.counts_hot) {
          return body(bucket_of,
                      [&hot = output_.hot_keys()](Bits key) noexcept { return hot.count(key); });
        }
      }
      body(bucket_of, [](const Record&) noexcept { return false; });
    });
  }

  // Up to `most` keys of the array or chain, evenly spread, to `to`; returns how many.
  template <typename Codec>
  std::size_t take(const Record* records, std::size_t count, const Codec& codec, Bits* to,
                   std::size_t most) const noexcept {
    const EncodedKey key_of(rules_.key_of, codec);
    take_sample(
        count, most, [&](std::size_t at) noexcept { return key_of(records[at]); }, to);
    return most;
  }
  std::size_t take(const ChunkArena<Record>& arena, const Chain& chain, Bits* to,
                   std::size_t most) const noexcept {
    return take(NodeCursor{&arena, chain.head}, chain.count, to, most);
  }
  // From a list of `count` records: `cursor` has data(), size() and advance(), and stands at its
  // first piece. Which records are taken depends on their order alone, not on the pieces.
  template <typename Cursor>
  std::size_t take(Cursor cursor, std::size_t count, Bits* to, std::size_t most) const noexcept {
    constexpr std::size_t kChunk = ChunkArena<Record>::kChunkRecords;
    const std::size_t chunks = count / kChunk;
    // From as many records as fill a chunk, evenly spread, a few evenly spread in turn.
    const std::size_t every = std::max<std::size_t>(chunks / most, 1);
    const std::size_t from_each =
        std::clamp<std::size_t>(most / std::max<std::size_t>(chunks, 1), 1, kChunk);
    std::size_t taken = 0, begin = 0;
    for (std::size_t index = 0; index < chunks && taken + from_each <= most; index += every) {
      const std::size_t start = index * kChunk;
      forward(cursor, begin, start);
      for (std::size_t i = 0; i < from_each; ++i) {
        const std::size_t place = start + (i * kChunk / from_each + index) % kChunk;
        Cursor at = cursor;
        std::size_t before = begin;
        forward(at, before, place);
        to[taken++] = rules_.key_of(at.data()[place - before]);
      }
    }
    return taken;
  }

 private:
  struct NodeCursor {
    const Record* data() const noexcept { return arena->data(node); }
    std::size_t size() const noexcept { return arena->size(node); }
    void advance() noexcept { node = arena->next(node); }
    const ChunkArena<Record>* arena;
    std::uint32_t node;
  };

  // Moves a cursor, before which there are `before` records, to the piece with that record.
  template <typename Cursor>
  static void forward(Cursor& cursor, std::size_t& before, std::size_t place) noexcept {
    while (place - before >= cursor.size()) {
      before += cursor.size();
      cursor.advance();
    }
  }

  const SortRules<Record, KeyOf>& rules_;
  const Dense& dense_;
  Record* const workspace_;
  OutputWithHotKeys<Record, KeyOf>& output_;
  const std::unique_ptr<Bits[]> sample_;
};

}}}  // namespace vortex::v0::detail

// Radix sorting of chains: the levels of Algorithm 9 that work in cache.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "vortex/detail/radix/chain_writer.h"
#include "vortex/detail/radix/chunk_arena.h"
#include "vortex/detail/radix/chunk_source.h"
#include "vortex/detail/radix/counted_keys.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/detail/radix/digit.h"
#include "vortex/detail/radix/kept_memory.h"
#include "vortex/detail/radix/sorted_output.h"
#include "vortex/detail/radix/split.h"

namespace vortex { inline namespace v0 { namespace detail {

// Sorts chains of an arena to an output, depth first. Allocates in its constructor only.
//
// Why the arena always has a free chunk. Let P records fill a chunk, N be sorted, A = floor(N/P) be
// the chunks of the array, S the spare ones. At some moment let L lists be open, that is, filled
// and not yet written out, on all levels together; let them hold H records, and let the output have
// been given room for O records, of the array in the worst case.
//   - Chunks that hold records: all of a list are full but the last, and one more is being read
//     while its records are in other lists already, or in the result: fewer than H/P + L + 1.
//   - Chunks that the result has taken from the array: fewer than O/P + 1.
//   - There are A + S, more than N/P - 1 + S, and H + O <= N.
// So more than S - L - 3 are free. spare_chunks_for() sets kBesidesLists more aside than there can
// be lists, and there is one array of lists, of which every level takes some (take_lists()): no
// input opens more. When lists become rare, levels split less (bits_of_level()).
template <typename Record, typename KeyOf>
class ChainSorter {
 public:
  using Bits = typename SortRules<Record, KeyOf>::Bits;
  using Dense = DenseSorter<Record, KeyOf>;
  static constexpr std::size_t kSample = LevelSplitter<Record, KeyOf>::kSample;
  // Beyond this depth ranges are measured instead of sampled, so that every level narrows them.
  static constexpr int kSampledLevels = 6;
  // And every such level takes that many bits of the range, so that there are not many.
  static constexpr int kMinBits = 4;
  static constexpr std::size_t kMinLists = std::size_t{1} << kMinBits;
  static constexpr int kMaxLevels =
      kSampledLevels + 1 + (std::numeric_limits<Bits>::digits + kMinBits - 1) / kMinBits;
  static constexpr std::size_t kBesidesLists = 4;
  // The workspace: a chain's records in slices with room to spare, and as much for one that has
  // more.
  static constexpr std::size_t kGathered = Dense::kSpacious;

  // Spare chunks of the arena for sorts of `count` records: as many lists as four levels want,
  // which is more than keys without malice lead to, and kMinLists for every level that there can
  // be.
  static std::size_t spare_chunks_for(std::size_t count) noexcept {
    constexpr std::size_t kUsualLevels = 4;
    const std::size_t lists =
        std::min<std::size_t>(kMaxBuckets, std::size_t{1} << std::min(bits_to_split(count), 8));
    return kUsualLevels * lists + kMaxLevels * kMinLists + kBesidesLists;
  }

  // The arena has spare_chunks_for() of the largest sort. `few`: the workspace is kept for the
  // thread's next sort.
  ChainSorter(const SortRules<Record, KeyOf>& rules, ChunkArena<Record>& arena,
              SortedOutput<Record>& output, bool few = false)
      : rules_(rules),
        arena_(arena),
        output_(output),
        workspace_(kGathered * sizeof(Record), few),
        gathered_(static_cast<Record*>(workspace_.get())),
        dense_workspace_(std::make_unique_for_overwrite<typename Dense::Workspace>()),
        dense_(rules, *dense_workspace_),
        slices_(rules, arena, dense_, gathered_),
        most_lists_(arena.spare_chunks() - kBesidesLists),
        lists_(std::make_unique<Chain[]>(most_lists_)),
        tail_(ChunkLayout<Record>::kChunkBytes, false),
        splitter_(rules, dense_, gathered_, output_) {}

  // The bytes that a sorter allocates besides the arena. They are counted for the most lists, which
  // large sorts have.
  static constexpr std::size_t kWorkingBytes =
      kGathered * sizeof(Record) + ChunkLayout<Record>::kChunkBytes +
      sizeof(typename Dense::Workspace) + ChainSlices<Record, KeyOf>::kWorkingBytes +
      (4 * kMaxBuckets + kMaxLevels * kMinLists) * sizeof(Chain) +
      OutputWithHotKeys<Record, KeyOf>::kWorkingBytes;

  // Room for kGathered records, free between sorts.
  Record* workspace() noexcept { return gathered_; }
  // The sorter of few records at once. The caller may use it between sorts.
  const Dense& dense() const noexcept { return dense_; }

  // How the keys of a chain lie in the range that is known of them.
  enum class Spread {
    kUnknown,
    kTight,  // it is narrow
    kEven,   // and they are expected to be spread over it
  };
  // In bucket `bucket` of a split of `count` records, which has got `size` of them.
  static Spread spread_of(const Split<Bits>& split, unsigned bucket, std::size_t size,
                          std::size_t count) noexcept {
    const std::size_t expected = 2 * (count / split.buckets) + 1024;
    const bool slices = split.kind == SplitKind::kSlices || split.kind == SplitKind::kScaled;
    return slices && !split.repeats && size <= expected ? Spread::kEven
           : is_tight(split, bucket)                    ? Spread::kTight
                                                        : Spread::kUnknown;
  }

  // Sorts more than Dense::kMax records to the output: those of the array whose chunks the arena
  // has, which it uses up. `range` holds their encoded keys. False when the output failed.
  template <typename Codec>
  bool sort_array(Record* array, std::size_t count, const KeyRange<Bits>& range,
                  const Codec& codec) noexcept {
    if constexpr (kBare) {
      if (CountedKeys<Bits>::suits(range, count)) {
        CountedKeys<Bits> keys(range, counters());
        codec.encode(array, count);
        keys.add(array, count);
        const std::size_t whole = count / ChunkLayout<Record>::kChunkRecords;
        for (std::size_t i = 0; i < whole; ++i) arena_.give(static_cast<std::uint32_t>(i));
        return write_counted(keys, range, count);
      }
    }
    const SplitLevel<Bits> level = splitter_.split(
        count, range, [&](std::size_t records) noexcept { return bits_of_level(records, 0); },
        [&](Bits* to, std::size_t most) noexcept {
          return splitter_.take(array, count, codec, to, most);
        });
    const std::span<Chain> chains = take_lists(level.split.buckets);
    WholeArray<Record> all(array, count);
    scatter_array(all, level, chains, codec);
    return sort_level(chains, level, range, count, 0);
  }

  // The steps of several sorters that share the work on one array (ParallelSort).
  //
  // Distributes chunks of an array, which have nodes where the arena has them, or a chain to
  // `chains`. Of the above A are the chunks that it has read so far, and L all lists of its
  // stripes: TeamWorker keeps them so few that there are chunks for all of them.
  template <typename Codec>
  void scatter_array(ChunkSource<Record>& source, const SplitLevel<Bits>& level,
                     std::span<Chain> chains, const Codec& codec) noexcept {
    constexpr std::size_t kChunk = ChunkLayout<Record>::kChunkRecords;
    writer_.start(arena_, chains.data(), level.split.buckets);
    splitter_.with_level(level, [&](const auto& bucket_of, const auto& leave_out) {
      for (ChunkRow<Record> of; source.next(of);) {
        for (Record* records = of.records; of.chunks != 0; records += kChunk, --of.chunks) {
          codec.encode(records, kChunk);
          writer_.scatter(records, kChunk, records + kChunk, bucket_of, leave_out);
          arena_.give(of.node++);
        }
      }
      // The records behind the last whole chunk are not part of the arena, and the result may
      // overwrite them at any time.
      const Piece<Record> rest = source.rest();
      auto* const tail = static_cast<Record*>(tail_.get());
      Dense::copy(rest.records, rest.count, tail);
      codec.encode(tail, rest.count);
      writer_.scatter(tail, rest.count, tail, bucket_of, leave_out);
    });
    writer_.finish();
  }
  // Apart from sort(), which calls itself and should not take more of the stack than it must.
  [[gnu::noinline]] void scatter(const Chain& chain, const SplitLevel<Bits>& level,
                                 std::span<Chain> chains) noexcept {
    writer_.start(arena_, chains.data(), level.split.buckets);
    splitter_.with_level(level, [&](const auto& bucket_of, const auto& leave_out) {
      arena_.template for_each_chunk<true>(
          chain, [&](const Record* records, std::size_t count, const Record* next) {
            writer_.scatter(records, count, next, bucket_of, leave_out);
          });
    });
    writer_.finish();
  }
  // The split of `count` records of the range at `level`, without hot keys. On levels below
  // kSampledLevels `range` is what the records hold. `outer_lists` are open on the levels above.
  // It takes `least_bits` at least, where there are lists for them.
  template <typename Take>
  Split<Bits> split(std::size_t count, const KeyRange<Bits>& range, Spread spread, int level,
                    std::size_t outer_lists, int least_bits, Take take) noexcept {
    open_lists_ = outer_lists;
    const unsigned buckets = 1u << bits_of_level(count, level, least_bits);
    open_lists_ = 0;
    if (spread == Spread::kEven || level > kSampledLevels) return even_split(range, buckets);
    std::array<Bits, kSample> sample;
    return split_by_sample(sample.data(), take(splitter_, sample.data(), kSample), range, buckets,
                           rules_.floats);
  }
  // The keys that a chain holds.
  KeyRange<Bits> measure(const Chain& chain) noexcept {
    auto range = KeyRange<Bits>::none();
    arena_.template for_each_chunk<false>(
        chain, [&](const Record* records, std::size_t count, const Record*) {
          for (std::size_t i = 0; i < count; ++i) range.widen(rules_.key_of(records[i]));
        });
    return range;
  }
  // Sorts a chain of the arena to the output, as sort_array() sorts a bucket that it has made:
  // bucket of a level from 1, with as many lists open above.
  void sort_chain(const Chain& chain, const KeyRange<Bits>& range, Spread spread, int level,
                  std::size_t outer_lists) noexcept {
    open_lists_ = outer_lists;
    sort(chain, range, spread, level);
    open_lists_ = 0;
  }

  // How many bits the next level takes of a job of `count` records.
  static int next_bits(std::size_t count) noexcept { return first_split(bits_to_split(count)); }

 private:
  static constexpr bool kBare = kBareKeys<KeyOf>;

  // How many bits level `level`, from 0, takes of `count` records: what the plan says, but so few
  // that every deeper level can have kMinLists of the lists that are left. By the same rule on
  // the levels above, it can have as many itself.
  int bits_of_level(std::size_t count, int level, int least_bits = 1) const noexcept {
    const auto deeper = static_cast<std::size_t>(kMaxLevels - 1 - level);
    const std::size_t most = most_lists_ - open_lists_ - deeper * kMinLists;
    const int least = level > kSampledLevels ? kMinBits : least_bits;
    return std::min(std::max(next_bits(count), least), static_cast<int>(std::bit_width(most)) - 1);
  }

  std::span<Chain> take_lists(std::size_t count) noexcept {
    if (count > most_lists_ - open_lists_) [[unlikely]]
      broken_bound("vortex: a sort opens more lists than it has set aside: a bug in vortex\n");
    const std::span<Chain> lists(lists_.get() + open_lists_, count);
    open_lists_ += count;
    return lists;
  }

  bool sort_level(std::span<Chain> chains, const SplitLevel<Bits>& level,
                  const KeyRange<Bits>& range, std::size_t count, int depth) noexcept {
    bool ok = sort_all(chains, level.split, range, count, depth);
    open_lists_ -= chains.size();
    if (level.counts_hot) {
      ok = ok && output_.write_up_to(range.high);
      output_.end_counting();
    }
    return ok;
  }

  // Sorts what the level made of `split` and `range` has put into `chains`, and gives the chunks
  // back. False when the output failed; chains not yet read keep their chunks.
  bool sort_all(std::span<Chain> chains, const Split<Bits>& split, const KeyRange<Bits>& range,
                std::size_t count, int level) noexcept {
    for (unsigned i = 0; i < split.buckets; ++i) {
      if (chains[i].count == 0) continue;
      const Spread spread = spread_of(split, i, chains[i].count, count);
      if (!sort(std::exchange(chains[i], Chain{}), range_of(split, i, range), spread, level + 1)) {
        return false;
      }
    }
    return true;
  }

  bool sort(const Chain& chain, const KeyRange<Bits>& range, Spread spread, int level) noexcept {
    if (range.low == range.high) return copy_out(chain, range.low);
    if constexpr (kBare) {
      if (CountedKeys<Bits>::suits(range, chain.count)) return count_out(chain, range);
    }
    if (chain.count <= Dense::kMax) return sort_dense(chain, range, spread);
    KeyRange<Bits> held = range;
    if (level > kSampledLevels) {
      held = measure(chain);
      if (held.low == held.high) return copy_out(chain, held.low);
    }
    const auto bits_of = [&](std::size_t count) noexcept { return bits_of_level(count, level); };
    const SplitLevel<Bits> split =
        spread == Spread::kEven || level > kSampledLevels
            ? SplitLevel<Bits>{even_split(held, 1u << bits_of(chain.count))}
            : splitter_.split(chain.count, held, bits_of, [&](Bits* to, std::size_t most) noexcept {
                return splitter_.take(arena_, chain, to, most);
              });
    const std::span<Chain> chains = take_lists(split.split.buckets);
    scatter(chain, split, chains);
    return sort_level(chains, split, held, chain.count, level);
  }

  // All records of one key.
  bool copy_out(const Chain& chain, Bits key) noexcept {
    bool ok = output_.write_below(key);
    arena_.template for_each_chunk<true>(
        chain, [&](const Record* records, std::size_t count, const Record*) {
          if (!ok) return;
          // The room may be where the records are: they go through the buffer.
          Dense::copy(records, count, gathered_);
          Record* const to = output_.room(count);
          ok = to != nullptr;
          if (!ok) return;
          Dense::copy(gathered_, count, to);
          output_.written(to, count);
        });
    return ok;
  }

  std::uint32_t* counters() noexcept {
    static_assert(kGathered * sizeof(Record) >=
                  CountedKeys<Bits>::kMaxCounters * sizeof(std::uint32_t));
    return reinterpret_cast<std::uint32_t*>(gathered_);
  }
  bool count_out(const Chain& chain, const KeyRange<Bits>& range) noexcept {
    CountedKeys<Bits> keys(range, counters());
    arena_.template for_each_chunk<true>(
        chain, [&](const Record* records, std::size_t count, const Record* next) {
          for (std::size_t i = 0; i < count; i += kLine) __builtin_prefetch(next + i);
          keys.add(records, count);
        });
    return write_counted(keys, range, chain.count);
  }
  bool write_counted(const CountedKeys<Bits>& keys, const KeyRange<Bits>& range,
                     std::size_t count) noexcept {
    return output_.write(count, range, [&](Record* to) { keys.write(to, count); });
  }

  [[gnu::noinline]] bool sort_dense(const Chain& chain, const KeyRange<Bits>& range,
                                    Spread spread) noexcept {
    const std::size_t count = chain.count;
    Record* const gathered = gathered_;
    if (count > kMaxSmallSort &&
        !Dense::has_heavy_key(rules_, first_records(chain), first_chunk(chain))) {
      const auto slices = static_cast<unsigned>(
          std::min<std::size_t>(count / Dense::kLeave + 1, Dense::kMaxSlices));
      const std::size_t room = Dense::room_of_slice(count / slices);
      // Numbers of one exponent, a slice of many by their values.
      const bool even = spread == Spread::kEven || (spread == Spread::kTight && rules_.floats &&
                                                    !LinearDigit<Bits>::suits(range));
      if (even && slices * room + count <= kGathered &&
          slices_.gather(chain, ScaledDigit<Bits>::of(range, slices), slices, room)) {
        return output_.write(count, range, [&](Record* to) { slices_.sort(slices, room, to); });
      }
      const KeyRange<Bits> held = spread == Spread::kUnknown ? measure(chain) : range;
      if (held.low == held.high) return copy_out(chain, held.low);
      const unsigned made =
          dense_.with_slices(held, first_records(chain), first_chunk(chain), count, slices, true,
                             [&](const auto& digit, std::size_t most) {
                               slices_.gather_counted(chain, digit, static_cast<unsigned>(most));
                               return static_cast<unsigned>(most);
                             });
      return output_.write(count, range, [&](Record* to) { slices_.sort_counted(made, to); });
    }
    std::size_t at = 0;
    arena_.template for_each_chunk<true>(
        chain, [&](const Record* records, std::size_t here, const Record*) {
          Dense::copy(records, here, gathered + at);
          at += here;
        });
    return output_.write(count, range, [&](Record* to) { dense_.sort(gathered, count, to, true); });
  }

  static std::size_t first_chunk(const Chain& chain) noexcept {
    return std::min(chain.count, ChunkArena<Record>::kChunkRecords);
  }
  // The first records of the chain, together. Records of a chain that begins with a chunk that is
  // not full are gathered.
  const Record* first_records(const Chain& chain) noexcept {
    if (arena_.size(chain.head) >= first_chunk(chain)) [[likely]]
      return arena_.data(chain.head);
    std::size_t at = 0;
    for (std::uint32_t node = chain.head; at < first_chunk(chain); node = arena_.next(node)) {
      const std::size_t here = std::min(arena_.size(node), first_chunk(chain) - at);
      Dense::copy(arena_.data(node), here, gathered_ + at);
      at += here;
    }
    return gathered_;
  }

  static constexpr std::size_t kLine = ChunkLayout<Record>::kLineRecords;

  const SortRules<Record, KeyOf>& rules_;
  ChunkArena<Record>& arena_;
  OutputWithHotKeys<Record, KeyOf> output_;
  ChainWriter<Record> writer_;
  KeptMemory workspace_;
  Record* const gathered_;
  const std::unique_ptr<typename Dense::Workspace> dense_workspace_;
  const Dense dense_;
  ChainSlices<Record, KeyOf> slices_;
  const std::size_t most_lists_;
  const std::unique_ptr<Chain[]> lists_;
  std::size_t open_lists_ = 0;  // the first of them
  const KeptMemory tail_;
  LevelSplitter<Record, KeyOf> splitter_;
};

}}}  // namespace vortex::v0::detail

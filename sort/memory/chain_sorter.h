// Radix sorting of chains: the levels of Algorithm 9 that work in cache.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "sort/memory/broken_bound.h"
#include "sort/memory/chain_writer.h"
#include "sort/memory/chunk_arena.h"
#include "sort/memory/counted_keys.h"
#include "sort/memory/cpu.h"
#include "sort/memory/digit.h"
#include "sort/memory/hot_keys.h"
#include "sort/memory/kept_memory.h"
#include "sort/memory/sample.h"
#include "sort/memory/small_sort_portable.h"
#include "sort/memory/split_plan.h"

namespace vortex::inline v0 {

// How records are compared and how few of them are sorted.
//   KeyOf     record -> uint32_t or uint64_t, ascending
//   small     the base case; null: small_sort_stable
template <typename Record, typename KeyOf>
struct SortRules {
  using Bits = decltype(std::declval<KeyOf>()(std::declval<const Record&>()));
  KeyOf key_of;
  SmallSort<Record> small = nullptr;

  void sort_few(const Record* in, std::size_t count, Record* out) const noexcept {
    if (small != nullptr) {
      small(in, count, out);
    } else {
      small_sort_stable(in, count, out, key_of);
    }
  }
};

// Bits that tell `count` records apart until about 64 are left together.
inline int bits_to_split(std::size_t count) noexcept {
  constexpr std::size_t kLeave = 96;
  return count <= kLeave ? 0 : std::bit_width((count - 1) / kLeave);
}

// Sorts an array by distributing it between itself and `other`, which has as much room, until a few
// records are left. Keeps the order of equal keys if rules.small does.
//
// It calls itself: once for every level of slices, each of which halves the range of keys at least,
// and once for every heavy key, which is an eighth of the records at least. So there are up to 64
// and 46 calls at once, and what a level remembers is not on the stack but in a Workspace.
template <typename Record, typename KeyOf>
class DenseSorter {
 public:
  using Bits = typename SortRules<Record, KeyOf>::Bits;
  // Slices of about this many records: with more, too many hold more than 64, which the vector
  // kernels sort as if they were 128.
  static constexpr std::size_t kLeave = 54;
  static constexpr unsigned kMostSlices = 1024;
  // Both arrays fit the second-level cache.
  static constexpr std::size_t kMost = (std::size_t{192} << 10) / sizeof(Record) >
                                               4 * kSmallSortMost
                                           ? (std::size_t{192} << 10) / sizeof(Record)
                                           : 4 * kSmallSortMost;

  // Where slices begin, for the levels at work. A level of s slices keeps s + 1 places. Slices of a
  // range of w bits are s >= 3 and have ranges of w - 1 bits at most, so kLeastPlaces * w places
  // are enough for it and all levels below; the first ones may use more.
  static constexpr std::size_t kLeastPlaces = 4;
  static constexpr std::size_t kPlaces =
      4 * (kMostSlices + 1) + kLeastPlaces * std::numeric_limits<Bits>::digits;
  struct Workspace {
    std::array<Record*, kMostSlices> cursors;  // of the level that distributes
    std::array<std::uint32_t, kPlaces> places;
  };

  // `workspace` serves one sort at a time.
  DenseSorter(const SortRules<Record, KeyOf>& rules, Workspace& workspace)
      : rules_(rules), workspace_(workspace) {}

  // The result is in `other` if `to_other`, else in `array`.
  void sort(Record* array, std::size_t count, Record* other, bool to_other) const noexcept {
    sort(array, count, other, to_other, workspace_.places);
  }

  // Whether one key seems to be a third of all, from nine of them.
  static bool has_heavy_key(const SortRules<Record, KeyOf>& rules, const Record* records,
                            std::size_t count, Bits* heavy = nullptr) noexcept {
    constexpr std::size_t kLooks = 9;
    std::array<Bits, kLooks> keys;
    for (std::size_t i = 0; i < kLooks; ++i) keys[i] = rules.key_of(records[i * count / kLooks]);
    for (std::size_t i = 0; i + 2 < kLooks; ++i) {
      int equal = 0;
      for (std::size_t k = i + 1; k < kLooks; ++k) equal += keys[k] == keys[i];
      if (equal < 2) continue;
      if (heavy != nullptr) *heavy = keys[i];
      return true;
    }
    return false;
  }

  static void copy(const Record* from, std::size_t count, Record* to) noexcept {
    std::memcpy(static_cast<void*>(to), from, count * sizeof(Record));
  }
  // `cursors` and a copy of the cursor in local variables: the compiler cannot know that the record
  // is not written over them, and would read them again.
  [[gnu::always_inline]] static void append(Record** cursors, unsigned bucket,
                                            const Record& record) noexcept {
    Record* const at = cursors[bucket];
    std::memcpy(static_cast<void*>(at), &record, sizeof(Record));
    cursors[bucket] = at + 1;
  }

 private:
  using Places = std::span<std::uint32_t>;

  // `places`: those that are free.
  void sort(Record* array, std::size_t count, Record* other, bool to_other,
            Places places) const noexcept {
    if (count <= kSmallSortMost) {
      rules_.sort_few(array, count, to_other ? other : array);
      return;
    }
    Bits heavy{};
    if (has_heavy_key(rules_, array, count, &heavy) &&
        sort_around(heavy, array, count, other, to_other, places)) {
      return;
    }
    KeyRange<Bits> range{rules_.key_of(array[0]), rules_.key_of(array[0])};
    for (std::size_t i = 1; i < count; ++i) {
      const Bits key = rules_.key_of(array[i]);
      range.low = std::min(range.low, key);
      range.high = std::max(range.high, key);
    }
    if constexpr (kBareKeys<KeyOf>) {
      if (range.high - range.low < kMostCounters && CountedKeys<Bits>::suits(range, count)) {
        return count_keys(range, array, count, to_other ? other : array);
      }
    }
    const std::size_t slices = distribute(range, array, count, other, places);
    const Places begins = places.first(slices + 1);
    places = places.subspan(slices + 1);
    for (std::size_t i = 0; i < slices; ++i) {
      Record* const slice = other + begins[i];
      Record* const back = array + begins[i];
      const std::size_t size = begins[i + 1] - begins[i];
      if (size <= kSmallSortMost) {  // as nearly all are
        rules_.sort_few(slice, size, to_other ? slice : back);
      } else {
        sort(slice, size, back, !to_other, places);
      }
    }
  }

  // Distributes the array to slices of the range in `other`, whose begins and common end it puts
  // into the first places. Returns how many slices there are.
  [[gnu::noinline]] std::size_t distribute(const KeyRange<Bits>& range, const Record* array,
                                           std::size_t count, Record* other,
                                           Places places) const noexcept {
    const auto width =
        static_cast<std::size_t>(std::bit_width(static_cast<Bits>(range.high - range.low)));
    const std::size_t kept = width == 0 ? 0 : kLeastPlaces * (width - 1);
    const std::size_t slices =
        std::min({count / kLeave + 1, std::size_t{kMostSlices}, places.size() - kept - 1});
    const auto digit = ScaledDigit<Bits>::of(range, static_cast<unsigned>(slices));
    std::uint32_t* const begins = places.data();
    std::fill_n(begins, slices + 1, 0);
    for (std::size_t i = 0; i < count; ++i) ++begins[digit(rules_.key_of(array[i])) + 1];
    Record** const cursors = workspace_.cursors.data();
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < slices; ++i) {
      cursors[i] = other + begin;
      begins[i + 1] = begin += begins[i + 1];
    }
    for (std::size_t i = 0; i < count; ++i) {
      append(cursors, digit(rules_.key_of(array[i])), array[i]);
    }
    return slices;
  }

  // What is less than `heavy`, it, and what is greater: three lists. Nearly all keys are expected
  // to be equal, so that branches are foreseen and the lists end in registers. False, with nothing
  // done, where less than an eighth are.
  bool sort_around(Bits heavy, Record* array, std::size_t count, Record* other, bool to_other,
                   Places places) const noexcept {
    std::size_t less = 0, equal = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Bits key = rules_.key_of(array[i]);
      less += key < heavy;
      equal += key == heavy;
    }
    if (8 * equal < count) return false;
    if (equal == count) {
      if (to_other) copy(array, count, other);
      return true;
    }
    Record* below = other;
    Record* same = other + less;
    Record* above = same + equal;
    for (std::size_t i = 0; i < count; ++i) {
      const Bits key = rules_.key_of(array[i]);
      Record*& to = key == heavy ? same : key < heavy ? below : above;
      copy(array + i, 1, to++);
    }
    sort(other, less, array, !to_other, places);
    if (!to_other) copy(other + less, equal, array + less);
    sort(other + less + equal, count - less - equal, array + less + equal, !to_other, places);
    return true;
  }

  static constexpr std::size_t kMostCounters = 2048;

  [[gnu::noinline]] static void count_keys(const KeyRange<Bits>& range, const Record* in,
                                           std::size_t count, Record* out) noexcept {
    std::array<std::uint32_t, kMostCounters> counters;
    CountedKeys<Bits> keys(range, counters.data());
    keys.add(in, count);
    keys.write(out, count);
  }

  const SortRules<Record, KeyOf>& rules_;
  Workspace& workspace_;
};

// Where the sorted records go, in order.
template <typename Record>
class SortedOutput {
 public:
  virtual ~SortedOutput() = default;
  // Room for the next `count` records; everything before has been written. Null: it cannot be had.
  virtual Record* room(std::size_t count) noexcept = 0;
  // They have been written.
  virtual void written(Record* records, std::size_t count) noexcept = 0;
};

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
  static constexpr std::size_t kSample = 512;
  // Beyond this depth ranges are measured instead of sampled, so that every level narrows them.
  static constexpr int kSampledLevels = 6;
  // And every such level takes that many bits of the range, so that there are not many.
  static constexpr int kLeastBits = 4;
  static constexpr std::size_t kLeastLists = std::size_t{1} << kLeastBits;
  static constexpr int kMostLevels =
      kSampledLevels + 1 + (std::numeric_limits<Bits>::digits + kLeastBits - 1) / kLeastBits;
  static constexpr std::size_t kBesidesLists = 4;
  // The workspace: a chain's records in slices with room to spare, and as much for one that has
  // more.
  static constexpr std::size_t kGathered = 3 * Dense::kMost;

  // Spare chunks of the arena for sorts of `count` records: as many lists as four levels want,
  // which is more than keys without malice lead to, and kLeastLists for every level that there can
  // be.
  static std::size_t spare_chunks_for(std::size_t count) noexcept {
    constexpr std::size_t kUsualLevels = 4;
    const std::size_t lists =
        std::min<std::size_t>(kMostBuckets, std::size_t{1} << std::min(bits_to_split(count), 8));
    return kUsualLevels * lists + kMostLevels * kLeastLists + kBesidesLists;
  }

  // The arena has spare_chunks_for() of the largest sort. `few`: the workspace is kept for the
  // thread's next sort.
  ChainSorter(const SortRules<Record, KeyOf>& rules, ChunkArena<Record>& arena,
              SortedOutput<Record>& output, const SplitSteps& steps = {}, bool few = false)
      : rules_(rules),
        steps_(steps),
        arena_(arena),
        output_(output),
        workspace_(kGathered * sizeof(Record), few),
        gathered_(static_cast<Record*>(workspace_.get())),
        dense_workspace_(std::make_unique_for_overwrite<typename Dense::Workspace>()),
        dense_(rules, *dense_workspace_),
        cursors_(std::make_unique_for_overwrite<Record*[]>(kMostSlices)),
        most_lists_(arena.spare_chunks() - kBesidesLists),
        lists_(std::make_unique<Chain[]>(most_lists_)),
        tail_(static_cast<Record*>(
            ::operator new (ChunkLayout<Record>::kChunkBytes, std::align_val_t{64}))),
        sample_(std::make_unique<Bits[]>(kSample)) {
    if constexpr (kBare) hot_ = std::make_unique<HotKeys<Bits>>();
  }

  // What it allocates besides the arena; for the most lists, which is what large sorts have.
  static constexpr std::size_t kWorkingBytes =
      kGathered * sizeof(Record) + ChunkLayout<Record>::kChunkBytes +
      sizeof(typename Dense::Workspace) + Dense::kMostSlices * sizeof(Record*) +
      (4 * kMostBuckets + kMostLevels * kLeastLists) * sizeof(Chain) +
      (kBareKeys<KeyOf> ? sizeof(HotKeys<Bits>) : 0);

  // Room for kGathered records, free between sorts.
  Record* workspace() noexcept { return gathered_; }
  // What sorts few records at once, free between sorts.
  const Dense& dense() const noexcept { return dense_; }

  // Sorts more than Dense::kMost records to the output: those of the array whose chunks the arena
  // has, which it uses up. `range` holds their encoded keys. False when the output failed.
  template <typename Codec>
  bool sort_array(Record* array, std::size_t count, const KeyRange<Bits>& range,
                  const Codec& codec) noexcept {
    constexpr std::size_t kChunk = ChunkLayout<Record>::kChunkRecords;
    const std::size_t whole = count / kChunk;
    if constexpr (kBare) {
      if (CountedKeys<Bits>::suits(range, count)) {
        CountedKeys<Bits> keys(range, counters());
        codec.encode(array, count);
        keys.add(array, count);
        for (std::size_t i = 0; i < whole; ++i) arena_.give(static_cast<std::uint32_t>(i));
        return write_counted(keys, range, count);
      }
    }
    const Level level =
        split_by_sample_of(count, 0, range, [&](Bits* to, std::size_t most) noexcept {
          return take_sample(array, count, codec, to, most);
        });
    const std::span<Chain> chains = take_lists(level.split.buckets);
    writer_.start(arena_, chains.data(), level.split.buckets);
    with_level(level, [&](const auto& bucket_of, const auto& leave_out) {
      for (std::size_t chunk = 0; chunk < whole; ++chunk) {
        Record* const records = array + chunk * kChunk;
        codec.encode(records, kChunk);
        writer_.scatter(records, kChunk, records + kChunk, bucket_of, leave_out);
        arena_.give(static_cast<std::uint32_t>(chunk));
      }
      // What fills no chunk is not part of the arena, and the result may go there at any time.
      const std::size_t rest = count % kChunk;
      Dense::copy(array + whole * kChunk, rest, tail_.get());
      codec.encode(tail_.get(), rest);
      writer_.scatter(tail_.get(), rest, tail_.get(), bucket_of, leave_out);
    });
    writer_.finish();
    return sort_level(chains, level, range, count, 0);
  }

  // The keys that bucket `bucket` of a split of `parent` can hold.
  static KeyRange<Bits> range_of(const Split<Bits>& split, unsigned bucket,
                                 const KeyRange<Bits>& parent) noexcept {
    KeyRange<Bits> range;
    with_digit(split, [&](const auto& digit) { range = digit.range_of(bucket, parent); });
    return range;
  }

  // Calls body(digit) with the split's digit.
  template <typename Body>
  static void with_digit(const Split<Bits>& split, Body body) {
    switch (split.kind) {
      case SplitKind::kSlices:
        return body(split.slices);
      case SplitKind::kScaled:
        return body(split.scaled);
      case SplitKind::kClamped:
        return body(split.clamped);
      case SplitKind::kThreeWay:
        return body(split.three_way);
      case SplitKind::kDoubling:
        return body(split.doubling);
    }
  }

  template <typename Digit>
  auto on_record(Digit digit) const noexcept {
    return [digit, key_of = rules_.key_of](const Record& record) noexcept {
      return digit(key_of(record));
    };
  }

  // How many bits the next level takes of a job of `count` records.
  int next_bits(std::size_t count) const noexcept { return steps_.next(bits_to_split(count)); }

 private:
  struct Delete {
    void operator()(Record* memory) const noexcept {
      ::operator delete (static_cast<void*>(memory), std::align_val_t{64});
    }
  };

  static constexpr bool kBare = kBareKeys<KeyOf>;

  // How the keys of a chain lie in the range that is known of them.
  enum class Spread {
    kUnknown,
    kTight,  // it is narrow
    kEven,   // and they are expected to be spread over it
  };

  struct Level {
    Split<Bits> split;
    bool counts_hot = false;
  };

  // take(to, most) takes a sample of at most `most` keys. Where some keys of bare ones are frequent
  // they become hot: they are counted, and only the others are split.
  template <typename Take>
  Level split_by_sample_of(std::size_t count, int level, const KeyRange<Bits>& range,
                           Take take) noexcept {
    Level split;
    const std::size_t size = take(sample_.get(), kSample);
    split.split = split_by_sample(sample_.get(), size, range, 1u << bits_of_level(count, level));
    if constexpr (kBare) {
      constexpr std::size_t kMostForHot = std::size_t{1} << 23;
      if (!split.split.repeats || hot_in_use_ || count < 16 * HotKeys<Bits>::kSample ||
          count > kMostForHot) {
        return split;
      }
      auto* const sample = reinterpret_cast<Bits*>(gathered_);
      const std::size_t looked = take(sample, HotKeys<Bits>::kSample);
      dense_.sort(gathered_, looked, gathered_ + HotKeys<Bits>::kSample, false);
      const std::size_t others = hot_->choose(sample, looked);
      if (looked - others < looked / 8) return split;
      hot_in_use_ = split.counts_hot = true;
      const std::size_t few = std::min(others, kSample);
      for (std::size_t i = 0; i < few; ++i) sample_[i] = sample[i * others / few];
      const int fewer = std::max(bits_of_level(count / looked * others, level), 2);
      split.split = few == 0 ? even_split(range, 1u << fewer)
                             : split_by_sample(sample_.get(), few, range, 1u << fewer);
      split.split.repeats = true;
    }
    return split;
  }

  // Calls body(bucket_of, leave_out) with what tells a record's bucket and whether it is counted.
  template <typename Body>
  void with_level(const Level& level, Body body) noexcept {
    with_digit(level.split, [&](const auto& digit) {
      const auto bucket_of = on_record(digit);
      if constexpr (kBare) {
        if (level.counts_hot) {
          return body(bucket_of, [&hot = *hot_](Bits key) noexcept { return hot.count(key); });
        }
      }
      body(bucket_of, [](const Record&) noexcept { return false; });
    });
  }

  // How many bits level `level`, from 0, takes of `count` records: what the plan says, but so few
  // that every deeper level can have kLeastLists of the lists that are left. By the same rule on
  // the levels above, it can have as many itself.
  int bits_of_level(std::size_t count, int level) const noexcept {
    const auto deeper = static_cast<std::size_t>(kMostLevels - 1 - level);
    const std::size_t most = most_lists_ - open_lists_ - deeper * kLeastLists;
    const int least = level > kSampledLevels ? kLeastBits : 1;
    return std::min(std::max(next_bits(count), least), static_cast<int>(std::bit_width(most)) - 1);
  }

  std::span<Chain> take_lists(std::size_t count) noexcept {
    if (count > most_lists_ - open_lists_) [[unlikely]]
      detail::broken_bound(
          "vortex: a sort opens more lists than it has set aside: a bug in vortex\n");
    const std::span<Chain> lists(lists_.get() + open_lists_, count);
    open_lists_ += count;
    return lists;
  }

  bool sort_level(std::span<Chain> chains, const Level& level, const KeyRange<Bits>& range,
                  std::size_t count, int depth) noexcept {
    bool ok = sort_all(chains, level.split, range, count, depth);
    open_lists_ -= chains.size();
    if constexpr (kBare) {
      if (level.counts_hot) {
        ok = ok && write_hot(hot_->copies_up_to(range.high));
        hot_in_use_ = false;
      }
    }
    return ok;
  }

  // Sorts what the level made of `split` and `range` has put into `chains`, and gives the chunks
  // back. False when the output failed; chains not yet read keep their chunks.
  bool sort_all(std::span<Chain> chains, const Split<Bits>& split, const KeyRange<Bits>& range,
                std::size_t count, int level) noexcept {
    const std::size_t expected = 2 * (count / split.buckets) + 1024;
    for (unsigned i = 0; i < split.buckets; ++i) {
      if (chains[i].count == 0) continue;
      const bool slices = split.kind == SplitKind::kSlices || split.kind == SplitKind::kScaled;
      const bool clamped = split.kind == SplitKind::kClamped && i != 0 && i + 1 != split.buckets;
      const Spread spread = slices && !split.repeats && chains[i].count <= expected ? Spread::kEven
                            : slices || clamped                                     ? Spread::kTight
                                                : Spread::kUnknown;
      if (!sort(std::exchange(chains[i], Chain{}), range_of(split, i, range), spread, level + 1)) {
        return false;
      }
    }
    return true;
  }

  // Calls body(records, count, next) for the chunks of a chain in order; each is given back
  // afterwards if `give`.
  template <bool give, typename Body>
  void for_each_chunk(const Chain& chain, Body body) noexcept {
    std::size_t left = chain.count;
    for (std::uint32_t node = chain.head; left != 0;) {
      const std::uint32_t next = arena_.next(node);
      const std::size_t here = std::min(left, ChunkArena<Record>::kChunkRecords);
      const Record* records = arena_.data(node);
      body(records, here, left > here ? arena_.data(next) : records);
      if constexpr (give) arena_.give(node);
      left -= here;
      node = next;
    }
  }

  bool sort(const Chain& chain, const KeyRange<Bits>& range, Spread spread, int level) noexcept {
    if (range.low == range.high) return copy_out(chain, range.low);
    if constexpr (kBare) {
      if (CountedKeys<Bits>::suits(range, chain.count)) return count_out(chain, range);
    }
    if (chain.count <= Dense::kMost) return sort_dense(chain, range, spread);
    KeyRange<Bits> held = range;
    if (level > kSampledLevels) {
      held = measure(chain);
      if (held.low == held.high) return copy_out(chain, held.low);
    }
    const Level split = spread == Spread::kEven || level > kSampledLevels
                            ? Level{even_split(held, 1u << bits_of_level(chain.count, level))}
                            : split_by_sample_of(chain.count, level, held,
                                                 [&](Bits* to, std::size_t most) noexcept {
                                                   return take_sample(chain, to, most);
                                                 });
    const std::span<Chain> chains = take_lists(split.split.buckets);
    scatter(chain, split, chains);
    return sort_level(chains, split, held, chain.count, level);
  }

  // Apart from sort(), which calls itself and should not take more of the stack than it must.
  [[gnu::noinline]] void scatter(const Chain& chain, const Level& level,
                                 std::span<Chain> chains) noexcept {
    writer_.start(arena_, chains.data(), level.split.buckets);
    with_level(level, [&](const auto& bucket_of, const auto& leave_out) {
      for_each_chunk<true>(chain,
                           [&](const Record* records, std::size_t count, const Record* next) {
                             writer_.scatter(records, count, next, bucket_of, leave_out);
                           });
    });
    writer_.finish();
  }

  // All records of one key.
  bool copy_out(const Chain& chain, Bits key) noexcept {
    bool ok = write_hot_below(key);
    for_each_chunk<true>(chain, [&](const Record* records, std::size_t count, const Record*) {
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
                  CountedKeys<Bits>::kMostCounters * sizeof(std::uint32_t));
    return reinterpret_cast<std::uint32_t*>(gathered_);
  }
  bool count_out(const Chain& chain, const KeyRange<Bits>& range) noexcept {
    CountedKeys<Bits> keys(range, counters());
    for_each_chunk<true>(chain, [&](const Record* records, std::size_t count, const Record* next) {
      for (std::size_t i = 0; i < count; i += kLine) __builtin_prefetch(next + i);
      keys.add(records, count);
    });
    return write_counted(keys, range, chain.count);
  }
  bool write_counted(const CountedKeys<Bits>& keys, const KeyRange<Bits>& range,
                     std::size_t count) noexcept {
    return write_out(count, range, [&](Record* to) { keys.write(to, count); });
  }

  // Calls fill(to), which writes `count` sorted records of the range, and writes the hot keys
  // before and among them.
  template <typename Fill>
  bool write_out(std::size_t count, const KeyRange<Bits>& range, Fill fill) noexcept {
    if (!write_hot_below(range.low)) return false;
    std::size_t hot = 0;
    if constexpr (kBare) {
      if (hot_in_use_) hot = hot_->copies_up_to(range.high);
    }
    Record* const to = output_.room(count + hot);
    if (to == nullptr) return false;
    fill(to);
    if constexpr (kBare) {
      if (hot != 0) hot_->write_among(to, count, hot);
    }
    output_.written(to, count + hot);
    return true;
  }
  bool write_hot_below([[maybe_unused]] Bits key) noexcept {
    if constexpr (kBare) {
      if (hot_in_use_) return write_hot(hot_->copies_below(key));
    }
    return true;
  }
  bool write_hot(std::size_t copies) noexcept {
    if (copies == 0) return true;
    Record* const to = output_.room(copies);
    if (to == nullptr) return false;
    hot_->write(copies, to);
    output_.written(to, copies);
    return true;
  }

  [[gnu::noinline]] bool sort_dense(const Chain& chain, const KeyRange<Bits>& range,
                                    Spread spread) noexcept {
    const std::size_t count = chain.count;
    Record* const gathered = gathered_;
    if (count > kSmallSortMost &&
        !Dense::has_heavy_key(rules_, arena_.data(chain.head), first_chunk(chain))) {
      const auto slices =
          static_cast<unsigned>(std::min<std::size_t>(count / Dense::kLeave + 1, kMostSlices));
      const std::size_t room = room_of_slice(count / slices);
      if (spread == Spread::kEven && slices * room + count <= kGathered &&
          gather_slices(chain, ScaledDigit<Bits>::of(range, slices), slices, room)) {
        return write_slices(count, range, slices, [&](unsigned i) { return gathered + i * room; });
      }
      const KeyRange<Bits> held = spread == Spread::kUnknown ? measure(chain) : range;
      if (held.low == held.high) return copy_out(chain, held.low);
      gather_counted_slices(chain, ScaledDigit<Bits>::of(held, slices), slices);
      return write_slices(count, range, slices,
                          [&](unsigned i) { return i == 0 ? gathered : cursors_[i - 1]; });
    }
    std::size_t at = 0;
    for_each_chunk<true>(chain, [&](const Record* records, std::size_t here, const Record*) {
      Dense::copy(records, here, gathered + at);
      at += here;
    });
    return write_out(count, range, [&](Record* to) { dense_.sort(gathered, count, to, true); });
  }

  // Room for a slice that is expected to hold `mean` records: an odd number of cache lines, so that
  // the slices begin in different sets of the cache.
  static constexpr std::size_t room_of_slice(std::size_t mean) noexcept {
    return ((mean + mean / 2 + 40) / kLine | 1) * kLine;
  }

  // Distributes the chain to slices of the workspace without counting first. If each slice has kept
  // to its room the chain's chunks are given back; otherwise nothing has happened and the result is
  // false: a slice may overflow into others, for which the workspace has room.
  bool gather_slices(const Chain& chain, const ScaledDigit<Bits>& digit, unsigned slices,
                     std::size_t room) noexcept {
    const auto slice_of = on_record(digit);
    Record* const begin = gathered_;
    Record** const cursors = cursors_.get();
    for (unsigned i = 0; i < slices; ++i) cursors[i] = begin + i * room;
    for_each_chunk<false>(chain, [&](const Record* records, std::size_t here, const Record* next) {
      std::size_t i = 0;
      for (; i + kLine <= here; i += kLine) {
        __builtin_prefetch(next + i);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < kLine; ++k) {
          Dense::append(cursors, slice_of(records[i + k]), records[i + k]);
        }
      }
      for (; i < here; ++i) Dense::append(cursors, slice_of(records[i]), records[i]);
    });
    bool fits = true;
    for (unsigned i = 0; i < slices; ++i) fits &= cursors[i] <= begin + (i + 1) * room;
    if (fits) for_each_chunk<true>(chain, [](const Record*, std::size_t, const Record*) {});
    return fits;
  }

  // Distributes the chain to slices of the workspace that lie one after the other, and gives its
  // chunks back.
  void gather_counted_slices(const Chain& chain, const ScaledDigit<Bits>& digit,
                             unsigned slices) noexcept {
    const auto slice_of = on_record(digit);
    std::array<std::uint32_t, kMostSlices> sizes;
    std::fill_n(sizes.begin(), slices, 0);
    for_each_chunk<false>(chain, [&](const Record* records, std::size_t here, const Record* next) {
      for (std::size_t i = 0; i < here; ++i) {
        if (i % kLine == 0) __builtin_prefetch(next + i);
        ++sizes[slice_of(records[i])];
      }
    });
    Record* at = gathered_;
    Record** const cursors = cursors_.get();
    for (unsigned i = 0; i < slices; ++i) {
      cursors[i] = at;
      at += sizes[i];
    }
    for_each_chunk<true>(chain, [&](const Record* records, std::size_t here, const Record*) {
      for (std::size_t i = 0; i < here; ++i) {
        Dense::append(cursors, slice_of(records[i]), records[i]);
      }
    });
  }

  // The slices begin at begin_of(slice) and end at their cursors.
  template <typename BeginOf>
  bool write_slices(std::size_t count, const KeyRange<Bits>& range, unsigned slices,
                    BeginOf begin_of) noexcept {
    return write_out(count, range, [&](Record* at) {
      for (unsigned i = 0; i < slices; ++i) {
        Record* const slice = begin_of(i);
        const auto size = static_cast<std::size_t>(cursors_[i] - slice);
        dense_.sort(slice, size, at, true);
        at += size;
      }
    });
  }

  static std::size_t first_chunk(const Chain& chain) noexcept {
    return std::min(chain.count, ChunkArena<Record>::kChunkRecords);
  }

  // Up to `most` keys of the array or chain, evenly spread, to `to`; returns how many.
  template <typename Codec>
  std::size_t take_sample(const Record* records, std::size_t count, const Codec& codec, Bits* to,
                          std::size_t most) const noexcept {
    const std::size_t step = count / most;
    for (std::size_t i = 0; i < most; ++i) {
      // One from each part, at a place that periodic data are unlikely to line up with.
      const std::size_t at = i * step + (i * 0x9e3779b97f4a7c15) % step;
      Record record;
      Dense::copy(records + at, 1, &record);
      codec.encode(&record, 1);
      to[i] = rules_.key_of(record);
    }
    return most;
  }
  std::size_t take_sample(const Chain& chain, Bits* to, std::size_t most) const noexcept {
    const std::size_t chunks = chain.count / ChunkArena<Record>::kChunkRecords;
    // Whole chunks only; from each of some, evenly spread, a few records evenly spread in turn.
    const std::size_t every = std::max<std::size_t>(chunks / most, 1);
    const std::size_t from_each = std::clamp<std::size_t>(most / std::max<std::size_t>(chunks, 1),
                                                          1, ChunkArena<Record>::kChunkRecords);
    std::size_t taken = 0, index = 0;
    std::uint32_t node = chain.head;
    for (; index < chunks && taken + from_each <= most; ++index, node = arena_.next(node)) {
      if (index % every != 0) continue;
      const Record* records = arena_.data(node);
      for (std::size_t i = 0; i < from_each; ++i) {
        const std::size_t at = (i * ChunkArena<Record>::kChunkRecords / from_each + index) %
                               ChunkArena<Record>::kChunkRecords;
        to[taken++] = rules_.key_of(records[at]);
      }
    }
    return taken;
  }

  KeyRange<Bits> measure(const Chain& chain) noexcept {
    KeyRange<Bits> range{std::numeric_limits<Bits>::max(), 0};
    for_each_chunk<false>(chain, [&](const Record* records, std::size_t count, const Record*) {
      for (std::size_t i = 0; i < count; ++i) {
        const Bits key = rules_.key_of(records[i]);
        range.low = std::min(range.low, key);
        range.high = std::max(range.high, key);
      }
    });
    return range;
  }

  static constexpr unsigned kMostSlices = Dense::kMostSlices;
  static constexpr std::size_t kLine = sizeof(Record) >= 64 ? 1 : 64 / sizeof(Record);

  const SortRules<Record, KeyOf>& rules_;
  const SplitSteps steps_;
  ChunkArena<Record>& arena_;
  SortedOutput<Record>& output_;
  ChainWriter<Record> writer_;
  detail::KeptMemory workspace_;
  Record* const gathered_;
  const std::unique_ptr<typename Dense::Workspace> dense_workspace_;
  const Dense dense_;
  const std::unique_ptr<Record*[]> cursors_;  // kMostSlices
  const std::size_t most_lists_;
  const std::unique_ptr<Chain[]> lists_;
  std::size_t open_lists_ = 0;  // the first of them
  std::unique_ptr<Record[], Delete> tail_;
  std::unique_ptr<Bits[]> sample_;
  std::unique_ptr<HotKeys<Bits>> hot_;  // of bare keys
  bool hot_in_use_ = false;             // some have been counted and are to be written
};

}  // namespace vortex::inline v0

#include "sort/record/format_order.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

#include "sort/record/coded_record.h"
#include "sort/record/coded_sort.h"
#include "sort/record/slice_merge.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/cpu.h"
#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/array/small_sort.h"
#include "vortex/sort.h"

namespace vortex { inline namespace v0 {

template class detail::OrderBy<FormatRules>;

namespace {

// Appends the sorted records of a bucket, whose items they are. False: the scratch is too small.
template <typename Coded>
bool sort_coded_bucket(const Coded& coded, std::byte* bucket, std::size_t count,
                       detail::SmallSort<typename Coded::Item> small, std::span<std::byte> scratch,
                       RecordOutput& out) {
  if (CodedSort<Coded>::scratch_bytes(count) > scratch.size()) return false;
  CodedSort<Coded> sorter(coded, small, scratch, out);
  sorter.sort(reinterpret_cast<typename Coded::Item*>(bucket), count);
  return true;
}

// The same for words whose scratch is too small for that. False: they are too many at once.
bool sort_words_in_little_scratch(const CodedWord& coded, std::byte* bucket, std::size_t count,
                                  std::span<std::byte> scratch, RecordOutput& out) {
  if (!detail::sort_words_by_bits(bucket, count, scratch)) return false;
  const auto* words = reinterpret_cast<const std::uint64_t*>(bucket);
  while (count > 0) {
    const std::span<std::byte> room = out.room(count * sizeof *words);
    const std::size_t here = room.size() / sizeof *words;
    coded.decode(words, here, room.data());
    out.written(room.size());
    words += here;
    count -= here;
  }
  return true;
}

// Stores records as items at the ends of the buckets that the table chooses. Some at a time, so
// that the processor chooses the next ones' buckets while it waits for the ends; and prefetched,
// since another processor has just read them from the disk. Those that are read at once lie between
// two multiples of kBytesAtOnce, and so in one block: the compiler may read the last of them first.
template <bool kPlain, typename Coded>
std::size_t scatter_by_table(const Coded& coded, const std::byte* records, std::size_t count,
                             const detail::BucketSplitters::Finder& finder, OpenBuckets& buckets) {
  using Item = typename Coded::Item;
  constexpr std::size_t kAtOnce = 8;
  constexpr std::size_t kBytesAtOnce = kAtOnce * sizeof(Item);
  static_assert(kMinBlockBytes % kBytesAtOnce == 0);
  OpenBuckets::End* const ends = &buckets.end(0);
  constexpr std::size_t kAhead = 2048;
  for (std::size_t done = 0; done < count;) {
    const std::size_t behind = reinterpret_cast<std::uintptr_t>(records) % kBytesAtOnce;
    const std::size_t ahead = (kBytesAtOnce - behind) / sizeof(Item);
    const std::size_t few = std::min(std::max<std::size_t>(ahead, 1), count - done);
    __builtin_prefetch(records + kAhead);
    if constexpr (sizeof(Item) > 8) __builtin_prefetch(records + kAhead + 64);
    std::array<Item, kAtOnce> items;
    std::array<std::size_t, kAtOnce> chosen;
    const auto choose = [&](std::size_t i) {
      const std::byte* const record = records + i * sizeof(Item);
      if constexpr (kPlain) {
        std::memcpy(&items[i], record, sizeof(Item));
      } else {
        items[i] = coded.item(record, coded.bits(record));
      }
      chosen[i] = finder.only_table(typename Coded::KeyOf{}(items[i]));
    };
    if (few == kAtOnce) [[likely]] {
      for (std::size_t i = 0; i < kAtOnce; ++i) choose(i);
    } else {
      for (std::size_t i = 0; i < few; ++i) choose(i);
    }
    for (std::size_t i = 0; i < few; ++i) {
      OpenBuckets::End& end = ends[chosen[i]];
      if (end.room() < sizeof(Item) && !buckets.extend(chosen[i])) [[unlikely]]
        return done + i;
      std::byte* const to = std::exchange(end.cursor, end.cursor + sizeof(Item));
      std::memcpy(to, &items[i], sizeof(Item));
    }
    records += few * sizeof(Item);
    done += few;
  }
  return count;
}

}  // namespace

template <typename Coded>
std::size_t FormatOrder::scatter_coded(const std::byte* records, std::size_t count,
                                       const detail::BucketSplitters& splitters,
                                       OpenBuckets& buckets) const {
  using Item = typename Coded::Item;
  const Coded coded(rules());
  const detail::BucketSplitters::Finder finder = splitters.finder();
  if (finder.table_decides()) {
    return coded.is_plain() ? scatter_by_table<true>(coded, records, count, finder, buckets)
                            : scatter_by_table<false>(coded, records, count, finder, buckets);
  }
  return scatter_by(std::integral_constant<std::size_t, sizeof(Item)>{}, records, count, splitters,
                    buckets,
                    [coded](std::byte* to, const std::byte* record, std::uint64_t bits, auto) {
                      const Item item = coded.item(record, bits);
                      std::memcpy(to, &item, sizeof item);
                    });
}

std::size_t FormatOrder::scatter(const std::byte* records, std::size_t count,
                                 const detail::BucketSplitters& splitters,
                                 OpenBuckets& buckets) const {
  if (CodedWord::suits(rules())) {
    return scatter_coded<CodedWord>(records, count, splitters, buckets);
  }
  if (CodedPair::suits(rules())) {
    return scatter_coded<CodedPair>(records, count, splitters, buckets);
  }
  return OrderBy::scatter(records, count, splitters, buckets);
}

void FormatOrder::sort_bucket(std::byte* records, std::size_t count, std::span<std::byte> scratch,
                              RecordOutput& out) const {
  if (CodedWord::suits(rules())) {
    const CodedWord coded(rules());
    const auto small = detail::small_sort_for<std::uint64_t>(detail::isa_in_use());
    if (sort_coded_bucket(coded, records, count, small, scratch, out)) return;
    if (sort_words_in_little_scratch(coded, records, count, scratch, out)) return;
    coded.decode(reinterpret_cast<std::uint64_t*>(records), count, records);
  } else if (CodedPair::suits(rules())) {
    const CodedPair coded(rules());
    const auto small = detail::stable_small_sort_of_pairs(detail::isa_in_use());
    if (sort_coded_bucket(coded, records, count, small, scratch, out)) return;
    coded.decode(reinterpret_cast<Pair64*>(records), count, records);
  }
  sort(records, count, scratch, out);
}

std::optional<std::size_t> FormatOrder::scratch_to_sort_in_place(std::size_t count) const noexcept {
  if (CodedPair::suits(rules())) return CodedSort<CodedPair>::scratch_bytes(count);
  if (CodedWord::suits(rules())) return CodedSort<CodedWord>::scratch_bytes(count);
  return std::nullopt;
}

// Buckets of items are sorted where they are.
std::optional<std::size_t> FormatOrder::scratch_to_index(std::size_t count) const noexcept {
  if (CodedPair::suits(rules()) || CodedWord::suits(rules())) return std::nullopt;
  return OrderBy::scratch_to_index(count);
}

bool FormatOrder::sort_large_bucket(std::byte* records, std::size_t count,
                                    unsigned threads) const noexcept {
  const auto sort = [&](const auto& coded, auto* items, auto sort_items) {
    try {
      sort_items(items);
    } catch (const std::bad_alloc&) {
      return false;
    }
    coded.decode(items, count, records);
    return true;
  };
  const KeyCode as_it_is;
  if (CodedWord::suits(rules())) {
    return sort(CodedWord(rules()), reinterpret_cast<std::uint64_t*>(records),
                [&](auto* words) { detail::sort_keys_64(words, count, as_it_is, threads); });
  }
  if (CodedPair::suits(rules())) {
    return sort(CodedPair(rules()), reinterpret_cast<Pair64*>(records),
                [&](auto* pairs) { detail::sort_pairs_64(pairs, count, as_it_is, true, threads); });
  }
  return false;
}

std::optional<std::size_t> FormatOrder::bytes_to_sort_large_bucket(
    std::size_t count, unsigned threads) const noexcept {
  if (CodedWord::suits(rules())) {
    return detail::InPlaceSort<std::uint64_t, detail::KeyOfWord>::bytes_of_run(count, threads);
  }
  if (CodedPair::suits(rules())) {
    return detail::InPlaceSort<Pair64, detail::KeyOfPair>::bytes_of_run(count, threads);
  }
  return std::nullopt;
}

std::unique_ptr<RecordMerge> FormatOrder::merge(std::span<const MergeInput> inputs,
                                                const MergeRoom& room) const {
  if (SliceMerge<CodedWord>::suits(rules(), inputs.size(), room)) {
    return std::make_unique<SliceMerge<CodedWord>>(
        rules(), detail::small_sort_for<std::uint64_t>(detail::isa_in_use()), inputs, room);
  }
  if (SliceMerge<CodedPair>::suits(rules(), inputs.size(), room)) {
    return std::make_unique<SliceMerge<CodedPair>>(
        rules(), detail::stable_small_sort_of_pairs(detail::isa_in_use()), inputs, room);
  }
  if (CodedWord::suits(rules()) || CodedPair::suits(rules())) return checked_merge(inputs);
  return OrderBy::merge(inputs, room);
}

std::shared_ptr<const RecordOrder> order_of_format(RecordFormat format) {
  return std::make_shared<FormatOrder>(std::move(format));
}

}}  // namespace vortex::v0

#include "sort/record/format_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

#include "sort/record/coded_record.h"
#include "sort/record/coded_sort.h"
#include "sort/record/slice_merge.h"
#include "vortex/block_pool.h"
#include "vortex/detail/array/in_place_sort.h"

namespace vortex { inline namespace v0 {

template class detail::OrderBy<FormatRules>;

namespace {

// Sorts words of a bucket whose scratch is too small for more. False: they are too many at once.
bool sort_in_little_scratch(const CodedWord& coded, std::byte* bucket, std::size_t count,
                            std::span<std::byte> scratch, RecordOutput& out) {
  if (!detail::sort_words_by_bits(bucket, count, scratch)) return false;
  const auto* const words = reinterpret_cast<const std::uint64_t*>(bucket);
  if (count > 0) put_items(coded, words, count, out.room(count * sizeof *words), out);
  return true;
}

// Another processor has just read the next records from the disk.
template <typename Item>
[[gnu::always_inline]] inline void prefetch_items(const std::byte* records) {
  constexpr std::size_t kAhead = 2048;
  __builtin_prefetch(records + kAhead);
  if constexpr (sizeof(Item) > 8) __builtin_prefetch(records + kAhead + 64);
}

template <bool kPlain, typename Coded>
[[gnu::always_inline]] inline typename Coded::Item item_at(const Coded& coded,
                                                           const std::byte* record) {
  if constexpr (kPlain) {
    typename Coded::Item item;
    std::memcpy(&item, record, sizeof item);
    return item;
  } else {
    return coded.item(record, coded.bits(record));
  }
}

// Counts records for the buckets that `bucket_of` chooses by their bits. Some at a time, as far as
// they are prefetched.
template <bool kPlain, typename Coded, typename BucketOf>
void count_items(const Coded& coded, const std::byte* records, std::size_t count,
                 const BucketOf& bucket_of, std::uint32_t* counts) {
  using Item = typename Coded::Item;
  constexpr std::size_t kAtOnce = 8;
  const auto add = [&](const std::byte* record) {
    ++counts[bucket_of(record, typename Coded::KeyOf{}(item_at<kPlain>(coded, record)))];
  };
  std::size_t done = 0;
  for (; count - done >= kAtOnce; done += kAtOnce, records += kAtOnce * sizeof(Item)) {
    prefetch_items<Item>(records);
    for (std::size_t i = 0; i < kAtOnce; ++i) add(records + i * sizeof(Item));
  }
  for (; done < count; ++done, records += sizeof(Item)) add(records);
}

// Stores records as items at the ends of the buckets that `bucket_of` chooses by their bits. Some
// at a time, so that the processor chooses the next ones' buckets while it waits for the ends.
// Records that are read at once lie between two multiples of kBytesAtOnce, and so in one block: the
// compiler may read the last of them first.
template <bool kPlain, typename Coded, typename BucketOf>
std::size_t scatter_items(const Coded& coded, const std::byte* records, std::size_t count,
                          const BucketOf& bucket_of, OpenBuckets& buckets) {
  using Item = typename Coded::Item;
  constexpr std::size_t kAtOnce = 8;
  constexpr std::size_t kBytesAtOnce = kAtOnce * sizeof(Item);
  static_assert(kMinBlockBytes % kBytesAtOnce == 0);
  OpenBuckets::End* const ends = &buckets.end(0);
  for (std::size_t done = 0; done < count;) {
    const std::size_t behind = reinterpret_cast<std::uintptr_t>(records) % kBytesAtOnce;
    const std::size_t ahead = (kBytesAtOnce - behind) / sizeof(Item);
    const std::size_t few = std::min(std::max<std::size_t>(ahead, 1), count - done);
    prefetch_items<Item>(records);
    std::array<Item, kAtOnce> items;
    std::array<std::size_t, kAtOnce> chosen;
    const auto choose = [&](std::size_t i) {
      const std::byte* const record = records + i * sizeof(Item);
      items[i] = item_at<kPlain>(coded, record);
      chosen[i] = bucket_of(record, typename Coded::KeyOf{}(items[i]));
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

// Of how many records, from the first on, the leading bits are greater than `most`. They are looked
// at in groups, a few at a time without a branch. Of a group that lies in two blocks, the second
// record could be read before the first: there it ends.
template <typename BitsOf>
std::size_t records_behind(std::uint64_t most, const std::byte* records, std::size_t record_bytes,
                           std::size_t count, const BitsOf& bits_of) {
  constexpr std::size_t kAtOnce = 8;
  const auto block_of = [](const std::byte* at) {
    return reinterpret_cast<std::uintptr_t>(at) / kMinBlockBytes;
  };
  const std::size_t group = kAtOnce * record_bytes;
  std::size_t passed = 0;
  for (; count - passed >= kAtOnce; passed += kAtOnce) {
    const std::byte* const at = records + passed * record_bytes;
    if (block_of(at) != block_of(at + group - 1)) break;
    bool any = false;
    for (std::size_t i = 0; i < kAtOnce; ++i) any |= bits_of(at + i * record_bytes) <= most;
    if (any) break;
  }
  return passed;
}

}  // namespace

FormatOrder::FormatOrder(RecordFormat format)
    : detail::OrderBy<FormatRules>(FormatRules(std::move(format))),
      kind_(CodedWord::suits(rules())   ? Kind::kWord
            : CodedPair::suits(rules()) ? Kind::kPair
                                        : Kind::kOther) {}

template <typename Use, typename Otherwise>
auto FormatOrder::by_kind(const Use& use, const Otherwise& otherwise) const {
  switch (kind_) {
    case Kind::kWord:
      return use(CodedWord(rules()));
    case Kind::kPair:
      return use(CodedPair(rules()));
    case Kind::kOther:
      break;
  }
  return otherwise();
}

std::size_t FormatOrder::scatter(const std::byte* records, std::size_t count,
                                 const detail::BucketSplitters& splitters,
                                 OpenBuckets& buckets) const {
  return by_kind(
      [&]<typename Coded>(const Coded& coded) {
        return with_bucket_of(splitters, [&](const auto& bucket_of) {
          return coded.is_plain() ? scatter_items<true>(coded, records, count, bucket_of, buckets)
                                  : scatter_items<false>(coded, records, count, bucket_of, buckets);
        });
      },
      [&] { return OrderBy::scatter(records, count, splitters, buckets); });
}

void FormatOrder::count_for_buckets(const std::byte* records, std::size_t count,
                                    const detail::BucketSplitters& splitters,
                                    std::span<std::uint32_t> counts) const {
  by_kind(
      [&]<typename Coded>(const Coded& coded) {
        with_bucket_of(splitters, [&](const auto& bucket_of) {
          if (coded.is_plain()) {
            count_items<true>(coded, records, count, bucket_of, counts.data());
          } else {
            count_items<false>(coded, records, count, bucket_of, counts.data());
          }
        });
      },
      [&] { OrderBy::count_for_buckets(records, count, splitters, counts); });
}

const std::byte* FormatOrder::greatest_in_bucket(const std::byte* records,
                                                 std::size_t count) const noexcept {
  return by_kind(
      [&]<typename Coded>(const Coded&) {
        const auto* const items = reinterpret_cast<const typename Coded::Item*>(records);
        const auto key_of = typename Coded::KeyOf{};
        std::size_t greatest = 0;
        for (std::size_t i = 1; i < count; ++i) {
          if (key_of(items[i]) >= key_of(items[greatest])) greatest = i;
        }
        return records + greatest * sizeof(typename Coded::Item);
      },
      [&] { return OrderBy::greatest_in_bucket(records, count); });
}

const std::byte* FormatOrder::least_in_bucket(const std::byte* records,
                                              std::size_t count) const noexcept {
  return by_kind(
      [&]<typename Coded>(const Coded&) {
        const auto* const items = reinterpret_cast<const typename Coded::Item*>(records);
        const auto key_of = typename Coded::KeyOf{};
        std::size_t least = 0;
        for (std::size_t i = 1; i < count; ++i) {
          if (key_of(items[i]) < key_of(items[least])) least = i;
        }
        return records + least * sizeof(typename Coded::Item);
      },
      [&] { return OrderBy::least_in_bucket(records, count); });
}

std::uint64_t FormatOrder::leading_bits_in_bucket(const std::byte* record) const noexcept {
  return by_kind(
      [&]<typename Coded>(const Coded&) {
        typename Coded::Item item;
        std::memcpy(&item, record, sizeof item);
        return static_cast<std::uint64_t>(typename Coded::KeyOf{}(item));
      },
      [&] { return OrderBy::leading_bits_in_bucket(record); });
}

std::size_t FormatOrder::divide_bucket(const std::byte* records, std::size_t count,
                                       std::uint64_t bits, const std::byte* border, std::byte* low,
                                       std::byte* high) const noexcept {
  return by_kind(
      [&]<typename Coded>(const Coded&) {
        using Item = typename Coded::Item;
        const auto* const items = reinterpret_cast<const Item*>(records);
        auto* less = reinterpret_cast<Item*>(low);
        auto* others = reinterpret_cast<Item*>(high);
        // Without a branch: each goes to both places, and one of them goes on.
        for (std::size_t i = 0; i < count; ++i) {
          const bool is_less = typename Coded::KeyOf{}(items[i]) < bits;
          *less = *others = items[i];
          less += is_less ? 1 : 0;
          others += is_less ? 0 : 1;
        }
        return static_cast<std::size_t>(less - reinterpret_cast<Item*>(low));
      },
      [&] { return OrderBy::divide_bucket(records, count, bits, border, low, high); });
}

void FormatOrder::sort_bucket(std::byte* records, std::size_t count, std::span<std::byte> scratch,
                              RecordOutput& out) const {
  const bool sorted = by_kind(
      [&]<typename Coded>(const Coded& coded) {
        auto* const items = reinterpret_cast<typename Coded::Item*>(records);
        if (CodedSort<Coded>::scratch_bytes(count) <= scratch.size()) {
          CodedSort<Coded>(coded, Coded::small_sort(), scratch, out).sort(items, count);
          return true;
        }
        if constexpr (std::is_same_v<Coded, CodedWord>) {
          if (sort_in_little_scratch(coded, records, count, scratch, out)) return true;
        }
        coded.decode(items, count, records);
        return false;
      },
      [] { return false; });
  if (!sorted) sort(records, count, scratch, out);
}

std::optional<std::size_t> FormatOrder::scratch_to_sort_in_place(std::size_t count) const noexcept {
  return by_kind(
      [&]<typename Coded>(const Coded&) {
        return std::optional(CodedSort<Coded>::scratch_bytes(count));
      },
      [] { return std::optional<std::size_t>(); });
}

// Buckets of items are sorted where they are.
std::optional<std::size_t> FormatOrder::scratch_to_index(std::size_t count) const noexcept {
  return kind_ == Kind::kOther ? OrderBy::scratch_to_index(count) : std::nullopt;
}

bool FormatOrder::sort_large_bucket(std::byte* records, std::size_t count,
                                    unsigned threads) const noexcept {
  return by_kind(
      [&]<typename Coded>(const Coded& coded) {
        auto* const items = reinterpret_cast<typename Coded::Item*>(records);
        try {
          Coded::sort(items, count, threads);
        } catch (const std::bad_alloc&) {
          return false;
        }
        coded.decode(items, count, records);
        return true;
      },
      [] { return false; });
}

std::optional<std::size_t> FormatOrder::bytes_to_sort_large_bucket(
    std::size_t count, unsigned threads) const noexcept {
  return by_kind(
      [&]<typename Coded>(const Coded&) {
        using Sort = detail::InPlaceSort<typename Coded::Item, typename Coded::KeyOf>;
        return std::optional(
            std::max(Sort::bytes_of_run(count, threads), threads * detail::kMostMergeBytes));
      },
      [] { return std::optional<std::size_t>(); });
}

std::unique_ptr<RecordMerge> FormatOrder::merge(std::span<const MergeInput> inputs,
                                                const MergeRoom& room) const {
  return by_kind(
      [&]<typename Coded>(const Coded&) -> std::unique_ptr<RecordMerge> {
        if (SliceMerge<Coded>::suits(inputs.size(), room))
          return std::make_unique<SliceMerge<Coded>>(rules(), Coded::small_sort(), inputs, room);
        // Of more inputs than slices are made of, all threads merge pieces.
        constexpr std::size_t kFew = 4;
        return inputs.size() < kFew ? checked_merge(inputs) : OrderBy::merge(inputs, room);
      },
      [&] { return OrderBy::merge(inputs, room); });
}

std::size_t FormatOrder::copy_before(const std::byte* bound, const std::byte* records,
                                     std::size_t count, std::byte* to) const {
  const std::uint64_t most = rules().leading_bits(bound);
  const auto copy = [&](std::size_t bytes, const auto& bits_of) {
    return copy_before_by(bound, records, count, to, [&](const std::byte* from, std::size_t some) {
      return records_behind(most, from, bytes, some, bits_of);
    });
  };
  return by_kind(
      [&]<typename Coded>(const Coded& coded) {
        if (!coded.is_plain()) {
          return copy(sizeof(typename Coded::Item),
                      [&](const std::byte* record) { return coded.bits(record); });
        }
        return copy(sizeof(typename Coded::Item), [](const std::byte* record) {
          std::uint64_t bits = 0;
          std::memcpy(&bits, record, sizeof bits);
          return bits;
        });
      },
      [&] {
        return copy(record_bytes(),
                    [&](const std::byte* record) { return rules().leading_bits(record); });
      });
}

std::shared_ptr<const RecordOrder> order_of_format(RecordFormat format) {
  return std::make_shared<FormatOrder>(std::move(format));
}

std::shared_ptr<const RecordOrder> detail::order_of_number(std::size_t record_bytes,
                                                           const SortKey& key) {
  constexpr bool kLittle = std::endian::native == std::endian::little;
  const auto bytes = static_cast<std::size_t>(key.place.bytes);
  const KeyType type = {key.code.kind, bytes,
                        kLittle ? ByteOrder::kLittleEndian : ByteOrder::kBigEndian};
  return order_of_format(
      RecordFormat(record_bytes, {{.offset = static_cast<std::size_t>(key.place.offset),
                                   .length = bytes,
                                   .type = type,
                                   .descending = key.code.descending}}));
}

}}  // namespace vortex::v0

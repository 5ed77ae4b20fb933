// Sorts a bucket of records of one or two words on their way to an output.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <span>

#include "sort/record/coded_record.h"
#include "vortex/detail/dense_sorter.h"
#include "vortex/detail/split.h"
#include "vortex/detail/streaming_copy.h"
#include "vortex/record_order.h"

namespace vortex::inline v0 {

// A radix sort between a bucket and a scratch that holds as much: down to lists that the
// second-level cache holds, each of which is sorted straight to the output. Stable if `small` is;
// allocates nothing.
template <typename Coded>
class CodedSort {
 public:
  using Item = typename Coded::Item;
  using KeyOf = typename Coded::KeyOf;
  using Dense = detail::DenseSorter<Item, KeyOf>;
  using Workspace = typename Dense::Workspace;
  using KeyRange = detail::KeyRange<std::uint64_t>;

  // The scratch that `count` records take.
  static std::size_t scratch_bytes(std::size_t count) noexcept {
    return kFixedBytes + (count > Dense::kMax ? count * sizeof(Item) : 0);
  }

  // `scratch` is for scratch_bytes() of each sort, which is faster where there is
  // room for Dense::kSpacious records more.
  CodedSort(const Coded& coded, detail::SmallSort<Item> small, std::span<std::byte> scratch,
            RecordOutput& out) noexcept
      : CodedSort(coded, small, aligned(scratch.data()), scratch.size(), out) {}

  // Appends the records that the items stand for; what is left of the items is unspecified. The
  // room of the output may be where the items are, each list's in its place: lists are sorted from
  // the scratch, or by way of it.
  void sort(Item* items, std::size_t count) {
    if (is_ascending(items, count)) return put(items, count);
    if (is_descending(items, count)) {
      std::reverse(items, items + count);
      return put(items, count);
    }
    constexpr std::size_t kMore = Dense::kSpacious - Dense::kMax;
    const bool is_more = scratch_bytes_ >= scratch_bytes(count) + kMore * sizeof(Item);
    sorted_room_ = is_more ? Dense::kSpacious : Dense::kMax;
    sort(items, count, sorted_ + sorted_room_, KeyRange{}, false, 0);
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kFixedBytes =
      kAlignment + (sizeof(Workspace) + kAlignment - 1) / kAlignment * kAlignment +
      Dense::kMax * sizeof(Item);
  static constexpr std::size_t kSample = 512;
  // Deeper down ranges are measured instead of sampled, so that every level narrows them.
  static constexpr int kSampledLevels = 4;
  static constexpr unsigned kMaxLists = 256;

  CodedSort(const Coded& coded, detail::SmallSort<Item> small, std::byte* scratch,
            std::size_t bytes, RecordOutput& out) noexcept
      : coded_(coded),
        rules_{{}, small},
        workspace_(new (scratch) Workspace),
        scratch_bytes_(bytes),
        sorted_(reinterpret_cast<Item*>(scratch + kFixedBytes - kAlignment) - Dense::kMax),
        dense_(rules_, *workspace_),
        out_(out) {}

  static std::byte* aligned(std::byte* at) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    return at + (kAlignment - address % kAlignment) % kAlignment;
  }

  static std::uint64_t key_of(const Item& item) noexcept { return KeyOf{}(item); }

  static bool is_ascending(const Item* items, std::size_t count) noexcept {
    std::size_t i = 1;
    while (i < count && key_of(items[i - 1]) <= key_of(items[i])) ++i;
    return i >= count;
  }

  // Strictly, so that equal keys keep their order when it is turned round.
  static bool is_descending(const Item* items, std::size_t count) noexcept {
    std::size_t i = 1;
    while (i < count && key_of(items[i - 1]) > key_of(items[i])) ++i;
    return i >= count;
  }

  // The range holds the keys, and is about as narrow as they are if it is `tight`.
  void sort(Item* items, std::size_t count, Item* other, KeyRange range, bool tight, int level) {
    if (count <= Dense::kMax) return put_sorted(items, count, tight ? &range : nullptr);
    if (level >= kSampledLevels) {
      range = {std::numeric_limits<std::uint64_t>::max(), 0};
      for (std::size_t i = 0; i < count; ++i) {
        range.low = std::min(range.low, key_of(items[i]));
        range.high = std::max(range.high, key_of(items[i]));
      }
    }
    if (range.low == range.high) return put(items, count);
    const unsigned lists = static_cast<unsigned>(
        std::clamp<std::size_t>(2 * count / Dense::kMax, 4, std::size_t{kMaxLists}));
    const detail::Split<std::uint64_t> split = level < kSampledLevels
                                                   ? sampled_split(items, count, range, lists)
                                                   : even_split(range, lists);
    std::array<std::size_t, kMaxLists + 1> ends;
    detail::with_digit(split, [&](const auto& digit) {
      distribute(items, count, other, digit, split.buckets, ends.data());
    });
    for (unsigned i = 0; i < split.buckets; ++i) {
      const std::size_t begin = i == 0 ? 0 : ends[i - 1];
      if (ends[i] == begin) continue;
      sort(other + begin, ends[i] - begin, items + begin, range_of(split, i, range),
           is_tight(split, i), level + 1);
    }
  }

  static detail::Split<std::uint64_t> sampled_split(const Item* items, std::size_t count,
                                                    const KeyRange& range,
                                                    unsigned lists) noexcept {
    std::array<std::uint64_t, kSample> sample;
    const std::size_t step = count / kSample;
    for (std::size_t i = 0; i < kSample; ++i) {
      // One from each part, at a place that periodic data are unlikely to line up with.
      sample[i] = key_of(items[i * step + (i * 0x9e3779b97f4a7c15) % step]);
    }
    return split_by_sample(sample.data(), kSample, range, lists);
  }

  // Copies the items to their lists in `other`, in order; ends[i] is where list i ends.
  template <typename Digit>
  void distribute(const Item* items, std::size_t count, Item* other, const Digit& digit,
                  unsigned lists, std::size_t* ends) const noexcept {
    std::array<std::uint32_t, kMaxLists> sizes;
    std::array<Item*, kMaxLists> cursors;
    std::fill_n(sizes.begin(), lists, 0);
    for (std::size_t i = 0; i < count; ++i) ++sizes[digit(key_of(items[i]))];
    std::size_t end = 0;
    for (unsigned i = 0; i < lists; ++i) {
      cursors[i] = other + end;
      ends[i] = end += sizes[i];
    }
    if (count <= kMaxDirect) {
      for (std::size_t i = 0; i < count; ++i) {
        Dense::append(cursors.data(), digit(key_of(items[i])), items[i]);
      }
      return;
    }
    // A buffer of four cache lines for each list, which is written past the caches. It holds each
    // item where the list has it: the lists begin anywhere in a line.
    Item* const buffers = sorted_;
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned list = digit(key_of(items[i]));
      Item* const at = cursors[list];
      const std::size_t slot = slot_of(at);
      std::memcpy(buffers + list * kBuffered + slot, items + i, sizeof(Item));
      cursors[list] = at + 1;
      if (slot + 1 == kBuffered) {
        write_buffer(buffers + list * kBuffered, list == 0 ? other : other + ends[list - 1],
                     at + 1);
      }
    }
    for (unsigned i = 0; i < lists; ++i) {
      Item* const begin = i == 0 ? other : other + ends[i - 1];
      const std::size_t rest = std::min<std::size_t>(slot_of(cursors[i]), cursors[i] - begin);
      std::memcpy(cursors[i] - rest, buffers + i * kBuffered + slot_of(cursors[i]) - rest,
                  rest * sizeof(Item));
    }
    detail::finish_streaming();
  }

  static constexpr std::size_t kBuffered = 256 / sizeof(Item);
  static_assert(kMaxLists * kBuffered <= Dense::kMax);
  // So many are distributed within the caches.
  static constexpr std::size_t kMaxDirect = (std::size_t{256} << 10) / sizeof(Item);

  static std::size_t slot_of(const Item* at) noexcept {
    return reinterpret_cast<std::uintptr_t>(at) / sizeof(Item) % kBuffered;
  }
  // A full buffer to a list that begins at `begin` and now reaches up to `end`.
  static void write_buffer(const Item* buffer, Item* begin, Item* end) noexcept {
    const auto reached = static_cast<std::size_t>(end - begin);
    if (reached >= kBuffered) [[likely]] {
      detail::streaming_copy<kBuffered * sizeof(Item)>(end - kBuffered, buffer);
    } else {
      std::memcpy(begin, buffer + kBuffered - reached, reached * sizeof(Item));
    }
  }

  // Sorts few items straight to the output, where that has room for them as they are.
  void put_sorted(Item* items, std::size_t count, const KeyRange* known) {
    const std::span<std::byte> room = out_.room(count * sizeof(Item));
    const auto address = reinterpret_cast<std::uintptr_t>(room.data());
    if (coded_.is_plain() && room.size() == count * sizeof(Item) && address % alignof(Item) == 0) {
      dense_.sort_to(items, count, sorted_, sorted_room_, reinterpret_cast<Item*>(room.data()),
                     known);
      return out_.written(room.size());
    }
    dense_.sort(items, count, sorted_, true);
    put_to(room, sorted_, count);
  }

  void put(const Item* items, std::size_t count) {
    if (count != 0) put_to(out_.room(count * sizeof(Item)), items, count);
  }
  void put_to(std::span<std::byte> room, const Item* items, std::size_t count) {
    for (;;) {
      const std::size_t here = room.size() / sizeof(Item);
      coded_.decode(items, here, room.data());
      out_.written(room.size());
      items += here;
      count -= here;
      if (count == 0) return;
      room = out_.room(count * sizeof(Item));
    }
  }

  const Coded coded_;
  const detail::SortRules<Item, KeyOf> rules_;
  Workspace* const workspace_;
  const std::size_t scratch_bytes_;
  Item* const sorted_;
  std::size_t sorted_room_ = Dense::kMax;  // items; behind it there is room for the bucket's
  const Dense dense_;
  RecordOutput& out_;
};

}  // namespace vortex::inline v0

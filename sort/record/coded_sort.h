// Sorts a bucket of records of one or two words on their way to an output.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

#include "sort/record/coded_record.h"
#include "vortex/detail/array/in_place_sort.h"
#include "vortex/detail/array/streaming_copy.h"
#include "vortex/detail/radix/dense_sorter.h"
#include "vortex/detail/radix/split.h"
#include "vortex/detail/stream/saturating.h"
#include "vortex/record_order.h"

namespace vortex { inline namespace v0 {

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
  // Counts the items of a bucket and of its lists. A bucket has as many as there is memory for,
  // which may be more than 32 bits count.
  using Count = std::size_t;

  // The scratch that `count` records take.
  static std::size_t scratch_bytes(std::size_t count) noexcept {
    return kFixedBytes + (count > Dense::kMax ? count * sizeof(Item) : 0);
  }

  // `scratch` is for scratch_bytes() of each sort, which is faster where there is
  // room for Dense::kSpacious records more.
  CodedSort(const Coded& coded, detail::SmallSort<Item> small, std::span<std::byte> scratch,
            RecordOutput& out) noexcept
      : CodedSort(coded, small, detail::align_up(scratch.data(), kAlignment), scratch.size(), out) {
  }

  // Appends the records that the items stand for; what is left of the items is unspecified. The
  // room of the output may be where the items are, each list's in its place: lists are sorted from
  // the scratch, or by way of it.
  void sort(Item* items, std::size_t count) {
    if (detail::sorted_or_reversed(items, count, KeyOf{})) return put(items, count);
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
        scratch_end_(reinterpret_cast<Item*>(scratch) + (bytes - kAlignment) / sizeof(Item)),
        sorted_(reinterpret_cast<Item*>(scratch + kFixedBytes - kAlignment) - Dense::kMax),
        dense_(rules_, *workspace_),
        out_(out) {}

  static std::uint64_t key_of(const Item& item) noexcept { return KeyOf{}(item); }

  // The range holds the keys, and is about as narrow as they are if it is `tight`.
  void sort(Item* items, std::size_t count, Item* other, KeyRange range, bool tight, int level) {
    if (count <= Dense::kMax) return put_sorted(items, count, tight ? &range : nullptr);
    if (level >= kSampledLevels) {
      range = KeyRange::none();
      for (std::size_t i = 0; i < count; ++i) range.widen(key_of(items[i]));
    }
    if (range.low == range.high) return put(items, count);
    const unsigned lists = static_cast<unsigned>(
        std::clamp<std::size_t>(3 * count / Dense::kMax, 4, std::size_t{kMaxLists}));
    const detail::Split<std::uint64_t> split = level < kSampledLevels
                                                   ? sampled_split(items, count, range, lists)
                                                   : even_split(range, lists);
    std::array<List, kMaxLists> made;
    detail::with_digit(split, [&](const auto& digit) {
      if (level > 0 || !distribute_spaced(items, count, other, digit, split.buckets, made.data())) {
        distribute(items, count, other, digit, split.buckets, made.data());
      }
    });
    for (unsigned i = 0; i < split.buckets; ++i) {
      if (made[i].size == 0) continue;
      sort(other + made[i].begin, made[i].size, items, range_of(split, i, range),
           is_tight(split, i), level + 1);
      items += made[i].size;
    }
  }

  static detail::Split<std::uint64_t> sampled_split(const Item* items, std::size_t count,
                                                    const KeyRange& range,
                                                    unsigned lists) noexcept {
    std::array<std::uint64_t, kSample> sample;
    detail::take_sample(
        count, kSample, [&](std::size_t at) { return key_of(items[at]); }, sample.data());
    return split_by_sample(sample.data(), kSample, range, lists);
  }

  // What a level remembers: little, since it is on the stack.
  struct List {
    Count begin;  // in what the items were copied to
    Count size;
  };
  // While lists are made.
  struct Lists {
    std::array<Item*, kMaxLists + 1> begins;  // where one begins the room of the other ends
    std::array<Item*, kMaxLists> ends;
  };

  // Copies the items to lists in `other`, in order.
  template <typename Digit>
  [[gnu::noinline]] void distribute(const Item* items, std::size_t count, Item* other,
                                    const Digit& digit, unsigned lists, List* made) const noexcept {
    for (unsigned i = 0; i < lists; ++i) made[i].size = 0;
    for (std::size_t i = 0; i < count; ++i) ++made[digit(key_of(items[i]))].size;
    Lists places;
    Count begin = 0;
    for (unsigned i = 0; i < lists; ++i) {
      made[i].begin = begin;
      places.begins[i] = places.ends[i] = other + begin;
      begin += made[i].size;
    }
    if (count <= kMaxDirect) {
      for (std::size_t i = 0; i < count; ++i) {
        Dense::append(places.ends.data(), digit(key_of(items[i])), items[i]);
      }
      return;
    }
    fill<false>(items, count, digit, places);
    end_lists(lists, places);
  }

  // The same for lists as large as each other that have room between them, so that nobody needs to
  // count first. False, and the items are as they were: they do not fit so.
  template <typename Digit>
  [[gnu::noinline]] bool distribute_spaced(const Item* items, std::size_t count, Item* other,
                                           const Digit& digit, unsigned lists,
                                           List* made) const noexcept {
    if (count <= kMaxDirect) return false;
    // The outer ones get what lies beyond the sample, too.
    const std::size_t more = count / (kSample / 8) / kBuffered * kBuffered;
    const auto all = static_cast<std::size_t>(scratch_end_ - other);
    if (all < count + 2 * more) return false;
    const std::size_t room = (all - 2 * more) / lists / kBuffered * kBuffered;
    if (room < (count + count / 16) / lists + 2 * kBuffered) return false;
    Lists places;
    for (unsigned i = 0; i <= lists; ++i) {
      places.begins[i] = other + i * room + (i == 0 ? 0 : i < lists ? more : 2 * more);
    }
    std::copy_n(places.begins.begin(), lists, places.ends.begin());
    // Some of them show whether the lists get about the same.
    const std::size_t some = count / 8;
    if (!fill<true>(items, some, digit, places)) return false;
    for (unsigned i = 0; i < lists; ++i) {
      const auto size = static_cast<std::size_t>(places.ends[i] - places.begins[i]);
      if (size > (room + more) * 3 / 16) return false;
    }
    if (!fill<true>(items + some, count - some, digit, places)) return false;
    end_lists(lists, places);
    for (unsigned i = 0; i < lists; ++i) {
      made[i].begin = static_cast<Count>(places.begins[i] - other);
      made[i].size = static_cast<Count>(places.ends[i] - places.begins[i]);
    }
    return true;
  }

  // Appends the items to their lists by way of a buffer of four cache lines for each, which is
  // written past the caches. It holds each item where the list has it: the lists may begin anywhere
  // in a line. False: a list has no room for another buffer, if that is limited.
  template <bool kLimited, typename Digit>
  bool fill(const Item* items, std::size_t count, const Digit& digit,
            Lists& places) const noexcept {
    constexpr std::size_t kAtOnce = 8;
    const auto append = [&](const Item& item, unsigned list) {
      Item* const at = places.ends[list];
      const std::size_t slot = slot_of(at);
      std::memcpy(buffer(list) + slot, &item, sizeof(Item));
      places.ends[list] = at + 1;
      if (slot + 1 < kBuffered) return true;
      write_buffer(buffer(list), places.begins[list], at + 1);
      return !kLimited || at + 1 + kBuffered <= places.begins[list + 1];
    };
    std::size_t done = 0;
    for (; done + kAtOnce <= count; done += kAtOnce) {
      // Buckets come from memory.
      __builtin_prefetch(items + done + kAhead);
      if constexpr (sizeof(Item) > 8) __builtin_prefetch(items + done + kAhead + kAtOnce / 2);
      std::array<unsigned, kAtOnce> chosen;
      for (std::size_t i = 0; i < kAtOnce; ++i) chosen[i] = digit(key_of(items[done + i]));
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        if (!append(items[done + i], chosen[i])) [[unlikely]]
          return false;
      }
    }
    for (; done < count; ++done) {
      if (!append(items[done], digit(key_of(items[done])))) return false;
    }
    return true;
  }

  // Writes what the buffers hold.
  void end_lists(unsigned lists, const Lists& places) const noexcept {
    for (unsigned i = 0; i < lists; ++i) {
      Item* const end = places.ends[i];
      const std::size_t rest = std::min<std::size_t>(slot_of(end), end - places.begins[i]);
      std::memcpy(end - rest, buffer(i) + slot_of(end) - rest, rest * sizeof(Item));
    }
    detail::finish_streaming();
  }

  static constexpr std::size_t kBuffered = 256 / sizeof(Item);
  static constexpr std::size_t kAhead = 2048 / sizeof(Item);
  static_assert(kMaxLists * kBuffered <= Dense::kMax);
  // This many items are distributed within the caches.
  static constexpr std::size_t kMaxDirect = (std::size_t{256} << 10) / sizeof(Item);

  Item* buffer(unsigned list) const noexcept { return sorted_ + list * kBuffered; }
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
    put_items(coded_, sorted_, count, room, out_);
  }

  void put(const Item* items, std::size_t count) {
    if (count != 0) put_items(coded_, items, count, out_.room(count * sizeof(Item)), out_);
  }

  const Coded coded_;
  const detail::SortRules<Item, KeyOf> rules_;
  Workspace* const workspace_;
  const std::size_t scratch_bytes_;
  Item* const scratch_end_;
  Item* const sorted_;
  std::size_t sorted_room_ = Dense::kMax;  // items; behind it there is room for the bucket's
  const Dense dense_;
  RecordOutput& out_;
};

}}  // namespace vortex::v0

// Merges of two sorted arrays that the caches hold, without a branch for each record.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/record/key.h"
#include "vortex/version.h"

namespace vortex { inline namespace v0 { namespace detail {

// What is left of two inputs, and where it goes.
template <typename Record>
struct MergePart {
  const Record* a;
  const Record* a_end;
  const Record* b;
  const Record* b_end;
  Record* out;

  std::size_t least_left() const noexcept {
    return static_cast<std::size_t>(std::min(a_end - a, b_end - b));
  }
};

// Record by record.
template <typename Record, typename KeyOf>
void merge_part(MergePart<Record> part, const KeyOf& key_of) noexcept {
  while (const std::size_t steps = part.least_left()) {
    for (std::size_t i = 0; i < steps; ++i) {
      const bool is_b = key_of(*part.b) < key_of(*part.a);
      std::memcpy(static_cast<void*>(part.out++), is_b ? part.b : part.a, sizeof(Record));
      part.b += is_b ? 1 : 0;
      part.a += is_b ? 0 : 1;
    }
  }
  const auto append_all = [&](const Record* from, const Record* end) {
    const auto left = static_cast<std::size_t>(end - from);
    if (left != 0) std::memcpy(static_cast<void*>(part.out), from, left * sizeof(Record));
    part.out += left;
  };
  append_all(part.a, part.a_end);
  append_all(part.b, part.b_end);
}

// How many of the first `count` records of the result are from `a`.
template <typename Record, typename KeyOf>
std::size_t from_a(std::span<const Record> a, std::span<const Record> b, std::size_t count,
                   const KeyOf& key_of) noexcept {
  std::size_t low = count > b.size() ? count - b.size() : 0, high = std::min(count, a.size());
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (key_of(b[count - middle - 1]) < key_of(a[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Of any records: a step takes one.
template <typename Record, typename KeyOfRecord>
struct RecordSteps {
  using KeyOf = KeyOfRecord;
  using Part = MergePart<Record>;
  static constexpr std::size_t kRecords = 1;
  static constexpr std::size_t kLeast = 8;

  void begin(Part&) const noexcept {}
  void finish(const Part& part) const noexcept { merge_part(part, key_of); }

  template <int kCount>
  void advance(Part* parts, std::size_t steps) const noexcept {
    const Record* a[kCount];
    const Record* b[kCount];
    Record* out[kCount];
    for (int k = 0; k < kCount; ++k) {
      a[k] = parts[k].a;
      b[k] = parts[k].b;
      out[k] = parts[k].out;
    }
    for (std::size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < kCount; ++k) {
        const auto is_b = static_cast<std::ptrdiff_t>(key_of(*b[k]) < key_of(*a[k]));
        const Record* const from = select(a[k], b[k], is_b);
        std::memcpy(static_cast<void*>(out[k] + i), from, sizeof(Record));
        b[k] += is_b;
        a[k] += 1 - is_b;
      }
    }
    for (int k = 0; k < kCount; ++k)
      parts[k] = {a[k], parts[k].a_end, b[k], parts[k].b_end, out[k] + steps};
  }

  const KeyOf& key_of;

 private:
  // Of longer records compilers would make a branch.
  static const Record* select(const Record* a, const Record* b, std::ptrdiff_t is_b) noexcept {
    if constexpr (sizeof(Record) <= sizeof(std::uint64_t)) {
      return is_b != 0 ? b : a;
    } else {
      const auto at_a = reinterpret_cast<std::uintptr_t>(a);
      const auto at_b = reinterpret_cast<std::uintptr_t>(b);
      return reinterpret_cast<const Record*>(at_a ^
                                             ((at_a ^ at_b) & static_cast<std::uintptr_t>(-is_b)));
    }
  }
};

// The result is divided into parts, which are merged at the same time: a merge that takes one
// record after the other waits for the comparison before, and processors have time for several
// meanwhile. While both inputs of a part have so many records left, none of the next steps ends one
// of them. Parts of inputs that are not sorted still begin where the one before ends.
template <typename Steps>
class PartedMerge {
 public:
  explicit PartedMerge(const Steps& steps) noexcept : steps_(steps) {}

  template <typename Record>
  void merge(std::span<const Record> a, std::span<const Record> b, Record* out) const noexcept {
    std::array<Part, kParts> parts;
    int count = 0;
    const std::size_t all = a.size() + b.size();
    for (std::size_t i = 0, a_done = 0, done = 0; i < kParts; ++i) {
      const std::size_t end = all * (i + 1) / kParts;
      const std::size_t a_end =
          std::clamp(from_a(a, b, end, steps_.key_of), a_done, a_done + (end - done));
      Part& part = parts[static_cast<std::size_t>(count)];
      static_cast<MergePart<Record>&>(part) = {a.data() + a_done, a.data() + a_end,
                                               b.data() + (done - a_done), b.data() + (end - a_end),
                                               out + done};
      a_done = a_end;
      done = end;
      if (part.least_left() / Steps::kRecords <= Steps::kLeast) {
        merge_part(static_cast<const MergePart<Record>&>(part), steps_.key_of);
      } else {
        steps_.begin(part);
        ++count;
      }
    }
    while (count > 0) count = advance(parts.data(), count);
  }

 private:
  using Part = typename Steps::Part;
  static constexpr std::size_t kParts = 4;

  // Returns how many have something left.
  int advance(Part* parts, int count) const noexcept {
    std::size_t steps = std::numeric_limits<std::size_t>::max();
    for (int k = 0; k < count;) {
      const std::size_t here = parts[k].least_left() / Steps::kRecords;
      if (here < Steps::kLeast) {
        steps_.finish(parts[k]);
        parts[k] = parts[--count];
      } else {
        steps = std::min(steps, here);
        ++k;
      }
    }
    static_assert(kParts == 4);
    switch (count) {
      case 4:
        steps_.template advance<4>(parts, steps);
        break;
      case 3:
        steps_.template advance<3>(parts, steps);
        break;
      case 2:
        steps_.template advance<2>(parts, steps);
        break;
      case 1:
        steps_.template advance<1>(parts, steps);
        break;
    }
    return count;
  }

  const Steps& steps_;
};

// Merges two sorted arrays to `out`, which overlaps neither of them; of equal keys those of `a`
// come first. Where they are not sorted, neither is the result, which still holds each record once.
// Reads and writes nothing beyond. Takes less than a KiB of stack; allocates nothing.
template <typename Record, typename KeyOf>
void merge_two(std::span<const Record> a, std::span<const Record> b, Record* out,
               const KeyOf& key_of) noexcept {
  const RecordSteps<Record, KeyOf> steps{key_of};
  PartedMerge(steps).merge(a, b, out);
}

template <typename Item>
using TwoWayMerge = void (*)(std::span<const Item> a, std::span<const Item> b, Item* out) noexcept;

// The same for the instructions at hand: of words, and of pairs by their keys.
template <typename Item>
TwoWayMerge<Item> two_way_merge_for(Isa isa) noexcept;
template <>
VORTEX_EXPORT TwoWayMerge<std::uint64_t> two_way_merge_for<std::uint64_t>(Isa isa) noexcept;
template <>
VORTEX_EXPORT TwoWayMerge<Pair64> two_way_merge_for<Pair64>(Isa isa) noexcept;

}}}  // namespace vortex::v0::detail

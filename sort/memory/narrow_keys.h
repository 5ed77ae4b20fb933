// Sorts of keys of one or two bytes: there are so few values that they are counted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "vortex/detail/array/small_sort.h"
#include "vortex/detail/record/key_code.h"

namespace vortex { inline namespace v0 { namespace detail {

// Sorts integers. Takes up to 2 bytes a key, 512 KiB at most; throws std::bad_alloc with nothing
// moved.
template <typename Bits>
class NarrowKeys {
 public:
  explicit NarrowKeys(KeyCode code) noexcept
      : flip_(static_cast<Bits>((code.kind == KeyKind::kSigned ? kSign : 0) ^
                                (code.descending ? kAll : 0))) {}

  void sort(Bits* keys, std::size_t count) const {
    if (count <= kMaxSmallSort) return sort_few(keys, count);
    if (sizeof(Bits) == 1 || count > kFewerThanValues) {
      count_all(keys, count);
    } else {
      sort_by_bytes(keys, count);
    }
  }

 private:
  static constexpr std::size_t kAll = static_cast<Bits>(~Bits{0});
  static constexpr std::size_t kSign = (kAll >> 1) + 1;
  static constexpr std::size_t kFewerThanValues = std::size_t{1} << 15;
  static constexpr std::size_t kBytes = 256;

  void sort_few(Bits* keys, std::size_t count) const noexcept {
    std::array<std::uint32_t, kMaxSmallSort> words;
    for (std::size_t i = 0; i < count; ++i) words[i] = static_cast<Bits>(keys[i] ^ flip_);
    small_sort_for<std::uint32_t>(isa_in_use())(words.data(), count, words.data());
    for (std::size_t i = 0; i < count; ++i) keys[i] = static_cast<Bits>(words[i] ^ flip_);
  }

  // Counts in several tables, so that equal keys one after the other do not wait for each other.
  void count_all(Bits* keys, std::size_t count) const {
    constexpr std::size_t kTables = sizeof(Bits) == 1 ? 4 : 1;
    const std::unique_ptr<std::size_t[]> counts(new std::size_t[kTables * (kAll + 1)]());
    std::size_t i = 0;
    for (; i + kTables <= count; i += kTables) {
      for (std::size_t table = 0; table < kTables; ++table) {
        ++counts[table * (kAll + 1) + keys[i + table]];
      }
    }
    for (; i < count; ++i) ++counts[keys[i]];
    Bits* to = keys;
    for (std::size_t encoded = 0; encoded <= kAll; ++encoded) {
      const auto key = static_cast<Bits>(encoded ^ flip_);
      std::size_t copies = 0;
      for (std::size_t table = 0; table < kTables; ++table) {
        copies += counts[table * (kAll + 1) + key];
      }
      to = std::fill_n(to, copies, key);
    }
  }

  // By the lower byte, then by the upper one.
  void sort_by_bytes(Bits* keys, std::size_t count) const {
    const std::unique_ptr<Bits[]> other(new Bits[count]);
    Bits* from = keys;
    Bits* to = other.get();
    for (unsigned shift = 0; shift < 16; shift += 8) {
      std::array<std::size_t, kBytes> begins{};
      const auto byte = [&](Bits key) { return (key ^ flip_) >> shift & (kBytes - 1); };
      for (std::size_t i = 0; i < count; ++i) ++begins[byte(from[i])];
      std::size_t begin = 0;
      for (std::size_t& of_byte : begins) begin += std::exchange(of_byte, begin);
      for (std::size_t i = 0; i < count; ++i) to[begins[byte(from[i])]++] = from[i];
      std::swap(from, to);
    }
  }

  Bits flip_;
};

template <typename Bits>
void sort_narrow_keys(Bits* keys, std::size_t count, KeyCode code) {
  NarrowKeys<Bits>(code).sort(keys, count);
}

}}}  // namespace vortex::v0::detail

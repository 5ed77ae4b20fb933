// Records that benchmarks of arrays sort, and their keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "bench/support/key_distributions.h"

namespace vortex::bench {

template <typename Record>
auto key_of(const Record& record) {
  if constexpr (std::is_arithmetic_v<Record>) {
    return record;
  } else {
    return record.key;
  }
}

// A key behind a value and more bytes.
template <typename Key, std::size_t more>
struct Struct {
  Key value;
  std::byte rest[more];
  Key key;
};
template <typename Key>
struct Struct<Key, 0> {
  Key value;
  Key key;
};
template <typename Record>
constexpr bool kIsStruct = false;
template <typename Key, std::size_t more>
constexpr bool kIsStruct<Struct<Key, more>> = true;

inline constexpr auto in_order = [](const auto& a, const auto& b) { return key_of(a) < key_of(b); };

using Text = std::array<unsigned char, 10>;
template <typename Key>
Key key_from(std::uint64_t key) {
  if constexpr (std::is_integral_v<Key>) {
    return static_cast<Key>(key);
  } else {
    Key text{};
    for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<unsigned char>(key >> (56 - 8 * i));
    return text;
  }
}

template <typename Record>
void fill_records(Keys keys, std::span<Record> out, std::uint64_t seed = 1) {
  std::size_t at = 0;
  const auto take = [&](std::uint64_t key) {
    if constexpr (sizeof(key_of(out[0])) == 4) key ^= key >> 32;
    if constexpr (std::is_arithmetic_v<Record>) {
      out[at] = static_cast<Record>(key);
    } else {
      out[at].key = key_from<decltype(out[at].key)>(key);
      out[at].value = key_from<decltype(out[at].value)>(at);
    }
    ++at;
  };
  for_each_key(keys, out.size(), take, seed);
}

}  // namespace vortex::bench

// Records that know where they were.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vortex::test {

template <typename K, std::size_t bytes>
struct TaggedRecord {
  using Key = K;
  K key;
  std::uint32_t index;
  char rest[bytes - sizeof(K) - 4];
};

}  // namespace vortex::test

// Records that know where they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace vortex::test {

template <typename K, std::size_t bytes>
struct TaggedRecord {
  using Key = K;
  K key;
  std::uint32_t index;
  char rest[bytes - sizeof(K) - 4];
};

struct KeyOfTagged {
  template <typename R>
  auto operator()(const R& record) const noexcept {
    return record.key;
  }
};

template <typename R>
std::vector<R> tagged_records(const std::vector<typename R::Key>& keys) {
  std::vector<R> records(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    records[i].key = keys[i];
    records[i].index = static_cast<std::uint32_t>(i);
    std::memset(records[i].rest, static_cast<int>(i % 251), sizeof records[i].rest);
  }
  return records;
}

}  // namespace vortex::test

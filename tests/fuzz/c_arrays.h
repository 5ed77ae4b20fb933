// What searches need of calls of the C interface that sort arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/fuzz/targets.h"
#include "vortex/c.h"

namespace vortex::test {

inline vtx_sort_options sort_options(FuzzedBytes& bytes) {
  vtx_sort_options options{};
  // More than there are mean all.
  options.threads = bytes.below(16) == 0 ? static_cast<unsigned>(bytes.number()) : bytes.below(4);
  options.descending = bytes.flag();
  options.stable = bytes.flag();
  return options;
}

// Cuts an array into chunks, some of them empty.
inline std::vector<vtx_chunk> chunks_of(FuzzedBytes& bytes, void* array, std::size_t count,
                                        std::size_t element_bytes) {
  std::vector<vtx_chunk> chunks;
  auto* at = static_cast<char*>(array);
  for (std::size_t left = count; left != 0 || bytes.flag();) {
    const std::size_t some = chunks.size() < 20 ? std::min<std::size_t>(left, bytes.byte()) : left;
    chunks.push_back({some == 0 ? nullptr : at, some});
    at += some * element_bytes;
    left -= some;
    if (chunks.size() > 24) break;
  }
  return chunks;
}

// Places in the order that `before` says, equal ones as they come.
template <typename Before>
std::vector<std::uint32_t> places_in_order(std::size_t count, const Before& before) {
  std::vector<std::uint32_t> places(count);
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), before);
  return places;
}

// Room for places of 4 or 8 bytes, or, where they have another size, for none.
class Places {
 public:
  Places(FuzzedBytes& bytes, std::size_t count)
      : bytes_(bytes.below(8) == 0 ? bytes.byte() : 4 << bytes.below(2)),
        room_(count, kUntouched) {}

  bool fit() const { return bytes_ == 4 || bytes_ == 8; }
  std::size_t bytes() const { return bytes_; }
  void* data() { return room_.data(); }
  bool are(const std::vector<std::uint32_t>& expected) const {
    if (bytes_ == 8) return std::equal(expected.begin(), expected.end(), room_.begin());
    return expected.empty() || std::memcmp(room_.data(), expected.data(), expected.size() * 4) == 0;
  }
  bool are_untouched() const {
    return std::count(room_.begin(), room_.end(), kUntouched) ==
           static_cast<std::ptrdiff_t>(room_.size());
  }

 private:
  static constexpr std::uint64_t kUntouched = 0xA5A5A5A5A5A5A5A5U;
  const std::size_t bytes_;
  std::vector<std::uint64_t> room_;
};

}  // namespace vortex::test

// What the memory can do: reading an array, and copying one half of it into the other.
#include <atomic>
#include <cstring>

#include "bench/scaling/cell.h"
#include "bench/support/warm_array.h"

namespace vortex::bench {

// Copied bytes count once.
bool measure_bandwidth(const Cell& cell, Result& result) {
  const bool copies = cell.kind == "copy";
  if (!copies && cell.kind != "read") return false;
  const HugeArray<std::uint64_t> array(cell.bytes / sizeof(std::uint64_t));
  const std::span<std::uint64_t> words = array.records();
  detail::ThreadTeam all(0);
  in_parts(all, words.size(), 256, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) words[i] = i;
  });

  detail::ThreadTeam team(cell.threads);
  const std::uint64_t half = words.size() / 2;
  result.bytes = copies ? half * sizeof words[0] : words.size_bytes();
  std::atomic<std::uint64_t> total{0};
  in_rounds(cell, result, [&] {
    result.time([&] {
      in_parts(team, copies ? half : words.size(), team.threads(),
               [&](std::uint64_t begin, std::uint64_t end) {
                 if (copies) {
                   std::memcpy(&words[half + begin], &words[begin],
                               (end - begin) * sizeof words[0]);
                   return;
                 }
                 std::uint64_t sum = 0;
                 for (std::uint64_t i = begin; i < end; ++i) sum += words[i];
                 total += sum;
               });
    });
  });
  return true;
}

}  // namespace vortex::bench

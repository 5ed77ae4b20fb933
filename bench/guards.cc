// Three ways to notice that a block is read (design of Vortex-S, section 5.3 of the Vortex paper).
//
//   none      nothing is noticed
//   protect   the whole block is made inaccessible with mprotect, and accessible again
//   absence   the block is moved home and back
//   page      the first page of the block is made inaccessible, and accessible again
//
// An iteration guards a block, takes the guard away, and reads the block once, so that the time
// holds what the guard does to huge pages and to the TLB, but no fault, which all need. The
// argument is the size of a block in KiB; there are 64 blocks in turn.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/support/ratios.h"
#include "vortex/block_pool.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/os/memory.h"
#include "vortex/vanishing_array.h"

namespace vortex { namespace {

enum class Guard { kNone, kProtect, kAbsence, kPage };

std::uint64_t read(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sum[4] = {0, 0, 0, 0};
  for (std::size_t i = 0; i < count; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sum[k] += words[i + k];
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

int guard_and_open(Guard guard, VanishingArray<std::uint64_t>& array, std::uint64_t at,
                   std::size_t bytes) {
  std::byte* const block = array.bytes() + at;
  switch (guard) {
    case Guard::kNone:
      return 0;
    case Guard::kProtect:
    case Guard::kPage: {
      const std::size_t part = guard == Guard::kPage ? os::page_bytes() : bytes;
      const int error = os::forbid_access(block, part);
      return error != 0 ? error : os::allow_access(block, part);
    }
    case Guard::kAbsence: {
      const int error = detail::BlockRanges::give_back(array, at, at + bytes);
      return error != 0 ? error : detail::BlockRanges::open(array, at, bytes);
    }
  }
  return 0;
}

void guards(benchmark::State& state, Guard guard) {
  constexpr std::size_t kBlocks = 64;
  const auto bytes = static_cast<std::size_t>(state.range(0)) << 10;
  BlockPool pool({.pool_bytes = kBlocks * bytes, .block_bytes = bytes, .warming = Warming::kEager});
  StreamPool streams(pool, kBlocks);
  VanishingArray<std::uint64_t> array(streams, kBlocks * bytes / 8);
  if (detail::BlockRanges::open(array, 0, kBlocks * bytes) != 0)
    return state.SkipWithError("no blocks");
  std::size_t turn = 0;
  for ([[maybe_unused]] auto _ : state) {
    const std::uint64_t at = turn++ % kBlocks * bytes;
    if (guard_and_open(guard, array, at, bytes) != 0) return state.SkipWithError("refused");
    benchmark::DoNotOptimize(read(array.data() + at / 8, bytes / 8));
  }
  state.SetItemsProcessed(state.iterations());
}

void block_sizes(benchmark::internal::Benchmark* benchmark) {
  for (std::int64_t kib : {64, 256, 1024, 2048, 4096, 8192}) benchmark->Arg(kib);
}
BENCHMARK_CAPTURE(guards, none, Guard::kNone)->Apply(block_sizes)->UseRealTime();
BENCHMARK_CAPTURE(guards, protect, Guard::kProtect)->Apply(block_sizes)->UseRealTime();
BENCHMARK_CAPTURE(guards, absence, Guard::kAbsence)->Apply(block_sizes)->UseRealTime();
BENCHMARK_CAPTURE(guards, page, Guard::kPage)->Apply(block_sizes)->UseRealTime();

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  std::vector<vortex::bench::Ratio> ratios;
  for (const char* kib : {"64", "256", "1024", "2048", "4096", "8192"}) {
    const std::string tail = std::string("/") + kib + "/real_time";
    for (const char* other : {"absence", "page"}) {
      ratios.push_back({"protect against " + std::string(other) + tail, "guards/protect" + tail,
                        "guards/" + (other + tail)});
    }
  }
  return vortex::bench::run_with_ratios(argc, argv, ratios);
}

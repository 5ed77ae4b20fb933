// Partitioning 64-bit keys 2^b ways: Table 7 of the Vortex paper (section 6.6).
//
//   two_pass       counts first, then writes to one array of exactly that size
//   chained        one pass into chunks of 4 KiB, chained
//   vortex         one pass into bucket streams that take the memory of the input
//   preallocated   one pass into buckets that happen to be large enough: the best that is possible
//
// "plain" stores each key where it goes (for vortex: through faults alone), "wc" gathers 512 bytes
// in a buffer and stores them past the caches. Arguments: b, lg of the number of keys. All memory
// has been written before; only `vortex` reads from a vanishing array.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/support/ratios.h"
#include "sort/bucket_writer.h"
#include "sort/partition.h"
#include "sort/write_combiner.h"
#include "vortex/process_memory.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace vortex {
namespace {

constexpr std::size_t kBlock = std::size_t{2} << 20;
using Key = std::uint64_t;

std::unique_ptr<Key[], void (*)(Key*)> warm(std::size_t count) {
  auto* keys = static_cast<Key*>(std::aligned_alloc(kBlock, (count * 8 / kBlock + 1) * kBlock));
  madvise(keys, count * 8, MADV_HUGEPAGE);
  std::fill_n(keys, count, Key{1});
  return {keys, [](Key* memory) { std::free(memory); }};
}

void fill(Key* keys, std::size_t count) {
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < count; ++i) keys[i] = random();
}

struct Digit {
  int shift;
  unsigned operator()(Key key) const noexcept { return static_cast<unsigned>(key >> shift); }
};

void scatter_plain(const Key* keys, std::size_t count, Key** to, Digit digit) {
  for (std::size_t i = 0; i < count; ++i) *to[digit(keys[i])]++ = keys[i];
}

// The same loop as BucketWriter's, without its question whether a block ends. Buckets begin where
// 64 divides the address.
void scatter_wc(const Key* keys, std::size_t count, Key** to, std::size_t ways, Digit digit,
                Key* buffers) {
  struct List {
    Key* cursor;
    Key* end;
  };
  std::vector<List> lists(ways);
  for (std::size_t i = 0; i < ways; ++i) lists[i] = {buffers + 64 * i, buffers + 64 * i + 64};
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 8 == 0) __builtin_prefetch(keys + i + 256);
    const unsigned bucket = digit(keys[i]);
    List& list = lists[bucket];
    *list.cursor++ = keys[i];
    if (list.cursor != list.end) [[likely]]
      continue;
    list.cursor -= 64;
#if defined(__SSE2__)
    for (int k = 0; k < 64; k += 2) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to[bucket] + k),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(list.cursor + k)));
    }
#else
    std::memcpy(to[bucket], list.cursor, 512);
#endif
    to[bucket] += 64;
  }
  for (std::size_t i = 0; i < ways; ++i) {
    const Key* begin = buffers + 64 * i;
    to[i] = std::copy(begin, static_cast<const Key*>(lists[i].cursor), to[i]);
  }
}

enum class How { kTwoPass, kPreallocated };

void into_array(benchmark::State& state, How how, bool combine) {
  const std::size_t ways = std::size_t{1} << state.range(0);
  const std::size_t count = std::size_t{1} << state.range(1);
  const Digit digit{64 - static_cast<int>(state.range(0))};
  // Room for what uniform keys vary by, and for each bucket to begin at a cache line.
  const std::size_t room = (count / ways * 9 / 8 + 4096) / 64 * 64;
  const auto in = warm(count);
  const auto out = warm(room * ways);
  const auto buffers = warm(64 * ways);
  fill(in.get(), count);
  std::vector<Key*> to(ways);
  for ([[maybe_unused]] auto _ : state) {
    if (how == How::kTwoPass) {
      std::vector<std::size_t> counts(ways, 0);
      for (std::size_t i = 0; i < count; ++i) ++counts[digit(in[i])];
      std::size_t at = 0;
      for (std::size_t i = 0; i < ways; ++i) {
        to[i] = out.get() + at;
        at += (counts[i] + 7) / 8 * 8;
      }
    } else {
      for (std::size_t i = 0; i < ways; ++i) to[i] = out.get() + i * room;
    }
    if (combine) {
      scatter_wc(in.get(), count, to.data(), ways, digit, buffers.get());
    } else {
      scatter_plain(in.get(), count, to.data(), digit);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
}

void chained_wc(benchmark::State& state) {
  const auto ways = static_cast<unsigned>(1 << state.range(0));
  const std::size_t count = std::size_t{1} << state.range(1);
  const Digit digit{64 - static_cast<int>(state.range(0))};
  const std::size_t chunks = count / ChunkArena<Key>::kChunkRecords + ways + 1;
  const auto in = warm(count);
  const auto memory = warm(chunks * ChunkArena<Key>::kChunkRecords);
  fill(in.get(), count);
  WriteCombiner<Key> combiner;
  std::vector<Chain> chains(ways);
  for ([[maybe_unused]] auto _ : state) {
    state.PauseTiming();
    ChunkArena<Key> arena(nullptr, 0, memory.get(), chunks);
    state.ResumeTiming();
    combiner.start(arena, chains.data(), ways);
    combiner.scatter(in.get(), count, in.get(), digit);
    combiner.finish();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
}

void vortex_s(benchmark::State& state, bool combine) {
  const std::size_t ways = std::size_t{1} << state.range(0);
  const std::size_t count = std::size_t{1} << state.range(1);
  const Digit digit{64 - static_cast<int>(state.range(0))};
  const std::size_t blocks = count * 8 / kBlock + ways + 2;
  BlockPool pool(
      {.pool_bytes = blocks * kBlock, .block_bytes = kBlock, .warming = Warming::kEager});
  StreamPool streams(pool, blocks);
  VanishingArray<Key> input(streams, count);
  std::vector<Key*> to(ways);
  for ([[maybe_unused]] auto _ : state) {
    std::vector<std::unique_ptr<BucketStream>> buckets;
    for (std::size_t i = 0; i < ways; ++i) {
      buckets.push_back(
          std::make_unique<BucketStream>(streams, BucketStreamOptions{.reserve_bytes = count * 8}));
      to[i] = reinterpret_cast<Key*>(buckets[i]->bytes());
    }
    input.clear();
    input.open_range(0, count * 8);
    fill(input.data(), count);
    input.resize(count);
    if (!combine) input.seal();
    const auto start = std::chrono::steady_clock::now();
    if (combine) {
      partition(input, buckets, digit);
    } else {
      scatter_plain(input.data(), count, to.data(), digit);
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(time.count());
    input.clear();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
}

void arguments(benchmark::internal::Benchmark* benchmark) {
  for (int bits : {6, 7, 8}) benchmark->Args({bits, 25});
}

BENCHMARK_CAPTURE(into_array, two_pass_plain, How::kTwoPass, false)
    ->Apply(arguments)
    ->UseRealTime();
BENCHMARK_CAPTURE(into_array, two_pass_wc, How::kTwoPass, true)->Apply(arguments)->UseRealTime();
BENCHMARK(chained_wc)->Apply(arguments)->UseRealTime();
BENCHMARK_CAPTURE(vortex_s, plain, false)->Apply(arguments)->UseManualTime();
BENCHMARK_CAPTURE(vortex_s, wc, true)->Apply(arguments)->UseManualTime();
BENCHMARK_CAPTURE(into_array, preallocated_plain, How::kPreallocated, false)
    ->Apply(arguments)
    ->UseRealTime();
BENCHMARK_CAPTURE(into_array, preallocated_wc, How::kPreallocated, true)
    ->Apply(arguments)
    ->UseRealTime();

}  // namespace
}  // namespace vortex

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  vortex::bench::RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  std::vector<vortex::bench::Ratio> ratios;
  for (const char* tail : {"/6/25", "/7/25", "/8/25"}) {
    const std::string end = tail;
    const std::string vortex = "vortex_s/wc" + end + "/manual_time";
    ratios.push_back({"vortex wc against preallocated" + end, vortex,
                      "into_array/preallocated_wc" + end + "/real_time"});
    ratios.push_back({"vortex wc against two passes" + end, vortex,
                      "into_array/two_pass_wc" + end + "/real_time"});
    ratios.push_back(
        {"vortex wc against chained" + end, vortex, "chained_wc" + end + "/real_time"});
  }
  reporter.print(ratios);
}

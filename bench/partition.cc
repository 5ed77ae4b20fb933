// Partitioning 64-bit keys 2^b ways: Table 7 of the Vortex paper (section 6.6).
//
//   two_pass       counts first, then writes to one array of exactly that size
//   chained        one pass into chunks of 4 KiB, chained
//   vortex         one pass into bucket streams that take the memory of the input
//   preallocated   one pass into buckets that happen to be large enough: the best that is possible
//
// "plain" stores each key where it goes (for vortex: through faults alone), "wc" gathers 1 KiB in
// a buffer and stores them past the caches. Arguments: b, lg of the number of keys. All memory
// has been written before; only `vortex` reads from a vanishing array. Its counters are the faults
// of the input and the buckets, and epsilon: the part of both's blocks beyond those of the keys.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "vortex/detail/array/bucket_writer.h"
#include "vortex/detail/stream/block_ranges.h"
#include "vortex/memory_budget.h"
#include "vortex/radix_sort.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace vortex { namespace {

using namespace detail;

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

constexpr std::size_t kFlush = detail::BucketWriter<Key>::kFlush;

// The same loop as BucketWriter's, without its question whether a block ends. Buckets begin where
// 64 divides the address. `flushed(bucket)` is called after each flush.
template <typename Flushed>
void scatter_wc(const Key* keys, std::size_t count, Key** to, std::size_t ways, Digit digit,
                Key* buffers, Flushed flushed) {
  struct List {
    Key* cursor;
    Key* end;
  };
  std::vector<List> lists(ways);
  for (std::size_t i = 0; i < ways; ++i) {
    lists[i] = {buffers + kFlush * i, buffers + kFlush * (i + 1)};
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 8 == 0) __builtin_prefetch(keys + i + 256);
    const unsigned bucket = digit(keys[i]);
    List& list = lists[bucket];
    *list.cursor++ = keys[i];
    if (list.cursor != list.end) [[likely]]
      continue;
    list.cursor -= kFlush;
#if defined(__SSE2__)
    for (std::size_t k = 0; k < kFlush; k += 2) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to[bucket] + k),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(list.cursor + k)));
    }
#else
    std::memcpy(to[bucket], list.cursor, detail::BucketWriter<Key>::kFlushBytes);
#endif
    to[bucket] += kFlush;
    flushed(bucket);
  }
  for (std::size_t i = 0; i < ways; ++i) {
    const Key* begin = buffers + kFlush * i;
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
  const auto buffers = warm(kFlush * ways);
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
      scatter_wc(in.get(), count, to.data(), ways, digit, buffers.get(), [](unsigned) {});
    } else {
      scatter_plain(in.get(), count, to.data(), digit);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
}

void chained_wc(benchmark::State& state) {
  constexpr std::size_t kChunk = ChunkArena<Key>::kChunkRecords;
  const std::size_t ways = std::size_t{1} << state.range(0);
  const std::size_t count = std::size_t{1} << state.range(1);
  const Digit digit{64 - static_cast<int>(state.range(0))};
  const std::size_t chunks = count / kChunk + ways + 1;
  const auto in = warm(count);
  const auto memory = warm(chunks * kChunk);
  const auto buffers = warm(kFlush * ways);
  fill(in.get(), count);
  std::vector<Key*> to(ways);
  std::vector<std::vector<Key*>> chains(ways);
  for ([[maybe_unused]] auto _ : state) {
    Key* free_chunk = memory.get();
    const auto grow = [&](std::size_t bucket) {
      chains[bucket].push_back(to[bucket] = free_chunk);
      free_chunk += kChunk;
    };
    for (std::size_t i = 0; i < ways; ++i) {
      chains[i].clear();
      grow(i);
    }
    scatter_wc(in.get(), count, to.data(), ways, digit, buffers.get(), [&](unsigned bucket) {
      if (to[bucket] == chains[bucket].back() + kChunk) grow(bucket);
    });
    benchmark::ClobberMemory();
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
  BlockMeter meter;
  VanishingArray<Key> input(streams, count);
  std::vector<Key*> to(ways);
  input.count_with(&meter);
  std::uint64_t faults = 0;
  for ([[maybe_unused]] auto _ : state) {
    std::vector<std::unique_ptr<BucketStream>> buckets;
    for (std::size_t i = 0; i < ways; ++i) {
      buckets.push_back(
          std::make_unique<BucketStream>(streams, BucketStreamOptions{.reserve_bytes = count * 8}));
      buckets[i]->count_with(&meter);
      to[i] = reinterpret_cast<Key*>(buckets[i]->bytes());
    }
    input.clear();
    detail::BlockRanges::open(input, 0, count * 8);
    fill(input.data(), count);
    input.resize(count);
    if (!combine) input.seal();
    meter.restart();
    faults = input.statistics().faults;
    state.SetIterationTime(bench::seconds_of([&] {
      if (combine) {
        partition(input, buckets, digit);
      } else {
        scatter_plain(input.data(), count, to.data(), digit);
      }
    }));
    faults = input.statistics().faults - faults;
    for (const auto& bucket : buckets) faults += bucket->statistics().faults;
    input.clear();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(count));
  state.counters["faults"] = static_cast<double>(faults);
  state.counters["epsilon"] =
      static_cast<double>(meter.peak() * kBlock) / static_cast<double>(count * 8) - 1;
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
  std::vector<vortex::bench::Ratio> ratios;
  for (const char* tail : {"/6/25", "/7/25", "/8/25"}) {
    const std::string end = tail;
    const std::string vortex = "vortex_s/wc" + end + "/manual_time";
    for (const char* peer :
         {"into_array/preallocated_wc", "into_array/two_pass_wc", "chained_wc"}) {
      ratios.push_back({"vortex wc against " + (peer + end), vortex, peer + end + "/real_time"});
    }
  }
  return vortex::bench::run_with_ratios(argc, argv, ratios);
}

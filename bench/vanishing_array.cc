// Filling and reading a vector: Table 6 of the Vortex paper (section 6.5).
//
//   std_vector       push_back into a growing vector
//   rewired          a vector whose memory is a memfd, mapped 2 MiB at a time as it grows (RUMA)
//   chained_blocks   push_back into a list of 1 MiB blocks
//   vanishing        a plain loop over a VanishingArray; memory comes and goes by faults
//   untouched        a plain loop over fresh memory
//   prefaulted       a plain loop over memory that has been written before: the best there can be
//
// Writing stores 16 bytes past the caches wherever the memory is contiguous, reading adds up. The
// argument is the size in MiB; vanishing has the block size in KiB besides.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "bench/support/process_time.h"
#include "bench/support/ratios.h"
#include "vortex/block_pool.h"
#include "vortex/vanishing_array.h"

namespace vortex { namespace {

struct alignas(16) Item {
  std::uint64_t words[2];
};
constexpr std::size_t kMiB = std::size_t{1} << 20;

void write(Item* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
#if defined(__SSE2__)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_set_epi64x(static_cast<long long>(i), static_cast<long long>(~i)));
#else
    to[i] = {{~i, i}};
#endif
  }
}

std::uint64_t read(const Item* from, std::size_t count) {
  std::uint64_t sum[4] = {0, 0, 0, 0};
  for (std::size_t i = 0; i + 2 <= count; i += 2) {
    sum[0] += from[i].words[0];
    sum[1] += from[i].words[1];
    sum[2] += from[i + 1].words[0];
    sum[3] += from[i + 1].words[1];
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

std::size_t items(const benchmark::State& state) {
  return static_cast<std::size_t>(state.range(0)) * kMiB / sizeof(Item);
}
void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(items(state) * sizeof(Item)));
}
template <typename Body>
void timed(benchmark::State& state, const Body& body) {
  state.SetIterationTime(bench::seconds_of(body));
}

void std_vector(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state) {
    timed(state, [&] {
      std::vector<Item> vector;
      for (std::size_t i = 0; i < items(state); ++i) vector.push_back({{i, ~i}});
      benchmark::DoNotOptimize(vector.data());
    });
  }
  count_bytes(state);
}

// The memory exists before; growing maps the next part of it behind the vector.
void rewired(benchmark::State& state) {
  constexpr std::size_t kStep = 2 * kMiB;
  const std::size_t bytes = items(state) * sizeof(Item);
  const int file = memfd_create("rewired", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    state.SkipWithError("no memfd");
    return;
  }
  void* all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  munmap(all, bytes);
  for ([[maybe_unused]] auto _ : state) {
    auto* const base = static_cast<char*>(
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    timed(state, [&] {
      std::size_t size = 0, capacity = 0;
      for (std::size_t i = 0; i < items(state); ++i) {
        if (size == capacity) {
          mmap(base + capacity * sizeof(Item), kStep, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED | MAP_POPULATE, file,
               static_cast<off_t>(capacity * sizeof(Item)));
          capacity += kStep / sizeof(Item);
        }
        write(reinterpret_cast<Item*>(base) + size++, 1);
      }
    });
    munmap(base, bytes);
  }
  close(file);
  count_bytes(state);
}

void chained_blocks(benchmark::State& state) {
  constexpr std::size_t kBlockItems = kMiB / sizeof(Item);
  std::vector<std::unique_ptr<Item[]>> blocks;
  for (std::size_t i = 0; i < items(state); i += kBlockItems) {
    blocks.push_back(std::make_unique<Item[]>(kBlockItems));
  }
  for ([[maybe_unused]] auto _ : state) {
    timed(state, [&] {
      std::size_t next = 0;
      Item* at = nullptr;
      Item* end = nullptr;
      for (std::size_t i = 0; i < items(state); ++i) {
        if (at == end) {
          at = blocks[next++].get();
          end = at + kBlockItems;
        }
        write(at++, 1);
      }
    });
  }
  count_bytes(state);
}

enum class Direction { kWrite, kRead };

void vanishing(benchmark::State& state, Direction direction) {
  const auto block_bytes = static_cast<std::size_t>(state.range(1)) << 10;
  BlockPool pool({.pool_bytes = items(state) * sizeof(Item),
                  .block_bytes = block_bytes,
                  .warming = Warming::kEager});
  StreamPool streams(pool, pool.block_count());
  VanishingArray<Item> array(streams, items(state));
  for ([[maybe_unused]] auto _ : state) {
    if (direction == Direction::kWrite) {
      timed(state, [&] { write(array.data(), items(state)); });
    } else {
      write(array.data(), items(state));
      array.seal();
      timed(state, [&] { benchmark::DoNotOptimize(read(array.data(), items(state))); });
    }
    array.clear();
  }
  count_bytes(state);
}

void buffer(benchmark::State& state, Direction direction, bool prefault) {
  const std::size_t bytes = items(state) * sizeof(Item);
  for ([[maybe_unused]] auto _ : state) {
    auto* memory = static_cast<Item*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (prefault) {
      madvise(memory, bytes, MADV_HUGEPAGE);
      write(memory, items(state));
    }
    timed(state, [&] {
      if (direction == Direction::kWrite) {
        write(memory, items(state));
      } else {
        benchmark::DoNotOptimize(read(memory, items(state)));
      }
    });
    munmap(memory, bytes);
  }
  count_bytes(state);
}

constexpr std::int64_t kSize = 512;

void block_sizes(benchmark::internal::Benchmark* benchmark) {
  for (std::int64_t kib : {64, 256, 1024, 2048, 4096, 8192}) benchmark->Args({kSize, kib});
}

BENCHMARK(std_vector)->Arg(kSize)->UseManualTime();
BENCHMARK(rewired)->Arg(kSize)->UseManualTime();
BENCHMARK(chained_blocks)->Arg(kSize)->UseManualTime();
BENCHMARK_CAPTURE(vanishing, write, Direction::kWrite)->Apply(block_sizes)->UseManualTime();
BENCHMARK_CAPTURE(buffer, write_untouched, Direction::kWrite, false)->Arg(kSize)->UseManualTime();
BENCHMARK_CAPTURE(buffer, write_prefaulted, Direction::kWrite, true)->Arg(kSize)->UseManualTime();
BENCHMARK_CAPTURE(vanishing, read, Direction::kRead)->Apply(block_sizes)->UseManualTime();
BENCHMARK_CAPTURE(buffer, read_prefaulted, Direction::kRead, true)->Arg(kSize)->UseManualTime();

}  // namespace

}  // namespace vortex

int main(int argc, char** argv) {
  std::vector<vortex::bench::Ratio> ratios;
  for (const char* kib : {"64", "256", "1024", "2048", "4096", "8192"}) {
    for (const char* direction : {"write", "read"}) {
      const std::string row = std::string(direction) + "/512/" + kib + "/manual_time";
      ratios.push_back({"vanishing against prefaulted: " + row, "vanishing/" + row,
                        std::string("buffer/") + direction + "_prefaulted/512/manual_time"});
    }
  }
  return vortex::bench::run_with_ratios(argc, argv, ratios);
}
